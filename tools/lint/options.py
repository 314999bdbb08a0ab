"""Every option of the build is read somewhere, or its text says that it is without effect; every attribute is on a page.

The attributes are the settings of attr.hpp that the environment can set. A page names one in backquotes, or its variable.
"""

import re

from common import LIBRARY, Planted, Result, files, relative, run, without_comments

NAME = "options"
DECLARED = re.compile(r'^[ \t]*(?:option\((LC[IT]_\w+)\s+"([^"]*)"[^)]*\)|set\((LC[IT]_\w+)\s[^)]*?\bCACHE\s+\w+\s+"([^"]*)"\s*\))', re.MULTILINE)
# In a header that the build writes: a macro that is defined or not, which has no effect unless something tests it.
SWITCH = re.compile(r"^#cmakedefine[ \t]+(\w+)[ \t]*$", re.MULTILINE)
ATTRIBUTES = "include/lci/attr.hpp"
SETTING = re.compile(r'\bf\(\s*"(\w+)",\s*\w+\);')
QUOTED = re.compile(r"`([^`\n]+)`")


def undocumented(root, result):
    """Attributes that no page names; a decision says why it is there, a page what it does. Answers how many there are."""
    named = set()
    for path in files(root, ("docs",), (".md",)):
        if path.parent.name != "decisions":
            named.update(word for quoted in QUOTED.findall(path.read_text()) for word in re.findall(r"\w+", quoted))
    path, count = root / ATTRIBUTES, 0
    if not path.is_file():
        return count
    text = without_comments(path.read_text(), keep_strings=True)
    for match in SETTING.finditer(text):
        count += 1
        name = match.group(1)
        if named.isdisjoint({name, f"LCI_ATTR_{name.upper()}"}):
            where = f"{ATTRIBUTES}:{text.count(chr(10), 0, match.start()) + 1}"
            result.problems.append(f"{where}: no page in docs names the attribute {name} in backquotes")
    if count == 0:
        result.problems.append(f"{ATTRIBUTES}: no attribute was found: this check knows them by another form")
    return count


def check(root, build):
    """Every option that the build files declare, and every attribute."""
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
    count = undocumented(root, result)
    result.summary = f"{len(options)} options, {count} attributes"
    return result


PLANTED = [
    Planted({"cmake_modules/a.cmake": 'option(LCI_ONE "One" OFF)\noption(LCT_TWO "Two" ${LCI_ONE})\n'}, "nothing reads LCI_ONE"),
    Planted({"cmake_modules/a.cmake": 'set(LCI_ONE 8 CACHE STRING\n    "One") # LCI_ONE\n'}, "a.cmake:1: nothing reads LCI_ONE"),
    Planted({"cmake_modules/a.cmake": 'option(LCI_ONE "One" OFF)\n', "include/a.hpp.in": "#cmakedefine LCI_ONE\n",
             "lci/base/a.cpp": "// LCI_ONE\n"}, "nothing reads LCI_ONE"),
    Planted({ATTRIBUTES: '    f("one", one);\n    f("two", two);\n', "docs/a.md": "`one` and two\n", "docs/decisions/b.md": "`two`\n"},
            "attr.hpp:2: no page in docs names the attribute two"),
    Planted({ATTRIBUTES: '    f("two", two);\n', "docs/a.md": "`LCI_ATTR_TWO_MORE=1`\n"}, "attr.hpp:1: no page in docs names the attribute two"),
    Planted({ATTRIBUTES: "void for_each(F&) {}\n"}, "no attribute was found"),
]

if __name__ == "__main__":
    run(NAME, check)
