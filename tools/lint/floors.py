"""Includes point to the same floor or down, never up; backends do not see each other, but hip sees cuda. Experimental
parts see the backend to which they belong, and nothing sees them. The rooms of proto are floors of their own: a lower one
includes no higher one and names no type of it."""

import re

from common import Planted, Result, files, relative, run, without_comments

NAME = "floors"
LOW = {"public", "base", "data", "wqe", "mem"}
CORE = LOW | {"net", "match", "comp"}
# Lowest first; the part that combines them is above them all.
ROOMS = ["proto engine", "proto host", "proto gpu", "proto"]
SEES = {
    "public": {"public"},
    "base": {"public", "base"},
    "data": {"public", "base", "data"},
    "wqe": {"public", "base", "wqe"},
    "gpu": {"public", "wqe", "gpu"},
    "mem": LOW,
    "net": LOW | {"net"},
    "match": LOW | {"match"},
    "comp": LOW | {"comp"},
    **{room: CORE | set(ROOMS[:i + 1]) for i, room in enumerate(ROOMS)},
    "boot": CORE | {"boot"},
    "device": CORE | {"device"},
    "runtime": CORE | {*ROOMS, "boot", "device", "runtime"},
    "coll": {"public", "coll"},
    "example": {"public", "gpu", "example"},
}
BACKEND_SEES = LOW | {"net"}
# A processor that works for a card does its part as the card in software does.
EXPERIMENTAL_SEES = BACKEND_SEES | {"device"}
# HIP is CUDA's code with other driver functions.
BACKENDS_BELOW = {"backend hip": {"backend cuda"}}
# These are above everything, so they may include every floor that exists.
TOP = {"api", "proxy", "share", "transport", "lct", "tool", "providers"}
DEFINED = re.compile(r"^(?:class|struct|enum class) (\w+)\b[^;(]*\{", re.MULTILINE)
# A type that is not included can be named only by such a line.
DECLARED = re.compile(r"^(?:class|struct|enum class) (\w+)\b[^{(;\n]*;", re.MULTILINE)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)


def floor_of(name):
    """The floor of a file, by its path from the root."""
    parts = name.split("/")
    if name == "include/lci/device.cuh":
        return "gpu"
    if parts[0] == "include":
        return "public"
    if parts[0] == "lci" and len(parts) > 2:
        return " ".join(parts[1:3]) if parts[1] == "proto" and len(parts) > 3 else parts[1]
    if parts[0] == "backends":
        return "backend " + parts[1] if len(parts) > 2 else "providers"
    if parts[0] == "experimental" and parts[1] != "tests":
        return "experimental " + parts[1]
    return {"lct": "lct", "tools": "tool", "examples": "example"}.get(parts[0])


def target_of(included, source, root):
    """The path, from the root, of what an include in quotes names, or None if it is not part of this tree."""
    for candidate in (included, f"include/{included}", f"{source.rsplit('/', 1)[0]}/{included}"):
        if (root / candidate).is_file() or (root / (candidate + ".in")).is_file():
            return candidate
    return None


def may_see(floor, target):
    if target.startswith("experimental "):
        return target == floor
    if floor in TOP:
        return True
    if floor.startswith("experimental "):
        return target in EXPERIMENTAL_SEES or target == floor.replace("experimental", "backend")
    if floor.startswith("backend "):
        return target in BACKEND_SEES or target == floor or target in BACKENDS_BELOW.get(floor, set())
    return target in SEES.get(floor, set())


def check_rooms(texts, result):
    """Checks the types that the rooms of proto name. texts: {path: (room, text)}."""
    defined = {}
    for room, text in texts.values():
        for name in DEFINED.findall(text):
            defined.setdefault(name, set()).add(ROOMS.index(room))
    for path, (room, text) in texts.items():
        for name in sorted(set(DECLARED.findall(without_comments(text)))):
            if min(defined.get(name, {0})) > ROOMS.index(room):
                result.problems.append(f"{path}: room '{room}' names {name} of '{ROOMS[min(defined[name])]}'")


