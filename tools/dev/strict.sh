#!/usr/bin/env bash
# strict.sh FOLDER COMPILER [OPTION...]: builds what a user builds, the library, the tools and the examples, with every
# warning an error; unoptimised, since clang, which it is for, warns by the source alone. Called by ./dev test all, here
# and in another Debian.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
cmake -S . -B "$1" -G Ninja -DCMAKE_CXX_COMPILER="$2" -DCMAKE_BUILD_TYPE=Release "-DCMAKE_CXX_FLAGS_RELEASE=-O0 -DNDEBUG" \
  -DLCI_BUILD_WARN_AS_ERROR=ON -DLCI_WITH_TESTS=OFF -DLCI_WITH_BENCHMARKS=OFF "${@:3}"
cmake --build "$1" -j "${LCI_JOBS:-$(nproc)}"
