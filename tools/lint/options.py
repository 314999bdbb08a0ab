"""Every option of the build is read somewhere, or its text says that it is without effect."""

import re

from common import LIBRARY, Planted, Result, files, relative, run, without_comments

NAME = "options"
DECLARED = re.compile(r'^[ \t]*(?:option\((LC[IT]_\w+)\s+"([^"]*)"[^)]*\)|set\((LC[IT]_\w+)\s[^)]*?\bCACHE\s+\w+\s+"([^"]*)"\s*\))', re.MULTILINE)
# In a header that the build writes: a macro that is defined or not, which has no effect unless something tests it.
SWITCH = re.compile(r"^#cmakedefine[ \t]+(\w+)[ \t]*$", re.MULTILINE)


def check(root, build):
    """Every option that the build files declare."""
    del build
    result, options, used, switches, macros = Result(), {}, set(), set(), set()
    folders = ("CMakeLists.txt", "cmake_modules", *LIBRARY, "tools", "examples", "bench", "tests", "docs")
    for path in files(root, folders, (".cmake", ".txt", ".in")):
        text = path.read_text()
        if path.suffix == ".in":
            switches.update(SWITCH.findall(text))
            used.update(re.findall(r"@(\w+)@", text))
            continue
        text = re.sub(r"#[^\n]*", "", text)
        for match in DECLARED.finditer(text):
            name, about = match.group(1) or match.group(3), match.group(2) or match.group(4)
            options[name] = (f"{relative(path, root)}:{text.count(chr(10), 0, match.start()) + 1}", about)
        # Serving as the default of another option does not count as a use.
        used.update(re.findall(r"\w+", DECLARED.sub("", text)))
    for path in files(root, LIBRARY):
        macros.update(re.findall(r"\w+", without_comments(path.read_text())))
    used |= switches & macros
    result.problems = [f"{where}: nothing reads {name}, and its text does not say 'without effect'" for name, (where, about)
                       in sorted(options.items()) if name not in used and "without effect" not in about.lower()]
    result.summary = f"{len(options)} options"
    return result


PLANTED = [
    Planted({"cmake_modules/a.cmake": 'option(LCI_ONE "One" OFF)\noption(LCT_TWO "Two" ${LCI_ONE})\n'}, "nothing reads LCI_ONE"),
    Planted({"cmake_modules/a.cmake": 'set(LCI_ONE 8 CACHE STRING\n    "One") # LCI_ONE\n'}, "a.cmake:1: nothing reads LCI_ONE"),
    Planted({"cmake_modules/a.cmake": 'option(LCI_ONE "One" OFF)\n', "include/a.hpp.in": "#cmakedefine LCI_ONE\n",
             "lci/base/a.cpp": "// LCI_ONE\n"}, "nothing reads LCI_ONE"),
]

if __name__ == "__main__":
    run(NAME, check)
