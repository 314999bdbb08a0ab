# What all commands share: messages, packages, configure and build.
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

# look_at LOG: the present state of the step that writes this log, as "43 % what"; understands the output of cmake, ninja,
# make, ctest, apt with its status lines, and of ./dev itself.
look_at() {
  tail -c 8000 "$1" 2>/dev/null | tr '\r' '\n' | awk '
    match($0, /^\[[0-9]+\/[0-9]+\] /) { split(substr($0, 2), n, /[\/\]]/); set(n[1], n[2], substr($0, RLENGTH + 1)); next }
    match($0, /^\[ *[0-9]+%\] /) { set($0 ~ /^\[ / ? substr($0, 3) : substr($0, 2), 100, substr($0, RLENGTH + 1)); next }
    match($0, /^ *[0-9]+\/[0-9]+ Test +#[0-9]+: /) {
      split($1, n, "/"); name = substr($0, RLENGTH + 1); sub(/ .*/, "", name); set(n[1], n[2], name); next
    }
    # "dlstatus:4:37.5:what", "pmstatus:name:arch:37.5:what"
    sub(/^dlstatus:[0-9]+/, "") || sub(/^pmstatus:[^:]*(:[a-z][^:]*)?/, "") {
      split($0, n, ":"); text = $0; sub(/^:[^:]*:/, "", text); set(n[2], 100, text); next
    }
    /^   .+\.\.\. [0-9]+ s: / { percent = ""; what = substr($0, 4); next }
    /^[^ ]/ && !/warning:/ { what = $0 }
    function set(done, all, text) { percent = int(100 * done / all) " % "; what = text }
    END { print percent what }'
}

# tell_progress TITLE LOG START: prints, until it is killed, what a step does: in place on a terminal, elsewhere a line a
# minute.
tell_progress() {
  local title=$1 log=$2 start=$3 every=${LCI_PROGRESS_EVERY:-60} never line width
  if [ -t 1 ]; then every=${LCI_PROGRESS_EVERY:-1}; fi
  # This descriptor never delivers anything: a wait without a process that could outlive us.
  exec {never}<> <(:)
  while ! read -rt "$every" <&"$never" && kill -0 $$ 2>/dev/null; do
    line="$title... $((SECONDS - start)) s: $(look_at "$log")"
    if [ -t 1 ]; then
      width=$(tput cols 2>/dev/null || echo 80)
      printf '\r\e[K%s%s%s' "$dim" "${line:0:width-1}" "$plain"
    else
      printf '   %s\n' "${line:0:150}"
    fi
  done
}

# phase TITLE COMMAND...: runs the command with its output in a log, $phase_log; prints what it is doing and how long it
# took, or the end of the log if it failed. Not in a subshell: what the command sets stays set.
phase() {
  local title=$1 start=$SECONDS log status=0 teller
  shift
  mkdir -p build/log
  log=build/log/$(tr -c 'A-Za-z0-9\n' _ <<<"${title:0:100}").log
  : >"$log"
  phase_log=$log
  [ -t 1 ] && printf '%s%s...%s' "$dim" "$title" "$plain"
  tell_progress "$title" "$log" "$start" </dev/null 2>/dev/null &
  teller=$!
  "$@" >"$log" 2>&1 || status=$?
  kill "$teller" 2>/dev/null || true
  wait "$teller" 2>/dev/null || true
  [ -t 1 ] && printf '\r\e[K'
  if [ "$status" -eq 0 ]; then
    printf '%s %s (%d s)\n' "${green}ok${plain}" "$title" $((SECONDS - start))
  else
    tail -n "${PHASE_TAIL:-60}" "$log"
    printf '%s %s (%d s), full output in %s\n' "${red}failed${plain}" "$title" $((SECONDS - start)) "$log"
  fi
  return "$status"
}

# Prints which of the packages in "$@" are not installed.
missing_packages() {
  local name installed
  [ $# -gt 0 ] || return 0
  installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null | sed -n 's/ installed$/ /p' || true)
  for name in "$@"; do
    [[ " ${installed//$'\n'/ } " == *" $name "* ]] || printf '%s ' "$name"
  done
}

# The timeouts make an address that does not answer cost seconds, not minutes. Without a terminal of its own, dpkg stays in
# this process group.
apt_as_root() {
  local sudo=()
  [ "$(id -u)" -eq 0 ] || sudo=(sudo)
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=120 -o Acquire::Retries=1 \
    -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20 -o APT::Status-Fd=1 \
    -o Dpkg::Use-Pty=0 "$@"
}

