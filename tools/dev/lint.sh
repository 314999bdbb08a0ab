# ./dev lint [CHECK...]: runs all checks of the project's rules, or those named: selfcheck floors circles symbols budgets
# words names atomics locks mirror options includes headers format tidy doxygen. The first proves that the others can fail.
# In tidy, a clang warning in the library is an error. symbols compiles each source by itself, which takes minutes the first
# time.
LINT_CHECKS=(selfcheck floors circles symbols budgets words names atomics locks mirror options includes headers format tidy doxygen)

# run_check NAME: status 77, which means that it could not be checked here and has said why, is no failure.
run_check() {
  local status=0
  python3 "tools/lint/$1.py" --build build/release || status=$?
  [ "$status" -eq 0 ] || [ "$status" -eq 77 ]
}

dev_lint() {
  local check failures=0
  [ $# -gt 0 ] || set -- "${LINT_CHECKS[@]}"
  for check in "$@"; do
    [ -f "tools/lint/$check.py" ] || fail "no check called $check; there are: ${LINT_CHECKS[*]}"
  done
  need "${PACKAGES_BUILD[@]}" "${PACKAGES_TOOLS[@]}" "${PACKAGES_TEST[@]}"
  configure release || return 1
  for check in "$@"; do
    if PHASE_TAIL=1000 phase "lint $check" run_check "$check"; then
      # Print what was counted and left out, without the progress lines.
      grep -v '^\[[0-9]*/[0-9]*\] ' "$phase_log" | sed "s/^ok $check: /  /" || true
    else
      failures=$((failures + 1))
    fi
  done
  [ "$failures" -eq 0 ]
}
