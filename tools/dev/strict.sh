#!/usr/bin/env bash
# strict.sh FOLDER COMPILER [OPTION...] [-- SOURCES...]: checks that clang gives no warning for what a user builds: the
# library, the tools and the examples. Only its front end runs, since its warnings depend on the source alone, so no
# header is precompiled. SOURCES are folders to leave out. Called by ./dev test all, here and in another Debian.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
folder=$1 compiler=$2 options=()
shift 2
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  options+=("$1")
  shift
done
cmake -S . -B "$folder" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_BUILD_TYPE=Release -DLCI_BUILD_WARN_AS_ERROR=ON \
  -DLCI_WITH_TESTS=OFF -DLCI_WITH_BENCHMARKS=OFF -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DCMAKE_EXPORT_COMPILE_COMMANDS=ON "${options[@]}"
python3 tools/dev/syntax.py "$folder" -j "${LCI_JOBS:-$(nproc)}" --less "${@:2}"
