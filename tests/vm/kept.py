"""Machines that stay up for the next command, so that they boot once for many tests.

Under ctest, and only there: the first command of a kind starts a keeper, a process of its own with the machines of that
kind. Each command is one connection to it, over which it gets the command's outputs; what it prints goes there. The keeper
ends, and its machines with it, when that ctest has. A command that fails, or whose starter goes away, is the last one of
its machines: the next finds new ones. So a single test boots as it would alone.

Always true: a keeper does one command at a time. Threads: single, both sides.
"""

import dataclasses
import hashlib
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import machine

# What machines have from their start: commands that agree in it share them.
KIND = ("machines", "devices", "cpus", "memory", "mtu", "netem", "drops", "accelerator", "writable")


def process_of(pid):
    """Its name, its parent, and the time of its start, which no later process of that number shares."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return "", 0, ""
    fields = text[text.rindex(")") + 1:].split()
    return text[text.index("(") + 1:text.rindex(")")], int(fields[1]), fields[19]


def find_owner():
    """The ctest that we run under, as "pid start"; None without one."""
    pid = os.getppid()
    while pid > 1:
        name, parent, start = process_of(pid)
        if name == "ctest":
            return f"{pid} {start}"
        pid = parent
    return None


def is_there(owner):
    pid, start = owner.split()
    return process_of(pid)[2] == start


def address_of(owner, job):
    kind = repr([owner, *(getattr(job, name) for name in KIND), os.environ.get("TMPDIR", "")])
    return Path(tempfile.gettempdir()) / f"lci-vm-{os.getuid()}-{hashlib.sha256(kind.encode()).hexdigest()[:16]}"


def start_keeper(owner, address, boot):
    """It listens before it is there, so nobody comes too early."""
    shutil.rmtree(address, ignore_errors=True)
    os.mkdir(address, 0o700)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(address / "socket"))
        listening.listen()
        subprocess.Popen([sys.executable, __file__, owner, str(address), str(boot), str(listening.fileno())],  # pylint: disable=consider-using-with
                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/",
                         pass_fds=[listening.fileno()], start_new_session=True)


def connect(owner, address, boot):
    link = socket.socket(socket.AF_UNIX)
    try:
        link.connect(str(address / "socket"))
    except OSError:
        start_keeper(owner, address, boot)
        link.connect(str(address / "socket"))
    return link


def run(job, boot):
    """The command's exit status."""
    owner = find_owner()
    if not owner or job.out:
        return machine.run(job, boot)
    job.folder, job.path = os.getcwd(), os.environ["PATH"]
    with connect(owner, address_of(owner, job), boot) as link:
        socket.send_fds(link, [b"1"], [1, 2])
        link.sendall(json.dumps(dataclasses.asdict(job)).encode() + b"\n")
        said = link.makefile("rb").read()
    if not said:
        machine.tell("the keeper of the machines is gone")
    return int(said or machine.ENDED)


class Keeper:
    """The machines of one kind, up or not yet."""

    def __init__(self, owner, boot):
        self.owner, self.boot, self.bed = owner, boot, None

    def end(self):
        if self.bed:
            self.bed.end()
        self.bed = None

    def run(self, job, is_wanted):
        if self.bed and not self.bed.is_ready_again():
            self.end()
        self.bed = self.bed or machine.Bed(job, self.boot)
        job.out = f"{self.bed.out}/{self.bed.rounds}"
        os.mkdir(job.out)
        status = self.bed.run(job, lambda: is_wanted() and is_there(self.owner))
        if status:
            if self.bed.rounds > 1:
                machine.tell(f"these machines have run {self.bed.rounds - 1} commands before this one")
            self.end()
        return status


def serve(keeper, link):
    """One command, whose outputs are ours meanwhile."""
    _, outputs, _, _ = socket.recv_fds(link, 1, 2)
    for place, output in zip((1, 2), outputs):
        os.dup2(output, place)
        os.close(output)
    try:
        job = machine.Job(**json.loads(link.makefile("rb").readline()))
        # Its starter says no more: that it can be read from is that it is gone.
        status = keeper.run(job, lambda: not select.select([link], [], [], 0)[0])
        sys.stdout.flush()
    finally:
        with open(os.devnull, "wb") as nothing:
            for place in (1, 2):
                os.dup2(nothing.fileno(), place)
    link.sendall(str(status).encode())


def main(owner, address, boot, listening):
    keeper = Keeper(owner, boot)
    try:
        with socket.socket(fileno=int(listening)) as door:
            while is_there(owner):
                if not select.select([door], [], [], 0.2)[0]:
                    continue
                link, _ = door.accept()
                with link:
                    try:
                        serve(keeper, link)
                    except OSError:  # the starter is gone
                        keeper.end()
    finally:
        keeper.end()
        shutil.rmtree(address, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
