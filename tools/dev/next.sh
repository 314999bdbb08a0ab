#!/usr/bin/env bash
# next.sh prepare | selfcheck: what ./dev test all does in another Debian beside ./dev demo and strict.sh.
# prepare: the packages, and a build folder in which warnings are errors, for the demo as well.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=tools/dev/common.sh
source tools/dev/common.sh
case $1 in
  prepare)
    need "${PACKAGES_BUILD[@]}" "${PACKAGES_TOOLS[@]}" libgtest-dev libgmock-dev clang
    c++ --version
    clang++ --version
    cmake --preset release -G Ninja -DLCI_BUILD_WARN_AS_ERROR=ON -DLCI_VM_TESTS=OFF
    touch build/release/.configured
    ;;
  selfcheck)
    cmake --build build/release -j "$LCI_JOBS" --target selfcheck
    ctest --test-dir build/release -R '^selfcheck$' --no-tests=error --output-on-failure
    ;;
esac
