"""A copy of the scripts behind ./dev, before which stand programs that write down how they were called and do nothing
else."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
PRELUDE = '#!/bin/bash\nname=${0##*/}\necho "$name $*" >>"$FAKE/calls"\n'
FAKES = {
    "id": "echo 0",
    "nproc": "echo 2",
    # In the idle class, what is made beside the tests would get nothing for minutes where others keep all processors busy.
    "chrt": "",
    "c++": "",
    "clang++": "[ $1 != -dumpversion ] || echo 14.0.6",
    # Installed is what is in a file of that name.
    "dpkg-query": 'for one; do [ ! -e "$FAKE/installed/$one" ] || echo "$one installed"; done',
    "apt-cache": '''shift
for one; do echo "$one:"; echo "  Installed: (none)"
  if [ -e "$FAKE/no_candidate/$one" ]; then echo "  Candidate: (none)"; else echo "  Candidate: 1.0"; fi
done''',
    "apt-get": '''[ ! -e "$FAKE/offline" ] || { echo "E: no answer" >&2; exit 100; }
args=()
for one; do case $one in -* | *=* | indextargets | update) ;; *) args+=("$one") ;; esac; done
[ "${args[0]}" = install ] || exit 0
for one in "${args[@]:1}"; do [ ! -e "$FAKE/broken/$one" ] || { echo "E: $one is broken" >&2; exit 100; }; done
for one in "${args[@]:1}"; do touch "$FAKE/installed/$one" "$FAKE/dpkg/status"; done''',
    "debootstrap": '''[ -e "$FAKE/mirror" ] || { echo "E: no release file anywhere"; exit 1; }
mkdir -p "$3/etc/apt/apt.conf.d"''',
    # What is to run in there does not.
    "unshare": '[ ! -e "$FAKE/fails_there" ] || ! grep -qf "$FAKE/fails_there" <<<"$*"',
    "cmake": '''case $1 in
  -S) mkdir -p "$4" && cp "$FAKE/compile_commands.json" "$4" ;;
  --preset)
    mkdir -p "build/$2" && touch "build/$2/CMakeCache.txt"
    if [ -e "$FAKE/summary" ]; then cat "$FAKE/summary"; fi ;;
  --build)
    for object in quick slow; do
      printf '[%d/4] Building CXX object %s.o\\n' "$((++n))" "$object"
      [ ! -e "$FAKE/warns/$object" ] || echo "x.cpp:1:2: warning: so it seems"
      while [ -e "$FAKE/wait" ] && [ "$object" = quick ]; do sleep 0.02; done
    done ;;
esac''',
    "ctest": '''while [ $# -gt 0 ]; do
  if [ "$1" = --output-junit ]; then echo '<testsuite><testcase name="one" status="run"/></testsuite>' >"$2"; fi
  shift
done''',
}


class Sandbox:
    """A copy of the scripts, and what was called in it."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="dev_test_")
        self.root, self.fake = Path(self.folder.name, "tree"), Path(self.folder.name, "fake")
        self.root.mkdir()
        shutil.copytree(SOURCE / "tools/dev", self.root / "tools/dev")
        for name in ("dev", "CMakePresets.json"):
            shutil.copy(SOURCE / name, self.root / name)
        for name in ("bench/run", "bench/gpu/run", "bench/ibv/run", "bench/ofi/run", "bench/start/run"):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text("print('the table')\n")
        for name in ("bin", "installed", "no_candidate", "broken", "warns", "dpkg"):
            (self.fake / name).mkdir(parents=True)
        for name, text in FAKES.items():
            self.add_program(name, text)
        (self.fake / "compile_commands.json").write_text(json.dumps([  # a source of the library, and one of the tools
            {"directory": str(self.fake), "file": str(self.root / name), "command": f"clang++ -c {name} -o x.o"}
            for name in ("lci/base/x.cpp", "tools/x.cpp")]))
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("LCI_")}
        self.environment.update(PATH=f"{self.fake}/bin:{os.environ['PATH']}", FAKE=str(self.fake), LC_ALL="C",
                                DPKG_ADMINDIR=f"{self.fake}/dpkg")

    def add_program(self, name, text):
        path = self.fake / "bin" / name
        path.write_text(PRELUDE + text + "\n")
        path.chmod(0o755)

    def mark(self, kind, *names):
        for name in names:
            (self.fake / kind / name).touch()

    def have_everything(self):
        text = (SOURCE / "tools/dev/common.sh").read_text()
        for words in re.findall(r"^PACKAGES_[A-Z]+=\(([^)]*)\)", text, re.MULTILINE):
            self.mark("installed", *words.split())
        self.mark("installed", "debootstrap", "doxygen", "graphviz", "libfabric-bin")
        return self

    def calls(self, name=""):
        path = self.fake / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in lines if line.startswith(name)]

    def installed(self):
        return {path.name for path in (self.fake / "installed").iterdir()}

    def forget_calls(self):
        (self.fake / "calls").unlink(missing_ok=True)

    def dev(self, *words, expect=0, stdin=subprocess.DEVNULL, **environment):
        done = subprocess.run([self.root / "dev", *words], env={**self.environment, **environment}, capture_output=True,
                              text=True, check=False, stdin=stdin)
        demand(done.returncode == expect, f"./dev {' '.join(words)} ends with {done.returncode}, not {expect}:\n"
                                          f"{done.stdout}{done.stderr}")
        return done.stdout


def demand(condition, what):
    if not condition:
        sys.exit(f"not so: {what}")
