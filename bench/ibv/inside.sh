#!/bin/bash
# Inside a virtual machine: runs lci's and perftest's programs in turn, ROUNDS times.   inside.sh BIN ROUNDS
# Prints lines "WHAT WHO NUMBER". Perftest is left out if it is not installed.
set -uo pipefail
bin=$1 rounds=$2
export LCI_ATTR_BACKEND=ibv LCI_ATTR_SHM_ENABLE=0

# The process that waits for the other one is started first; its port shows when it is ready.
rival() { # $1: column of its table, $2...: program and arguments
  local column=$1 server line tries
  shift
  taskset -c 0 "$@" -d rxe0 -x 1 -F >/dev/null 2>&1 &
  server=$!
  for ((tries = 0; tries < 100; tries++)); do
    line=$(taskset -c 1 "$@" -d rxe0 -x 1 -F 127.0.0.1 2>/dev/null | grep -E '^ *(8|65536) ') && break
    sleep 0.1
  done
  # Nobody came: it would wait for ever.
  ((tries < 100)) || kill "$server"
  wait "$server"
  # shellcheck disable=SC2086 # columns
  set -- $line
  echo "${!column}"
}

# A number that a failed job has printed is none.
ours() { # $1: what, $2: how many
  local number
  if number=$("$bin/lcrun" -n 2 "$bin/bench_ibv" "$1" "$2"); then
    echo "$1 lci $number"
  else
    echo "bench_ibv $1 failed"
  fi
}

for ((round = 0; round < rounds; round++)); do
  for what in send am; do ours $what 2000; done
  ! command -v ib_send_lat >/dev/null || echo "send perftest $(rival 5 ib_send_lat -s 8 -n 2000)"
  ours put 400
  ! command -v ib_write_bw >/dev/null || echo "put perftest $(rival 4 ib_write_bw -s 65536 -n 400)"
done
