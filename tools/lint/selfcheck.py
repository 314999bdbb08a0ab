"""Every checker finds the violations planted for it, and finds nothing in a tree that is in order."""

import importlib
import subprocess
import tempfile
from pathlib import Path

from common import Result, Skip, run

NAME = "selfcheck"
CHECKERS = ["floors", "circles", "symbols", "budgets", "words", "names", "atomics", "locks", "mirror", "options",
            "includes", "headers", "format", "tidy", "doxygen"]
IN_ORDER = {
    "include/lci/good.hpp": "/// @file good.hpp\n/// A header in order.\n#ifndef GOOD\n#define GOOD\n#include <cstddef>\n\n"
                            "namespace lci {\n/// Nothing.\n/// @return 0\ninline std::size_t nothing() { return 0; }\n}  // namespace lci\n"
                            "#endif\n",
    "lci/base/good.cpp": '#include "lci/good.hpp"\n\nstatic_assert(sizeof(int) == 4);\n',
}


def plant(folder, tree):
    for name, text in tree.items():
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".o":
            subprocess.run(["c++", "-x", "c++", "-c", "-o", path, "-"], input=text, text=True, check=True)
        else:
            path.write_text(text.replace("@ROOT@", str(folder)))


def outcome(checker, tree):
    """What the checker reports about a tree of its own."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        plant(root, tree)
        return checker.check(root, root)


def check(root, build):
    """Plants the violations and runs the checkers."""
    del root, build
    result, count, absent = Result(), 0, []
    for number, name in enumerate(CHECKERS, 1):
        print(f"[{number}/{len(CHECKERS)}] {name}", flush=True)
        checker = importlib.import_module(name)
        try:
            database = {"compile_commands.json": "[]"} if name in ("tidy", "symbols") else {}
            for problem in outcome(checker, {**IN_ORDER, **database}).problems:
                result.problems.append(f"{name}: complains about a tree in order: {problem}")
            for planted in checker.PLANTED:
                count += 1
                problems = outcome(checker, planted.files).problems
                if not any(planted.expect in problem for problem in problems):
                    result.problems.append(f"{name}: '{planted.expect}' was planted and not found, but: {problems}")
        except Skip as why:
            absent.append(f"{name} ({why})")
    result.notes = [f"not proven here: {', '.join(absent)}"] if absent else []
    result.summary = f"{count} planted violations found" if not result.problems else f"{count} violations planted"
    return result


if __name__ == "__main__":
    run(NAME, check)
