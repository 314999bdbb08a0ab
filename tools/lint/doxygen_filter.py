"""Shows a public header to Doxygen as its readers know it: operations with all their setters, each with meaning and
default, and without the classes that they are composed of. Pages get the names by which the tree orders them.

Doxygen runs it for each file and reads its output; lines keep their numbers.
"""

import re
import sys
from pathlib import Path

# The part of the reference to which a header belongs; the order and the titles are in docs/reference.dox.
GROUP = {"runtime": "setup", "resources": "setup", "attr": "setup", "handles": "setup", "post": "post", "status": "post",
         "progress": "post", "options": "post", "types": "post", "memory": "memory", "completion": "completion",
         "remote_completion": "completion",
         "graph": "graph", "stream": "stream", "collective": "collective", "net": "net", "info": "about", "version": "about",
         "config": "about", "errors": "about", "export": "about"}
MEMBER = re.compile(r"((?:^[ \t]*///(?!<).*\n)*)^[ \t]*([\w:]+)[ \t]+(\w+)(?:\s*=\s*([^;]+?))?;[ \t]*"
                    r"(///<.*(?:\n[ \t]*///<.*)*)?", re.MULTILINE)
PART = re.compile(r"template <class Op\b.*?>\s*(?:struct|class) (\w+)(?:\s*:\s*([^{]*?))?\s*\{", re.DOTALL)
SETTER = re.compile(r"((?:^[ \t]*///.*\n)*)^[ \t]*(?:Op&&|self_t|\w+_x&&)\s+(?!set\b|self\b)(\w+)\(([^)]*)\)\s*\{", re.MULTILINE)
OPERATION = re.compile(r"class (\w+)_x\s*:\s*public detail::([^{]*)\{(\s*public:)?")
CONSTRUCTOR = re.compile(r"/// Positional arguments?, see the setters? of (?:their names?|its name|that name)\.")


def end_of_block(text, at):
    """Where the block ends that begins at the brace `at`."""
    depth = 0
    for match in re.compile(r"[{}]").finditer(text, at):
        depth += 1 if match.group() == "{" else -1
        if depth == 0:
            return match.start()
    return len(text)


def words(comment):
    """The text of comment lines, as one line, without the marks that group members."""
    lines = [re.sub(r"^\s*///<?\s?", "", line).strip() for line in comment.splitlines()]
    return " ".join(line for line in lines if line and line not in ("@{", "@}"))


def sentence(text):
    text = text.strip().rstrip(".")
    return text + "." if text else ""


class Headers:
    """The declarations of all headers in a folder."""

    def __init__(self, folder):
        self.texts = {path.name: path.read_text() for path in sorted(folder.glob("*.hpp"))}
        self.settings, self.parts = {}, {}
        for match in re.finditer(r"struct \w+_(?:settings|attr)_t\b[^{]*\{", self.texts.get("attr.hpp", "")):
            text = self.texts["attr.hpp"]
            block = text[match.end():end_of_block(text, match.end() - 1)].partition("/// Visits")[0]
            for before, kind, name, default, behind in MEMBER.findall(block):
                self.settings[name] = (words(before) or words(behind or ""), " ".join((default or "").split()), kind)
        for text in self.texts.values():
            for match in PART.finditer(text):
                body = text[match.end():end_of_block(text, match.end() - 1)]
                public = re.split(r"^\s*protected:", body, flags=re.MULTILINE)
                # What comes before "public:" of a struct is public too.
                body = "".join(part if i == 0 else (part.partition(" public:")[2]) for i, part in enumerate(public))
                bases = re.findall(r"(\w+)<Op", match.group(2) or "")
                self.parts[match.group(1)] = (bases, SETTER.findall(body))

    def meaning(self, name, text, kind):
        """The description of a setter on its page."""
        if not text or text.startswith("Sets an attribute"):
            about, default, _ = self.settings.get(name, ("", "", ""))
            default = default or ("empty" if "string" in kind else "none")
            text = f"Sets the attribute: {sentence(about)} Default: `{default}`, or what `LCI_ATTR_{name.upper()}` says."
        return sentence(text)

    def inherited(self, bases):
        """Setters of these classes and of their bases."""
        found = []
        for base in bases:
            lower, setters = self.parts.get(base, ([], []))
            found += setters + self.inherited(lower)
        return found

    def setters_of(self, name):
        """(name, meaning, type) of all setters of an operation, its own first."""
        for text in self.texts.values():
            for match in OPERATION.finditer(text):
                if match.group(1) != name:
                    continue
                own = SETTER.findall(text[match.end():end_of_block(text, text.index("{", match.start()))])
                bases = re.findall(r"(?:^|detail::)(\w+)<", match.group(2))
                kinds = {}
                for comment, setter, parameters in own + self.inherited(bases):
                    kind = re.sub(r"\s*\w+$", "", parameters)
                    kinds.setdefault(setter, (self.meaning(setter, words(comment), kind), kind))
                return kinds, [setter for _, setter, _ in own]
        return {}, []


