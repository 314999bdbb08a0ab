# What all commands share: saying what happens, packages, configure and build.
# Sourced by ./dev with the repository root as current folder.

LCI_JOBS=${LCI_JOBS:-$(nproc)}
if [ -t 1 ]; then
  bold=$'\e[1m' red=$'\e[31m' green=$'\e[32m' dim=$'\e[2m' plain=$'\e[0m'
else
  bold='' red='' green='' dim='' plain=''
fi

say() { printf '%s\n' "$*"; }
fail() {
  printf '%s%s%s\n' "$red" "$*" "$plain" >&2
  exit 1
}

# phase TITLE COMMAND...: runs it with its output in a log; says how long it took, or shows the end of the
# log. Not in a subshell: what the command sets stays set.
phase() {
  local title=$1 start=$SECONDS log status=0
  shift
  mkdir -p build/log
  log=build/log/$(tr -c 'A-Za-z0-9\n' _ <<<"$title").log
  [ -t 1 ] && printf '%s... %s%s' "$dim" "$title" "$plain"
  "$@" >"$log" 2>&1 || status=$?
  [ -t 1 ] && printf '\r\e[K'
  if [ "$status" -eq 0 ]; then
    printf '%s %s (%d s)\n' "${green}ok${plain}" "$title" $((SECONDS - start))
  else
    tail -n 60 "$log"
    printf '%s %s (%d s), all of it in %s\n' "${red}failed${plain}" "$title" $((SECONDS - start)) "$log"
  fi
  return "$status"
}

# Names of those packages in "$@" that are not installed.
missing_packages() {
  local name
  for name in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || printf '%s ' "$name"
  done
}

apt_as_root() {
  local sudo=()
  [ "$(id -u)" -eq 0 ] || sudo=(sudo)
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=120 "$@"
}

can_be_root() {
  [ "$(id -u)" -eq 0 ] && return 0
  command -v sudo >/dev/null || return 1
  # Without a terminal nobody can type a password.
  [ -t 0 ] || sudo -n true 2>/dev/null
}

# Keeps those names that the package lists know.
known_packages() {
  local name
  for name in "$@"; do
    apt-cache show "$name" >/dev/null 2>&1 && printf '%s ' "$name"
  done
  return 0
}

install_packages() {
  local known
  apt_as_root update || say "apt-get update failed; trying with the lists that are there"
  read -ra known <<<"$(known_packages "$@")"
  [ ${#known[@]} -eq 0 ] || apt_as_root install -y --no-install-recommends "${known[@]}"
}

# need NAME...: installs what is missing. Where that is impossible, says what to install and goes on: the
# tools may have come from somewhere else, and the build says what it cannot find.
need() {
  local missing
  command -v dpkg-query >/dev/null || {
    say "not a Debian or Ubuntu: what is needed is, by its Debian names: $*"
    return 0
  }
  read -ra missing <<<"$(missing_packages "$@")"
  [ ${#missing[@]} -gt 0 ] || return 0
  # A package that this distribution does not have is asked for once, not at every call.
  local unknown=build/log/${memory:-unknown_packages}
  [ -f "$unknown" ] && [ "$(cat "$unknown")" = "${missing[*]}" ] && return 0
  if can_be_root; then
    [ "$(id -u)" -eq 0 ] || [ ! -t 0 ] || sudo -v
    phase "packages: ${missing[*]}" install_packages "${missing[@]}" || return 1
    mkdir -p build/log
    missing_packages "$@" | sed 's/ $//' >"$unknown"
  else
    say "missing packages, and neither root nor sudo: apt-get install ${missing[*]}"
  fi
}

# want NAME...: the same for what only makes tests run that are skipped without. Never fails, and what could not be had
# is asked for once.
want() {
  local memory=unknown_wanted_packages
  command -v dpkg-query >/dev/null || return 0
  need "$@" && return 0
  mkdir -p build/log
  missing_packages "$@" | sed 's/ $//' >"build/log/$memory"
  say "going on without: $(cat "build/log/$memory")"
}

# Whether a program here would find a GPU.
has_gpu() {
  python3 - <<'PYTHON' 2>/dev/null
import ctypes
cuda, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
raise SystemExit(cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)) or count.value < 1)
PYTHON
}

# How the tests and benchmarks of a GPU are built: with device code, where there is nvcc and a GPU for it.
gpu_preset() {
  if has_gpu && { command -v nvcc || [ -x /usr/local/cuda/bin/nvcc ]; } >/dev/null; then
    echo cuda
  else
    echo release
  fi
}

PACKAGES_BUILD=(g++ cmake ninja-build libboost-dev)
PACKAGES_TEST=(git pkg-config python3 libgtest-dev libgmock-dev clang libhwloc-dev libsodium-dev
  clang-format-14 clang-tidy-14 doxygen libibverbs-dev libfabric-dev)
# What tests/vm starts virtual machines with, and what programs for their devices are built with.
PACKAGES_VM=(qemu-system-x86 busybox-static kmod zstd iproute2 ibverbs-providers)
# The launchers under which tests/launchers starts jobs.
PACKAGES_LAUNCHERS=(openmpi-bin libpmix2 mpich slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge libpmi0
  libpmix-dev)
PACKAGES_BENCH=(libbenchmark-dev python3)
PACKAGES_TOOLS=(libfmt-dev libcli11-dev nlohmann-json3-dev)

need_compiler() {
  command -v cmake >/dev/null && command -v c++ >/dev/null ||
    fail "no cmake or no C++ compiler; install: ${PACKAGES_BUILD[*]}"
}

# configure PRESET [OPTION...]: only when the folder is new or the presets have changed; anything else the build notices
# by itself.
configure() {
  local preset=$1 generator=()
  shift
  need_compiler
  [ -f "build/$preset/CMakeCache.txt" ] && [ "build/$preset/.configured" -nt CMakePresets.json ] && return 0
  # A folder that was configured by hand keeps its generator.
  if [ ! -f "build/$preset/CMakeCache.txt" ] && command -v ninja >/dev/null; then generator=(-G Ninja); fi
  phase "configure $preset" cmake --preset "$preset" "${generator[@]}" "$@" || return 1
  touch "build/$preset/.configured"
}

# build PRESET [TARGET...]
build() {
  local preset=$1 targets=()
  shift
  [ $# -gt 0 ] && targets=(--target "$@")
  configure "$preset" || return 1
  phase "build $preset${1:+: $*}" cmake --build "build/$preset" -j "$LCI_JOBS" "${targets[@]}"
}
