# ./dev test [NAME...]: builds release and runs its tests (units, contract, interface, launchers, machines, house rules), those
# whose names match, then says in one line how many passed, failed and were skipped, and why each skip.
# ./dev test all [NAME...]: the same, then under the address and the thread sanitizer; then without a warning with this
# machine's gcc and clang; then in a Debian 13 of its own, with gcc 14 and clang 19. What continuous integration runs.
# ./dev test long [NAME...]: the quick tests with the soak tests.
# ./dev test gpu: the suites of GPU memory and what came of each: on the real driver where there is a GPU, else
# on the mock.
# LCI_PRESETS="release asan" is what is built and run, instead of release alone or of release, asan and tsan.

# shellcheck source=tools/dev/compilers.sh
source tools/dev/compilers.sh

# Thread sanitizer needs its address ranges free; kernels with much randomisation want it switched off.
tsan_wrapper() {
  if setarch "$(uname -m)" -R true 2>/dev/null; then printf 'setarch %s -R' "$(uname -m)"; fi
}

# run_ctest PRESET: the results go to build/<preset>/results.xml, failures and skips are told at the end. A core is
# two of ctest's jobs: tests that mostly wait take one (cmake_modules/LciTests.cmake).
# A stack that remembers what has returned is looked through at every exception: 256 KiB for each size of frame instead
# of 1 MiB, which took 40 % of the time of unit_proto.
run_ctest() {
  local preset=$1 wrapper=() arguments=()
  shift
  if [ "$preset" = tsan ]; then read -ra wrapper <<<"$(tsan_wrapper)"; fi
  [ -n "$pattern" ] && arguments+=(-R "$pattern")
  [ "$long" = yes ] || arguments+=(-LE long)
  phase "test $preset" env \
    ASAN_OPTIONS="detect_stack_use_after_return=1:max_uar_stack_size_log=18:strict_string_checks=1:${ASAN_OPTIONS:-}" \
    UBSAN_OPTIONS="print_stacktrace=1:${UBSAN_OPTIONS:-}" \
    TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1:${TSAN_OPTIONS:-}" \
    "${wrapper[@]}" ctest --test-dir "build/$preset" -j "$((2 * LCI_JOBS))" --no-tests=ignore \
    --output-on-failure --test-output-size-passed 4000000 --test-output-size-failed 4000000 \
    --output-junit "$PWD/build/$preset/results.xml" "${arguments[@]}"
}

test_gpu() {
  local start=$SECONDS preset choice=(-R _mock) driver="the mock driver: no GPU was found"
  if has_gpu; then choice=(-E _mock) driver="the real driver"; fi
  preset=$(gpu_preset)
  build "$preset" || return 1
  rm -f "build/$preset/gpu.xml"
  phase "test gpu, $driver" ctest --test-dir "build/$preset" -L gpu "${choice[@]}" --no-tests=error \
    --output-on-failure --test-output-size-passed 4000000 --test-output-size-failed 4000000 \
    --output-junit "$PWD/build/$preset/gpu.xml" || true
  say "$((SECONDS - start)) s in all, on $driver"
  python3 tools/dev/sums.py --table "build/$preset/gpu.xml"
}

# run_preset PRESET: builds it and runs its tests.
run_preset() {
  rm -f "build/$1/results.xml"
  if build "$1"; then
    run_ctest "$1" || true
    results+=("$1=build/$1/results.xml")
  else
    broken+=("$1")
  fi
}

dev_test() {
  local start=$SECONDS long=no all=no pattern='' preset results=() broken=()
  case ${1:-} in
    gpu)
      [ $# -eq 1 ] || fail "./dev test gpu takes no names"
      need "${PACKAGES_BUILD[@]}" "${PACKAGES_TOOLS[@]}" "${PACKAGES_TEST[@]}"
      test_gpu
      return
      ;;
    long) long=yes ;;
    all) all=yes ;;
  esac
  if [ "$long$all" != nono ]; then shift; fi
  pattern=$(IFS='|' && printf '%s' "$*")
  need "${PACKAGES_BUILD[@]}" "${PACKAGES_TOOLS[@]}" "${PACKAGES_TEST[@]}"
  local presets=${LCI_PRESETS:-release}
  [ "$all" = no ] || presets=${LCI_PRESETS:-release asan tsan}
  # Other presets start neither virtual machines nor other launchers.
  [[ " $presets " != *" release "* ]] || need "${PACKAGES_VM[@]}" "${PACKAGES_CHECKER[@]}" "${PACKAGES_LAUNCHERS[@]}"
  # What only the full tests look at.
  [ "$all" = no ] || [[ " $presets " != *" release "* ]] || need "${PACKAGES_PAGES[@]}"
  rm -f build/checks.txt
  for preset in $presets; do run_preset "$preset"; done
  # Who names tests wants those alone.
  # shellcheck disable=SC2086
  if [ "$all" = yes ] && [ -z "$pattern" ]; then check_compilers $presets; fi
  say "$((SECONDS - start)) s in all"
  python3 tools/dev/sums.py --broken "${broken[*]}" --checks build/checks.txt -- "${results[@]}"
}
