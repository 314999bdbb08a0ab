# ./dev docs: HTML of the public headers and the pages, in build/docs/html; a warning is an error.
dev_docs() {
  need "${PACKAGES_BUILD[@]}" doxygen python3
  configure release || return 1
  phase "documentation" python3 tools/lint/doxygen.py --html build/docs || return 1
  say "build/docs/html/index.html"
}
