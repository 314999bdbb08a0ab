"""The sums of ./dev test: a failure, a crash and a skip are all told."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

SUMS = Path(__file__).resolve().parents[2] / "tools/dev/sums.py"
RESULTS = """<testsuite>
<testcase name="suite" status="fail"><system-out>[       OK ] a.right (0 ms)
[1] [       OK ] a.right (0 ms)
[  FAILED  ] a.wrong (1 ms)
x.cpp:4: Skipped
no second card
[  SKIPPED ] a.left_out (0 ms)</system-out></testcase>
<testcase name="crash" status="fail"><system-out>Segmentation fault</system-out></testcase>
<testcase name="script" status="run"><system-out>fine</system-out></testcase>
<testcase name="fires" status="run"><system-out>[  FAILED  ] a.check_fires (0 ms)</system-out></testcase>
<testcase name="absent" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/>
<system-out>skipped x: no tool</system-out></testcase>
</testsuite>"""
EXPECTED = ["no second card", "skipped x: no tool", "FAILED: release: suite: a.wrong", "FAILED: release: crash: crash",
            "FAILED: tsan: does not build", "3 passed, 3 failed, 2 skipped"]


def sums(results, broken=""):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "results.xml").write_text(results)
        return subprocess.run([sys.executable, SUMS, "--broken", broken, "--", "release=results.xml"], cwd=folder,
                              capture_output=True, text=True, check=False)


def checks(text):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "checks.txt").write_text(text)
        return subprocess.run([sys.executable, SUMS, "--broken", "", "--checks", "checks.txt", "--"], cwd=folder,
                              capture_output=True, text=True, check=False)


bad = sums(RESULTS, broken="tsan")
missing = [text for text in EXPECTED if text not in bad.stdout]
good = sums('<testsuite><testcase name="one" status="run"/></testsuite>')
if missing or bad.returncode != 1 or not bad.stdout.endswith("3 passed, 3 failed, 2 skipped\n"):
    sys.exit(f"not told: {missing}, exit status {bad.returncode}\n{bad.stdout}{bad.stderr}")
if good.returncode != 0 or good.stdout != "1 passed, 0 failed, 0 skipped\n":
    sys.exit(f"a clean run: exit status {good.returncode}\n{good.stdout}{good.stderr}")
if sums("<testsuite></testsuite>").returncode == 0:
    sys.exit("a run without any test passed")

# What is no test of ctest.
found = checks("OK|clang\nFAILED|demo|see build/log|x\nSKIPPED|next|no root\n")
if (found.returncode, found.stdout) != (1, "skipped: next: no root\nFAILED: demo: see build/log|x\n1 passed, 1 failed, 1 skipped\n"):
    sys.exit(f"other checks: exit status {found.returncode}\n{found.stdout}{found.stderr}")
if checks("OK|clang\n").returncode != 0:
    sys.exit("a clean check failed")

with tempfile.TemporaryDirectory() as folder:
    Path(folder, "gpu.xml").write_text(RESULTS.replace("crash", "crash_staged_mock"))
    table = subprocess.run([sys.executable, SUMS, "--table", "gpu.xml"], cwd=folder, capture_output=True, text=True,
                           check=False)
LINES = [r"suite +auto +1 passed, 1 FAILED, 1 skipped ", r"crash_staged_mock +staged +1 FAILED ",
         r"absent +auto +1 skipped ", "2 suites failed"]
missing = [line for line in LINES if not re.search(line, table.stdout)]
if missing or table.returncode != 1:
    sys.exit(f"not in the table: {missing}, exit status {table.returncode}\n{table.stdout}{table.stderr}")
