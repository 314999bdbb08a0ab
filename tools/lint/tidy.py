"""clang-tidy over the library's sources, with the checks of .clang-tidy, which include clang's own warnings.

The sources of a folder are checked together, as one file that includes them: most of the time goes into the standard
headers, which are then read only once. If two sources define the same name, that folder is checked file by file. A folder
is checked again only when something in it, a header that it reaches, or the configuration has changed.
"""

import hashlib
import re
import shlex
import shutil
import subprocess
from functools import lru_cache
from itertools import groupby
from pathlib import Path

from common import EXPERIMENTAL, ROOT, Planted, Result, Skip, commands_of, files, in_parallel, relative, run

NAME = "tidy"
TOOL = "clang-tidy-14"
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)
NOT_TOGETHER = re.compile(r"redefinition of|is ambiguous|conflicting types")
# As in cmake_modules/LciFloors.cmake, except for shadowing: sources that are checked together shadow each other's names.
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic"]


@lru_cache(maxsize=None)
def closure(root, path):
    """The project's own files that a file reaches through includes, the file itself included."""
    reached, todo = set(), [path]
    while todo:
        current = todo.pop()
        if current in reached or not current.is_file():
            continue
        reached.add(current)
        todo += [root / folder / name for name in INCLUDE.findall(current.read_text()) for folder in (".", "include")]
    return reached


def stamp_of(root, group, options):
    """A name for these sources in their present state."""
    digest = hashlib.sha256(options)
    for part in sorted(set().union(*(closure(root, path) for path in group))):
        digest.update(part.read_bytes())
    return digest.hexdigest()[:32]


def flags_of(command):
    """The compiler options that affect the meaning of the source."""
    words = shlex.split(command)
    return [word for word in words if re.match(r"-(I|D|isystem|std=|f(?:visibility|tls))", word)]


def tidy(path, flags):
    # A file that includes sources is wanted here and nowhere else.
    options = [TOOL, f"--config-file={ROOT / '.clang-tidy'}", "--checks=-bugprone-suspicious-include", "--quiet",
               "--warnings-as-errors=*", str(path), "--", *WARNINGS, *flags]
    done = subprocess.run(options, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return set()
    found = {line for line in done.stdout.splitlines() if ": error:" in line or ": warning:" in line}
    return found or {(done.stdout + done.stderr).strip()}


def tidy_group(group, stamp, flags):
    """The problems of these sources. Writes the stamp at once if there are none, so that no work is lost."""
    together = stamp.with_suffix(".cpp")
    together.write_text("".join(f'#include "{path}"\n' for path in group))
    found = tidy(together, flags)
    if any(NOT_TOGETHER.search(line) for line in found):
        found = set().union(*(tidy(path, flags) for path in group))
    together.unlink()
    if not found:
        stamp.touch()
    return found


def check(root, build):
    """Every source of the library that the build compiles."""
    if not shutil.which(TOOL):
        raise Skip(f"no {TOOL}")
    database = build / "compile_commands.json"
    if not database.exists():
        raise Skip(f"no compile_commands.json in {build}: build the library first")
    commands = commands_of(database)
    sources = [path for path in files(root, ("lci", "backends", *EXPERIMENTAL, "lct"), (".cpp",)) if path in commands]
    options = (ROOT / ".clang-tidy").read_bytes() + " ".join(WARNINGS).encode()
    stamps = build / "tidy"
    stamps.mkdir(exist_ok=True)
    groups = [list(group) for _, group in groupby(sources, key=lambda path: path.parent)]
    todo = [(group, stamps / stamp_of(root, group, options), flags_of(commands[group[0]])) for group in groups]
    todo = sorted((item for item in todo if not item[1].exists()), key=lambda item: -len(item[0]))
    result = Result(summary=f"{len(sources)} sources, {sum(len(item[0]) for item in todo)} of them in changed folders")
    # A header's problem is found once per group that includes it, and reported once.
    found = set().union(*in_parallel(lambda item: tidy_group(*item), todo, lambda item: relative(item[0][0].parent, root)))
    result.problems = sorted(complaint.replace(f"{root}/", "") for complaint in found)
    return result


_BAD = "int* f() { return 0; }\n"
PLANTED = [
    Planted({"lci/base/a.cpp": _BAD,
             "compile_commands.json": '[{"directory": "@ROOT@", "file": "@ROOT@/lci/base/a.cpp", '
                                      '"command": "c++ -std=c++20 -c @ROOT@/lci/base/a.cpp"}]'},
            "modernize-use-nullptr"),
    Planted({"lci/base/a.cpp": "int f(int a) {\n  int unused = 3;\n  return 1;\n}\n",
             "compile_commands.json": '[{"directory": "@ROOT@", "file": "@ROOT@/lci/base/a.cpp", '
                                      '"command": "c++ -std=c++20 -c @ROOT@/lci/base/a.cpp"}]'},
            "clang-diagnostic-unused-variable"),
    Planted({"lci/base/a.cpp": _BAD, "Unity/unity_0_cxx.cxx": '#include "@ROOT@/lci/base/a.cpp"\n',
             "compile_commands.json": '[{"directory": "@ROOT@", "file": "@ROOT@/Unity/unity_0_cxx.cxx", '
                                      '"command": "c++ -std=c++20 -c @ROOT@/Unity/unity_0_cxx.cxx"}]'},
            "modernize-use-nullptr"),
]

if __name__ == "__main__":
    run(NAME, check)
