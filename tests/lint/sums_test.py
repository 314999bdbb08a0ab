"""The sums of ./dev test: a failure, a crash, a skip and a test that needed a second try are all told."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

SUMS = Path(__file__).resolve().parents[2] / "tools/dev/sums.py"
RESULTS = """<testsuite>
<testcase name="suite" status="run"><system-out>[       OK ] a.right (0 ms)
[1] [       OK ] a.right (0 ms)
[  FAILED  ] a.wrong (1 ms)
x.cpp:4: Skipped
no second card
[  SKIPPED ] a.left_out (0 ms)</system-out></testcase>
<testcase name="crash" status="fail"><system-out>Segmentation fault</system-out></testcase>
<testcase name="script" status="run"><system-out>fine</system-out></testcase>
<testcase name="absent" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/>
<system-out>skipped x: no tool</system-out></testcase>
</testsuite>"""
LOG = "3/3 Test #3: script ....***Failed 0.1 sec\n    Test #3: script ....   Passed 0.1 sec\n"
EXPECTED = ["no second card", "skipped x: no tool", "FAILED: release: suite: a.wrong", "FAILED: release: crash: crash",
            "UNSTEADY: release: script", "FAILED: tsan: does not build", "2 passed, 3 failed, 2 skipped"]


def sums(results, broken=""):
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(Path(folder, "build/log"))
        Path(folder, "results.xml").write_text(results)
        Path(folder, "build/log/test_release.log").write_text(LOG)
        return subprocess.run([sys.executable, SUMS, "--broken", broken, "--", "release=results.xml"], cwd=folder,
                              capture_output=True, text=True, check=False)


bad = sums(RESULTS, broken="tsan")
missing = [text for text in EXPECTED if text not in bad.stdout]
good = sums('<testsuite><testcase name="one" status="run"/></testsuite>')
if missing or bad.returncode != 1 or not bad.stdout.endswith("2 passed, 3 failed, 2 skipped\n"):
    sys.exit(f"not told: {missing}, exit status {bad.returncode}\n{bad.stdout}{bad.stderr}")
if good.returncode != 0 or good.stdout != "1 passed, 0 failed, 0 skipped\n":
    sys.exit(f"a clean run: exit status {good.returncode}\n{good.stdout}{good.stderr}")
if sums("<testsuite></testsuite>").returncode == 0:
    sys.exit("a run without any test passed")
