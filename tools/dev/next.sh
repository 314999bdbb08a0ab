#!/usr/bin/env bash
# next.sh build | selfcheck | test: what ./dev test all runs in another Debian after ./dev demo, besides strict.sh: the checks
# of the test tools, and of the quick tests the unit tests closest to the system, and the interface over shared memory.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=tools/dev/common.sh
source tools/dev/common.sh
UNITS=(unit_boot unit_shm unit_wqe)
# The library is the demo's; the tests need not be fast, but instructions are counted in optimized code only.
configure_with=(-DLCI_VM_TESTS=OFF -DLCI_TEST_CXX_FLAGS=-O1)
case $1 in
  build)
    need "${PACKAGES_BUILD[@]}" "${PACKAGES_TOOLS[@]}" python3 libgtest-dev libgmock-dev clang
    c++ --version
    clang++ --version
    ;;
  selfcheck) tests=selfcheck ;;
  test) tests=$(IFS='|' && printf '%s' "${UNITS[*]}|interface_2") ;;
esac
build release selfcheck lcrun interface "${UNITS[@]}"
[ "$1" = build ] ||
  ctest --test-dir build/release -j "$((3 * LCI_JOBS))" -R "^($tests)\$" --no-tests=error --output-on-failure
