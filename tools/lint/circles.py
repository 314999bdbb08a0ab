"""Parts do not include each other in wide circles, and no class is wider than a reader can remember.

A part is a header and the sources that define what it declares. It knows another part if it includes one of its headers,
and also if it calls a function that the other one defines, without an include: a function declared here and defined
there is a hidden include. A class that is only named, for a pointer that is passed on, is not known: using it requires
an include. A circle is a set of parts each of which knows every other one, directly or by way of the rest; none of its
parts can be read, tested or replaced without the others.
"""

import re
from collections import defaultdict

from common import Planted, Result, files, relative, run, without_comments
from floors import INCLUDE, target_of
from functions import PREPROCESSOR, functions

NAME = "circles"
MAX_CIRCLE = 3
MAX_PUBLIC = 25
FOLDERS = ("lci", "backends", "experimental/cuda", "experimental/ibv")
DEFINED = re.compile(r"\b(?:class|struct)\s+(?:alignas\([^)]*\)\s*)?(\w+)(?:\s+final)?\s*(?:<[^;{]*>\s*)?(?::[^;{]*)?\{")
ACCESS = re.compile(r"\s*(public|private|protected)\s*:(?!:)")
OPERATOR = re.compile(r"\boperator\s*\S+?\s*(?=\()")


def code_of(path):
    """A file with its strings, for includes, and without strings and preprocessor, for declarations."""
    text = path.read_text()
    return without_comments(text, keep_strings=True), PREPROCESSOR.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)),
                                                                       without_comments(text))


def is_function(statement):
    """Whether a statement inside a class declares a function that callers may call."""
    head = OPERATOR.sub("called", re.sub(r"\[\[[^\]]*\]\]|\bdecltype\([^()]*\)", " ", statement)).strip()
    if not head or re.match(r"(using|friend|static_assert|typedef|enum|struct|class|union)\b", head):
        return False
    head = re.sub(r"^(?:template\s*<.*?>\s*(?=\w)|requires\b.*?\)\s*)+", "", head, flags=re.DOTALL)
    if re.search(r"\)\s*(?:noexcept\s*)?=\s*delete$", head):
        return False
    before = head.split("(", 1)[0]
    if re.match(r"\((?:\w+::)?\*|\(\w*\s*\*", head[len(before):]):
        return False  # a pointer to a function is data
    return "(" in head and "=" not in before and "{" not in before and not re.search(r"\bLCI_\w+$", before.strip())


def classes(code):
    """[(name, line, number of public functions)] of the classes that a file defines, nested ones included."""
    found = []
    for match in DEFINED.finditer(code):
        access = "private" if code[match.start():].startswith("class") else "public"
        count, start, depth, parens, i = 0, match.end(), 1, 0, match.end()
        while i < len(code) and depth:
            c = code[i]
            parens += (c == "(") - (c == ")")
            if c == "{":
                depth += 1
                if depth == 2 and not parens:
                    head = code[start:i]
                    label = ACCESS.match(head)
                    if label:
                        access, head = label.group(1), head[label.end():]
                    opened = head
            elif c == "}":
                depth -= 1
                # A body, not the initialiser of a member: `x{0};` goes on to its semicolon.
                if depth == 1 and not parens and "(" in opened:
                    count += access == "public" and is_function(opened)
                    start = i + 1
                    if code[i + 1:i + 2] == ";":
                        i, start = i + 1, i + 2
            elif c == ";" and depth == 1 and not parens:
                head = code[start:i]
                while label := ACCESS.match(head):
                    access, head = label.group(1), head[label.end():]
                count += access == "public" and is_function(head)
                start = i + 1
            i += 1
        found.append((match.group(1), code.count("\n", 0, match.start()) + 1, count))
    return found


def outside_classes(code):
    """The text without the bodies of its classes."""
    kept, at = [], 0
    for match in DEFINED.finditer(code):
        if match.start() < at:
            continue
        kept.append(code[at:match.end()])
        depth, i = 1, match.end()
        while i < len(code) and depth:
            depth += {"{": 1, "}": -1}.get(code[i], 0)
            i += 1
        at = i - 1
    return "".join(kept) + code[at:]


