"""Adds up ctest's results: which tests failed, which were skipped and why, and one line of sums.

A ctest entry that ran GoogleTest counts as the test cases inside it, each name once however many ranks
ran it; any other entry counts as one test.
"""

import argparse
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

CASE = re.compile(r"\[ +(OK|FAILED|SKIPPED) +\] ([\w./<>-]+\.[\w./<>-]+)")
# GoogleTest prints "file:line: Skipped" and the reason below it.
REASON = re.compile(r": Skipped\n(.*?)\n", re.DOTALL)


def plain(text):
    """Without colour, and without the rank in front of each line that a launcher may add."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text or "")
    return re.sub(r"(?m)^\[?\d+\]?[:|] ?", "", text)


def cases_of(entry, output):
    """{test name: outcome} of one ctest entry."""
    status = entry.get("status")
    found = {}
    for outcome, name in CASE.findall(output):
        # A case that failed in one rank failed.
        if found.get(name) != "FAILED":
            found[name] = outcome
    if status == "fail" and "FAILED" not in found.values():
        found[entry.get("name")] = "FAILED"  # crashed, timed out, or not GoogleTest
    elif status == "run" and "FAILED" in found.values():
        found = {}  # a single test, which expects that a case fails
    if not found:
        skipped = status in ("notrun", "disabled") or entry.find("skipped") is not None
        found[entry.get("name")] = "SKIPPED" if skipped else "OK"
    return found


def why_skipped(entry, output):
    reasons = [" ".join(r.split()) for r in REASON.findall(output + "\n")]
    if reasons:
        return "; ".join(sorted(set(reasons)))
    lines = [line for line in output.splitlines() if line.strip()]
    skipped = entry.find("skipped")
    told = skipped.get("message", "") if skipped is not None else ""
    return lines[-1].strip() if lines else told or "it gave no reason"


def table(path):
    """One line per ctest entry: its name, the path that GPU memory took, its outcome, seconds."""
    if not Path(path).exists():
        print(f"FAILED: ctest left no results in {path}")
        return 1
    failed = 0
    print(f"{'suite':44} {'path':8} {'result':32} {'s':>7}")
    for entry in ElementTree.parse(path).getroot().iter("testcase"):
        output = plain(entry.findtext("system-out"))
        cases = list(cases_of(entry, output).values())
        failed += "FAILED" in cases
        counts = [f"{cases.count(outcome)} {word}" for outcome, word in
                  (("OK", "passed"), ("FAILED", "FAILED"), ("SKIPPED", "skipped")) if outcome in cases]
        way = re.search(r"_(staged|direct)(_|$)", entry.get("name"))
        print(f"{entry.get('name'):44} {way.group(1) if way else 'auto':8} {', '.join(counts):32} "
              f"{float(entry.get('time') or 0):7.2f}")
    print(f"{failed} suites failed" if failed else "all suites passed")
    return 1 if failed else 0


def read_checks(path, total, failures, skips):
    """Checks that are no ctest entries, one per line: "OK|name", "FAILED|name|why" or "SKIPPED|name|why"."""
    lines = Path(path).read_text().splitlines() if path and Path(path).exists() else []
    for outcome, name, *why in (line.split("|", 2) for line in lines):
        total[outcome] += 1
        if outcome == "FAILED":
            failures.append(f"{name}: {why[0]}")
        elif outcome == "SKIPPED":
            skips.setdefault(why[0], []).append(name)


def main(arguments):
    if arguments[0] == "--table":
        return table(arguments[1])
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--broken", default="", help="presets that do not build")
    parser.add_argument("--checks", help="what else was found out")
    parser.add_argument("results", nargs="*", help="PRESET=FILE of ctest")
    given = parser.parse_args(arguments)
    broken = given.broken.split()
    total = {"OK": 0, "FAILED": len(broken), "SKIPPED": 0}
    failures = [f"{preset}: does not build" for preset in broken]
    skips = {}
    read_checks(given.checks, total, failures, skips)
    for item in given.results:
        preset, path = item.split("=", 1)
        if not Path(path).exists():
            failures.append(f"{preset}: ctest left no results")
            total["FAILED"] += 1
            continue
        for entry in ElementTree.parse(path).getroot().iter("testcase"):
            output = plain(entry.findtext("system-out"))
            for name, outcome in cases_of(entry, output).items():
                total[outcome] += 1
                if outcome == "FAILED":
                    failures.append(f"{preset}: {entry.get('name')}: {name}")
                elif outcome == "SKIPPED":
                    skips.setdefault(why_skipped(entry, output), []).append(f"{preset}: {name}")
    for reason, names in skips.items():
        shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        print(f"skipped: {shown}: {reason}")
    for failure in failures:
        print(f"FAILED: {failure}")
    print(f"{total['OK']} passed, {total['FAILED']} failed, {total['SKIPPED']} skipped")
    return 1 if total["FAILED"] or not total["OK"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
