"""Every lock has its place in the order, and every place a lock: docs/threads.md lists them.

It has three lists, each row with the folder of the locks: the order itself (while a row's locks are held, those in its last
column may be taken, which are further down or leaves), locks that are only ever tried, and leaves.
"""

import re

from common import LIBRARY, Planted, Result, files, relative, run, without_comments

NAME = "locks"
DOCUMENT = "docs/threads.md"
TYPE = r"(?:std::(?:recursive_|shared_|timed_)*mutex|pthread_mutex_t|(?:base::)?(?:spinlock|biased_lock|owned|gate))"
LOCK = re.compile(rf"(?<=[;{{}}:\n])\s*(?:(?:mutable|static|inline|constinit|thread_local|alignas\([^()]*\))\s+)*"
                  rf"(?:{TYPE}|std::unique_ptr<{TYPE}\[\]>|std::(?:array|vector)<{TYPE}\b[^;&]*>)\s+(\w+)\s*(?:\{{[^{{}}]*\}}|=[^;&]*)?;")
OPENING = re.compile(r"\b(?:class|struct|union)\s+(?:alignas\([^()]*\)\s*|LCI_\w+\s+|\[\[\w+\]\]\s*)*(\w+)?(?:\s+final)?\s*(?::[^;{()]*)?\{|[{}]")
FOLDER = re.compile(r"^\| `([\w/]+)`")
QUOTED = re.compile(r"`([\w:]*::[\w:]+)`")
HEADS = {"| folder | lock | ": "order", "| folder | only tried |": "tried", "| folder | leaves |": "leaves"}


def locks_of(text):
    """[(class::member, line)] of the locks that a file declares."""
    code = without_comments(text)
    found = [(match.start(1), match.group(1)) for match in LOCK.finditer(code)]
    out, stack, events = [], [], list(OPENING.finditer(code))
    at = 0
    for start, member in found:
        while at < len(events) and events[at].end() <= start:
            token = events[at].group(0)
            if token == "}":
                stack = stack[:-1]
            else:
                stack.append(events[at].group(1))
            at += 1
        owners = [name for name in stack if name]
        out.append(("::".join([*owners, member]), code.count("\n", 0, start) + 1))
    return out


def listed(text):
    """[(list, folder, locks of the row, what may be taken under them, line)] of the document."""
    rows, of = [], None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("|"):
            of = None
        of = next((name for head, name in HEADS.items() if line.startswith(head)), of)
        folder = FOLDER.match(line)
        if of is None or folder is None:
            continue
        cells = line.strip().strip("|").split(" | ")
        under = QUOTED.findall(cells[-1]) if of == "order" else []
        rows.append((of, folder.group(1), QUOTED.findall(cells[1]), under, number))
    return rows


def check(root, build):
    """The library and the document."""
    del build
    result = Result()
    declared = {}
    for path in files(root, LIBRARY):
        name = relative(path, root)
        for lock, line in locks_of(path.read_text()):
            declared[name.rsplit("/", 1)[0], lock] = f"{name}:{line}"
    path = root / DOCUMENT
    rows = listed(path.read_text()) if path.is_file() else []
    place, last = {}, {}
    for row, (of, folder, locks, _, number) in enumerate(rows):
        for lock in locks:
            if (folder, lock) in place:
                result.problems.append(f"{DOCUMENT}:{number}: {folder}: {lock} is listed twice")
            place[folder, lock] = row
            # Leaves, and locks that no thread waits for, may be taken under any lock.
            last.setdefault(lock, []).append(row if of == "order" else len(rows))
            if (folder, lock) not in declared:
                result.problems.append(f"{DOCUMENT}:{number}: there is no lock {lock} in {folder}")
    for row, (_, folder, locks, under, number) in enumerate(rows):
        for lock in under:
            if lock not in last:
                result.problems.append(f"{DOCUMENT}:{number}: {lock} is not listed itself")
            elif min(last[lock]) <= row:
                result.problems.append(f"{DOCUMENT}:{number}: {lock} is taken under {', '.join(locks)} of {folder}, so it "
                                       "belongs further down")
    for (folder, lock), where in sorted(declared.items()):
        if (folder, lock) not in place:
            result.problems.append(f"{where}: the lock {lock} of {folder} has no place in {DOCUMENT}")
    result.summary = f"{len(declared)} locks, {sum(len(row[2]) for row in rows if row[0] == 'order')} of them with others under them"
    return result


ORDER = "| folder | lock | held while | taken under it |\n|---|---|---|---|\n| `lci/base` | `a::lock_` | x | `b::lock_` |\n"
LEAF = "\n| folder | leaves |\n|---|---|\n| `lci/base` | `b::lock_` |\n"
CODE = "class a {\n  int f() { return 0; }\n  base::spinlock lock_;  // x\n};\nclass b : public c {\n  mutable std::mutex lock_;\n};\n"
PLANTED = [
    Planted({"lci/base/a.hpp": CODE}, "lci/base/a.hpp:3: the lock a::lock_ of lci/base has no place"),
    Planted({"lci/base/a.hpp": CODE, DOCUMENT: ORDER}, "b::lock_ of lci/base has no place"),
    Planted({"lci/base/a.hpp": CODE, DOCUMENT: ORDER}, "b::lock_ is not listed itself"),
    Planted({"lci/base/a.hpp": "", DOCUMENT: LEAF}, "there is no lock b::lock_ in lci/base"),
    Planted({"lci/base/a.hpp": CODE, DOCUMENT: ORDER + ORDER.splitlines()[2].replace("a::", "b::") + "\n"},
            "b::lock_ is taken under b::lock_"),
    Planted({"lci/base/a.hpp": CODE, DOCUMENT: LEAF + ORDER + "| `lci/base` | `b::lock_` | x | `a::lock_` |\n"},
            "a::lock_ is taken under b::lock_ of lci/base, so it belongs further down"),
    Planted({"lci/base/a.hpp": CODE, DOCUMENT: ORDER + LEAF + "| `lci/base` | `a::lock_` |\n"}, "a::lock_ is listed twice"),
]

if __name__ == "__main__":
    run(NAME, check)
