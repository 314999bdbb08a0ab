"""Makes the HTML pages and looks at them in headless Chromium: loads pages, searches words in the search box, follows
every link, and asks whether each operation's page shows its options and the tree its parts in order.

Exit status 77: skipped, and why.
"""

import argparse
import contextlib
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

# What is imported from the sources leaves nothing beside them.
sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1]

# What somebody looks for, and a page that has to be among what is found.
WORDS = {"allow_done": "post_send_x", "remote_disp": "post_put_x", "npackets": "alloc_packet_pool_x", "ring_nsteps": "broadcast_x",
         "do_progress": "sync_wait_x", "matching_policy": "post_recv_x", "post_am": "post", "peer_failure_error": "peer",
         "LCT_queue_push": "queue", "Threads": "threads"}
# Pages that are loaded as a reader loads them, each with what it must show.
PAGES = {"index.html": ["Starting programs", "Decisions"],
         "classlci_1_1post__send__x.html": ["allow_done", "matching_policy", "Default: true", "user_context", "call"],
         "classlci_1_1alloc__device__x.html": ["net_max_sends", "LCI_ATTR_NET_MAX_SENDS", "Default:"],
         "group__post.html": ["post_send_x"], "group__reference.html": ["Messages", "Completion objects"],
         "starting.html": ["lcrun"], "benchmarks.html": ["lci_perf"], "decisions.html": ["0001"], "lct_8h.html": ["companion"]}
# In this order in the tree.
TREE = ["Starting programs", "Threads", "Errors", "Decisions", "Modules", "Classes"]


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def server_for(folder, answers):
    """The pages, the harness beside them, and what the harness reports."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=str(folder))

        def log_message(self, *_):
            pass

        def copyfile(self, source, outputfile):
            # The browser goes on to the next page whenever it likes.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                super().copyfile(source, outputfile)

        def do_GET(self):
            if self.path != "/harness.html":
                return super().do_GET()
            plan = json.dumps({"words": list(WORDS), "pages": list(PAGES)})
            body = (HERE / "harness.html").read_text().replace("PLAN", plan).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            return self.wfile.write(body)

        def do_POST(self):
            told = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(204)
            self.end_headers()
            if self.path == "/waits":
                # The last one is what a run that takes too long is about.
                print(f"waits for {told}", flush=True)
                return
            answers.append(told)
            done.set()

    done = threading.Event()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, done


def browse(chromium, folder):
    """What the harness found, in a browser of its own."""
    answers = []
    server, done = server_for(folder, answers)
    with tempfile.TemporaryDirectory() as profile:
        command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                   f"--user-data-dir={profile}", "--window-size=1400,1000", "--remote-debugging-port=0",
                   f"http://127.0.0.1:{server.server_port}/harness.html"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              env={**os.environ, "HOME": profile}, start_new_session=True) as browser:
            while not done.wait(1) and browser.poll() is None:
                pass
            browser.terminate()
            said = browser.communicate()[1]
        server.shutdown()
    if not answers:
        sys.exit(f"the browser has ended without a report; it said:\n{said[-2000:]}")
    return answers[0]


def problems_of(seen):
    """What a reader would miss."""
    found = list(seen["errors"])
    for word, page in WORDS.items():
        hits = seen["found"].get(word, [])
        if not any(page in hit for hit in hits):
            found.append(f"searching {word} finds {hits[:5] or 'nothing'}, and no {page}")
    for page, wanted in PAGES.items():
        found += [f"{page} does not show {text}" for text in wanted if text not in seen["texts"].get(page, "")]
    at = [seen["tree"].find(title) for title in TREE]
    if -1 in at or at != sorted(at):
        found.append(f"the tree has not, in this order, {TREE}: {seen['tree'][:400]}")
    if seen["pages"] < 100 or seen["links"] < 5000:
        found.append(f"only {seen['pages']} pages and {seen['links']} links were there to follow")
    return found


def unshown_setters(folder):
    """Setters in the headers that are not on the page of an operation."""
    sys.path.insert(0, str(SOURCE / "tools/lint"))
    import doxygen_filter  # noqa: PLC0415
    headers = doxygen_filter.Headers(SOURCE / "include/lci")
    operations = sorted({match.group(1) for text in headers.texts.values() for match in doxygen_filter.OPERATION.finditer(text)})
    found = []
    for operation in operations:
        page = folder / f"classlci_1_1{operation.replace('_', '__')}__x.html"
        text = page.read_text() if page.exists() else ""
        missing = [name for name in headers.setters_of(operation)[0] if not re.search(rf"\b{name}\b", text)]
        if missing or not text:
            found.append(f"{page.name} lacks {', '.join(missing) or 'everything'}")
        if "inherit_header" in text or "inheritance diagram" in text.lower():
            found.append(f"{page.name} shows how the class is put together")
    return found, len(operations)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, required=True)
    arguments = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not shutil.which("doxygen"):
        skip("no doxygen")
    with tempfile.TemporaryDirectory(dir=arguments.build) as out:
        subprocess.run([sys.executable, SOURCE / "tools/lint/doxygen.py", "--html", out, "--build", arguments.build], check=True)
        folder = Path(out) / "html"
        problems, operations = unshown_setters(folder)
        if not chromium:
            print("\n".join(problems))
            if problems:
                sys.exit(1)
            skip("no chromium; the pages have all setters")
        seen = browse(chromium, folder)
        problems += problems_of(seen)
    print("\n".join(problems[:40]))
    print(f"{operations} operations, {len(WORDS)} words, {seen['pages']} pages, {seen['links']} links, {len(problems)} problems")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
