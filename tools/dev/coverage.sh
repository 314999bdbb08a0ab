# ./dev coverage: the tests in a build that counts, then how much of lci/ and backends/ they ran.
dev_coverage() {
  need "${PACKAGES_BUILD[@]}" "${PACKAGES_TOOLS[@]}" "${PACKAGES_TEST[@]}"
  build coverage || return 1
  find build/coverage -name '*.gcda' -delete
  phase "test coverage" ctest --test-dir build/coverage -j "$((3 * LCI_JOBS))" -LE long -E '^(lint_|packaging_)' --output-on-failure ||
    say "some tests failed; the code they ran still counts"
  python3 tools/dev/coverage.py build/coverage
}
