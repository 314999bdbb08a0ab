# ./dev build [PRESET]
dev_build() {
  need "${PACKAGES_BUILD[@]}" "${PACKAGES_TOOLS[@]}"
  build "${1:-release}"
}
