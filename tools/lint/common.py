"""What the checkers share: the list of files, C++ without comments, and how a result is reported.

A checker is a module with NAME, check(root, build) -> Result and PLANTED, the violations it must find;
selfcheck.py plants them and runs it. Exit status: 0 in order, 1 problems, 77 could not be checked here.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXPERIMENTAL = ("experimental/cuda", "experimental/ibv")
LIBRARY = ("include", "lci", "backends", *EXPERIMENTAL, "lct")


class Skip(Exception):
    """The check needs something that this machine lacks; the text says what."""


@dataclass
class Result:
    summary: str = ""
    problems: list = field(default_factory=list)
    notes: list = field(default_factory=list)


@dataclass
class Planted:
    """A small tree with one violation, and a part of the complaint that it must raise."""

    files: dict
    expect: str


def files(root, folders, suffixes=(".cpp", ".hpp", ".h")):
    """Files below `folders`, as git lists them if it can: ignored or half-written files do not count."""
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", "--", *folders], capture_output=True, text=True, check=False
    )
    if listed.returncode == 0 and listed.stdout:
        found = [root / name for name in listed.stdout.split("\0") if name]
    else:
        found = [path for folder in folders for path in (root / folder).rglob("*")]
    return sorted(path for path in found if path.suffix in suffixes and path.is_file())


_TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Fa-f])\'(?:\\.|[^\'\\\n])+\'',
    re.DOTALL,
)


def without_comments(text, keep_strings=False):
    """The same text with comments (and the inside of strings) blanked; every line keeps its number."""

    def blank(match):
        token = match.group(0)
        if token.startswith("/"):
            return re.sub(r"[^\n]", " ", token)
        if keep_strings:
            return token
        return token[0] + re.sub(r"[^\n]", " ", token[1:-1]) + token[-1]

    return _TOKEN.sub(blank, text)


def relative(path, root):
    return path.relative_to(root).as_posix()


def commands_of(database):
    """The command that compiles each source, alone or together with others in one file that includes them."""
    commands = {}
    for entry in json.loads(database.read_text()):
        path = Path(entry["file"])
        together = "Unity" in path.parts
        sources = re.findall(r'#include "(.*)"', path.read_text()) if together else [path]
        commands.update({Path(source): entry["command"] for source in sources})
    return commands


def in_parallel(work, jobs, what):
    """work(job) for all jobs, on every core. Prints its progress, as ninja does; what(job): the job in words."""
    answers = []
    with ThreadPoolExecutor(int(os.environ.get("LCI_JOBS", 0)) or os.cpu_count()) as pool:
        under_way = {pool.submit(work, job): job for job in jobs}
        for number, done in enumerate(as_completed(under_way), 1):
            print(f"[{number}/{len(jobs)}] {what(under_way[done])}", flush=True)
            answers.append(done.result())
    return answers


def run(name, check):
    """The command line of a checker."""
    parser = argparse.ArgumentParser(description=check.__doc__)
    parser.add_argument("--root", type=Path, default=ROOT)
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    arguments = parser.parse_args()
    try:
        result = check(arguments.root.resolve(), arguments.build.resolve())
    except Skip as why:
        print(f"skipped {name}: {why}")
        sys.exit(77)
    for note in result.notes:
        print(f"  {note}")
    for problem in result.problems:
        print(f"  {problem}")
    print(f"{'FAILED' if result.problems else 'ok'} {name}: {result.summary}")
    sys.exit(1 if result.problems else 0)
