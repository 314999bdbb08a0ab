"""What is named exists: files and folders in documents and comments; both ends of an edge between threads."""

import re
import subprocess
from collections import defaultdict

from common import LIBRARY, Planted, Result, files, relative, run

NAME = "names"
FOLDERS = ("include", "lci", "lct", "backends", "experimental", "tools", "tests", "bench", "examples", "docs", "cmake_modules")
PATH = re.compile(rf"(?<![\w./<{{$-])(?:{'|'.join(FOLDERS)})/[\w./-]*\w(?![\w*<{{])(?!/\*)")
# Made by the build, or of the kernel's source.
MADE = {"lci/config.hpp", "lci/build_options.inc", "include/linux/sched.h"}
READ = (".md", ".hpp", ".cpp", ".h", ".cu", ".in", ".sh", ".txt", ".cmake")
# An edge is what one thread publishes and another one finds: "edge lane.open: ...".
NAMED = r"[a-z_0-9]+(?:\.[a-z_0-9]+)+"
EDGE = re.compile(rf"\bedges?\s+(?://\s*)?({NAMED}(?:\s+and\s+{NAMED})*)(,\s+(?:both\s+sides|other\s+side))?")


def listed(root):
    """Every file that git knows, or every file there is."""
    known = subprocess.run(["git", "-C", str(root), "ls-files", "-z"], capture_output=True, text=True, check=False)
    names = [name for name in known.stdout.split("\0") if name]
    return names or [relative(path, root) for path in root.rglob("*") if path.is_file()]


def unknown_paths(root, names):
    """Where a path is named that is neither a file, with or without its ending, nor a folder."""
    known = set(names) | MADE
    for name in names:
        parts = name.split("/")
        known.update("/".join(parts[:depth]) for depth in range(1, len(parts)))
        known.add(re.sub(r"(\.\w+)+$", "", name))
    for name in names:
        # What changed may be gone; checkers name what they plant.
        if not name.endswith(READ) or name == "CHANGELOG.md" or name.startswith("tools/lint/"):
            continue
        for number, line in enumerate((root / name).read_text(errors="replace").splitlines(), 1):
            for found in PATH.findall(line):
                if found not in known and "include/" + found not in known:
                    yield f"{name}:{number}: there is no {found}"


def lonely_edges(root):
    """Edges that are named once: who finds the other end?"""
    ends = defaultdict(list)
    for path in files(root, (*LIBRARY, "tests/support", "experimental/tests/support"), (".hpp", ".cpp", ".h", ".cu")):
        text = path.read_text()
        for match in EDGE.finditer(text):
            place = f"{relative(path, root)}:{text.count(chr(10), 0, match.start()) + 1}"
            for edge in re.findall(NAMED, match.group(1)):
                # Both ends in one place, or one of them in a GPU, a card or the program.
                ends[edge] += [place] * (2 if match.group(2) else 1)
    lonely = [f"{places[0]}: edge {name} has one end" for name, places in sorted(ends.items()) if len(places) == 1]
    return len(ends), lonely


def check(root, build):
    """Documents, comments and edges."""
    del build
    names = listed(root)
    count, lonely = lonely_edges(root)
    return Result(f"{len(names)} files, {count} edges", list(unknown_paths(root, names)) + lonely)


PLANTED = [
    Planted({"docs/a.md": "see `lci/base/gone.hpp`\n"}, "docs/a.md:1: there is no lci/base/gone.hpp"),
    Planted({"lci/base/a.cpp": "// docs/gone/a.md says why\n"}, "there is no docs/gone/a.md"),
    Planted({"lci/base/a.cpp": "// edge a.b: partner is nobody\n"}, "edge a.b has one end"),
]

if __name__ == "__main__":
    run(NAME, check)
