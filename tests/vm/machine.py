"""Runs virtual machines: starts QEMU, passes on what the machines print, and ends them all, whatever happens.

Always true: when a bed has ended, or run() has returned or thrown, no QEMU that it started is left; the kernel ends them
should this process be killed. Threads: single.
"""

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import accelerator
import image

TIMED_OUT, CRASHED, ENDED = 124, 125, 123  # no status of the command: too long, kernel oops, ended otherwise
STARTS = 3  # of some thousand emulated machines one gave no sign of itself; until the command starts, nothing is lost
# Not a soft lockup: where others use the cores as well, a machine may stand still for a while.
CRASH = re.compile(r"Kernel panic|Oops: |BUG: (?!soft lockup)|general protection fault")


@dataclass
class Job:
    """What to run, and in which machines."""

    command: list
    machines: int = 1
    processes: int = 0  # on each machine, as ranks of one job; 0: the command runs once and is no job
    devices: int = 1
    cpus: int = 2
    memory: str = "2G"
    mtu: int = 4200
    netem: str = ""
    drops: bool = False  # between two machines: what one does not take is lost, as on a cable; else the other has to wait
    timeout: float = 300
    boot: float = 40  # by then a machine waits for the command, or all of the job's are started again
    grace: float = 20  # the other machine's time once one has failed
    accelerator: str = "auto"
    out: str = ""
    writable: str = ""  # another folder that machines may write to, beside `out`
    environment: dict = field(default_factory=dict)
    folder: str = ""  # where the command starts; empty: the current one
    path: str = ""  # where it finds programs; empty: where we do
    verbose: bool = False


class Machine:
    """One QEMU. `number` is 0 or 1."""

    def __init__(self, number, process, control):
        self.number, self.process, self.control = number, process, control
        self.printed = 0  # bytes of its output that were passed on

    def status(self):
        path = self.control / f"status.{self.number}"
        return int(path.read_text() or CRASHED) if path.exists() else None

    def is_ready(self):
        return (self.control / f"ready.{self.number}").exists()

    def console(self):
        return (self.control.parent / f"console.{self.number}").read_text(errors="replace")

    def pass_on_output(self, prefix, to_the_end):
        """Whole lines only, so that those of two machines do not mix; at the end, the rest."""
        path = self.control / f"output.{self.number}"
        if not path.exists() or path.stat().st_size == self.printed:
            return
        with open(path, "rb") as file:
            file.seek(self.printed)
            text = file.read()
        if not to_the_end:
            text = text[:text.rfind(b"\n") + 1]
        self.printed += len(text)
        for line in text.splitlines(keepends=True):
            sys.stdout.buffer.write(prefix + line)
        sys.stdout.buffer.flush()

    def kill(self):
        self.process.kill()
        self.process.wait()


def assignments(variables, lists):
    """For the shell in the machine."""
    lines = [f"{name}={shlex.quote(str(value))}" for name, value in variables.items()]
    lines += [f"{name}=({' '.join(map(shlex.quote, values))})" for name, values in lists.items()]
    return "\n".join(lines) + "\n"


def make_control(job, folder):
    """The folder that the machines see as /run/lci-vm."""
    control = folder / "control"
    shutil.copytree(image.GUEST / "bin", control / "bin")
    shutil.copy(image.GUEST / "session.sh", control)
    (control / "machine").write_text(assignments(
        {"MACHINES": job.machines, "DEVICES": job.devices, "MTU": job.mtu, "NETEM": job.netem, "OUT": job.out,
         "WRITABLE": job.writable}, {}))
    return control


class HeldLink:
    """A socket pair: no port, no name, and nobody else can listen. It holds back what the other end does not take."""

    def __init__(self):
        self.pair = socket.socketpair()
        self.ends = [one.fileno() for one in self.pair]

    def backend(self, number):
        return f"socket,fd={self.ends[number]}"

    def close(self):
        for one in self.pair:
            one.close()


