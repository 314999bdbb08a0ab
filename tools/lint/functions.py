"""Finds function bodies in C++ text: blocks in braces after a parameter list, outside other functions.

Not a parser: it follows braces and looks at the text before each one, which is enough for code that clang-format has
formatted. Lambdas count as part of the function in which they are.
"""

import re

from common import without_comments

NOT_A_FUNCTION = re.compile(r"^\s*(?:inline\s+)?(?:namespace|extern\s*\"|enum|class|struct|union|concept)\b")
SCOPE = re.compile(r"\b(?:namespace|class|struct|union)\b|^\s*extern\s*\"")
PREPROCESSOR = re.compile(r"(?m)^[ \t]*#(?:[^\n\\]|\\.|\\\n)*")
TEMPLATE = re.compile(r"^\s*template\s*<")
# `s(int a) : x` up to the brace of `x{a}`: a member initialiser; the body is still to come.
MEMBER_INITIALISER = re.compile(r"\)\s*(?:noexcept\s*)?:(?!:).*[\w>]\s*$", re.DOTALL)
LABEL = re.compile(r"^\s*(?:public|private|protected)\s*:")


def _skip_template(head):
    """`head` without a leading template<...> and its constraint, so that `template <class T>` is no class."""
    while TEMPLATE.match(head):
        depth, i = 0, head.index("<")
        while i < len(head):
            depth += {"<": 1, ">": -1}.get(head[i], 0)
            i += 1
            if depth == 0:
                break
        head = head[i:]
    return head


def _kind(head):
    while LABEL.match(head):
        head = LABEL.sub("", head, count=1)
    head = _skip_template(head)
    if MEMBER_INITIALISER.search(head):
        return "other"
    if NOT_A_FUNCTION.match(head):
        return "scope" if SCOPE.search(head) else "other"
    # An initialiser: `x = {` or `x = f({`; but `operator=(...) {` is a function.
    before_equals = re.search(r"(?<!operator)(?<![=!<>+\-*/|&^])=(?!=)", re.sub(r"\([^()]*\)", "", head))
    if "(" not in head or before_equals:
        return "scope" if SCOPE.search(head) else "other"
    return "function"


ENCLOSED = re.compile(r"\b(?:class|struct|union)\b|\bnamespace\s*$")


def functions(text, only_free=False):
    """[(name, first line, number of lines)] of the function bodies of a file. only_free: without those in the body of a
    class or in an unnamed namespace, which no other file can call by their name alone."""
    code = PREPROCESSOR.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), without_comments(text))
    found, stack, head_start, parens = [], [], 0, 0
    inside = 0  # braces deep in a function
    for i, c in enumerate(code):
        if c == "(":
            parens += 1
        elif c == ")":
            parens -= 1
        elif c == "{":
            head = code[head_start:i]
            kind = "other" if inside or parens else _kind(head)
            stack.append((kind, head, head_start))
            if kind == "function" or inside:
                inside += 1
            if kind != "other":
                head_start = i + 1
        elif c == "}" and stack:
            kind, head, start = stack.pop()
            if inside:
                inside -= 1
            if kind == "function" and not inside:
                first = code.count("\n", 0, start + len(head) - len(head.lstrip())) + 1
                last = code.count("\n", 0, i) + 1
                names = re.findall(r"([\w~:]+|operator\S+)\s*\(", _skip_template(head))
                names = [name for name in names if name not in ("requires", "noexcept", "alignas")]
                if only_free and any(ENCLOSED.search(_skip_template(around)) for _, around, _ in stack):
                    head_start = i + 1
                    continue
                found.append((names[0] if names else "?", first, last - first + 1))
            if not inside and kind != "other":
                head_start = i + 1
        elif c == ";" and not parens and not inside:
            head_start = i + 1
    return found
