"""At its first message, not before, and not again, a process says who it is and which way it reaches whom.

says_once.py LCRUN RANKS PROGRAM NETWORK    NETWORK: what is said of it, an extended regular expression
"""

import os
import re
import socket
import subprocess
import sys

lcrun, ranks, program, network = sys.argv[1:]
got = subprocess.run([lcrun, "-n", ranks, "--tag-output", program], capture_output=True, text=True, check=False,
                     env={**os.environ, "LCI_LOG_LEVEL": "info"})
everything = got.stdout + got.stderr
if got.returncode != 0:
    sys.exit(f"exit status {got.returncode}\n{everything}")
wrong = []
for rank in range(int(ranks)):
    # Of one rank and one stream the order is that in which the rank wrote.
    lines = [line for line in got.stderr.splitlines() if line.startswith(f"[{rank}]")]
    said = [number for number, line in enumerate(lines) if re.search(r"rank \d+ of \d+, host ", line)]
    marks = [number for number, line in enumerate(lines) if "mark: " in line]
    if len(marks) != 2 or len(said) != 1:
        wrong.append(f"rank {rank} says it {len(said)} times and has {len(marks)} marks")
        continue
    if not marks[0] < said[0] < marks[1]:
        wrong.append(f"rank {rank} says it in line {said[0]}, its messages are between {marks}")
    expected = f" rank {rank} of {ranks}, host {re.escape(socket.gethostname())}, {network}$"
    if not re.search(expected, lines[said[0]]):
        wrong.append(f"rank {rank} says {lines[said[0]]!r} instead of {expected!r}")
if wrong:
    sys.exit("\n".join([*wrong, everything]))
