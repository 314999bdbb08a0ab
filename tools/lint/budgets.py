"""Lengths of files and functions, comments, macros and globals: fails on the hard maxima, reports the rest."""

import re
import shutil
import statistics
import subprocess

from common import LIBRARY, Planted, Result, files, relative, run, without_comments
from functions import functions

NAME = "budgets"
MAX_FILE, MAX_FUNCTION, LONG_FUNCTION = 400, 80, 60
MAX_MACROS, MAX_GLOBALS, WANTED_GLOBALS = 5, 10, 1
MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)\(", re.MULTILINE)


def comment_lines(text):
    """Lines that hold a comment, wholly or beside code."""
    code = without_comments(text, keep_strings=True)
    return sum(a.rstrip() != b.rstrip() for a, b in zip(text.splitlines(), code.splitlines()))


def mutable_globals(root, build):
    """Names of variables that a compiled library object holds outside constants and thread-local storage."""
    objects = [path for path in build.glob("CMakeFiles/lci_*.dir/**/*.o") if path.is_file()]
    if not objects or not shutil.which("objdump"):
        return None
    listed = subprocess.run(["objdump", "-t", "-C", *map(str, objects)], capture_output=True, text=True, check=False)
    names = set()
    for line in listed.stdout.splitlines():
        # "address flags section<tab>size [.hidden ]name"
        match = re.match(r"\S+ .{7} (\.(?:data|bss)\S*)\t\S+ +(?:\.hidden )?(.+)$", line)
        if not match or ".rel.ro" in match.group(1) or match.group(2).startswith((".", "guard variable", "DW.ref.")):
            continue
        # std objects that headers define do not count.
        if not re.match(r"(typeinfo|vtable|std::|__)", match.group(2)):
            names.add(match.group(2))
    # A static that is set once when its function first runs, and declared const, is a constant.
    text = "\n".join(without_comments(path.read_text()) for path in files(root, LIBRARY))
    return sorted(name for name in names
                  if not name.startswith("LCT_")  # the names by which programs use the interface
                  and not re.search(r"\bconst\b[^;={(]*[\s*&]" + re.escape(name.split("::")[-1]) + r"\s*[={(;]", text))


def check(root, build):
    """The budgets of the architecture page."""
    result = Result()
    lengths, spans, comments, lines, macros = [], [], 0, 0, []
    for path in files(root, (*LIBRARY, "tools", "examples", "tests", "bench"), (".cpp", ".hpp", ".h", ".py", ".sh")):
        name, text = relative(path, root), path.read_text()
        length = text.count("\n")
        if length > MAX_FILE:
            result.problems.append(f"{name}: {length} lines, at most {MAX_FILE}")
        if path.suffix in (".py", ".sh"):
            continue
        found = functions(text)
        for function, first, span in found:
            if span > MAX_FUNCTION:
                result.problems.append(f"{name}:{first}: {function} has {span} lines, at most {MAX_FUNCTION}")
        if name.split("/")[0] in LIBRARY:
            lengths.append(length)
            spans += [span for _, _, span in found]
            comments += comment_lines(text)
            lines += sum(bool(line.strip()) for line in text.splitlines())
            if not name.startswith("include/lct/"):  # the names by which programs use the interface
                macros += MACRO.findall(without_comments(text))
    sources = sum(lengths)
    tests = sum(path.read_text().count("\n") for path in files(root, ("tests",)))
    if len(set(macros)) > MAX_MACROS:
        result.problems.append(f"{len(set(macros))} function-like macros, at most {MAX_MACROS}: {', '.join(sorted(set(macros)))}")
    held = mutable_globals(root, build)
    if held is not None and len(held) > MAX_GLOBALS:
        result.problems.append(f"{len(held)} mutable globals, at most {MAX_GLOBALS}: {', '.join(held)}")
    if lengths and spans:
        result.notes += [
            f"files {len(lengths)}, median {statistics.median(lengths):.0f} lines (aim 130), longest {max(lengths)}",
            f"functions {len(spans)}, median {statistics.median(spans):.0f} lines, over {LONG_FUNCTION}: "
            f"{100 * sum(s > LONG_FUNCTION for s in spans) / len(spans):.1f} % (aim 1), longest {max(spans)}",
            f"comments on {100 * comments / max(lines, 1):.0f} % of lines (aim 20-30)",
            f"test lines per source line {tests / max(sources, 1):.2f} (aim 1)",
            f"function-like macros {len(set(macros))}, mutable globals "
            f"{'not counted, no objects' if held is None else len(held)} (aim {WANTED_GLOBALS})"
            f"{': ' + ', '.join(held) if held and len(held) > WANTED_GLOBALS else ''}",
        ]
    result.summary = f"{sources} lines of library"
    return result


PLANTED = [
    Planted({"lci/base/a.cpp": "int x;\n" * 401}, "401 lines, at most 400"),
    Planted({"lci/base/a.cpp": "void f() {\n" + "  g();\n" * 80 + "}\n"}, "f has 82 lines"),
    Planted({"lci/base/a.cpp": "".join(f"#define M{i}(x) x\n" for i in range(6))}, "6 function-like macros"),
    Planted({"tests/unit/a.cpp": "TEST(a, b) {\n" + "  g();\n" * 90 + "}\n"}, "TEST has 92 lines"),
    Planted({"lci/base/a.cpp": "int x;\n", "CMakeFiles/lci_base.dir/lci/base/a.cpp.o":
                 "int one; namespace { int two = 1; } int& g() { return two; }\n" + "".join(f"int g{i};\n" for i in range(9))},
            "11 mutable globals, at most 10: (anonymous namespace)::two, g0,"),
]

if __name__ == "__main__":
    run(NAME, check)
