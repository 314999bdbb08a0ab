#!/bin/sh
# What sanitized.sh promises, with a compute-sanitizer that says what it is told.   sanitized_test.sh sanitized.sh
# shellcheck disable=SC2016 # what is in single quotes is for the fake
sanitized=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# Nothing but what the script needs: the machine may have the tool.
mkdir "$folder/tools" "$folder/bin"
for tool in sh mktemp rm tee cat grep; do
  ln -s "$(command -v $tool)" "$folder/tools/$tool"
done
failed=0
# expect STATUS LINE ARGUMENT...: the script with these arguments ends so and prints a line that matches.
expect() {
  wanted=$1 line=$2
  shift 2
  PATH=$path LCI_CUDA_BIN=$cuda_bin "$sanitized" "$@" >"$folder/out" 2>&1
  got=$?
  if [ $got -ne "$wanted" ] || ! grep -Eq -- "$line" "$folder/out"; then
    echo "sanitized_test.sh: $* with \"$FAKE\": status $got instead of $wanted, or no line: $line"
    cat "$folder/out"
    failed=1
  fi
}
# fake COMMAND: what compute-sanitizer does from now on.
fake() { export FAKE="$1"; }
path=$folder/tools cuda_bin=$folder/nothing
fake ""
expect 77 "^skipped: no compute-sanitizer$" memcheck true
expect 77 "^skipped: no compute-sanitizer$" --must-fire memcheck true

cat >"$folder/bin/compute-sanitizer" <<'FAKE'
#!/bin/sh
echo "called with $*"
shift 4
eval "$FAKE"
FAKE
chmod +x "$folder/bin/compute-sanitizer"
# Where CUDA is usually, and in PATH.
cuda_bin=$folder/bin
summary='echo "========= ERROR SUMMARY: 0 errors"'
fake "$summary"
expect 0 "^called with --tool memcheck --error-exitcode 9 program one two$" memcheck program one two
path=$folder/bin:$folder/tools cuda_bin=$folder/nothing
expect 0 "^called with --tool racecheck --error-exitcode 9 program a b$" racecheck program "a b"
expect 1 "^sanitized.sh: status 0, but memcheck had to report an error$" --must-fire memcheck program

fake 'echo "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)"; exit 9'
expect 9 "SUMMARY: 1 hazard" racecheck program
expect 0 "SUMMARY: 1 hazard" --must-fire racecheck program
# memcheck reports what a call of the driver returns: not what the tool supports.
fake 'echo "========= Program hit CUDA_ERROR_NOT_SUPPORTED (error 801) due to \"operation not supported\" on CUDA API call to cuMemCreate."; exit 9'
expect 9 "error 801" memcheck program

# The program's own status.
fake "$summary; exit 3"
expect 3 "" memcheck program
expect 1 "status 3, but" --must-fire memcheck program
fake "$summary; exit 77"
expect 77 "" memcheck program
expect 77 "" --must-fire memcheck program

# Refusals.
for why in "Error: Device not supported. Please refer to the documentation" "Error: Unsupported architecture: 1" \
  "Error: Detected an unsupported driver version." \
  "Program hit CUDA_ERROR_NO_DEVICE on CUDA API call to cuInit."; do
  for status in 0 9 255; do
    fake "echo \"========= $why\"; exit $status"
    expect 77 "^skipped: ========= $why$" memcheck program
    expect 77 "^skipped: ========= $why$" --must-fire memcheck program
  done
done
# The program's words are not the tool's.
fake "echo 'Device not supported'; $summary"
expect 0 "" memcheck program

# A program that calls nothing of CUDA: whatever it ends with, but it has not been looked at.
fake '"$@"; echo "========= Error: Target application terminated before first instrumented API call"; exit 255'
expect 77 "^skipped: no GPU$" memcheck sh -c "echo 'skipped: no GPU'; exit 77"
expect 77 "" --must-fire memcheck sh -c "exit 77"
expect 3 "" memcheck sh -c "exit 3"
expect 1 "memcheck has looked at no kernel$" memcheck true
fake ""
expect 1 "synccheck has looked at no kernel$" synccheck program
# A tool that does not know its options.
fake 'exit 255'
expect 255 "" nonsense program
exit $failed
