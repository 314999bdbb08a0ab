"""Paths of one machine, words about how the code came about, and private words for the field's terms do not belong in the project.

The private words are those in bold in the last column of the glossary (docs/style.md): `**word**`, `**word** (code)` for
names in code alone, `**word** (in lci docs)` for what is below these paths, or both. A word matches whole, or between
underscores of a longer name, and in names of files.
"""

import re
import subprocess

from common import Planted, Result, relative, run, without_comments

NAME = "words"
# Written in pieces, so that this file does not find itself.
RULES = [
    (re.compile(r"(?<![\w.])/(?:wo" r"rk|fa" r"rm)/"), "a path of one machine", None),
    (re.compile(r"\b(?:next|this) ses" r"sion\b|\bsub" r"agent|\bbash_" r"jobs\b|\.lib" r"rary/|\bC" r"EO\b"),
     "a word about how the code came about", None),
    (re.compile(r"(?i)\bissue #?\d+\b"), "an issue's number: say the reason itself", None),
    # A fixed name in a shared folder collides with the next user; take TMPDIR, or a memory file.
    (re.compile(r'"/tm' r'p/|"/dev/shm/'), "a fixed name in a shared folder",
     re.compile(r"^(include|lci|backends|experimental|lct|examples)/")),
    (re.compile(r"\b(?:TO" r"DO|FIX" r"ME|X" r"XX)\b"), "an unfinished thought", re.compile(r"\.(cpp|hpp|h)$")),
]
TEXT = (".cpp", ".hpp", ".h", ".in", ".md", ".txt", ".cmake", ".py", ".sh", ".json", "")

GLOSSARY, HEADING = "docs/style.md", "## Glossary"
FOLDERS = ("lci/", "backends/", "experimental/", "include/", "tools/", "docs/")
CODE = (".cpp", ".hpp", ".h", ".cu", ".cuh")
BOLD = re.compile(r"\*\*([^*]+)\*\*(?: \((code)?(?: ?in ([^)]+))?\))?")
# Uses of these words that stay: the link of a card and a link-local address, and the event channel of librdmacm. Numbers
# only shrink; a word that is no longer used is removed.
TO_COME = {"channel": 1, "link": 6}



class Word:
    """A private word, the term to use instead, and where the word is not allowed."""

    def __init__(self, text, term, only_code, places):
        self.text, self.term, self.only_code, self.places = text, term, only_code, tuple(places)
        initial, rest = re.escape(text[0]), re.escape(text[1:]).replace(r"\ ", r"\s+")
        self.pattern = re.compile(rf"(?<![A-Za-z0-9])[{initial.upper()}{initial}]{rest}(?![A-Za-z0-9])")

    def is_for(self, name):
        return name.startswith(self.places) and (not self.only_code or name.endswith(CODE))


def glossary(text):
    """The private words of the table."""
    words = []
    for line in text.partition(HEADING)[2].splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) == 3:
            for word, code, places in BOLD.findall(cells[2]):
                words.append(Word(word, cells[0], bool(code), places.split() or FOLDERS))
    return words


def uses(words, name, text):
    """Each use of a private word in a file: (word, line; 0: in its name)."""
    if name == GLOSSARY:
        text = text.partition(HEADING)[0]
    wanted = [word for word in words if word.is_for(name)]
    code = without_comments(text) if any(word.only_code for word in wanted) else ""
    for word in wanted:
        yield from ((word, 0) for _ in word.pattern.finditer(name))
        read = code if word.only_code else text
        yield from ((word, read.count("\n", 0, found.start()) + 1) for found in word.pattern.finditer(read))


def private_words(words, files, notes):
    """Compares the uses with TO_COME; yields problems, and notes which numbers have shrunk."""
    found = {word.text: [] for word in words}
    for name, text in files:
        for word, line in uses(words, name, text):
            found[word.text].append((word, f"{name}:{line}" if line else name))
    for text, where in found.items():
        allowed = TO_COME.get(text, 0)
        if len(where) > allowed and not allowed:
            yield from (f"{place}: say '{word.term}', not '{text}' (glossary of {GLOSSARY})" for word, place in where)
        elif len(where) > allowed:
            files_of = sorted({place.partition(":")[0] for _, place in where})
            yield (f"'{text}' is used {len(where)} times, {allowed} are to come: say '{where[0][0].term}' (glossary of {GLOSSARY});"
                   f" git diff -G'{text}' shows new ones; files: {' '.join(files_of)[:400]}")
        elif len(where) < allowed and where:
            notes.append(f"'{text}' is used {len(where)} times, not {allowed}: lower it in TO_COME of tools/lint/words.py")
        elif allowed and not where:
            yield f"'{text}' is not used any more: take it off TO_COME of tools/lint/words.py"
    if words:
        yield from (f"'{text}' is in TO_COME of tools/lint/words.py, not in the glossary" for text in TO_COME if text not in found)


