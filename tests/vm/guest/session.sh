#!/bin/bash
# What a machine does once it has the host's files: network and verbs devices, then one command after the other, until
# the host ends it. Started by init as root, with nothing else running. The current folder is the one that host and
# machines share:
#   machine    variables, written by the host
#   ready.N    machine N waits for the first command
#   job.K      the variables of command K, written by the host
#   output.N   what the command prints
#   status.N   its exit status; written by the host when machine N ended without one
#   idle.N     nothing of the command is left; the host then takes idle, output and status away
trap 'busybox reboot -f' EXIT
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
cd /run/lci-vm || exit
# MACHINES DEVICES MTU NETEM OUT WRITABLE
# shellcheck source=/dev/null
source ./machine || exit
machine=${lci_machine:?} # from the kernel's command line

# For the host, in case that this machine is never done: how far it came.
stage() { echo "lci-vm: $*" >/dev/console; }

die() {
  echo "vm: machine $machine: $*" >>"output.$machine"
  exit
}

mount_share() { # $1: name, $2: where
  mkdir -p "$2" && busybox mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=none "$1" "$2"
}

prepare_files() {
  local link
  ln -sfn /proc/self/fd /dev/fd
  for link in 0:stdin 1:stdout 2:stderr; do ln -sf "/proc/self/fd/${link%:*}" "/dev/${link#*:}"; done
  busybox hostname "machine$machine"
  printf '%s\n' '127.0.0.1 localhost' '10.77.0.1 machine0' '10.77.0.2 machine1' >/etc/hosts
  mount_share out "$OUT" || return
  mkfifo /run/never
  [ -z "$WRITABLE" ] || mount_share writable "$WRITABLE"
}

# prepare_device N: the verbs device rxeN on the interface ethN.
prepare_device() {
  local n=$1
  [ "$MACHINES" -gt 1 ] || ip link add "eth$n" type dummy || return
  ip link set "eth$n" mtu "$MTU" up && ip address add "10.77.$n.$((machine + 1))/24" dev "eth$n" || return
  # shellcheck disable=SC2086 # several words
  [ -z "$NETEM" ] || tc qdisc add dev "eth$n" root netem limit 100000 $NETEM || return
  stage "makes rxe$n"
  rdma link add "rxe$n" type rxe netdev "eth$n" || return
  # Its IPv4 address comes into the table of GIDs a moment later.
  until grep -q ffff /sys/class/infiniband/rxe"$n"/ports/1/gids/[0-9]*; do sleep 0.02; done
}

# Processes of a job meet over a link of their own, which no fault touches. The tcp bootstrap uses loopback
# addresses only, so part of 127.0.0.0/8 lies on that link. Not on eth0: each address there is one more GID.
prepare_bootstrap() {
  local name=eth$DEVICES
  [ "$MACHINES" -gt 1 ] || return 0
  ip link set "$name" name boot && ip link set boot up &&
    echo 1 >/proc/sys/net/ipv4/conf/boot/route_localnet &&
    ip route del local 127.0.0.0/8 dev lo table local &&
    ip route add local 127.0.0.0/16 dev lo table local &&
    ip address add "127.77.0.$((machine + 1))/24" dev boot
}

# Without a process of its own: a machine that waits costs the host next to nothing.
wait_for() { # $1: file; $2: seconds between two looks
  until [ -e "$1" ]; do read -rt "${2:-0.05}" <>/run/never || :; done
}

wait_for_all() { # $1: kind of file
  local n
  for ((n = 0; n < MACHINES; n++)); do wait_for "$1.$n"; done
}

run_command() {
  local status n
  ENVIRONMENT+=("PATH=/run/lci-vm/bin:$HOST_PATH" "OUT_DIR=$OUT_DIR" "VM_MACHINE=$machine" "VM_MACHINES=$MACHINES"
    "VM_ADDRESS=10.77.0.$((machine + 1))" "VM_PEER=10.77.0.$((MACHINES - machine))" "VM_DEVICES=$DEVICES"
    "VM_PROCESSES=$PROCESSES")
  [ "$PROCESSES" = 0 ] || COMMAND=(/run/lci-vm/bin/vm-job "${COMMAND[@]}")
  # A pipe, because a command may open its /dev/stdout again, and then a file would be written from its start.
  mkfifo /run/output
  stage "the command starts"
  cat </run/output >>"output.$machine" &
  (cd "$WORK_DIR" && ulimit -l unlimited && exec env -i "${ENVIRONMENT[@]}" "${COMMAND[@]}") \
    </dev/null >/run/output 2>&1
  status=$?
  stage "the command ended with $status"
  # Processes that the command left behind hold the pipe open.
  for ((n = 0; n < 20; n++)); do kill -0 $! 2>/dev/null && sleep 0.05; done
  rm -f /run/output
  # Appears whole: the host reads it as soon as it is there.
  echo "$status" >"ending.$machine"
  mv "ending.$machine" "status.$machine"
}

# What the command left running or in shared memory: the next one finds neither. Who cannot be killed keeps this machine
# from another command.
end_leftovers() {
  local process left=yes
  while [ "$left" = yes ]; do
    left=no
    for process in /proc/[0-9]*; do
      # A thread of the kernel has no program.
      if [ "$process" != /proc/1 ] && [ -e "$process/exe" ]; then
        left=yes
        kill -KILL "${process#/proc/}" 2>/dev/null
      fi
    done
    [ "$left" = no ] || read -rt 0.05 <>/run/never
  done
  rm -rf /dev/shm/*
}

stage "the host's files are there"
prepare_files || die "cannot mount the output folder"
ip link set lo up
prepare_bootstrap || die "cannot set up the link of the bootstrap"
for ((device = 0; device < DEVICES; device++)); do prepare_device $device || die "no device rxe$device"; done
stage "waits for all machines"
: >"ready.$machine"
wait_for_all ready
for ((round = 1; ; round++)); do
  wait_for "job.$round" 0.3
  # PROCESSES WORK_DIR OUT_DIR HOST_PATH ENVIRONMENT COMMAND
  # shellcheck source=/dev/null
  source "./job.$round" || exit
  run_command
  # A machine that is gone, or has ended what was left, answers nobody: not the last retransmission of its peer either.
  wait_for_all status
  end_leftovers
  : >"idle.$machine"
done
