# ./dev build [PRESET]: configures and builds all of release (the default), debug, asan, tsan, coverage, or
# cuda, which is release with device code, into build/PRESET.
dev_build() {
  need "${PACKAGES_BUILD[@]}" "${PACKAGES_TOOLS[@]}"
  build "${1:-release}"
}
