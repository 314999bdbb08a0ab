#!/bin/bash
# Several "hosts" on this machine: network, UTS and IPC namespaces of their own, joined by veth links
# through a router in the middle. Each runs some ranks of one job, which meet by the file bootstrap.
#   hosts.sh HOSTS RANKS NETEM command...
# NETEM: what each host does to what it sends, as tc says it ("loss 1% delay 2ms 1ms"), or none.
# Needs root. Exit status: the first of a rank that is not 0; 77: not possible here, and why. Nothing
# outlives this script: all of it is in namespaces that end with it.
set -uo pipefail

skip() {
  echo "skipped: $*"
  exit 77
}

# One host: its end of the link, and its ranks.
host() { # NUMBER RANKS NETEM command...
  local number=$1 ranks=$2 netem=$3 i status result=0
  shift 3
  until ip link show eth0 >/dev/null 2>&1; do sleep 0.02; done
  hostname "host$number"
  ip link set lo up && ip address add "10.88.$number.2/24" dev eth0 && ip link set eth0 up &&
    ip route add default via "10.88.$number.1" || exit 1
  # Without the router's end the link carries nothing, and networks look for one that does.
  until ip link show eth0 | grep -q 'state UP'; do sleep 0.02; done
  # shellcheck disable=SC2086 # several words
  [ "$netem" = none ] || tc qdisc add dev eth0 root netem limit 100000 $netem || exit 1
  for ((i = 0; i < ranks; i++)); do "$@" & done
  for ((i = 0; i < ranks; i++)); do
    status=0
    wait -n || status=$?
    [ "$status" -eq 0 ] || [ "$result" -ne 0 ] || result=$status
  done
  exit "$result"
}

# All hosts, from the router's namespace.
router() { # HOSTS RANKS NETEM command...
  local hosts=$1 ranks=$2 number pid result=0 status
  shift
  export LCT_PMI_BACKEND=file LCT_PMI_FILE_NRANKS=$((hosts * ranks)) HOME=$SCRATCH
  mkdir -p "$HOME"
  ip link set lo up
  echo 1 >/proc/sys/net/ipv4/ip_forward
  local pids=()
  for ((number = 0; number < hosts; number++)); do
    unshare --net --uts --ipc -- "$0" --host "$number" "$@" &
    pids+=($!)
    # Its namespace is there once it is another one than ours.
    until [ "$(readlink "/proc/$!/ns/net")" != "$(readlink /proc/$$/ns/net)" ]; do sleep 0.01; done
    ip link add "to$number" type veth peer name eth0 netns "$!" &&
      ip address add "10.88.$number.1/24" dev "to$number" && ip link set "to$number" up || exit 1
  done
  for pid in "${pids[@]}"; do
    status=0
    wait "$pid" || status=$?
    # Others wait for ranks that are gone; they hear of it by themselves or not at all.
    if [ "$status" -ne 0 ] && [ "$result" -eq 0 ]; then
      result=$status
      (sleep "${HOSTS_GRACE:-10}" && kill -KILL -1) >/dev/null 2>&1 &
    fi
  done
  exit "$result"
}

case ${1-} in
--host)
  shift
  host "$@"
  ;;
--router)
  shift
  # This process is number 1 of its PID namespace, which ends with it.
  SCRATCH=$HOSTS_SCRATCH router "$@"
  ;;
esac
[ $# -ge 4 ] || {
  echo "usage: $0 HOSTS RANKS NETEM command..." >&2
  exit 2
}
[ "$(id -u)" = 0 ] || skip "hosts of their own need root"
for tool in ip unshare; do
  command -v $tool >/dev/null || skip "no program $tool: apt-get install iproute2 util-linux"
done
unshare --net --uts --ipc --pid --fork --mount-proc true 2>/dev/null ||
  skip "unshare --net --uts --ipc --pid is not permitted here"
unshare --net ip link add end0 type veth peer name end1 2>/dev/null || skip "this kernel has no veth"
if [ "$3" != none ]; then
  command -v tc >/dev/null || skip "no program tc: apt-get install iproute2"
  # shellcheck disable=SC2086 # several words
  unshare --net tc qdisc add dev lo root netem $3 2>/dev/null ||
    skip "this kernel has no netem that does \"$3\""
fi
HOSTS_SCRATCH=$(mktemp -d)
export HOSTS_SCRATCH
trap 'rm -rf "$HOSTS_SCRATCH"' EXIT
unshare --net --pid --fork --kill-child --mount-proc -- "$0" --router "$@"
