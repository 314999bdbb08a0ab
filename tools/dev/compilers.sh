# shellcheck shell=bash
# What `./dev test all` checks besides the tests: whether compilers print warnings. Sourced by test.sh.
#
# No object that was built with the presets may have had a warning, including those of tests and benchmarks. This machine's
# clang compiles the tools and the examples, with warnings as errors; lint_tidy has checked the library for the same
# warnings. Then follows the next Debian, in a folder of its own: the main job on the bare system, as a newcomer does it,
# then the checks of the test tools and some of the quick tests, with its gcc; its clang checks the library and the tools.

NEXT=trixie

# note OUTCOME NAME [WHY]: adds a line to the sums.
note() { (IFS='|' && printf '%s\n' "$*") >>build/checks.txt; }

# check NAME COMMAND...: runs the command as a phase and notes its outcome.
check() {
  local name=$1
  shift
  if phase "$name" "$@"; then note OK "$name"; else note FAILED "$name" "see $phase_log"; fi
}

# check_warned NAME FOLDER: notes whether a build in that folder printed a warning.
check_warned() {
  if [ -s "$2/.warned" ]; then
    note FAILED "$1: no warnings" "the compiler warned of $(tr '\n' ' ' <"$2/.warned")"
  else
    note OK "$1: no warnings"
  fi
}

# check_presets PRESET...
check_presets() {
  local preset
  for preset in "$@"; do
    [ ! -d "build/$preset" ] || check_warned "$preset" "build/$preset"
  done
}

# Debian 12 has clang 14.
check_clang() {
  if command -v clang++ >/dev/null; then
    check "clang $(clang++ -dumpversion): no warnings" tools/dev/strict.sh build/strict-clang clang++ -- lci backends lct
  else
    note SKIPPED "clang: no warnings" "no clang++ (Debian: clang)"
  fi
}

# The mirror from which this machine gets Debian packages; empty on another distribution, since debootstrap knows one.
debian_mirror() {
  # shellcheck disable=SC2016
  apt-get indextargets --format '$(ORIGIN) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
    awk '$1 == "Debian" && $2 !~ /security/ { print $2; exit }'
}

# in_root FOLDER COMMAND...: with /proc, the devices, and shared memory of its own, which tests beside it count; mounted for
# the command alone and until it ends.
in_root() {
  local root=$1
  shift
  # shellcheck disable=SC2016
  unshare --mount sh -c '
    root=$1
    shift
    mount -t proc proc "$root/proc" && mount --rbind /dev "$root/dev" && mount -t tmpfs tmpfs "$root/dev/shm" || exit 125
    exec chroot "$root" "$@"' sh "$root" /usr/bin/env -i HOME=/root LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    http_proxy="${http_proxy:-}" https_proxy="${https_proxy:-}" LCI_JOBS="$LCI_JOBS" "$@"
}

# Makes the bare system once; nothing is ever run in it. An incomplete one is not kept.
make_root() {
  local root=$1 mirror
  mirror=$(debian_mirror)
  rm -rf "$root.new"
  mkdir -p "$(dirname "$root")"
  # Takes minutes if there is a mirror; an address that never answers must not take hours.
  timeout --foreground 1200 debootstrap --variant=minbase "$NEXT" "$root.new" ${mirror:+"$mirror"} || return 1
  mv "$root.new" "$root"
}

# make_bare BASE ROOT: makes a copy, with the packages that the last one had fetched. The settings by which this machine
# reaches the mirror are copied too.
make_bare() {
  local base=$1 root=$2 fetched=build/roots/fetched
  mkdir -p "$fetched"
  find "$root/var/cache/apt/archives" -name '*.deb' -exec mv -t "$fetched" {} + 2>/dev/null || true
  rm -rf "$root"
  cp -a "$base" "$root" || return 1
  mkdir -p "$root/var/cache/apt/archives"
  find "$fetched" -name '*.deb' -exec mv -t "$root/var/cache/apt/archives" {} +
  cp -L /etc/resolv.conf "$root/etc/resolv.conf" || true
  # An installed system knows its own name; debootstrap leaves that to the installer.
  printf '127.0.0.1 localhost\n::1 localhost\n' >"$root/etc/hosts"
  apt-config dump --format '%F "%v";%n' Acquire::http Acquire::https Acquire::Check-Valid-Until Acquire::Check-Date \
    2>/dev/null | grep -v '""' >"$root/etc/apt/apt.conf.d/90host" || true
  printf 'Acquire::Languages "none";\n' >>"$root/etc/apt/apt.conf.d/90host"
}

# Copies the tree as it is here: with uncommitted files, without build results.
copy_tree() {
  local to=$1 list=build/log/tree
  mkdir -p "$to" build/log
  git ls-files -zco --exclude-standard >"$list" 2>/dev/null ||
    find . -path ./build -prune -o -path ./.git -prune -o -type f -print0 >"$list"
  # git still lists files that were deleted.
  tar -c --null --ignore-failed-read -T "$list" 2>/dev/null | tar -x -C "$to"
}

# Sets why_not: why such a Debian cannot be made here; if it is empty, $1 is one.
find_root() {
  why_not=
  if [ "$(id -u)" -ne 0 ]; then
    why_not="another Debian is made by root only"
  elif ! command -v debootstrap >/dev/null; then
    why_not="no debootstrap"
  elif [ ! -d "$1" ] && ! phase "$NEXT: the bare system" make_root "$1"; then
    why_not="debootstrap failed: $(grep -E '^[EW]: ' "$phase_log" | tail -n 1 || true)"
  elif ! in_root "$1" true; then
    why_not="neither chroot nor mount is allowed here"
  fi
}

# The checks of the other Debian up to its tests; they follow where its tests are built. The demo's job runs beside, too.
make_next() {
  local base=$PWD/build/roots/$NEXT root=$PWD/build/roots/$NEXT.now why_not name
  find_root "$base"
  if [ -n "$why_not" ]; then
    for name in demo "no warnings" selfcheck tests "clang: no warnings"; do note SKIPPED "$NEXT: $name" "$why_not"; done
    return
  fi
  if ! phase "$NEXT: a system as new" make_bare "$base" "$root"; then
    note FAILED "$NEXT" "see $phase_log"
    return
  fi
  if ! copy_tree "$root/lci"; then
    note FAILED "$NEXT" "the tree was not copied"
    return
  fi
  # First, while nothing is installed yet.
  check "$NEXT: demo" in_root "$root" /lci/dev demo
  # What fails here fails again, and is noted, where the tests run.
  phase "$NEXT: build of the tests" in_root "$root" /lci/tools/dev/next.sh build || true
  check_warned "$NEXT" "$root/lci/build/release"
  check "$NEXT: clang, no warnings" in_root "$root" /lci/tools/dev/strict.sh build/strict-clang clang++ -DLCI_WITH_EXAMPLES=OFF
  touch build/roots/ready
}

test_next() {
  local root=$PWD/build/roots/$NEXT.now
  [ -e build/roots/ready ] || return 0
  check "$NEXT: selfcheck" in_root "$root" /lci/tools/dev/next.sh selfcheck
  check "$NEXT: tests" in_root "$root" /lci/tools/dev/next.sh test
}

# check_compilers PRESET...: what was made beside the tests, if any preset was built, else all of it now.
check_compilers() {
  check_presets "$@"
  if [ -z "$beside" ]; then
    check_clang
    make_next
  fi
  await clang .
  await next .
  test_next
}
