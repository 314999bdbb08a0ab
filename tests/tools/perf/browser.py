"""The page of lci_perf in headless Chromium: what it shows, that its script works, and that it asks for nothing else.

Exit status 77: skipped, and why.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# Executed behind the page's own script: what a reader would see before and after a click.
LOOK = """<pre id="seen"></pre><script>
function shown() {
  return Array.prototype.filter.call(document.querySelectorAll("tr.rival"), function (row) { return !row.hidden; }).length;
}
var before = shown();
document.getElementById("rivals").click();
var sizes = Array.prototype.map.call(document.querySelectorAll("svg"), function (one) {
  return Math.round(one.getBoundingClientRect().width) + "x" + Math.round(one.getBoundingClientRect().height);
});
document.getElementById("seen").textContent = "rivals " + before + " then " + shown() + ", plots " + sizes.join(" ") +
  ", loaded " + performance.getEntriesByType("resource").length;
</script></body>"""


def main():
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not chromium:
        print("skipped: no chromium")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        page, picture = Path(folder, "page.html"), Path(folder, "picture.svg")
        subprocess.run([sys.argv[1], "bandwidth", "--op", "am", "--sizes", "8..64", "--messages", "64", "--rounds", "2",
                        "--against", "raw", "--html", page, "--svg", picture], check=True, stdout=subprocess.DEVNULL)
        page.write_text(page.read_text().replace("</body>", LOOK))
        for file, wanted in (page, None), (picture, "<polyline"):
            done = subprocess.run([chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                                   "--enable-logging=stderr", f"--user-data-dir={folder}/profile", "--dump-dom",
                                   file.as_uri()], capture_output=True, text=True, check=False,
                                  env={**os.environ, "HOME": folder})
            if done.returncode != 0 or "CONSOLE" in done.stderr or (wanted and wanted not in done.stdout):
                sys.exit(f"{file.name}: status {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
            if wanted is None:
                seen = re.search(r'<pre id="seen">([^<]*)</pre>', done.stdout)
                if not seen or not re.match(r"rivals [1-9]\d* then 0, plots ([1-9]\d+x[1-9]\d+ ?)+, loaded 0$", seen[1]):
                    sys.exit(f"the page shows {seen and seen[1]}\n{done.stderr[-2000:]}")
                print(seen[1])


main()
