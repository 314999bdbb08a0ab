"""Unit tests mirror the sources: X_test.cpp or X_aspect_test.cpp is for X of that floor, and each source has one.

Exceptions are in tests/unit/README.md with their reasons: sources that other tests cover, tests that belong to no single
source, and floors where this is still to be done.
"""

import re

from common import Planted, Result, files, relative, run

NAME = "mirror"
DOCUMENT = "tests/unit/README.md"
LONG = 60  # a source with at least this many lines needs a test
HEADS = {"| folder | sources | covered by |": "sources", "| test | why |": "tests", "| folder | why not yet |": "to come"}
QUOTED = re.compile(r"`([^`]+)`")


def folder_of(name):
    """The folder whose tests are in one place: a room of proto or net, else a floor; device code is one folder deeper."""
    parts = name.split("/")
    return "/".join(parts[:3 if parts[1] in ("proto", "net") and len(parts) > 3 else 2])


def listed(text):
    """{what: [(cells, line)]} of the document."""
    rows, of = {name: [] for name in HEADS.values()}, None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("|"):
            of = None
        elif line in HEADS:
            of = HEADS[line]
        elif of is not None and not line.startswith("|--"):
            rows[of].append((line.strip().strip("|").split(" | "), number))
    return rows


def source_of(test, sources):
    """The source after which a test is named, the longest name that fits; None if there is none."""
    return max((s for s in sources if test == s or test.startswith(s + "_")), key=len, default=None)


def check(root, build):
    """The sources of the floors and backends, and everything below tests/unit."""
    del build
    result = Result()
    sources, tests, lines = {}, {}, {}
    for path in files(root, ("lci", "backends"), (".cpp", ".hpp", ".cu")):
        name = relative(path, root)
        if name.count("/") < 2:
            continue
        folder = folder_of(name)
        sources.setdefault(folder, set()).add(path.stem)
        lines[folder, path.stem] = max(lines.get((folder, path.stem), 0), path.read_text().count("\n"))
    folders = {folder.split("/", 1)[1]: folder for folder in sources}
    for path in files(root, ("tests/unit",), (".cpp",)):
        name = relative(path, root)
        of = name.split("/", 2)[2].rsplit("/", 1)[0]
        if path.stem.endswith("_test") and of in folders:
            tests.setdefault(folders[of], {})[path.stem[:-len("_test")]] = name
    path = root / DOCUMENT
    rows = listed(path.read_text()) if path.is_file() else listed("")
    later = {QUOTED.findall(cells[0])[0] for cells, _ in rows["to come"]}
    loose = {QUOTED.findall(cells[0])[0]: number for cells, number in rows["tests"]}
    elsewhere = {}
    for cells, number in rows["sources"]:
        folder = QUOTED.findall(cells[0])[0]
        elsewhere.update({(folder, source): number for source in QUOTED.findall(cells[1])})
        for place in QUOTED.findall(cells[2]):
            if not (root / place).exists():
                result.problems.append(f"{DOCUMENT}:{number}: there is no {place}")
    for folder in sorted(set(sources) - later):
        mine = tests.get(folder, {})
        tested = {source_of(test, sources[folder]) for test in mine}
        for test, name in sorted(mine.items()):
            if source_of(test, sources[folder]) is None and name not in loose:
                result.problems.append(f"{name}: there is no source {test} in {folder}")
        for source in sorted(sources[folder]):
            has_test = source in tested
            number = elsewhere.pop((folder, source), None)
            if has_test and number is not None:
                result.problems.append(f"{DOCUMENT}:{number}: {source} of {folder} has a test of its own")
            elif not has_test and number is None and lines[folder, source] > LONG:
                result.problems.append(f"{folder}/{source} has {lines[folder, source]} lines and neither a test of its name "
                                       f"nor a place in {DOCUMENT}")
    for (folder, source), number in elsewhere.items():
        result.problems.append(f"{DOCUMENT}:{number}: there is no source {source} in {folder}")
    for name, number in loose.items():
        if not (root / name).is_file():
            result.problems.append(f"{DOCUMENT}:{number}: there is no {name}")
    count = sum(len(mine) for mine in tests.values())
    result.summary = f"{count} tests of {sum(map(len, sources.values()))} sources; to come: {', '.join(sorted(later)) or 'none'}"
    return result


COVERED = "| folder | sources | covered by |\n|---|---|---|\n| `lci/base` | `a` | `tests/{}` |\n"
PLANTED = [
    Planted({"lci/base/a.cpp": "", "tests/unit/base/b_test.cpp": ""}, "there is no source b in lci/base"),
    Planted({"lci/base/a.cpp": "\n" * (LONG + 1)}, "lci/base/a has 61 lines and neither a test"),
    Planted({"lci/base/a.cpp": "\n" * (LONG + 1), DOCUMENT: COVERED.format("gone")}, "there is no tests/gone"),
    Planted({"lci/base/a.cpp": "\n" * (LONG + 1), "lci/base/a_b.cpp": "", "tests/unit/base/a_b_test.cpp": ""},
            "lci/base/a has 61 lines and neither a test"),
    Planted({"lci/base/a.cpp": "", "tests/unit/base/a_b_test.cpp": "", DOCUMENT: COVERED.format("unit")},
            "a of lci/base has a test of its own"),
    Planted({"lci/base/b.cpp": "", DOCUMENT: COVERED.format("unit")}, "there is no source a in lci/base"),
    Planted({DOCUMENT: "| test | why |\n|---|---|\n| `tests/unit/base/a_test.cpp` | sizes |\n"}, "there is no tests/unit/base/a_test"),
]

if __name__ == "__main__":
    run(NAME, check)
