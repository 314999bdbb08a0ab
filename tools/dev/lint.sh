# ./dev lint [CHECK...]: the checks that keep the house rules. The checkers prove first that they can fire.
LINT_CHECKS=(selfcheck floors budgets words headers format tidy doxygen)

dev_lint() {
  local check status failures=0
  [ $# -gt 0 ] || set -- "${LINT_CHECKS[@]}"
  need "${PACKAGES_BUILD[@]}" "${PACKAGES_TOOLS[@]}" "${PACKAGES_TEST[@]}" || return 1
  configure release || return 1
  for check in "$@"; do
    [ -f "tools/lint/$check.py" ] || fail "no check called $check; there are: ${LINT_CHECKS[*]}"
    status=0
    python3 "tools/lint/$check.py" --build build/release || status=$?
    # 77: could not be checked here, and said why.
    [ "$status" -eq 0 ] || [ "$status" -eq 77 ] || failures=$((failures + 1))
  done
  [ "$failures" -eq 0 ]
}
