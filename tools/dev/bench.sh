# ./dev bench [NAME...]: the benchmarks as a table, and as JSON in build/bench/. Other libraries are measured
# beside ours where they are installed.
dev_bench() {
  need "${PACKAGES_BUILD[@]}" "${PACKAGES_TOOLS[@]}" "${PACKAGES_BENCH[@]}" || return 1
  # In any case: other libraries may have been installed since.
  rm -f build/release/.configured
  build release || return 1
  mkdir -p build/bench
  python3 bench/run --bin build/release/bin --json build/bench/results.json "$@" || return 1
  say "JSON in build/bench/results.json"
}
