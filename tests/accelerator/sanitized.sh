#!/bin/sh
# Runs a program under NVIDIA's compute-sanitizer, from PATH or from /usr/local/cuda/bin:
#   sanitized.sh [--must-fire] TOOL PROGRAM [ARGUMENT...]
# Exit status: the program's; 9: the tool has reported an error; 1: it has looked at no kernel; 77, with the reason: there
# is no such tool, no GPU, or the tool does not support the GPU or the driver. With --must-fire, 0 instead of 9, and 1
# instead of 0.
must_fire=no
if [ "$1" = --must-fire ]; then
  must_fire=yes
  shift
fi
tool=$1
shift
PATH=$PATH:${LCI_CUDA_BIN:-/usr/local/cuda/bin}
command -v compute-sanitizer >/dev/null || { echo "skipped: no compute-sanitizer"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# tee, so that what was printed is there even if the time is up.
{
  compute-sanitizer --tool "$tool" --error-exitcode 9 "$@" 2>&1
  echo $? >"$folder/status"
} | tee "$folder/output"
status=$(cat "$folder/status")
# says PATTERN: prints the lines of the tool itself that match.
says() { grep -E "^========= ($1)" "$folder/output"; }

# Whole sentences, since memcheck also reports calls that return "operation not supported".
if why=$(says "(Error: )?(Device not supported|Unsupported architecture|Detected an unsupported driver)|.* call to cuInit"); then
  echo "skipped: $why"
  exit 77
fi
# The tool then has a status of its own, also for a program that skips itself.
if says ".*terminated before first instrumented" >/dev/null; then
  "$@"
  status=$?
fi
# Without a summary, 0 says nothing about kernels.
if [ "$status" -eq 0 ] && ! says ".*SUMMARY: " >/dev/null; then
  echo "sanitized.sh: $tool has looked at no kernel"
  exit 1
fi
if [ "$must_fire" = no ] || [ "$status" -eq 77 ]; then exit "$status"; fi
[ "$status" -ne 9 ] || exit 0
echo "sanitized.sh: status $status, but $tool had to report an error"
exit 1
