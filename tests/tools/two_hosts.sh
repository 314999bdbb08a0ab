#!/bin/sh
# Runs a job of four ranks on two "hosts": network and host name namespaces of their own, joined by a pair of veth
# devices. lcrun itself is on neither; what stands in for ssh enters them. The ranks meet over tcp, with the key that
# lcrun has made, at addresses that are not loopback.
# Then a program of messages runs on them, over libfabric between the hosts and shared memory inside.
#   two_hosts.sh LCRUN BOOT_PROBE [PROGRAM ARGUMENT...]
# Exit status 77: such namespaces cannot be made here.
for tool in unshare nsenter ip; do
  command -v $tool >/dev/null || { echo "skipped: no $tool"; exit 77; }
done
unshare --net --uts true 2>/dev/null || { echo "skipped: unshare --net --uts is not permitted here"; exit 77; }
folder=$(mktemp -d)
a='' b=''
trap 'kill $a $b 2>/dev/null; rm -rf "$folder"' EXIT
unshare --net --uts sleep 300 & a=$!
unshare --net --uts sleep 300 & b=$!
# unshare replaces itself; until then the process is still in our namespaces.
for pid in $a $b; do
  while [ "$(readlink /proc/$pid/ns/net)" = "$(readlink /proc/self/ns/net)" ]; do sleep 0.01; done
done
ip link add veth0 netns "$a" type veth peer name veth0 netns "$b" 2>"$folder/why" ||
  { echo "skipped: $(cat "$folder/why")"; exit 77; }
number=1
for pid in $a $b; do
  nsenter --target "$pid" --net --uts sh -c "hostname host$number && ip addr add 10.77.1.$number/24 dev veth0 &&
    ip link set veth0 up && ip link set lo up" || exit 1
  number=$((number + 1))
done
# The kernel says so a while after the other end has come up, and providers look at it.
for pid in $a $b; do
  until nsenter --target "$pid" --net ip -br link show veth0 | grep -q ' UP '; do sleep 0.05; done
done
cat >"$folder/ssh" <<STUB
#!/bin/sh
case \$1 in 10.77.1.1) pid=$a ;; 10.77.1.2) pid=$b ;; *) exit 255 ;; esac
shift
exec nsenter --target \$pid --net --uts sh -c "\$*"
STUB
chmod +x "$folder/ssh"
lcrun=$1 probe=$2
shift 2
"$lcrun" -n 4 --hosts 10.77.1.1,10.77.1.2 --ssh "$folder/ssh" --tag-output --timeout 60 \
  sh -c "\"$probe\" exchange 5 say \$(hostname)" >"$folder/out" 2>&1
status=$?
cat "$folder/out"
for line in '[0] host1 0/4 tcp' '[1] host1 1/4 tcp' '[2] host2 2/4 tcp' '[3] host2 3/4 tcp'; do
  grep -qxF "$line" "$folder/out" || { echo "two_hosts.sh: no line: $line"; status=1; }
done
if [ $# -gt 0 ]; then
  "$lcrun" -n 4 --hosts 10.77.1.1,10.77.1.2 --ssh "$folder/ssh" --timeout 100 --env LCI_ATTR_BACKEND=ofi \
    --env LCI_ATTR_OFI_PROVIDER_NAME=tcp --env LCI_LOG_LEVEL=info "$@" >"$folder/out" 2>&1 || status=1
  cat "$folder/out"
  for rank in 0 1 2 3; do
    grep -q "rank $rank of 4, .*1 peer over shm, 2 peers over ofi" "$folder/out" ||
      { echo "two_hosts.sh: rank $rank does not say how it reaches the others"; status=1; }
  done
fi
exit $status
