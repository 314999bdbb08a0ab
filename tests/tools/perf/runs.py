"""lci_perf measures each operation with few messages, all of which arrive; rivals are measured or named; nonsense is refused.

runs.py PROGRAM operations|others|gpu. Nothing here depends on how long anything takes.
"""

import json
import os
import subprocess
import sys

PROGRAM = sys.argv[1]
MESSAGES = 64


def demand(is_so, what):
    if not is_so:
        sys.exit(f"not so: {what}")


def run(*arguments, status=0):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False)
    demand(done.returncode == status, f"status {status} of {arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


def measured(*arguments):
    """The rows of a short run, in one list, all complete."""
    said = json.loads(run(*arguments, "--messages", MESSAGES, "--rounds", 2, "--json", "-").stdout)
    rows = [row for stage in said["stages"] for row in stage["rows"]]
    demand(rows, f"{arguments} has rows")
    for row in rows:
        demand(row["results"][0]["library"] == "lci", "lci comes first")
        for one in row["results"]:
            if "why_not" in one:
                demand(one["library"] != "lci" and one["why_not"], f"a reason: {one}")
                continue
            what = f"{row['operation']} {row['measure']} of {one['library']}: {one['messages']} of {one['expected']}"
            demand(one["messages"] == one["expected"] >= MESSAGES, f"all messages arrived, {what}")
            demand(len(one["values"]) == 2, f"a value for each round: {what}")
    return said, rows


def every_operation_and_measure():
    every = ["latency", "rate", "bandwidth", "overlap", "--op", "am,sendrecv,put,get"]
    _, rows = measured(*every, "--sizes", "8,4096,256K", "--against", "raw", "--placement", "all")
    seen = {(row["measure"], row["operation"]) for row in rows}
    demand(len(seen) == 15, f"four measures of four operations, but no overlap of get: {seen}")
    for row in rows:
        demand("why_not" not in row["results"][1], f"raw copies need nothing: {row}")


def pairs_of_processes_and_threads():
    for how in ([], ["--threads"], ["--shared-device"]):
        said, _ = measured("rate", "latency", "--pairs", 2, "--op", "am,sendrecv,put,get", "--against", "none", *how)
        demand(said["stages"][0]["pairs"] == 2, how)
        demand(said["threads"] == bool(how), how)


def every_rival():
    """Those that are here are measured, with sends that all of them have; the others say why not."""
    said, rows = measured("latency", "rate", "--op", "sendrecv")
    listed = run("--list").stdout
    for one in rows[0]["results"]:
        can_be = f"{one['library']} can be measured" in " ".join(listed.split())
        if can_be and "why_not" in one:
            print(f"{one['library']} was not measured: {one['why_not']}")
        demand(can_be or "why_not" in one, f"{one['library']} is absent and was measured")
    return said


def nothing_stays_of_libfabric():
    """Its endpoints are files named by the process, which are gone when they were closed."""
    def files():
        # Other programs of this machine may have such files too: those of processes that live are not ours.
        return {name for name in os.listdir("/dev/shm") if ":" in name and not os.path.exists(f"/proc/{name.split(':')[0]}")}

    before = files()
    for how in ([], ["--threads", "--pairs", 2]):
        measured("latency", "--op", "sendrecv", "--against", "libfabric", *how)
    left = files() - before
    demand(not left, f"nothing new in /dev/shm: {left}")


def refused():
    for words, text in ((["--op", "send"], "none of"), (["--sizes", "1"], "not a size"), (["--placement", "9999,0"], "9999"),
                        (["--json", "/nowhere/a.json"], "cannot write /nowhere/a.json")):
        demand(text in run(*words, status=2).stderr, f"{words} says {text}")
    demand("usage: lci_perf" in run("--help").stdout, "the usage")
    done = subprocess.run([PROGRAM, "latency", "--memory", "gpu", "--messages", "8", "--against", "none"],
                          capture_output=True, text=True, check=False)
    demand(done.returncode == 0 or (done.returncode == 77 and "no GPU memory here: " in done.stderr), f"a reason: {done}")
    # Only lci_perf starts what executes its orders.
    demand("lci_perf starts" in run("--worker", status=1).stderr, "--worker by hand")


def gpu_memory():
    """On a mock driver: what the messages carry is a matter of other tests, that all arrive is one of this."""
    every = ["latency", "rate", "bandwidth", "overlap", "--op", "am,sendrecv,put,get", "--sizes", "8,64K", "--memory", "gpu"]
    said, rows = measured(*every, "--against", "ucx,raw,nccl")
    demand(said["memory"] == "gpu" and len(rows) == 30, said)
    demand(all("why_not" in one for row in rows for one in row["results"][1:]), "the others say why not")


PARTS = {"operations": (every_operation_and_measure, refused), "others": (pairs_of_processes_and_threads, every_rival, nothing_stays_of_libfabric),
         "gpu": (gpu_memory,)}
for part in PARTS[sys.argv[2]]:
    part()
    print("ok", part.__name__)
