# ./dev test [long] [NAME...]: release, then the sanitizers, then one line of sums.
# ./dev test gpu: the suites of GPU memory and what came of each: on the real driver where there is a GPU, else
# on the mock.

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

dev_test() {
  local start=$SECONDS long=no pattern='' preset results=() broken=()
  if [ "${1:-}" = gpu ]; then
    need "${PACKAGES_BUILD[@]}" "${PACKAGES_TOOLS[@]}" "${PACKAGES_TEST[@]}" || return 1
    test_gpu
    return
  fi
  if [ "${1:-}" = long ]; then
    long=yes
    shift
  fi
  pattern=$(IFS='|' && printf '%s' "$*")
  need "${PACKAGES_BUILD[@]}" "${PACKAGES_TOOLS[@]}" "${PACKAGES_TEST[@]}" || return 1
  # Other presets start neither virtual machines nor other launchers.
  [[ " ${LCI_PRESETS:-release} " != *" release "* ]] || want "${PACKAGES_VM[@]}" "${PACKAGES_LAUNCHERS[@]}"
  for preset in ${LCI_PRESETS:-release asan tsan}; do
    rm -f "build/$preset/results.xml"
    if build "$preset"; then
      run_ctest "$preset" || true
      results+=("$preset=build/$preset/results.xml")
    else
      broken+=("$preset")
    fi
  done
  say "$((SECONDS - start)) s in all"
  python3 tools/dev/sums.py --broken "${broken[*]}" -- "${results[@]}"
}
