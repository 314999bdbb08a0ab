"""Adds up what ctest wrote: which tests failed, which were skipped and why, and one line of sums.

A ctest entry that ran GoogleTest counts as the test cases inside it, each name once however many ranks
ran it; any other entry counts as one test.
"""

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
        found = {}  # one test: that a case fails
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
    """One line per ctest entry: what it is, the path that GPU memory took, what came of it, seconds."""
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


def main(arguments):
    if arguments[0] == "--table":
        return table(arguments[1])
    broken = arguments[1].split()
    total = {"OK": 0, "FAILED": len(broken), "SKIPPED": 0}
    failures = [f"{preset}: does not build" for preset in broken]
    skips = {}
    for item in arguments[3:]:
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
