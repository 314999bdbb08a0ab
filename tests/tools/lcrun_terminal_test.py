#!/usr/bin/env python3
"""lcrun at a terminal, in the background and in the foreground: it reads what is typed when it may, and never stops.
Argument: lcrun."""

import os
import pty
import signal
import subprocess
import sys

LIMIT_S = 120  # of the whole test
# Says nothing at first: no output makes lcrun look whether it is in the foreground now. Then ticks show that lcrun, which
# passes them on, is not stopped.
RANK = "echo ready; read a; echo got $a; (while :; do echo tick; sleep 0.02; done) & read b; echo got $b"


def main():
    """What runs here is the leader of the terminal's session, as a shell is."""
    leader, terminal = pty.fork()
    if leader == 0:
        os.read(0, 1)  # until the test may be told of its end
        os._exit(lead())
    os.write(terminal, b"\n")
    # What lead() says comes by this terminal.
    said = b""
    while True:
        try:
            said += os.read(terminal, 4096)
        except OSError:  # the session has ended
            break
        if said.endswith(b"type one\r\n"):
            os.write(terminal, b"one\n")
        if said.endswith(b"type two\r\n"):
            os.write(terminal, b"two\n")
    status = os.waitstatus_to_exitcode(os.waitpid(leader, 0)[1])
    sys.stdout.write(said.decode().replace("\r", ""))
    return status


class Job:
    """An lcrun in a process group of its own, at first in the background."""

    def __init__(self):
        self.process = subprocess.Popen([sys.argv[1], "-n", "1", "/bin/sh", "-c", RANK], stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, preexec_fn=lambda: os.setpgid(0, 0))
        self.lines = []

    def wait_for(self, line, times=1):
        """Until that line has come so often, from now on."""
        while times > 0:
            one = self.process.stdout.readline()
            if not one:
                raise AssertionError(f"lcrun ended before {line!r}: {self.lines}")
            self.lines.append(one)
            times -= one.decode().strip() == line

    def to_foreground(self):
        os.tcsetpgrp(0, self.process.pid)


def to_background():
    os.tcsetpgrp(0, os.getpgrp())


def lead():
    # Who is not in the foreground says who is.
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    signal.alarm(LIMIT_S)
    job = Job()
    job.wait_for("ready")
    job.to_foreground()
    print("type one", flush=True)
    job.wait_for("got one")
    job.wait_for("tick", 5)  # so that it waits for the terminal again
    to_background()
    print("type two", flush=True)
    job.wait_for("tick", 50)
    if b"got two\n" in job.lines:
        raise AssertionError("it has read what was not for it")
    job.to_foreground()
    job.wait_for("got two")
    status = job.process.wait()
    print(f"lcrun ended with status {status}", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
