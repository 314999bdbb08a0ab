# ./dev bench [MEASURE...]: measures lci in turn with UCX, Open MPI, MPICH and libfabric, by lci_perf; prints a table,
# and writes a page with plots, JSON and CSV to build/bench/. Measures: latency rate bandwidth overlap.
# ./dev bench perf [ARGS]: the same with arguments of lci_perf; docs/benchmarks.md and lci_perf --help list them.
# ./dev bench own [NAME...]: benchmarks of lci alone, with R, start and memory; JSON in build/bench/ too.
# ./dev bench gpu [NAME...]: the GPU memory benchmarks, if there is a GPU.
# ./dev bench ibv: compares verbs with perftest, in a virtual machine.
# ./dev bench start [-n PROCESSES]: measures how long 256 processes take to start, synchronise and end, by step.
# ./dev bench ofi: compares libfabric with its fi_pingpong, over tcp.
# ./dev bench threads [--threads 2,4]: completion queue, packet pool and matching with several threads, in turn with what a
# program would write in their place; JSON in build/bench/.
# ./dev bench deaths [KILLS]: measures how soon a rank detects that another rank of its host was killed (1000 times).
dev_bench() {
  need "${PACKAGES_BUILD[@]}" "${PACKAGES_TOOLS[@]}" "${PACKAGES_BENCH[@]}"
  if [ "${1:-}" = gpu ]; then
    shift
    bench_gpu "$@"
    return
  fi
  if [ "${1:-}" = ibv ]; then
    shift
    bench_ibv "$@"
    return
  fi
  if [ "${1:-}" = start ]; then
    shift
    build release lcrun bench_start || return 1
    python3 bench/start/run --bin build/release/bin "$@"
    return
  fi
  if [ "${1:-}" = threads ]; then
    shift
    build release bench_threads || return 1
    mkdir -p build/bench
    build/release/bin/bench_threads --json build/bench/threads.json "$@"
    return
  fi
  if [ "${1:-}" = deaths ]; then
    shift
    build release bench_deaths || return 1
    build/release/bin/bench_deaths "$@"
    return
  fi
  if [ "${1:-}" = ofi ]; then
    shift
    bench_ofi "$@"
    return
  fi
  if [ "${1:-}" = own ]; then
    shift
    build release lcrun benchmarks || return 1
    mkdir -p build/bench
    python3 bench/run --bin build/release/bin --json build/bench/results.json "$@" || return 1
    say "JSON in build/bench/results.json"
    return
  fi
  [ "${1:-}" != perf ] || shift
  bench_rivals "$@"
}

bench_rivals() {
  need "${PACKAGES_RIVALS[@]}"
  # Always configure again: other libraries may have been installed since.
  rm -f build/release/.configured
  build release lcrun lci_perf benchmarks || return 1
  mkdir -p build/bench
  case " $* " in
    # What is only said, or written where the caller wants it.
    *" --list "* | *" --help "* | *" -h "* | *" --json"* | *" --csv"* | *" --html"*)
      build/release/bin/lci_perf "$@"
      return
      ;;
  esac
  local status=0
  build/release/bin/lci_perf --json build/bench/perf.json --csv build/bench/perf.csv --html build/bench/perf.html "$@" ||
    status=$?
  # 1: something was not measured or did not arrive, which the files say.
  [ "$status" -gt 1 ] || say "page, JSON and CSV in build/bench/perf.{html,json,csv}"
  return "$status"
}

bench_gpu() {
  local status=0 preset
  preset=$(gpu_preset)
  build "$preset" lcrun bench_gpu || return 1
  python3 bench/gpu/run --bin "build/$preset/bin" "$@" || status=$?
  # 77: there is no GPU, and that was reported.
  [ "$status" -eq 0 ] || [ "$status" -eq 77 ]
}

bench_ibv() {
  local status=0
  need "${PACKAGES_VM[@]}"
  build release lcrun bench_ibv || return 1
  python3 bench/ibv/run --bin build/release/bin "$@" || status=$?
  # 77: there are no virtual machines, and that was reported.
  [ "$status" -eq 0 ] || [ "$status" -eq 77 ]
}

bench_ofi() {
  local status=0
  need libfabric-bin
  build release lcrun bench_ibv || return 1
  python3 bench/ofi/run --bin build/release/bin "$@" || status=$?
  # 77: there is nothing to compare with, and that was reported.
  [ "$status" -eq 0 ] || [ "$status" -eq 77 ]
}
