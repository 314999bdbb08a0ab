# ./dev demo: the first thing for a newcomer to run. Installs missing packages, builds only the launcher and the
# example programs, and runs each as several processes on this machine. Takes a few minutes the first time.

# part TITLE COMMAND...: one part of the demo, with its output; remembers how it ended.
part() {
  local title=$1 start=$SECONDS status=0
  shift
  printf '\n%s== %s%s\n%s$ %s%s\n' "$bold" "$title" "$plain" "$dim" "$*" "$plain"
  "$@" || status=$?
  if [ "$status" -eq 0 ]; then
    summary+=("${green}ok${plain}      $title ($((SECONDS - start)) s)")
  else
    summary+=("${red}failed${plain}  $title: exit status $status")
    failures=$((failures + 1))
  fi
}

dev_demo() {
  local start=$SECONDS bin=build/release/bin failures=0 summary=()
  need "${PACKAGES_BUILD[@]}" "${PACKAGES_TOOLS[@]}" || return 1
  build release lcrun word_count halo_exchange gpu_ring latency file_to_gpu || return 1

  part "word count, 4 processes: active messages built in place" $bin/lcrun -n 4 $bin/word_count
  part "heat on a grid, 4 processes: send/recv, then put with signal" $bin/lcrun -n 4 $bin/halo_exchange
  part "latency and bandwidth between 2 processes" $bin/lcrun -n 2 $bin/latency

  part "a file of 64 MiB into another process's memory, no launcher" $bin/file_to_gpu

  if has_gpu; then
    part "a buffer in GPU memory passed round a ring of 2 processes" $bin/lcrun -n 2 $bin/gpu_ring
  else
    summary+=("${dim}left out${plain} GPU memory: no GPU was found")
  fi

  printf '\n%s== results%s\n' "$bold" "$plain"
  printf '%s\n' "${summary[@]}"
  say "$((SECONDS - start)) s in all"
  [ "$failures" -eq 0 ]
}