def parameters(text):
    """The names of a parameter list."""
    return [re.findall(r"\w+", part.split("=")[0])[-1] for part in re.split(r",(?![^<(]*[>)])", text) if part.strip()]


def describe(names, setters):
    """@param of arguments that have setters."""
    out = []
    for name in names:
        # "op_": a function pointer may not have the name of its setter.
        said = setters.get(name.rstrip("_"), ("",))[0]
        said = re.sub(r"^Sets (the attribute: )?", "", said)
        # A parameter without a text is left out, and the check of the pages reports it.
        if said:
            out.append(f"@param {name}  {said}")
    return " ".join(out)


def answers(text):
    """{operation: the text of its class after @return}, for call() and for the function of its name."""
    found = {}
    for comment, name in re.findall(r"((?:^///.*\n)+)class (\w+)_x\b", text, re.MULTILINE):
        said = re.search(r"@return\s+(.*?)\s*(?=@\w|\bThreads: |\bErrors: |\n\n|\Z)", re.sub(r"^/// ?", "", comment, flags=re.MULTILINE), re.DOTALL)
        if said:
            found[name] = " @return " + " ".join(said.group(1).split())
    return found


def one_comment(text):
    return "/** " + text.replace("*/", "* /") + " */"


def rewrite_operation(headers, text, match, results, answer):
    """The head of an operation's class without its bases, with their setters."""
    name = match.group(1)
    setters, own = headers.setters_of(name)
    block = text[match.end():end_of_block(text, text.index("{", match.start()))]
    made = re.search(name + r"_x\(([^)]*)\)", block)
    positional = parameters(made.group(1)) if made else []
    if positional == ["value"] and own:
        positional = own[:1]
    result = results.get(name, "void")
    out = [f"class {name}_x {{ public:"]
    for setter, (said, kind) in setters.items():
        if setter in own:
            continue
        if setter in positional and "Default" not in said:
            said += " Default: none, the constructor takes it."
        out.append(one_comment(f"{said} @param value  the new value @return this operation") + f" {name}_x&& {setter}({kind} value);")
    out.append(one_comment("Runs the operation, any number of times." + answer) + f" {result} call() const;")
    out.append(one_comment("Runs the operation, like call()." + answer) + f" {result} operator()() const;")
    return " ".join(out) + "\n" * match.group().count("\n"), setters, positional


def comment_own(setters, positional, block):
    """Setters of the class itself: a comment of one line before each, in place of those that are there."""
    def one(match):
        comment, name = match.group(1), match.group(2)
        said, _ = setters.get(name, (words(comment), ""))
        if name in positional and "Default" not in said:
            said += " Default: none, the constructor takes it."
        head = match.group(0)[len(comment):]
        return "\n" * comment.count("\n") + one_comment(f"{said} @param {parameters(match.group(3))[0]}  the new value "
                                                       "@return this operation") + head
    block = SETTER.sub(one, block)
    block = re.sub(r"///\s*@[{}]", "", block)
    made = re.search(r"\w+_x\(([^)]*)\)", block)
    if made:
        names, known = parameters(made.group(1)), dict(setters)
        if names == ["value"] and "value" not in known:
            known["value"] = known.get(positional[0], ("",)) if positional else ("",)
        # In this order, since the result of the first is also input for the second.
        block = CONSTRUCTOR.sub("/// Takes what the operation cannot be without.", block)
        block = re.sub(r"^([ \t]*/// Takes [^\n]*)$(?=\n[ \t]*(?:explicit )?\w+_x\()", lambda m: m.group(1) + " " + describe(names, known),
                       block, flags=re.MULTILINE)
    return block


