#!/bin/sh
# Runs a command, unless a program, which says why and ends with 77 where there is no GPU, does so:
#   where_there_is_a_gpu.sh <program> command...
program=$1
shift
"$program" --gtest_filter=nothing || exit $?
exec "$@"
