"""Each atomic operation spells out its order, and each that is not relaxed names its edge; an edge has both its ends.

A comment `edge NAME` covers an operation if it is above the function, or in it: at most NEAR lines above the statement, in
it, or on the line below. docs/threads.md lists the functions whose operations are no edge, with the reason.
"""

import re
from collections import defaultdict

from common import LIBRARY, Planted, Result, files, relative, run, without_comments
from functions import functions

NAME = "atomics"
NEAR = 5
# An edge connects what one thread publishes with the thread that finds it: "edge lane.open: ...".
NAMED = r"[a-z_0-9]+(?:\.[a-z_0-9]+)+"
EDGE = re.compile(rf"\bedges?\s+(?://\s*)?({NAMED}(?:\s*(?:,|and)\s+(?://\s*)?{NAMED})*)"
                  r"((?:,|\s+//)\s+(?://\s*)?(?:both\s+sides|other\s+side))?")
CALL = re.compile(r"(?:\.|->)(load|store|exchange|fetch_\w+|compare_exchange_\w+|test_and_set)(\()"
                  r"|\b(atomic_thread_fence)(\()")
# The orders that lci/wqe has on processors: a GPU's barrier stands for them.
ORDER = re.compile(r"\bmemory_order(?:_|::)(\w+)|\b(order_before_barrier|order_behind_barrier)\(")
AT_BARRIER = {"order_before_barrier": "acquire", "order_behind_barrier": "release"}
# Without an order only these are certainly atomics: containers and pools also have functions load() and exchange().
SURE = re.compile(r"fetch_|compare_exchange_|test_and_set|atomic_thread_fence")
READS, WRITES = {"acquire", "acq_rel", "seq_cst", "consume"}, {"release", "acq_rel", "seq_cst"}
ROW = re.compile(r"^\| `([\w/.-]+)`: `([\w:~=]+)\(\)` \| (.+) \|$", re.MULTILINE)
LIST = "docs/threads.md"


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def end_of_call(code, opening):
    depth = 0
    for at in range(opening, len(code)):
        depth += {"(": 1, ")": -1}.get(code[at], 0)
        if depth == 0:
            return at
    return len(code)


def operations(text):
    """(line, last line, its name, its orders) of each atomic operation."""
    code = without_comments(text)
    for match in CALL.finditer(code):
        what = match.group(1) or match.group(3)
        opening = match.start(2) if match.group(1) else match.start(4)
        last = end_of_call(code, opening)
        arguments = code[opening + 1:last]
        orders = {order or AT_BARRIER[word] for order, word in ORDER.findall(arguments)}
        bare = what == "load" and not arguments.strip() or what == "store" and "," not in arguments
        if orders or bare or SURE.match(what):
            yield line_of(code, match.start()), line_of(code, last), what, orders


def comment_above(lines, first):
    """The number of the first line of the comment above line `first`, or `first`."""
    while first > 1 and lines[first - 2].lstrip().startswith("//"):
        first -= 1
    return first


class covering:
    """Which comments cover what, in one file."""

    def __init__(self, text):
        self.lines = text.split("\n")
        self.edges = [(line_of(text, m.start()), line_of(text, m.end()), re.findall(NAMED, m.group(1)), bool(m.group(2)))
                      for m in EDGE.finditer(text)]
        self.functions = functions(text)

    def function_at(self, line):
        """(name, first line, last line, first line of the comment above) of the function that a line is in."""
        for name, first, count in self.functions:
            if first <= line < first + count:
                return name, first, first + count - 1, comment_above(self.lines, first)
        return None

    def edges_of(self, first, last):
        """The edges that cover an operation; the closest group of comments decides."""
        around = self.function_at(first)
        low, high = (around[3], around[2]) if around else (comment_above(self.lines, first), last)
        near = [edge for edge in self.edges
                if low <= edge[0] <= high and (edge[0] >= first - NEAR or around and edge[0] < around[1]) and edge[0] <= last + 1]
        return {name for edge in near for name in edge[2]}


