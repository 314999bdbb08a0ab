# ./dev lint [CHECK...]: the checks that keep the house rules. The checkers prove first that they can fire.
LINT_CHECKS=(selfcheck floors budgets words headers format tidy doxygen)

dev_lint() {
  local check status failures=0
  [ $# -gt 0 ] || set -- "${LINT_CHECKS[@]}"
  # Under ctest the packages are there or the check says what it lacks.
  [ -n "${LCI_LINT_BUILD:-}" ] || need "${PACKAGES_BUILD[@]}" "${PACKAGES_TOOLS[@]}" "${PACKAGES_TEST[@]}"
  [ -n "${LCI_LINT_BUILD:-}" ] || configure release || return 1
  for check in "$@"; do
    status=0
    python3 "tools/lint/$check.py" --build "${LCI_LINT_BUILD:-build/release}" || status=$?
    case $status in
      0) ;;
      77) [ $# -gt 1 ] || return 77 ;;
      *) failures=$((failures + 1)) ;;
    esac
  done
  [ "$failures" -eq 0 ]
}
