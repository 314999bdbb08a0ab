# shellcheck shell=bash
# What `./dev test all` finds out beside the tests: whether compilers have something to say. Sourced by test.sh.
#
# Of what the presets were built with no object may have had a warning, those of tests and benchmarks among them. This
# machine's clang builds the library, the tools and the examples with warnings as errors. Then the next Debian, in a
# folder of its own: the main job and the checks of the test tools, with its gcc, and all of that with its clang.

NEXT=trixie

# note OUTCOME NAME [WHY]: a line of the sums.
note() { (IFS='|' && printf '%s\n' "$*") >>build/checks.txt; }

# check NAME COMMAND...: runs it as a phase and notes what came of it.
check() {
  local name=$1
  shift
  if phase "$name" "$@"; then note OK "$name"; else note FAILED "$name" "see $phase_log"; fi
}

# check_presets PRESET...
check_presets() {
  local preset
  for preset in "$@"; do
    [ -d "build/$preset" ] || continue
    if [ -s "build/$preset/.warned" ]; then
      note FAILED "$preset: no warnings" "the compiler warned of $(tr '\n' ' ' <"build/$preset/.warned")"
    else
      note OK "$preset: no warnings"
    fi
  done
}

# Debian 12's is clang 14.
check_clang() {
  if command -v clang++ >/dev/null; then
    check "clang $(clang++ -dumpversion): no warnings" tools/dev/strict.sh build/strict-clang clang++
  else
    note SKIPPED "clang: no warnings" "no clang++ (Debian: clang)"
  fi
}

# Where this machine takes Debian's packages from; of another distribution nothing, and debootstrap knows one itself.
debian_mirror() {
  # shellcheck disable=SC2016
  apt-get indextargets --format '$(ORIGIN) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
    awk '$1 == "Debian" && $2 !~ /security/ { print $2; exit }'
}

# in_root FOLDER COMMAND...: with /proc and the devices, mounted where nobody else sees them and until the command ends.
in_root() {
  local root=$1
  shift
  # shellcheck disable=SC2016
  unshare --mount sh -c '
    root=$1
    shift
    mount -t proc proc "$root/proc" && mount --rbind /dev "$root/dev" || exit 125
    exec chroot "$root" "$@"' sh "$root" /usr/bin/env -i HOME=/root LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    http_proxy="${http_proxy:-}" https_proxy="${https_proxy:-}" LCI_JOBS="$LCI_JOBS" "$@"
}

# The base system, made once; what did not come whole does not stay.
make_root() {
  local root=$1 mirror
  mirror=$(debian_mirror)
  rm -rf "$root.new"
  mkdir -p "$(dirname "$root")"
  # Minutes where there is a mirror; an address that never answers shall not take hours.
  timeout 1200 debootstrap --variant=minbase "$NEXT" "$root.new" ${mirror:+"$mirror"} || return 1
  mv "$root.new" "$root"
}

# How this machine reaches the mirror holds in there too.
set_up_root() {
  local root=$1
  cp -L /etc/resolv.conf "$root/etc/resolv.conf" || true
  apt-config dump --format '%F "%v";%n' Acquire::http Acquire::https Acquire::Check-Valid-Until Acquire::Check-Date \
    2>/dev/null | grep -v '""' >"$root/etc/apt/apt.conf.d/90host" || true
  printf 'Acquire::Languages "none";\n' >>"$root/etc/apt/apt.conf.d/90host"
}

# The tree as it is here, with what is not committed and without what is built; what was built there stays.
copy_tree() {
  local to=$1 list=build/log/tree
  mkdir -p "$to" build/log
  find "$to" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
  git ls-files -zco --exclude-standard >"$list" 2>/dev/null ||
    find . -path ./build -prune -o -path ./.git -prune -o -type f -print0 >"$list"
  # A file that was deleted is in git's list still.
  tar -c --null --ignore-failed-read -T "$list" 2>/dev/null | tar -x -C "$to"
}

# Sets why_not: why there can be no such Debian here; empty: $1 is one.
find_root() {
  why_not=
  if [ "$(id -u)" -ne 0 ]; then
    why_not="another Debian is made by root only"
  elif ! command -v debootstrap >/dev/null; then
    why_not="no debootstrap"
  elif [ ! -d "$1" ] && ! phase "$NEXT: the base system" make_root "$1"; then
    why_not="debootstrap failed: $(grep -E '^[EW]: ' "$phase_log" | tail -n 1 || true)"
  elif ! in_root "$1" true; then
    why_not="neither chroot nor mount is allowed here"
  fi
}

check_next() {
  local root=$PWD/build/roots/$NEXT why_not name
  find_root "$root"
  if [ -n "$why_not" ]; then
    for name in demo selfcheck "clang: no warnings"; do note SKIPPED "$NEXT: $name" "$why_not"; done
    return
  fi
  set_up_root "$root"
  copy_tree "$root/lci"
  check "$NEXT: packages" in_root "$root" /lci/tools/dev/next.sh prepare
  check "$NEXT: demo, no warnings" in_root "$root" /lci/dev demo
  check "$NEXT: selfcheck, no warnings" in_root "$root" /lci/tools/dev/next.sh selfcheck
  check "$NEXT: clang, no warnings" in_root "$root" /lci/tools/dev/strict.sh build/strict-clang clang++
}

# check_compilers PRESET...
check_compilers() {
  need debootstrap
  check_presets "$@"
  check_clang
  check_next
}