def excused(root):
    """{(file, function)} of the list in the document."""
    path = root / LIST
    return {(m.group(1), m.group(2)): m.group(3) for m in ROW.finditer(path.read_text())} if path.is_file() else {}


def check(root, build):
    """The library, and tests/support, where some partners are."""
    del build
    result = Result()
    allowed, used = excused(root), set()
    ends, places, whole = defaultdict(set), {}, set()
    count = 0
    for path in files(root, (*LIBRARY, "tests/support"), (".hpp", ".cpp", ".h", ".cu")):
        name, text = relative(path, root), path.read_text()
        covers, ours = covering(text), not name.startswith("tests/")
        for line, _, edges, both in covers.edges:
            for edge in edges:
                places.setdefault(edge, []).append(f"{name}:{line}")
                whole.update([edge] if both else [])
        for line, last, what, orders in operations(text):
            if not orders and ours:
                result.problems.append(f"{name}:{line}: {what}() without an order: spell it out")
            if not orders - {"relaxed"}:
                continue
            count += ours
            edges = covers.edges_of(line, last)
            function = covers.function_at(line)
            if not edges and ours:
                key = (name, function[0] if function else "?")
                used.add(key)
                if key not in allowed:
                    result.problems.append(f"{name}:{line}: {what}({', '.join(sorted(orders))}) in {key[1]}() names no edge")
            for edge in edges:
                ends[edge].update((["read"] if orders & READS else []) + (["write"] if orders & WRITES else []))
    for edge, where in sorted(places.items()):
        if len(where) == 1 and edge not in whole:
            result.problems.append(f"{where[0]}: edge {edge} has one end")
        elif edge not in whole and len(ends[edge]) < 2:
            result.problems.append(f"{where[0]}: edge {edge} has no {', no '.join({'read', 'write'} - ends[edge])}: "
                                   f"named at {', '.join(where)}")
    for key in sorted(set(allowed) - used):
        result.problems.append(f"{LIST}: {key[0]}: {key[1]}() has nothing to excuse")
    result.summary = f"{count} operations that are not relaxed, {len(places)} edges, {len(allowed)} excused functions"
    return result


STORE = "void a() {\n  // edge a.b: partner is b().\n  x.store(1, std::memory_order_release);\n}\n"
LOAD = "int b() {\n  // edge a.b: partner is a().\n  return x.load(std::memory_order_acquire);\n}\n"
PLANTED = [
    Planted({"lci/base/a.cpp": "// edge a.b: partner is nobody\n"}, "edge a.b has one end"),
    Planted({"lci/base/a.cpp": STORE + STORE.replace("a()", "c()")}, "edge a.b has no read"),
    Planted({"lci/base/a.cpp": LOAD + LOAD.replace("b()", "c()")}, "edge a.b has no write"),
    # The comment of one function does not cover the next one.
    Planted({"lci/base/a.cpp": STORE + LOAD + "void c() { x.store(1, std::memory_order_release); }\n"},
            "store(release) in c() names no edge"),
    Planted({"lci/base/a.cpp": STORE + LOAD + "void c() {" + "\n" * (NEAR + 1) + "  x->exchange(1,\n std::memory_order_acq_rel);\n}\n"},
            "exchange(acq_rel) in c() names no edge"),
    Planted({"lci/base/a.cpp": "void c() { std::atomic_thread_fence(std::memory_order_seq_cst); }\n"}, "names no edge"),
    Planted({"lci/base/a.cpp": "void c() { x.store(1, order_behind_barrier()); }\n"},
            "store(release) in c() names no edge"),
    Planted({"lci/base/a.cpp": "void c() { x.fetch_add(1); }\n"}, "fetch_add() without an order"),
    Planted({"lci/base/a.cpp": "int c() { return x.load(); }\n"}, "load() without an order"),
    Planted({LIST: "| `lci/base/a.cpp`: `c()` | it was so once |\n"}, "lci/base/a.cpp: c() has nothing to excuse"),
]

if __name__ == "__main__":
    run(NAME, check)
