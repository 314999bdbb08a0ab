#!/bin/sh
# What hosts.sh promises.   bed_test.sh hosts.sh
# shellcheck disable=SC2016 # what is in single quotes is for the ranks
hosts=$1
failed=0
check() { # WHAT EXPECTED GOT
  [ "$2" = "$3" ] && return
  echo "bed_test.sh: $1: \"$3\" instead of \"$2\""
  failed=1
}
# Each rank says where it is: which host, which address, and whether it sees its neighbours' abstract sockets.
seen=$("$hosts" 3 2 none sh -c 'echo "$(hostname) $(ip -4 -o address show eth0 | grep -o "10.88[^ ]*")"')
status=$?
if [ $status = 77 ]; then
  echo "$seen"
  exit 77
fi
check "status of a job that ends well" 0 $status
check "hosts" "$(for n in 0 0 1 1 2 2; do echo "host$n 10.88.$n.2/24"; done)" "$(echo "$seen" | sort)"
# A namespace that ends passes its number on: all stay until the last has begun.
spaces=$("$hosts" 2 2 none sh -c 'readlink /proc/self/ns/net /proc/self/ns/ipc /proc/self/ns/uts; sleep 2')
check "namespaces of two hosts" 6 "$(echo "$spaces" | sort -u | wc -l)"
# The link carries: the first host's router answers, and the other host's end is reached through it.

"$hosts" 2 1 none bash -c '
  if [ "$(hostname)" = host0 ]; then
    python3 -c "import socket
s = socket.create_server((\"10.88.0.2\", 5555)); s.accept()[0].sendall(b\"x\")"
  else
    until exec 3<>/dev/tcp/10.88.0.2/5555; do sleep 0.1; done 2>/dev/null; read -r -n 1 -u 3 got; [ "$got" = x ]
  fi'
check "status of two hosts that talk" 0 $?
"$hosts" 2 2 none sh -c 'exit $(hostname | tr -d a-z)5' >/dev/null 2>&1
status=$?
case $status in 5 | 15) ;; *) check "status of ranks that fail" "5 or 15" $status ;; esac
# A rank that waits for ever ends with the others.
HOSTS_GRACE=1 "$hosts" 2 1 none sh -c '[ "$(hostname)" = host0 ] && exit 3; sleep 1000' >/dev/null 2>&1
check "status where one fails and one waits" 3 $?
exit $failed
