"""Runs the sources that a build folder would compile through the compiler's front end alone, which gives all clang warnings.

  syntax.py FOLDER [-j N] [--less FOLDER...]   exit status 1 if there is a warning; --less: leave out these sources
"""

import argparse
import json
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def sources_of(path):
    """The sources that a file includes, if it includes any, else the file itself."""
    return [Path(one) for one in re.findall(r'#include "(.*)"', path.read_text())] if "Unity" in path.parts else [path]


def look_at(entry):
    words = shlex.split(entry["command"])
    place = words.index("-o")
    del words[place:place + 2]
    return subprocess.run([*words, "-fsyntax-only"], cwd=entry["directory"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("-j", type=int, default=1)
    parser.add_argument("--less", nargs="*", default=[])
    arguments = parser.parse_args()
    less = [ROOT / folder for folder in arguments.less]
    entries = [entry for entry in json.loads((arguments.folder / "compile_commands.json").read_text())
               if not all(any(folder in source.parents for folder in less) for source in sources_of(Path(entry["file"])))]
    failed = 0
    with ThreadPoolExecutor(arguments.j) as pool:
        under_way = {pool.submit(look_at, entry): entry for entry in entries}
        for number, done in enumerate(as_completed(under_way), 1):
            print(f"[{number}/{len(entries)}] {under_way[done]['file']}\n{done.result().stdout}", end="", flush=True)
            failed += done.result().returncode != 0
    if failed or not entries:
        sys.exit(f"{failed} of {len(entries)} sources failed")


if __name__ == "__main__":
    main()
