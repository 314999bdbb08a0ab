"""Line and branch coverage of the library, from what gcov counted.

A line of a template or an inline function counts as run when any of its copies ran.
"""

import gzip
import json
import os
import subprocess
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("lci", "backends", "experimental")
WANTED_LINES = 85.0


def counted(data):
    """What gcov reports about one object file, as parsed JSON documents."""
    done = subprocess.run(["gcov", "--json-format", "--branch-probabilities", "--stdout", str(data)],
                          capture_output=True, check=False)
    text = done.stdout
    if text[:2] == b"\x1f\x8b":
        text = gzip.decompress(text)
    return [json.loads(line) for line in text.splitlines() if line.startswith(b"{")]


def collect(build):
    """{file: {line: times run}} and {file: {(line, branch number): times taken}}."""
    lines, branches = defaultdict(dict), defaultdict(dict)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for documents in pool.map(counted, sorted(build.rglob("*.gcda"))):
            for document in documents:
                for entry in document["files"]:
                    path = Path(document["current_working_directory"], entry["file"]).resolve()
                    parts = path.relative_to(ROOT).parts if path.is_relative_to(ROOT) else ("", "")
                    if parts[0] not in FOLDERS or parts[1] == "tests":
                        continue
                    name = path.relative_to(ROOT).as_posix()
                    for line in entry["lines"]:
                        number = line["line_number"]
                        lines[name][number] = lines[name].get(number, 0) + line["count"]
                        for k, branch in enumerate(b for b in line["branches"] if not b["throw"]):
                            key = (number, k)
                            branches[name][key] = branches[name].get(key, 0) + branch["count"]
    return lines, branches


def percent(counts):
    return 100.0 * sum(c > 0 for c in counts) / max(len(counts), 1)


def main():
    lines, branches = collect(Path(sys.argv[1]).resolve())
    if not lines:
        sys.exit("nothing was counted")
    for name in sorted(lines, key=lambda name: percent(lines[name].values())):
        missed = [number for number, count in sorted(lines[name].items()) if not count]
        shown = ", ".join(map(str, missed[:12])) + (", ..." if len(missed) > 12 else "")
        print(f"{percent(lines[name].values()):6.1f} %  {name}" + (f"  not run: {shown}" if missed else ""))
    all_lines = [count for file in lines.values() for count in file.values()]
    all_branches = [count for file in branches.values() for count in file.values()]
    print(f"lines {percent(all_lines):.1f} % of {len(all_lines)}, branches {percent(all_branches):.1f} % of "
          f"{len(all_branches)} (wanted: {WANTED_LINES:.0f} % of lines)")
    sys.exit(percent(all_lines) < WANTED_LINES)


if __name__ == "__main__":
    main()