def check(root, build):
    """Every include of the library, the tools and the examples."""
    del build
    result = Result()
    count = 0
    rooms = {}
    for path in files(root, ("include", "lci", "backends", "experimental/cuda", "experimental/ibv", "lct", "tools", "examples")):
        name = relative(path, root)
        floor = floor_of(name)
        # Strings are kept: the included name is one.
        text = without_comments(path.read_text(), keep_strings=True)
        if floor in ROOMS:
            rooms[name] = (floor, path.read_text())
        for match in INCLUDE.finditer(text):
            count += 1
            bracket, included = match.groups()
            line = text.count("\n", 0, match.start()) + 1
            if floor == "public" and bracket == "<" and path.suffix == ".hpp" and re.search(r"[/.]", included):
                result.problems.append(f"{name}:{line}: a public header includes <{included}>, only the "
                                       "standard library is allowed")
            target = target_of(included, name, root) if bracket == '"' else None
            if target is None:
                continue
            above = floor_of(target)
            if above is None or not may_see(floor, above):
                result.problems.append(f"{name}:{line}: floor '{floor}' includes \"{included}\" of "
                                       f"'{above or 'no floor'}'")
    check_rooms(rooms, result)
    result.summary = f"{count} includes"
    return result


PLANTED = [
    Planted({"lci/base/log.hpp": '#include "lci/proto/op.hpp"\n', "lci/proto/op.hpp": ""},
            "floor 'base' includes"),
    Planted({"lci/match/a.hpp": '#include "lci/comp/b.hpp"\n', "lci/comp/b.hpp": ""}, "floor 'match'"),
    Planted({"backends/shm/a.hpp": '#include "backends/ibv/b.hpp"\n', "backends/ibv/b.hpp": ""},
            "floor 'backend shm'"),
    Planted({"backends/cuda/a.hpp": '#include "backends/hip/b.hpp"\n', "backends/hip/b.hpp": ""},
            "floor 'backend cuda'"),
    Planted({"backends/ibv/a.cpp": '#include "experimental/ibv/b/c.hpp"\n', "experimental/ibv/b/c.hpp": ""},
            "floor 'backend ibv'"),
    Planted({"experimental/ibv/a/a.cpp": '#include "backends/cuda/b.hpp"\n', "backends/cuda/b.hpp": ""},
            "floor 'experimental ibv'"),
    Planted({"experimental/ibv/a/a.cpp": '#include "lci/runtime/b.hpp"\n', "lci/runtime/b.hpp": ""},
            "floor 'experimental ibv'"),
    Planted({"tools/a.cpp": '#include "experimental/cuda/b/c.hpp"\n', "experimental/cuda/b/c.hpp": ""},
            "floor 'tool'"),
    Planted({"lci/coll/a.cpp": '#include "lci/base/b.hpp"\n', "lci/base/b.hpp": ""}, "floor 'coll'"),
    Planted({"lci/wqe/a.hpp": '#include "lci/data/b.hpp"\n', "lci/data/b.hpp": ""}, "floor 'wqe' includes"),
    Planted({"lci/gpu/a.hpp": '#include "lci/data/b.hpp"\n', "lci/data/b.hpp": ""}, "floor 'gpu' includes"),
    Planted({"lci/data/a.hpp": '#include "lci/wqe/b.hpp"\n', "lci/wqe/b.hpp": ""}, "floor 'data' includes"),
    Planted({"lci/device/a.hpp": '#include "lci/runtime/b.hpp"\n', "lci/runtime/b.hpp": ""}, "floor 'device' includes"),
    Planted({"include/lci/a.hpp": "#include <boost/intrusive/list.hpp>\n"}, "only the standard library"),
    Planted({"lci/mem/a.hpp": '#include "tests/support/x.hpp"\n', "tests/support/x.hpp": ""}, "'no floor'"),
    Planted({"lci/proto/host/a.hpp": '#include "lci/proto/gpu/b.hpp"\n', "lci/proto/gpu/b.hpp": ""},
            "floor 'proto host' includes"),
    Planted({"lci/proto/engine/a.hpp": "class higher;\n", "lci/proto/host/b.hpp": "class higher {\n};\n"},
            "room 'proto engine' names higher of 'proto host'"),
]

if __name__ == "__main__":
    run(NAME, check)
