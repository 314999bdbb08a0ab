"""What is named exists: files and folders in documents and comments, lci's symbols in documents."""

import re
import subprocess

from common import Planted, Result, relative, run

NAME = "names"
FOLDERS = ("include", "lci", "lct", "backends", "experimental", "tools", "tests", "bench", "examples", "docs", "cmake_modules")
PATH = re.compile(rf"(?<![\w./<{{$-])(?:{'|'.join(FOLDERS)})/[\w./-]*\w(?![\w*<{{])(?!/\*)")
# Made by the build, or part of the kernel's source.
MADE = {"lci/config.hpp", "lci/build_options.inc", "include/linux/sched.h"}
READ = (".md", ".hpp", ".cpp", ".h", ".cu", ".in", ".sh", ".txt", ".cmake")
# A quotation in a document that looks like a name of lci: with ::, with (), or in lower case with an underscore.
QUOTED = re.compile(r"`([^`\n]+(?:\n[^`\n]+)?)`")
TOKEN = re.compile(r"(?<![\w./$<{-])[A-Za-z]\w*(?:::~?\w+)*(?:\(\))?(?![\w*<{$])")
WORD = re.compile(r"[A-Za-z_]\w*")
# `no_memory_${way}` and similar: names that a script composes.
MADE_UP = re.compile(r"\b([a-z]\w{3,})\$[{<]")
FOREIGN = ("std", "boost")
NOT_OURS = {
    "process_madvise": "the kernel's",
    "mlx5_1": "a card",
    "rxe_req": "the kernel's driver",
    "req_retry": "the kernel's driver",
    "ibv_rc_pingpong": "a program of rdma-core",
    "ib_send_bw": "a program of perftest",
    "ib_read_bw": "a program of perftest",
    "free_x": "any function whose name begins with free_",
    "snake_case": "how to write names",
    "is_ibv": "what is not to be written",
    "liblci_ibv": "what was not done",
}


def listed(root):
    """Every file that git lists, or every file there is."""
    known = subprocess.run(["git", "-C", str(root), "ls-files", "-z"], capture_output=True, text=True, check=False)
    names = [name for name in known.stdout.split("\0") if name]
    return names or [relative(path, root) for path in root.rglob("*") if path.is_file()]


def unknown_paths(root, names):
    """Where a path is named that is neither a file, with or without its suffix, nor a folder."""
    known = set(names) | MADE
    for name in names:
        parts = name.split("/")
        known.update("/".join(parts[:depth]) for depth in range(1, len(parts)))
        known.add(re.sub(r"(\.\w+)+$", "", name))
    for name in names:
        # A changelog may name what no longer exists; checkers name what they plant.
        if not name.endswith(READ) or name == "CHANGELOG.md" or name.startswith("tools/lint/"):
            continue
        for number, line in enumerate((root / name).read_text(errors="replace").splitlines(), 1):
            for found in PATH.findall(line):
                if found not in known and "include/" + found not in known:
                    yield f"{name}:{number}: there is no {found}"


def is_a_symbol(token):
    if token.startswith("LCI_ATTR_") or "::" in token or token.endswith("()"):
        return True
    return "_" in token and token.islower()


def unknown_symbols(root, names):
    """Where a document quotes a symbol whose parts do not all occur in one file of the tree that is no document."""
    words_of, prefixes = [], []
    for name in names:
        if not name.endswith(".md") and (root / name).is_file():
            text = (root / name).read_text(errors="replace")
            words_of.append(set(WORD.findall(text)))
            prefixes += MADE_UP.findall(text)
    known = set().union(*words_of, (re.split(r"[.]", name.split("/")[-1])[0] for name in names))
    # A group of tests is named by the part before the two underscores.
    known |= {word.split("__")[0] for word in known}
    for name in names:
        # A changelog may name what no longer exists.
        if not name.endswith(".md") or name == "CHANGELOG.md":
            continue
        # Code blocks may contain examples of how something could be written.
        text = re.sub(r"(?ms)^```.*?^```", lambda m: "\n" * m.group(0).count("\n"), (root / name).read_text())
        for quoted in QUOTED.finditer(text):
            number = text.count("\n", 0, quoted.start()) + 1
            for token in TOKEN.findall(quoted.group(1)):
                parts = [part.lstrip("~") for part in token.rstrip("()").split("::")]
                if not is_a_symbol(token) or parts[0] in FOREIGN or parts[-1] in NOT_OURS:
                    continue
                if parts[0].startswith("LCI_ATTR_"):
                    parts = [parts[0] if parts[0] in known else parts[0][len("LCI_ATTR_"):].lower()]
                is_known = all(part in known or part.startswith(tuple(prefixes)) for part in parts)
                if not is_known or len(parts) > 1 and not any(words.issuperset(parts[-2:]) for words in words_of):
                    yield f"{name}:{number}: there is no {token}"


def check(root, build):
    """Documents and comments."""
    del build
    names = listed(root)
    return Result(f"{len(names)} files", list(unknown_paths(root, names)) + list(unknown_symbols(root, names)))


PLANTED = [
    Planted({"docs/a.md": "see `lci/base/gone.hpp`\n"}, "docs/a.md:1: there is no lci/base/gone.hpp"),
    Planted({"lci/base/a.cpp": "// docs/gone/a.md says why\n"}, "there is no docs/gone/a.md"),
    Planted({"docs/a.md": "ask `lci::gone()` for\n", "lci/base/a.cpp": "namespace lci {}\n"}, "there is no lci::gone()"),
    Planted({"docs/a.md": "under `some_lock_`\n"}, "there is no some_lock_"),
    Planted({"docs/a.md": "`gone()`\n"}, "there is no gone()"),
    Planted({"docs/a.md": "`a_b::c`\n", "lci/base/a.cpp": "class a_b;\n", "lci/base/b.cpp": "int c;\n"}, "there is no a_b::c"),
    Planted({"docs/a.md": "`LCI_ATTR_GONE=1`\n"}, "there is no LCI_ATTR_GONE"),
]

if __name__ == "__main__":
    run(NAME, check)
