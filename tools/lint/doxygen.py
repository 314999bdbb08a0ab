"""Doxygen without a warning: every public symbol is documented, every link in the pages leads somewhere."""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from common import ROOT, Planted, Result, Skip, run

NAME = "doxygen"


def generate(root, build, out, html):
    """Runs Doxygen; returns its warnings."""
    if not shutil.which("doxygen"):
        raise Skip("no doxygen")
    template = (ROOT / "docs/Doxyfile.in").read_text()
    inputs = [str(root / folder) for folder in ("include", "docs") if (root / folder).is_dir()]
    examples = root / "examples"
    values = {"EXAMPLES": examples if examples.is_dir() else "", "INPUT": " ".join(inputs), "ROOT": root, "BUILD": build, "OUT": out, "HTML": "YES" if html else "NO", "XML": "NO" if html else "YES",
              "DOT": "YES" if html and shutil.which("dot") else "NO"}
    for name, value in values.items():
        template = template.replace(f"@{name}@", str(value))
    Path(out).mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["doxygen", "-"], input=template, capture_output=True, text=True, check=False)
    warnings = [line.replace(f"{root}/", "") for line in done.stderr.splitlines() if re.search(r"warning:|error:", line)]
    if done.returncode and not warnings:
        warnings = [done.stderr.strip() or f"doxygen ended with {done.returncode}"]
    return warnings


def check(root, build):
    """Public headers and pages."""
    with tempfile.TemporaryDirectory() as out:
        return Result(summary="public headers and pages", problems=generate(root, build, out, html=False))


_HEADER = "/// @file\n/// A header.\nnamespace lci {\n%s\n}\n"
PLANTED = [
    Planted({"include/lci/a.hpp": _HEADER % "int undocumented();"}, "undocumented"),
    Planted({"include/lci/a.hpp": _HEADER % "/// Does.\n/// @param wrong  a name\nint f(int right);"}, "wrong"),
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