def check(root, build):
    """Every text file that git lists."""
    del build
    listed = subprocess.run(["git", "-C", str(root), "ls-files", "-z"], capture_output=True, text=True, check=False)
    paths = [root / name for name in listed.stdout.split("\0") if name] or [p for p in root.rglob("*") if p.is_file()]
    result, count, searched = Result(), 0, []
    for path in paths:
        if path.suffix not in (*TEXT, *CODE) or not path.is_file():
            continue
        name, text = relative(path, root), path.read_text(errors="replace")
        count += 1
        for number, line in enumerate(text.splitlines(), 1):
            for pattern, why, where in RULES:
                if (where is None or where.search(name)) and pattern.search(line):
                    result.problems.append(f"{name}:{number}: {why}: {line.strip()[:80]}")
        # Tests may say what they like, also those of experimental parts.
        if name.startswith(FOLDERS) and not name.startswith("experimental/tests/") and name != "tools/lint/words.py":
            searched.append((name, text))
    page = root / GLOSSARY
    words = glossary(page.read_text()) if page.is_file() else []
    if page.is_file() and not words:
        result.problems.append(f"{GLOSSARY}: no glossary with private words")
    result.problems += private_words(words, searched, result.notes)
    result.summary = f"{count} files, {len(words)} private words, {sum(TO_COME.values())} uses of {len(TO_COME)} are to come"
    return result


def page(words):
    """A glossary for the planted trees."""
    return f"{HEADING}\n\n| Term | Meaning | Not |\n|---|---|---|\n| a term | what it is | {words} |\n"


PLANTED = [
    Planted({"lci/base/a.cpp": "// see /wo" "rk/main/x\n"}, "a path of one machine"),
    Planted({"docs/a.md": "done in the next ses" "sion\n"}, "how the code came about"),
    Planted({"lci/boot/file.cpp": 'open("/tm' 'p/lci");\n'}, "a fixed name in a shared folder"),
    Planted({"lci/boot/file.cpp": "// TO" "DO: later\n"}, "an unfinished thought"),
    Planted({GLOSSARY: "# Style\n"}, "no glossary"),
    Planted({GLOSSARY: page("**zork**"), "lci/base/a.cpp": "int a;\n// Zork\n"}, "lci/base/a.cpp:2: say 'a term', not 'zork'"),
    Planted({GLOSSARY: page("plain, **zork**"), "docs/a.md": "a zork\n"}, "docs/a.md:1: say 'a term'"),
    Planted({GLOSSARY: page("**to zork**"), "docs/a.md": "it is\nto\nzork\n"}, "docs/a.md:2: say 'a term'"),
    Planted({GLOSSARY: page("**zork** (code)"), "lci/base/a.hpp": "// zork\nint last_zork_;\n"}, "lci/base/a.hpp:2: say"),
    Planted({GLOSSARY: page("**zork** (in lci/net/far)"), "lci/net/far_a.hpp": "// zork\n"}, "lci/net/far_a.hpp:1: say"),
    Planted({GLOSSARY: page("**zork** (code in lci/net)"), "lci/net/zork.hpp": "\n"}, "lci/net/zork.hpp: say"),
    Planted({GLOSSARY: "a zork\n\n" + page("**zork**")}, f"{GLOSSARY}:1: say"),
]
# One use more than is to come, none left, and a word that the glossary lacks; as long as something is to come.
for _text, _number in list(TO_COME.items())[:1]:
    PLANTED += [
        Planted({GLOSSARY: page(f"**{_text}**"), "lci/base/a.cpp": f"// {_text}\n" * (_number + 1)}, f"'{_text}' is used {_number + 1} times"),
        Planted({GLOSSARY: page(f"**{_text}**")}, f"'{_text}' is not used any more"),
        Planted({GLOSSARY: page("**zork**")}, f"'{_text}' is in TO_COME"),
    ]

if __name__ == "__main__":
    run(NAME, check)
