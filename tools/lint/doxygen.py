"""Doxygen runs without a warning: every public symbol is documented, and every link in the pages works."""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

from common import ROOT, Planted, Result, Skip, run

NAME = "doxygen"


def generate(root, build, out, html):
    """Runs Doxygen; returns its warnings."""
    if not shutil.which("doxygen"):
        raise Skip("no doxygen")
    template = (ROOT / "docs/Doxyfile.in").read_text()
    inputs = [str(root / folder) for folder in ("include", "docs") if (root / folder).is_dir()]
    examples = root / "examples"
    values = {"EXAMPLES": examples if examples.is_dir() else "", "INPUT": " ".join(inputs), "ROOT": root, "BUILD": build, "FILTER": ROOT / "tools/lint/doxygen_filter.py", "OUT": out, "HTML": "YES" if html else "NO", "XML": "NO" if html else "YES"}
    for name, value in values.items():
        template = template.replace(f"@{name}@", str(value))
    Path(out).mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["doxygen", "-"], input=template, capture_output=True, text=True, check=False)
    warnings = [line.replace(f"{root}/", "") for line in done.stderr.splitlines() if re.search(r"warning:|error:", line)]
    if done.returncode and not warnings:
        warnings = [done.stderr.strip() or f"doxygen ended with {done.returncode}"]
    return warnings


def texts(node):
    """The text of a part of the description."""
    return "" if node is None else " ".join("".join(node.itertext()).split())


def untold(out):
    """Functions whose description omits a parameter or a result, and setters without a default."""
    found = []
    for path in sorted(Path(out).glob("xml/*.xml")):
        for member in ElementTree.parse(path).iter("memberdef"):
            if member.get("kind") != "function" or member.get("prot") != "public":
                continue
            if member.find("reimplements") is not None:  # described where it is first declared
                continue
            name, kind, where = member.findtext("qualifiedname") or member.findtext("name"), texts(member.find("type")), member.find("location")
            told = {texts(one) for one in member.iter("parametername")}
            missing = [texts(one) for one in member.iterfind("param/declname") if texts(one) not in told]
            if re.sub(r"\b(static|constexpr|inline|virtual)\b", "", kind).strip() not in ("", "void") and member.find(".//simplesect[@kind='return']") is None:
                missing.append("what it returns")
            if re.fullmatch(r"\w+_x &&", kind) and "Default:" not in texts(member.find("briefdescription")) + texts(member.find("detaileddescription")):
                missing.append("the default of the setter")
            if missing:
                found.append(f"{where.get('file')}:{where.get('line')}: {name} does not say: {', '.join(missing)}")
    return found


def check(root, build):
    """Public headers and pages."""
    with tempfile.TemporaryDirectory() as out:
        problems = generate(root, build, out, html=False)
        return Result(summary="public headers and pages", problems=problems + [one.replace(f"{root}/", "") for one in untold(out)])


_HEADER = "/// @file\n/// A header.\nnamespace lci {\n%s\n}\n"
# An operation and the function of its name: the text of its class, and the function's argument.
_OPERATION = ("/// %s\nclass f_x : public detail::operation<f_x, int, int, 0> {\n public:\n  /// Takes the rank.\n"
              "  explicit f_x(int value);\n  /// Sets the rank.\n  f_x&& rank(int value) {\n  }\n};\n"
              "/// f_x without options.\ninline int f(%s) {\n  return f_x(1).call();\n}\n")
PLANTED = [
    Planted({"include/lci/a.hpp": _HEADER % "int undocumented();"}, "undocumented"),
    Planted({"include/lci/a.hpp": _HEADER % "/// Does.\n/// @param wrong  a name\nint f(int right);"}, "wrong"),
    Planted({"include/lci/a.hpp": _HEADER % "/// Does.\n/// @param size  bytes\nint f(int size);"}, "f does not say: what it returns"),
    Planted({"include/lci/a.hpp": _HEADER % "/// Does.\n/// @return 0\nint f(int size);"}, "f does not say: size"),
    Planted({"include/lci/a.hpp": _HEADER % _OPERATION % ("Does.", "int rank")}, "f_x::call does not say: what it returns"),
    Planted({"include/lci/a.hpp": _HEADER % _OPERATION % ("Does.", "int rank")}, "f does not say: what it returns"),
    Planted({"include/lci/a.hpp": _HEADER % _OPERATION % ("Does.\n/// @return 0", "int peer")}, "f does not say: peer"),
    Planted({"docs/a.md": "# A page\n\n[a link](missing.md)\n"}, "missing.md"),
]

if __name__ == "__main__":
    if "--html" in sys.argv:
        parser = argparse.ArgumentParser()
        parser.add_argument("--html", type=Path)
        parser.add_argument("--build", type=Path, default=ROOT / "build/release")
        options = parser.parse_args()
        found = generate(ROOT, options.build.resolve(), options.html.resolve(), html=True)
        print("\n".join(found))
        sys.exit(bool(found))
    run(NAME, check)