class Parts:
    """Which parts there are, and which of them know each other."""

    def __init__(self, root):
        self.root = root
        self.code, self.text = {}, {}
        for path in files(root, FOLDERS):
            name = relative(path, root)
            self.text[name], self.code[name] = code_of(path)
        self.outside = {name: outside_classes(code) for name, code in self.code.items()}
        self.headers = {name for name in self.text if not name.endswith(".cpp")}
        self.part_of = {name: self.stem(name) for name in self.text}
        # Class -> headers or sources that define it. One inside another is found by the name of the outer one.
        self.definers = defaultdict(set)
        for name, code in self.outside.items():
            for one in DEFINED.findall(code):
                self.definers[one].add(name)
        self.knows = defaultdict(dict)  # part -> {part: why}
        self.join_sources()

    @staticmethod
    def stem(name):
        return name.rsplit(".", 1)[0]

    def find_class(self, name, near):
        """The part that defines a class: one in the same folder, or else the only one there is."""
        folder = near.rsplit("/", 1)[0]
        places = {self.part_of[one] for one in self.definers.get(name, ())}
        here = {part for part in places if part.rsplit("/", 1)[0] == folder}
        chosen = here or places
        return chosen.pop() if len(chosen) == 1 else None

    def declarer(self, function, near):
        """The header of the same folder that declares a free function, if there is just one."""
        folder = near.rsplit("/", 1)[0]
        pattern = re.compile(r"(?<![\w.>:])" + re.escape(function) + r"\s*\((?:[^;{}]|\{\})*\)[^;{}]*;")
        places = {self.part_of[one] for one in self.headers
                  if one.rsplit("/", 1)[0] == folder and pattern.search(self.outside[one])}
        return places.pop() if len(places) == 1 else None

    def join_sources(self):
        """A source without a header of its name belongs to the part that declares what it defines."""
        for name in sorted(self.text):
            if not name.endswith(".cpp"):
                continue
            has_header = any(self.stem(name) == self.stem(one) for one in self.headers)
            for function, line, _ in functions(self.text[name], only_free=True):
                owner = None
                if "::" in function:
                    owner = self.find_class(function.split("::")[0], name)
                elif re.fullmatch(r"\w+", function) and function != "main":
                    owner = self.declarer(function, name)
                if owner is None or owner == self.part_of[name]:
                    continue
                if not has_header:
                    self.part_of[name] = owner
                    has_header = True
                else:
                    self.knows[owner].setdefault(self.part_of[name], f"{name}:{line} defines {function}")
        for name, text in self.text.items():
            self.look(name, text)

    def look(self, name, text):
        mine = self.part_of[name]
        for match in INCLUDE.finditer(text):
            target = target_of(match.group(2), name, self.root) if match.group(1) == '"' else None
            if target in self.part_of and self.part_of[target] != mine:
                self.knows[mine].setdefault(self.part_of[target], f"{name} includes it")

    def describe(self, circle):
        """The parts of a circle, and below each edge why it is there."""
        inside = [f"{part.rsplit('/', 1)[1]} -> {other.rsplit('/', 1)[1]}: {why}"
                  for part in circle for other, why in sorted(self.knows[part].items()) if other in circle]
        return ", ".join(circle) + "\n    " + "\n    ".join(inside)

    def circles(self):
        """Parts that know each other, directly or by way of others: strongly connected sets, by Tarjan."""
        number, low, stack, on_stack, found = {}, {}, [], set(), []

        def visit(start):
            work = [(start, iter(sorted(self.knows[start])))]
            number[start] = low[start] = len(number)
            stack.append(start)
            on_stack.add(start)
            while work:
                part, rest = work[-1]
                following = next(rest, None)
                if following is None:
                    work.pop()
                    if work:
                        low[work[-1][0]] = min(low[work[-1][0]], low[part])
                    if low[part] == number[part]:
                        at = stack.index(part)
                        found.append(sorted(stack[at:]))
                        on_stack.difference_update(stack[at:])
                        del stack[at:]
                elif following not in number:
                    number[following] = low[following] = len(number)
                    stack.append(following)
                    on_stack.add(following)
                    work.append((following, iter(sorted(self.knows[following]))))
                elif following in on_stack:
                    low[part] = min(low[part], number[following])

        for part in sorted(set(self.part_of.values())):
            if part not in number:
                visit(part)
        return sorted((one for one in found if len(one) > 1), key=lambda one: (-len(one), one))


def check(root, build):
    """Circles and wide classes of the library."""
    del build
    result = Result()
    parts = Parts(root)
    circles = parts.circles()
    for circle in circles:
        if len(circle) <= MAX_CIRCLE:
            continue
        result.problems.append(f"{len(circle)} parts in a circle, at most {MAX_CIRCLE}: {parts.describe(circle)}")
    widest, count = 0, 0
    for name, code in parts.code.items():
        for one, line, public in classes(code):
            count += 1
            widest = max(widest, public)
            if public > MAX_PUBLIC:
                result.problems.append(f"{name}:{line}: {one} has {public} public functions, at most {MAX_PUBLIC}")
    result.summary = (f"{len(set(parts.part_of.values()))} parts, {len(circles)} circles, the widest of "
                      f"{max(map(len, circles), default=0)} parts; {count} classes, the widest with {widest} public functions")
    return result


def circle_of(count):
    """Headers of which each knows the next one."""
    return {f"lci/mem/p{i}.hpp": f'#pragma once\n#include "lci/mem/p{(i + 1) % count}.hpp"\nclass c{i} {{}};\n'
            for i in range(count)}


PLANTED = [
    Planted(circle_of(4), "4 parts in a circle"),
    # The include is in a source, which uses a class that its header only names.
    Planted({**circle_of(4), "lci/mem/p0.hpp": "class c1;\nclass c0 { c1* other; };\n",
             "lci/mem/p0.cpp": '#include "lci/mem/p0.hpp"\n#include "lci/mem/p1.hpp"\n'}, "4 parts in a circle"),
    # The source of a part two steps away defines what the first one declares.
    Planted({"lci/mem/a.hpp": "void f();\n", "lci/mem/b.hpp": '#include "lci/mem/a.hpp"\n',
             "lci/mem/c.hpp": '#include "lci/mem/b.hpp"\n', "lci/mem/d.hpp": '#include "lci/mem/c.hpp"\n',
             "lci/mem/d.cpp": '#include "lci/mem/d.hpp"\nvoid f() {}\n'}, "4 parts in a circle"),
    # A source without a header belongs to the class of which it defines a function.
    Planted({**circle_of(4), "lci/mem/p3.hpp": "class c3 { void f(); };\n",
             "lci/mem/other.cpp": '#include "lci/mem/p0.hpp"\nvoid c3::f() {}\n'}, "4 parts in a circle"),
    Planted({"lci/mem/a.hpp": "class a {\n public:\n" + "".join(f"  void f{i}() {{}}\n" for i in range(26)) + "};\n"},
            "a has 26 public functions"),
    Planted({"lci/mem/a.hpp": "struct a {\n" + "".join(f"  int f{i}(int x = {{}}) const noexcept;\n" for i in range(26)) +
             "  int member = g();\n  a(const a&) = delete;\n private:\n  void h();\n};\n"}, "a has 26 public functions"),
]

if __name__ == "__main__":
    run(NAME, check)
