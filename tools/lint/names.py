"""What is named exists: files and folders in documents and comments."""

import re
import subprocess

from common import Planted, Result, relative, run

NAME = "names"
FOLDERS = ("include", "lci", "lct", "backends", "tools", "tests", "bench", "examples", "docs", "cmake_modules")
PATH = re.compile(rf"(?<![\w./<{{$-])(?:{'|'.join(FOLDERS)})/[\w./-]*\w(?![\w*<{{])(?!/\*)")
# Made by the build, or of the kernel's source.
MADE = {"lci/config.hpp", "lci/build_options.inc", "include/linux/sched.h"}
READ = (".md", ".hpp", ".cpp", ".h", ".cu", ".in", ".sh", ".txt", ".cmake")


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


def check(root, build):
    """Documents and comments."""
    del build
    names = listed(root)
    return Result(f"{len(names)} files", list(unknown_paths(root, names)))


PLANTED = [
    Planted({"docs/a.md": "see `lci/base/gone.hpp`\n"}, "docs/a.md:1: there is no lci/base/gone.hpp"),
    Planted({"lci/base/a.cpp": "// docs/gone/a.md says why\n"}, "there is no docs/gone/a.md"),
]

if __name__ == "__main__":
    run(NAME, check)