def header(path):
    """A header of the C++ interface."""
    headers = Headers(path.parent)
    text = path.read_text()
    every = "\n".join(headers.texts.values())
    results = {name: kind for kind, name in re.findall(r"^(?:inline )?([\w:<>]+\*?)\s+(\w+)\([^;{]*\{\s*return \2_x", every, re.MULTILINE)}
    told_of = answers(text)
    out, at = [], 0
    for match in OPERATION.finditer(text):
        out.append(text[at:match.start()])
        head, setters, positional = rewrite_operation(headers, text, match, results, told_of.get(match.group(1), ""))
        end = end_of_block(text, text.index("{", match.start()))
        out += [head, comment_own(setters, positional, text[match.end():end])]
        at = end
    text = "".join(out) + text[at:]

    # Functions that stand for an operation without options.
    def plain(match):
        setters, _ = headers.setters_of(match.group(3))
        told = describe(parameters(match.group(4)), setters)
        if match.group(2) != "void" and "@return" not in match.group(1):
            told += told_of.get(match.group(3), "")
        return match.group(1).rstrip("\n") + " " + told + "\n" + match.group(0)[len(match.group(1)):]
    text = re.sub(r"((?:^///.*\n)+)^inline ([\w:<>]+\*?)\s+(\w+)\(([^)]*)\)", lambda m: plain(m) if "_x without options" in m.group(1) else m.group(0),
                  text, flags=re.MULTILINE)
    # Attribute getters, and members that return a single value.
    if "get_attr_" in text:
        text = re.sub(r"///\s*@[{}]", "", text)
    text = re.sub(r"^([ \t]*)(?=[\w:]+ get_attr_(\w+)\(\))", lambda m: m.group(1) + one_comment(
        f"The attribute `{m.group(2)}`: {sentence(headers.settings.get(m.group(2), ('',))[0])} @return what is in effect "
        "@throws std::runtime_error  the handle is empty") + " ", text, flags=re.MULTILINE)
    text = re.sub(r"^(?![ \t]*void )([ \t]*[\w:*<> ]+[ *]\w+\(\)[^\n]*?)///< (.*)$", r"\1///< \2 @return \2", text, flags=re.MULTILINE)
    group = GROUP.get(path.stem.split(".")[0])
    if group:
        text = re.sub(r"^namespace lci \{$", f"namespace lci {{ /** @begin_of{{{group}}} */", text, flags=re.MULTILINE)
        text = re.sub(r"^\}  // namespace lci$", "/** @} */ }  // namespace lci", text, flags=re.MULTILINE)
    return text


def label_of(path):
    """The label of a page: the one in its first line, else one made from the file's name."""
    said = re.search(r"\{#(\w+)\}", path.read_text().partition("\n")[0])
    return said.group(1) if said else f"{path.parent.name}_{path.stem}".replace("-", "_")


def page(path):
    """A page. Records of decisions and examples stand below the page that lists them."""
    first, newline, rest = path.read_text().partition("\n")
    if "{#" not in first:
        first += f" {{#{label_of(path)}}}"
    # Doxygen does not know sections of pages by the anchors that other readers use, nor source files.
    rest = re.sub(r"\]\(([\w/.-]+\.md)#[\w-]+\)", r"](\1)", rest)
    rest = re.sub(r"\[([^\]\n]+)\]\([\w/.-]+\.[ch]pp\)", r"`\1`", rest)
    if path.name == "README.md" and path.parent.name in ("decisions", "examples"):
        below = [one for one in sorted(path.parent.glob("*.md")) if one != path]
        rest += "\n\n" + "\n".join(f"- @subpage {label_of(one)}" for one in below) + "\n"
    return first + newline + rest


if __name__ == "__main__":
    file = Path(sys.argv[1])
    if file.suffix == ".md":
        sys.stdout.write(page(file))
    elif file.parent.name == "lci" and file.suffix == ".hpp":
        sys.stdout.write(header(file))
    else:
        sys.stdout.write(file.read_text())
