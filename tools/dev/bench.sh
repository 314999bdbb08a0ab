# ./dev bench [NAME...]: builds the benchmarks and runs them, ours and those of other libraries in turn;
# what the numbers mean is in bench/run.
dev_bench() {
  need "${PACKAGES_BUILD[@]}" "${PACKAGES_TOOLS[@]}" "${PACKAGES_BENCH[@]}" || return 1
  build release || return 1
  bench/run "$@"
}
