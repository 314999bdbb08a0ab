# ./dev bench [NAME...]: every executable of bench/, as it prints itself; JSON beside it in build/bench/.
dev_bench() {
  local program name pattern failures=0
  pattern=$(IFS='|' && printf '%s' "$*")
  need "${PACKAGES_BUILD[@]}" "${PACKAGES_TOOLS[@]}" "${PACKAGES_BENCH[@]}" || return 1
  build release || return 1
  mkdir -p build/bench
  for program in build/release/bin/bench_*; do
    [ -x "$program" ] || continue
    name=$(basename "$program")
    [[ -z $pattern || $name =~ $pattern ]] || continue
    printf '\n%s== %s%s\n' "$bold" "$name" "$plain"
    # A program that compares processes starts them itself, with the launcher it finds beside it.
    if ! "$program" --json "build/bench/$name.json"; then failures=$((failures + 1)); fi
  done
  say "JSON in build/bench"
  [ "$failures" -eq 0 ]
}
