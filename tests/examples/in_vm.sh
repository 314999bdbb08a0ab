#!/bin/bash
# The examples inside a virtual machine, or inside both of a pair.   in_vm.sh LCRUN LIST
# LIST has a line for each: example NAME RANKS [-s STATUS] PATTERN... -- PROGRAM ARGUMENT...
set -uo pipefail
lcrun=$1 count=0 failed=0
expect=$(dirname "$0")/../support/expect.sh

example() {
  local name=$1 ranks=$2 status=() expected=() job
  shift 2
  [ "$VM_MACHINES" = 1 ] || [ $((ranks % 2)) = 0 ] || return
  if [ "$1" = -s ]; then
    status=(-s "$2")
    shift 2
  fi
  while [ "$1" != -- ]; do
    expected+=("$1")
    shift
  done
  shift
  if [ "$VM_MACHINES" = 1 ]; then
    job=("$lcrun" -n "$ranks")
  else
    # Each job has a port of its own: the one before may still be ending.
    job=(env "VM_PROCESSES=$((ranks / 2))" "MASTER_PORT=$((29500 + count))" vm-job)
    # What is expected is what the first ranks print.
    [ "$VM_MACHINE" = 0 ] || expected=()
  fi
  echo "--- $name"
  "$expect" "${status[@]}" "${expected[@]}" -- "${job[@]}" "$@" || {
    echo "$name failed"
    failed=$((failed + 1))
  }
  count=$((count + 1))
}

# shellcheck source=/dev/null
source "$2"
echo "$count examples, $failed failed"
[ "$count" -gt 0 ] && [ "$failed" = 0 ]
