"""clang-tidy over the library's sources, with the checks of .clang-tidy.

A source is looked at again only when it, a header that it includes, or the configuration has changed.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

from common import ROOT, Planted, Result, Skip, files, relative, run

NAME = "tidy"
TOOL = "clang-tidy-14"
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)


@lru_cache(maxsize=None)
def closure(root, path):
    """The project's own files that a file reaches through includes, itself among them."""
    reached, todo = set(), [path]
    while todo:
        current = todo.pop()
        if current in reached or not current.is_file():
            continue
        reached.add(current)
        todo += [root / folder / name for name in INCLUDE.findall(current.read_text()) for folder in (".", "include")]
    return sorted(reached)


def stamp_of(root, path, options):
    """Names this source in this state."""
    digest = hashlib.sha256(options)
    for part in closure(root, path):
        digest.update(part.read_bytes())
    return digest.hexdigest()[:32]


def tidy(path, stamp, root, build):
    """Looks at one source; leaves its stamp at once when there is nothing to say, so that no work is lost."""
    options = [TOOL, "-p", str(build), f"--config-file={ROOT / '.clang-tidy'}", "--quiet", "--warnings-as-errors=*",
               "--extra-arg=-Wno-unknown-warning-option", str(path)]
    done = subprocess.run(options, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        stamp.write_text(relative(path, root))
        return set()
    found = {line for line in done.stdout.splitlines() if ": error:" in line or ": warning:" in line}
    return found or {(done.stdout + done.stderr).strip()}


def check(root, build):
    """Every source of the library that the build compiles."""
    if not shutil.which(TOOL):
        raise Skip(f"no {TOOL}")
    database = build / "compile_commands.json"
    if not database.exists():
        raise Skip(f"no compile_commands.json in {build}: build the library first")
    compiled = {Path(entry["file"]) for entry in json.loads(database.read_text())}
    sources = [path for path in files(root, ("lci", "backends", "lct"), (".cpp",)) if path in compiled]
    options = (ROOT / ".clang-tidy").read_bytes()
    stamps = build / "tidy"
    stamps.mkdir(exist_ok=True)
    todo = {path: stamps / stamp_of(root, path, options) for path in sources}
    todo = {path: stamp for path, stamp in todo.items() if not stamp.exists()}
    result = Result(summary=f"{len(sources)} sources, {len(todo)} of them new or changed")
    with ThreadPoolExecutor(int(os.environ.get("LCI_JOBS", 0)) or os.cpu_count()) as pool:
        complaints = pool.map(lambda item: tidy(*item, root, build), todo.items())
        # A header's problem is found once per source that includes it, and told once.
        found = set().union(*complaints)
    result.problems = sorted(complaint.replace(f"{root}/", "") for complaint in found)
    return result


_BAD = "int* f() { return 0; }\n"
PLANTED = [
    Planted({"lci/base/a.cpp": _BAD,
             "compile_commands.json": '[{"directory": "@ROOT@", "file": "@ROOT@/lci/base/a.cpp", '
                                      '"command": "c++ -std=c++20 -c @ROOT@/lci/base/a.cpp"}]'},
            "modernize-use-nullptr"),
]

if __name__ == "__main__":
    run(NAME, check)
