#!/usr/bin/env bash
# strict.sh FOLDER COMPILER: builds what a user builds, the library, the tools and the examples, with every warning an
# error. Called by ./dev test all, here and in another Debian.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
cmake -S . -B "$1" -G Ninja -DCMAKE_CXX_COMPILER="$2" -DCMAKE_BUILD_TYPE=Release "-DCMAKE_CXX_FLAGS_RELEASE=-O3 -g1 -DNDEBUG" \
  -DLCI_BUILD_WARN_AS_ERROR=ON -DLCI_WITH_TESTS=OFF -DLCI_WITH_BENCHMARKS=OFF
cmake --build "$1" -j "${LCI_JOBS:-$(nproc)}"
