"""Paths of one machine and words about how the code came about do not belong in the project."""

import re
import subprocess

from common import Planted, Result, relative, run

NAME = "words"
# Written in pieces, so that this file does not complain about itself.
RULES = [
    (re.compile(r"(?<![\w.])/(?:wo" r"rk|fa" r"rm)/"), "a path of one machine", None),
    (re.compile(r"\b(?:next|this) ses" r"sion\b|\bsub" r"agent|\bbash_" r"jobs\b|\.lib" r"rary/|\bC" r"EO\b"),
     "a word about how the code came about", None),
    (re.compile(r"(?i)\bissue #?\d+\b"), "an issue's number: say the reason itself", None),
    # A fixed name in a shared folder collides with the next user; take TMPDIR, or a memory file.
    (re.compile(r'"/tm' r'p/|"/dev/shm/'), "a fixed name in a shared folder",
     re.compile(r"^(include|lci|backends|experimental|lct|examples)/")),
    (re.compile(r"\b(?:TO" r"DO|FIX" r"ME|X" r"XX)\b"), "an unfinished thought", re.compile(r"\.(cpp|hpp|h)$")),
]
TEXT = (".cpp", ".hpp", ".h", ".in", ".md", ".txt", ".cmake", ".py", ".sh", ".json", "")


def check(root, build):
    """Every text file that git knows."""
    del build
    listed = subprocess.run(["git", "-C", str(root), "ls-files", "-z"], capture_output=True, text=True, check=False)
    paths = [root / name for name in listed.stdout.split("\0") if name] or [p for p in root.rglob("*") if p.is_file()]
    result, count = Result(), 0
    for path in paths:
        if path.suffix not in TEXT or not path.is_file():
            continue
        name = relative(path, root)
        count += 1
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            for pattern, why, where in RULES:
                if (where is None or where.search(name)) and pattern.search(line):
                    result.problems.append(f"{name}:{number}: {why}: {line.strip()[:80]}")
    result.summary = f"{count} files"
    return result


PLANTED = [
    Planted({"lci/base/a.cpp": "// see /wo" "rk/main/x\n"}, "a path of one machine"),
    Planted({"docs/a.md": "done in the next ses" "sion\n"}, "how the code came about"),
    Planted({"lci/boot/file.cpp": 'open("/tm' 'p/lci");\n'}, "a fixed name in a shared folder"),
    Planted({"lci/boot/file.cpp": "// TO" "DO: later\n"}, "an unfinished thought"),
]

if __name__ == "__main__":
    run(NAME, check)
