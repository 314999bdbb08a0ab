"""What bench/run makes of its programs' results: made-up programs, nothing is measured.

bench_run_test.py
"""

import importlib.machinery
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import types

sys.dont_write_bytecode = True
PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "bench" / "run"


def load():
    """bench/run as a module: its name has no ending."""
    loader = importlib.machinery.SourceFileLoader("bench_run", str(PROGRAM))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("bench_run", loader))
    loader.exec_module(module)
    return module


def demand(is_so, what):
    if not is_so:
        sys.exit(f"not so: {what}")


def row(**given):
    """A result as the programs print it."""
    return {"bench": "memory", "who": "lci", "what": "8", "value": 1, "unit": "KiB", "r_ns": 0, "ratio": 0, **given}


def numbers_of_a_failed_job_do_not_count():
    with tempfile.TemporaryDirectory() as folder:
        for name, script in (("lcrun", f"echo '{json.dumps(row())}'; echo a rank crashed >&2; exit 3"), ("bench_patterns", "")):
            file = pathlib.Path(folder, name)
            file.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
            file.chmod(0o755)
        where = os.path.join(folder, "out.json")
        done = subprocess.run([sys.executable, PROGRAM, "--bin", folder, "--json", where, "memory"],
                              capture_output=True, text=True, check=False)
        demand(done.returncode == 1 and "failed: memory: status 3: a rank crashed" in done.stdout, f"it is said: {done}")
        said = json.loads(pathlib.Path(where).read_text(encoding="utf-8"))
    demand(said["results"] == [], f"no row: {said}")
    demand(said["failed"] == ["memory: status 3: a rank crashed"], f"named in JSON: {said}")


def a_program_that_takes_too_long_is_a_failure():
    bench = load()

    def too_long(line, **_):
        raise subprocess.TimeoutExpired(line, 600)

    bench.subprocess = types.SimpleNamespace(PIPE=None, run=too_long, TimeoutExpired=subprocess.TimeoutExpired)
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "bench_in_process").touch()
        failures = []
        demand(bench.run_in_process(types.SimpleNamespace(bin=folder, rounds=1), failures) == [], "no row")
    demand(failures == ["in_process: took longer than 600 s"], failures)


def less_time_and_memory_are_better():
    for unit, ratio, better in (("ms", 0, "less"), ("KiB", 0, "less"), ("ns", 0, "less"), ("ns", 2, "less"),
                                ("M/s", 2, "less"), ("M/s", 0, "more"), ("GB/s", 0, "more")):
        both = {who: [row(who=who, unit=unit, ratio=ratio)] for who in ("lci", "before")}
        table = load().summarise("memory", [], [both])
        demand(table[1]["better_is"] == better, f"{better} {unit} is better: {table}")


for part in (numbers_of_a_failed_job_do_not_count, a_program_that_takes_too_long_is_a_failure, less_time_and_memory_are_better):
    part()
    print("ok", part.__name__)
