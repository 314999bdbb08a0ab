# ./dev test: builds release and runs the quick tests (unit, contract, interface, examples, installed launchers, GPU on
# the mock). Prints in one line how many passed, failed and were skipped, and the reason for each skip. No emulation.
# ./dev test NAME...: runs the tests, quick or not, whose names match.
# ./dev test all [NAME...]: runs the quick tests; then all others (virtual machines, hosts, packaging, project rules), with
# the experimental parts in the same build folder (LCI_EXPERIMENTAL; the next ./dev test switches it off again); then the
# address and the thread sanitizer, by clang if there is one; then checks that this machine's gcc and clang give no warning; then tests in a
# separate Debian 13, with gcc 14 and clang 19. Later parts are built while the tests run. Continuous integration runs this.
# ./dev test long [NAME...]: runs all of release with the soak tests.
# ./dev test gpu: runs the GPU memory suites and prints the result of each: on the real driver if there is a GPU, else on
# the mock.
# LCI_PRESETS="release asan" selects the presets, instead of release, or of release, asan and tsan.

# shellcheck source=tools/dev/compilers.sh
source tools/dev/compilers.sh
# shellcheck source=tools/dev/beside.sh
source tools/dev/beside.sh

# Thread sanitizer needs its address ranges free; on kernels with much randomisation that must be disabled.
tsan_wrapper() {
  if setarch "$(uname -m)" -R true 2>/dev/null; then printf 'setarch %s -R' "$(uname -m)"; fi
}

# run_ctest PRESET PART: the results go to build/<preset>/<part>.xml; failures and skips are reported at the end. Part:
# quick, rest, or all, which is both. ctest gets three slots per core; how many of them a test takes is decided in
# cmake_modules/LciTests.cmake. Address sanitizer searches its record of returned stack frames at every exception: 256 KiB
# for each size of frame instead of 1 MiB, which took 40 % of the time of unit_proto.
run_ctest() {
  local preset=$1 part=$2 title="test $1" wrapper=() arguments=() without=()
  if [ "$preset" = tsan ]; then read -ra wrapper <<<"$(tsan_wrapper)"; fi
  [ -n "$pattern" ] && arguments+=(-R "$pattern")
  [ "$long" = yes ] || without=(long)
  case $part in
    quick)
      without+=(full)
      title+=", the quick ones"
      ;;
    rest)
      # The machines need their image, a fixture with the same label.
      arguments+=(-L 'full|vm')
      title+=", the rest"
      ;;
  esac
  [ ${#without[@]} -eq 0 ] || arguments+=(-LE "$(IFS='|' && printf '%s' "${without[*]}")")
  phase "$title" env \
    ASAN_OPTIONS="detect_stack_use_after_return=1:max_uar_stack_size_log=18:strict_string_checks=1:${ASAN_OPTIONS:-}" \
    UBSAN_OPTIONS="print_stacktrace=1:${UBSAN_OPTIONS:-}" \
    TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1:${TSAN_OPTIONS:-}" \
    "${wrapper[@]}" ctest --test-dir "build/$preset" -j "$((3 * LCI_JOBS))" --no-tests=ignore \
    --output-on-failure --test-output-size-passed 4000000 --test-output-size-failed 4000000 \
    --output-junit "$PWD/build/$preset/$part.xml" "${arguments[@]}"
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

# run_preset PRESET PART: builds what the part needs and runs it.
run_preset() {
  local targets=() configure_with=()
  rm -f "build/$1/$2.xml"
  if [ "$2" = quick ]; then targets=(lci_quick); fi
  # Tools and benchmarks that no test of a sanitizer runs are not built with it.
  if [ "$1" != release ] && [ "$long" = no ]; then targets=(lci_tested); fi
  # What failed is built, and shown, once more.
  [ "$1" = release ] || await "$1" '^\(ok\|failed\) '
  # The quick tests run what users get by default; few sources differ.
  if [ "$1" = release ] && [ "$2" != quick ] && [ "$all$long" != nono ]; then configure_with=(-DLCI_EXPERIMENTAL=ON); fi
  if build "$1" "${targets[@]}"; then
    # Behind the first build.
    if [ "$all" = yes ] && [ -z "$pattern" ] && [ -z "$beside" ]; then start_beside steps_beside "$presets"; fi
    run_ctest "$1" "$2" || true
    results+=("$1=build/$1/$2.xml")
  else
    broken+=("$1")
  fi
}

# Other presets than release start neither virtual machines nor other launchers.
need_for_presets() {
  local preset packages=("${PACKAGES_BUILD[@]}" "${PACKAGES_TOOLS[@]}" "${PACKAGES_TEST[@]}")
  for preset in $presets; do
    if [ "$preset" != release ]; then
      packages+=("${PACKAGES_SANITIZERS[@]}")
      continue
    fi
    packages+=("${PACKAGES_LAUNCHERS[@]}")
    [ -z "$pattern" ] && [ "$long$all" = nono ] || packages+=("${PACKAGES_VM[@]}" "${PACKAGES_CHECKER[@]}")
    [ "$all" = no ] || packages+=("${PACKAGES_PAGES[@]}")
  done
  [ "$all" = no ] || [ -n "$pattern" ] || packages+=(debootstrap)
  need "${packages[@]}"
}

# steps_beside PRESETS: what `all` builds and checks beside the tests; of these presets all but the first.
steps_beside() {
  local presets=$1 preset
  for preset in $presets; do
    case $preset in
      release | "${presets%% *}") ;;
      *) step "$preset" build "$preset" lci_tested ;;
    esac
  done
  step clang check_clang
  step next make_next
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
  local presets=${LCI_PRESETS:-release}
  [ "$all" = no ] || presets=${LCI_PRESETS:-release asan tsan}
  # Each once, however often it is named: what is built beside the tests is built for the first of them.
  presets=$(xargs -n 1 <<<"$presets" | awk '!seen[$0]++' | xargs)
  # Before the first build, since an installed package makes CMake look at what there is again.
  need_for_presets
  rm -f build/checks.txt build/roots/ready
  for preset in $presets; do
    if [ "$preset" != release ]; then
      run_preset "$preset" all
    # A pattern selects only the tests that it names, whatever part they belong to.
    elif [ -z "$pattern" ] && [ "$long" = no ]; then
      run_preset release quick
      [ "$all" = no ] || run_preset release rest
    else
      run_preset release all
    fi
  done
  # shellcheck disable=SC2086
  if [ "$all" = yes ] && [ -z "$pattern" ]; then check_compilers $presets; fi
  say "$((SECONDS - start)) s in all"
  python3 tools/dev/sums.py --broken "${broken[*]}" --checks build/checks.txt -- "${results[@]}"
}
