#!/bin/sh
# Runs a command and checks its exit status and what it prints.
#   expect.sh [-s status] pattern... -- command...
# Each pattern is an extended regular expression that must match a line of stdout or stderr. A command that
# skips itself (status 77) is skipped.
status=0
if [ "$1" = -s ]; then
  status=$2
  shift 2
fi
patterns=$(mktemp)
output=$(mktemp)
trap 'rm -f "$patterns" "$output"' EXIT
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  printf '%s\n' "$1" >>"$patterns"
  shift
done
shift
"$@" >"$output" 2>&1
got=$?
cat "$output"
if [ "$got" -eq 77 ] && [ "$status" -ne 77 ]; then exit 77; fi
failed=0
if [ "$got" -ne "$status" ]; then
  echo "expect.sh: exit status $got instead of $status"
  failed=1
fi
while IFS= read -r pattern; do
  if ! grep -Eq -- "$pattern" "$output"; then
    echo "expect.sh: no line matches: $pattern"
    failed=1
  fi
done <"$patterns"
exit $failed