class DroppingLink:
    """Datagrams between two ports of loopback, which are lost where nobody takes them."""

    ends = ()

    def __init__(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            for end in (one, other):
                end.bind(("127.0.0.1", 0))
            self.ports = [end.getsockname()[1] for end in (one, other)]

    def backend(self, number):
        return f"socket,udp=127.0.0.1:{self.ports[1 - number]},localaddr=127.0.0.1:{self.ports[number]}"

    def close(self):
        """Nothing is open here."""


def make_links(job):
    """One for each device, and the last for the bootstrap."""
    if job.machines < 2:
        return []
    return [(DroppingLink if job.drops else HeldLink)() for _ in range(job.devices)] + [HeldLink()]


def network_arguments(number, links):
    arguments = []
    for place, link in enumerate(links):
        mac = f"52:54:00:77:{place:02x}:{number + 1:02x}"
        arguments += ["-netdev", f"{link.backend(number)},id=net{place}",
                      "-device", f"virtio-net-pci,netdev=net{place},mac={mac}"]
    return arguments or ["-nic", "none"]


def share(path, name, options="security_model=none,multidevs=remap"):
    return ["-virtfs", f"local,path={path.replace(',', ',,')},mount_tag={name},{options}"]


def qemu_command(job, number, boot, folder, links):
    parameters = f"lci_machine={number}" + ("" if job.verbose else " quiet")
    return [*accelerator.qemu_with(accelerator.choose(job.accelerator, boot), boot, parameters),
            "-smp", str(job.cpus), "-m", job.memory, "-serial", f"file:{folder}/console.{number}",
            *share("/", "host", "readonly=on,security_model=none,multidevs=remap"), *share(f"{folder}/control", "control"),
            *share(job.out, "out"), *(share(job.writable, "writable") if job.writable else []),
            *network_arguments(number, links)]


def start(job, boot, folder, control):
    links = make_links(job)
    machines = []
    try:
        for number in range(job.machines):
            ends = [link.ends[number] for link in links if link.ends]
            with open(folder / f"console.{number}", "wb"), open(folder / f"qemu.{number}", "wb") as errors:
                process = subprocess.Popen(  # pylint: disable=consider-using-with
                    qemu_command(job, number, boot, folder, links), stdin=subprocess.DEVNULL,
                    stdout=errors, stderr=errors, pass_fds=ends, preexec_fn=accelerator.die_with_parent)
            machines.append(Machine(number, process, control))
    except BaseException:
        for machine in machines:
            machine.kill()
        raise
    finally:
        for link in links:
            link.close()
    return machines


def prefix_of(machine, count):
    return b"[%d] " % machine.number if count > 1 else b""


def look_after(machine, control, count):
    machine.pass_on_output(prefix_of(machine, count), to_the_end=False)
    if (control / f"kill.{machine.number}").exists():
        machine.kill()
        (control / f"kill.{machine.number}").unlink()
        (control / f"killed.{machine.number}").touch()
    if machine.process.poll() is not None and machine.status() is None:
        # The other one waits for this before it ends.
        (control / f"status.{machine.number}").write_text(str(CRASHED if CRASH.search(machine.console()) else ENDED))


def tell(text):
    sys.stdout.flush()
    print("vm: " + text, file=sys.stderr, flush=True)


def last_messages(console):
    """Of the kernel: from the crash on, or the end."""
    lines = console.splitlines()
    crash = next((number for number, line in enumerate(lines) if CRASH.search(line)), len(lines))
    return lines[max(0, crash - 20):crash + 60]


def how_far(machines):
    """What those without a status said of themselves, last: where they were when time was up."""
    return [line for machine in machines if machine.status() in (None, ENDED)
            for line in (f"machine {machine.number} was here:", *machine.console().splitlines()[-5:])]


def result_of(job, machine, folder):
    """Its exit status; says why when the command did not end by itself."""
    console = machine.console()
    if job.verbose:
        tell(f"kernel messages of machine {machine.number}:\n{console}")
    status = machine.status()
    if CRASH.search(console):
        status = CRASHED
    if status in (CRASHED, ENDED) and not job.verbose:
        what = "its kernel crashed" if status == CRASHED else "it ended without a status"
        said = last_messages(console) + (folder / f"qemu.{machine.number}").read_text(errors="replace").splitlines()[-10:]
        tell("\n".join([f"machine {machine.number}: {what}; the last messages:", *said]))
    return status


class Bed:
    """Machines that are up, and do one command after the other. A context: at its end they are gone.

    All that is no command's own, machines, memory, links, folders, is the first one's.
    """

    def __init__(self, job, boot):
        self.scratch = tempfile.TemporaryDirectory(prefix="lci-vm-")  # pylint: disable=consider-using-with
        self.machines, self.rounds = [], 0
        try:
            self.boot(job, boot)
        except BaseException:
            self.end()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        for machine in self.machines:
            machine.kill()
        self.scratch.cleanup()

    def boot(self, job, boot):
        """Starts machines until all are ready; that one ended, or hangs at its last start, the command finds out."""
        job.out = job.out or self.scratch.name + "/out"
        os.makedirs(job.out, exist_ok=True)
        self.out = job.out
        for number in range(1, STARTS + 1):
            self.folder = Path(self.scratch.name) / str(number)
            self.folder.mkdir()
            self.control = make_control(job, self.folder)
            self.start_time = time.monotonic()
            self.machines = start(job, boot, self.folder, self.control)
            limit = job.boot if number < STARTS else job.timeout
            while not all(machine.is_ready() for machine in self.machines) and self.are_up():
                if time.monotonic() > self.start_time + limit:
                    break
                time.sleep(0.02)
            else:
                return
            if number < STARTS:
                for machine in self.machines:
                    machine.kill()
                tell("\n".join([f"not ready after {job.boot:g} s, and started again", *how_far(self.machines)]))

    def are_up(self):
        return all(machine.process.poll() is None for machine in self.machines)

    def run(self, job, is_wanted=lambda: True):
        """The exit status of the command: of two machines the first that is not 0. Ends early where it is_wanted no longer."""
        self.rounds += 1
        until = self.start_time + job.timeout if self.rounds == 1 else time.monotonic() + job.timeout
        self.give(job)
        in_time = self.serve(job, until, is_wanted)
        if not in_time:
            for machine in self.machines:
                machine.kill()
        for machine in self.machines:
            look_after(machine, self.control, len(self.machines))
            machine.pass_on_output(prefix_of(machine, len(self.machines)), to_the_end=True)
        results = [result_of(job, machine, self.folder) for machine in self.machines
                   if in_time or machine.status() not in (None, ENDED)]
        failed = [status for status in results if status]
        if not in_time and not failed and is_wanted():
            tell("\n".join([f"not done after {job.timeout:g} s", *how_far(self.machines)]))
        return failed[0] if failed else 0 if in_time else TIMED_OUT

    def give(self, job):
        """The command and what is its own; whole as soon as it is there."""
        variables = {"PROCESSES": job.processes, "WORK_DIR": os.getcwd() if not job.folder else job.folder, "OUT_DIR": job.out,
                     "HOST_PATH": job.path or os.environ["PATH"]}
        lists = {"ENVIRONMENT": [f"{name}={value}" for name, value in job.environment.items()], "COMMAND": job.command}
        (self.control / "job").write_text(assignments(variables, lists))
        (self.control / "job").rename(self.control / f"job.{self.rounds}")

    def serve(self, job, until, is_wanted):
        """Passes output on and grants requests until each machine has a status. Returns whether there was time enough."""
        first_failure = True
        while any(machine.status() is None for machine in self.machines):
            if time.monotonic() > until or not is_wanted():
                return False
            for machine in self.machines:
                look_after(machine, self.control, len(self.machines))
                if first_failure and machine.status():
                    first_failure = False
                    until = min(until, time.monotonic() + job.grace)
            time.sleep(0.02)
        return True

    def is_ready_again(self, seconds=20):
        """Waits until the machines have put away what the last command left; false where they do not, or are gone."""
        until = time.monotonic() + seconds
        names = [self.control / f"idle.{machine.number}" for machine in self.machines]
        while not all(name.exists() for name in names):
            if time.monotonic() > until or not self.are_up():
                return False
            time.sleep(0.02)
        # They wait for the next job and look at nothing else.
        for machine in self.machines:
            machine.printed = 0
            for kind in ("idle", "status", "output"):
                (self.control / f"{kind}.{machine.number}").unlink()
        return not any(CRASH.search(machine.console()) for machine in self.machines)


def run(job, boot):
    """In machines of its own."""
    with Bed(job, boot) as bed:
        return bed.run(job)