# Asks for the password, where there is one; after a refusal no more.
can_be_root() {
  [ "$(id -u)" -eq 0 ] && return 0
  if [ -n "${is_refused:-}" ] || ! command -v sudo >/dev/null; then return 1; fi
  # Without a terminal no one can type a password.
  if [ -t 0 ]; then sudo -v; else sudo -n true 2>/dev/null; fi || {
    is_refused=yes
    return 1
  }
}

# Prints which names can be installed: the package lists may know a name but have nothing to install for it.
known_packages() {
  LC_ALL=C apt-cache policy "$@" 2>/dev/null |
    awk '/^[^ ].*:$/ { name = substr($0, 1, length($0) - 1) } /^ *Candidate:/ && $2 != "(none)" { printf "%s ", name }'
}

# Prints which names in "$@" are needed to build something; without the others fewer things are tested or checked.
required_packages() {
  local name
  for name in "$@"; do
    [[ " ${PACKAGES_OPTIONAL[*]} " == *" $name "* ]] ||
      [[ " ${PACKAGES_BUILD[*]} ${PACKAGES_TOOLS[*]} ${PACKAGES_TEST[*]} " != *" $name "* ]] || printf '%s ' "$name"
  done
}

# Succeeds if all required packages are installed afterwards; is_updated: whether the package lists are today's.
install_packages() {
  local known name missing
  is_updated=yes
  apt_as_root update || {
    is_updated=no
    say "apt-get update failed; using the existing package lists"
  }
  read -ra known <<<"$(known_packages "$@")"
  if [ ${#known[@]} -gt 0 ] && ! apt_as_root install -y --no-install-recommends "${known[@]}" && [ "$is_updated" = yes ]; then
    # One package that cannot be installed must not keep the others away.
    for name in "${known[@]}"; do apt_as_root install -y --no-install-recommends "$name" || true; done
  fi
  read -ra missing <<<"$(missing_packages "$@")"
  [ ${#missing[@]} -eq 0 ] || say "unavailable: ${missing[*]}"
  [ -z "$(required_packages "${missing[@]}")" ]
}

tell_without() { [ $# -eq 0 ] || say "${dim}without: $*$plain"; }

# need NAME...: installs what is missing. If that is impossible, says what is missing, in one line at later calls, and goes
# on: the tools may come from elsewhere, and the build reports what it cannot find. Never fails.
need() {
  local missing name is_updated asked=build/log/packages_not_had
  command -v dpkg-query >/dev/null || {
    say "not Debian or Ubuntu; required packages, by their Debian names: $*"
    return 0
  }
  read -ra missing <<<"$(missing_packages "$@")"
  [ ${#missing[@]} -gt 0 ] || return 0
  # Packages that the lists did not have are tried once a day, not at every call; required ones at every call.
  if [ -z "$(required_packages "${missing[@]}")" ] && [ -n "$(find "$asked" -mmin -1440 2>/dev/null)" ] &&
    ! printf '%s\n' "${missing[@]}" | grep -qvxFf "$asked"; then
    tell_without "${missing[@]}"
    return 0
  fi
  if can_be_root; then
    PHASE_TAIL=3 phase "packages: ${missing[*]}" install_packages "${missing[@]}" || say "going on without"
    read -ra missing <<<"$(missing_packages "$@")"
    for name in "${missing[@]}"; do
      [ "$is_updated" = no ] || [ -n "$(required_packages "$name")" ] || printf '%s\n' "$name" >>"$asked"
    done
    tell_without "${missing[@]}"
  else
    say "missing packages, and neither root nor sudo: apt-get install ${missing[*]}"
  fi
}

# Whether a program would find a GPU here.
has_gpu() {
  python3 - <<'PYTHON' 2>/dev/null
import ctypes
cuda, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
raise SystemExit(cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)) or count.value < 1)
PYTHON
}

# The preset for tests and benchmarks of a GPU: with device code, if there are nvcc and a GPU for it.
gpu_preset() {
  if has_gpu && { command -v nvcc || [ -x /usr/local/cuda/bin/nvcc ]; } >/dev/null; then
    echo cuda
  else
    echo release
  fi
}

# The names are the same in Debian 12 and 13 and in Ubuntu 24.04, except those with a version, which the later ones lack.
# The optional packages, and all lists below TEST, may be missing: then fewer tests run, and that is reported.
# Networks and topology belong to the build: without their headers the library has only shared memory.
PACKAGES_BUILD=(g++ cmake ninja-build libboost-dev libibverbs-dev libfabric-dev libhwloc-dev libsodium-dev)
PACKAGES_TEST=(git pkg-config python3 libgtest-dev libgmock-dev clang clang-format-14 clang-tidy-14 doxygen
  libasio-dev libuv1-dev liburing-dev)
# Of these, the ones that the tests can do without: for the house rules, a second compiler, event loops of others, and an
# engine of file_to_gpu.
PACKAGES_OPTIONAL=(clang clang-format-14 clang-tidy-14 doxygen libasio-dev libuv1-dev liburing-dev)
# Starts the virtual machines of tests/vm, and builds the programs for their devices.
PACKAGES_VM=(qemu-system-x86 busybox-static kmod zstd iproute2 ibverbs-providers)
# What a sanitizer of clang finds has names of functions by it, which suppressions of leaks need as well.
PACKAGES_SANITIZERS=(llvm)
# The browser with which tests/docs checks the HTML pages.
PACKAGES_PAGES=(chromium doxygen)
# A checker of algorithms for relaxed memory models, for tests/interleavings.
PACKAGES_CHECKER=(relacy-dev)
# The launchers under which tests/launchers starts jobs.
PACKAGES_LAUNCHERS=(openmpi-bin libpmix2 mpich slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge libpmi0
  libpmix-dev)
PACKAGES_BENCH=(libbenchmark-dev python3)
# Libraries that lci is compared with.
PACKAGES_RIVALS=(libucx-dev libopenmpi-dev openmpi-bin libmpich-dev mpich libfabric-dev)
PACKAGES_TOOLS=(nlohmann-json3-dev)

need_compiler() {
  command -v cmake >/dev/null && command -v c++ >/dev/null ||
    fail "no cmake or no C++ compiler; install: ${PACKAGES_BUILD[*]}"
}

# Options that differ from the preset; a later `configure` without them takes them back.
configure_with=()

# configure PRESET: only if the folder is new or was configured with other options, the presets have changed, or packages
# were installed or removed since, by whatever means: what was missing then may be there now. The build itself notices
# everything else. Sanitizers are clang's, if there is one: it compiles them in half the time, and reports more.
configure() {
  local preset=$1 folder=build/$1 done=build/$1/.configured generator=() with=("${configure_with[@]}") wanted='' cached
  need_compiler
  case $preset in
    asan | tsan) wanted=$(command -v clang++ || true) ;;
  esac
  [ -z "$wanted" ] || with+=(-DCMAKE_CXX_COMPILER=clang++)
  [ -f "$folder/CMakeCache.txt" ] && [ "$done" -nt CMakePresets.json ] && [ "$(<"$done")" = "${with[*]}" ] &&
    ! [ "${DPKG_ADMINDIR:-/var/lib/dpkg}/status" -nt "$done" ] && return 0
  # CMake forgets all options, a preset's too, when the compiler changes, and goes on without one that is gone.
  cached=$(sed -n 's/^CMAKE_CXX_COMPILER:[^=]*=//p' "$folder/CMakeCache.txt" 2>/dev/null || true)
  if [ -n "$cached" ]; then
    cached=$(command -v "$cached" || true)
    [ -n "$cached" ] && [ "$cached" = "${wanted:-$cached}" ] || rm -rf "$folder/CMakeCache.txt" "$folder/CMakeFiles"
  fi
  # A folder that was configured by hand keeps its generator.
  if [ ! -f "$folder/CMakeCache.txt" ] && command -v ninja >/dev/null; then generator=(-G Ninja); fi
  phase "configure $preset" cmake --preset "$preset" "${generator[@]}" "${with[@]}" || return 1
  printf '%s\n' "${with[*]}" >"$done"
  # Prints what this build lacks; the whole summary is in the log.
  sed -n 's/^--\(   .* NO, \)/\1/p' "$phase_log"
}

# build PRESET [TARGET...]: also keeps in build/<preset>/.warned the objects whose last compilation printed a warning.
build() {
  local preset=$1 targets=() status=0 list=build/$1/.warned
  shift
  [ $# -gt 0 ] && targets=(--target "$@")
  configure "$preset" || return 1
  phase "build $preset${1:+: $*}" cmake --build "build/$preset" -j "$LCI_JOBS" "${targets[@]}" || status=1
  touch "$list"
  awk -v list="$list" '
    FILENAME == list { warned[$0] = 1; next }
    match($0, /Building [A-Z]+ object /) { object = substr($0, RSTART + RLENGTH); delete warned[object] }
    /: warning: / && !/^ninja: / && object != "" { warned[object] = 1 }
    END { for (one in warned) print one }' "$list" "$phase_log" | sort >"$list.now"
  mv "$list.now" "$list"
  [ ! -s "$list" ] || say "a compiler warned: $(wc -l <"$list") objects, in $list"
  return "$status"
}
