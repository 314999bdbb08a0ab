#!/bin/bash
# In a machine with two devices: everything a test relies on. The machine then ends, by force, as if with
# status 3.   one_machine.sh [verbs_probe]
set -euo pipefail
trap 'echo "one_machine.sh: line $LINENO failed"' ERR
wait_for() { # $1: device, $2: state of its port; a hang ends at the machine's time limit
  until grep -q "$2" "/sys/class/infiniband/$1/ports/1/state"; do sleep 0.05; done
}
for device in rxe0 rxe1; do grep -q ACTIVE /sys/class/infiniband/$device/ports/1/state; done
if [ -n "${1:-}" ]; then
  "$1" devices 2
  "$1" loopback
fi
[ "$(id -u)" = 0 ]
[ "$VM_MACHINE/$VM_MACHINES/$VM_DEVICES" = 0/1/2 ]
[ "$LCI_VM_SELFCHECK" = "two words" ] # our own variables are passed on
[ -z "${VM_NOT_PASSED_ON:-}" ]
[ "$(ulimit -l)" = unlimited ]
# What is written lands in the scratch layer, but for the folders that were named.
echo scratch >"$PWD/vm_selfcheck_scratch"
echo kept >"$OUT_DIR/kept"
echo kept >"$OUT_DIR/../here_too"
# No fault that would do nothing.
if vm-fault loss 10% 2>/dev/null; then false; fi
vm-fault link-down
wait_for rxe0 DOWN
grep -q ACTIVE /sys/class/infiniband/rxe1/ports/1/state
vm-fault --device 1 link-down
wait_for rxe1 DOWN
vm-fault link-up
vm-fault --device 1 link-down 1
for device in rxe0 rxe1; do wait_for $device ACTIVE; done
echo "on stderr" >&2
echo "to a device" >/dev/stdout
printf 'no end of line'
vm-fault kill-machine 3
