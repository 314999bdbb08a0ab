# shellcheck shell=bash
# What `./dev test all` does beside the tests: steps one after the other, with what the tests leave of the processors
# (docs/decisions/0064-built-beside-the-tests.md). Sourced by test.sh.

# The shell that takes the steps; empty where there is none.
beside=

# end_last_beside: of a run that was interrupted a moment ago, which would build in the same folders.
end_last_beside() {
  local last
  last=$(cat build/log/beside/shell 2>/dev/null || true)
  grep -qs steps_beside "/proc/$last/cmdline" || return 0
  kill -- "-$last" 2>/dev/null || true
  while grep -qs steps_beside "/proc/$last/cmdline"; do sleep 0.1; done
}

# start_beside STEPS ARGUMENT...: this function, which calls `step`, runs beside what follows. It and all that it has started
# end with this shell, however that ends: they are a process group. Not a session, for which the scheduler may have a share
# of its own, whatever its class is (autogroup).
start_beside() {
  end_last_beside
  rm -rf build/log/beside
  mkdir -p build/log/beside
  # SCHED_IDLE, where that is allowed.
  # shellcheck disable=SC2016
  dev=$$ python3 -c 'import os, sys; os.setpgid(0, 0); os.execvp(sys.argv[1], sys.argv[1:])' bash -c '
    set -euo pipefail
    chrt --idle -p 0 $$ || renice -n 19 -p $$ || true
    (
      while kill -0 "$dev"; do sleep 1; done
      kill -- -$$
    ) 2>/dev/null &
    watch=$!
    source tools/dev/common.sh
    source tools/dev/test.sh
    "$@"
    kill "$watch"' beside "$@" </dev/null >build/log/beside/log 2>&1 &
  beside=$!
  echo "$beside" >build/log/beside/shell
}

# step NAME COMMAND...: one step; its output is what `await` prints. A step that failed does not keep the next from running.
step() {
  local name=$1
  shift
  "$@" >"build/log/beside/$name.running" 2>&1 || true
  mv "build/log/beside/$name.running" "build/log/beside/$name"
}

wait_for_step() {
  while [ ! -e "build/log/beside/$1" ] && kill -0 "$beside" 2>/dev/null; do
    look_at "build/log/beside/$1.running"
    sleep 0.5
  done
  [ -e "build/log/beside/$1" ]
}

# await NAME LINES: waits for the end of a step and prints those lines of its output; nothing if there are no steps. A step
# that did not end has told nothing: that is a failure.
await() {
  local done=build/log/beside/$1
  [ -n "$beside" ] || return 0
  if [ ! -e "$done" ] && ! phase "wait for what is made beside the tests: $1" wait_for_step "$1"; then
    note FAILED "beside the tests: $1" "it ended early, see build/log/beside"
    return
  fi
  # Without the lines of progress.
  grep -v '^   .*\.\.\. [0-9]* s: ' "$done" | grep "$2" | sed 's/^\(ok\|failed\) .* s)/&, beside the tests/' || true
}
