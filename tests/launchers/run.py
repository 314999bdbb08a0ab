#!/usr/bin/env python3
"""run.py LAUNCHER PROGRAM LCRUN [BOOTSTRAP [MPI LIBRARY]]: starts PROGRAM as a job of 4 ranks under LAUNCHER, one of
openmpi, mpich, slurm_pmi2, slurm_pmix, slurm_none, torchrun and lcrun, and checks that all four found each other over
BOOTSTRAP. With "alone" before the launcher's name, nothing that lci could use is there, and it has to say so.

Exit status 77: the launcher is not here, or cannot run here; the reason is printed. A Slurm of one machine is started
for the test, in a folder and with ports of its own, and ended with it."""
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

RANKS = 4
LIMIT_S = 100
INSTALL = {
    "openmpi": "openmpi-bin libpmix2", "mpich": "mpich",
    "slurm": "slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge libpmi0 libpmix-dev",
}
# Of whatever has started the test itself.
OTHERS = ("OMPI_", "PMIX_", "PMI_", "SLURM_", "LCI_LCRUN_", "LCT_PMI_", "RANK", "WORLD_SIZE", "LOCAL_RANK",
          "LOCAL_WORLD_SIZE", "MASTER_", "LCT_MASTER_", "LCI_MASTER_", "MPI_LOCAL")


def skip(why, package=None):
    print("skipped: " + why + ("; install: " + INSTALL[package] if package else ""))
    sys.exit(77)


def find(names, package):
    found = [shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin") for name in names]
    if None in found:
        skip(names[found.index(None)] + " is not installed", package)
    return found


def die_with_us():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def run(line, environment):
    """Its output and exit status; whatever is left of it is killed."""
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
                          start_new_session=True) as process:
        try:
            out, _ = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)
            time.sleep(1)
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            out, _ = process.communicate()
            out += "\nrun.py: did not end within %d s\n" % LIMIT_S
    return out, process.returncode


class Slurm:
    """A cluster of this machine alone. Any failure to start is a reason to skip, with what Slurm says."""

    def __init__(self):
        self.munged, self.slurmctld, self.slurmd, self.srun, self.sinfo = find(
            ("munged", "slurmctld", "slurmd", "srun", "sinfo"), "slurm")
        if os.geteuid() != 0:
            skip("slurmd runs as root only")
        self.folder = tempfile.mkdtemp(prefix="lci-slurm-")
        self.daemons = []
        self.host = socket.gethostname().split(".")[0]
        self.environment = {"SLURM_CONF": self.folder + "/slurm.conf"}

    def __enter__(self):
        with open(os.open(self.folder + "/munge.key", os.O_WRONLY | os.O_CREAT, 0o400), "wb") as key:
            key.write(os.urandom(64))
        for name in ("state", "spool"):
            os.mkdir(self.folder + "/" + name)
        with open(self.folder + "/slurm.conf", "w", encoding="utf-8") as conf:
            conf.write(self.configuration())
        path = self.folder + "/munge."
        self.start([self.munged, "--force", "--foreground", "--key-file=" + path + "key", "--socket=" + path + "socket",
                    "--pid-file=" + path + "pid", "--log-file=" + path + "log", "--seed-file=" + path + "seed"])
        self.wait_until(lambda: os.path.exists(path + "socket"), "munged did not open its socket")
        self.start([self.slurmctld, "-D", "-i"])
        self.start([self.slurmd, "-D", "-N", self.host])
        self.wait_until(self.is_idle, "no idle node")
        return self

    def configuration(self):
        ports = free_ports(2)
        return """ClusterName=lci
SlurmctldHost=%(host)s(127.0.0.1)
SlurmctldPort=%(ctld)d
SlurmdPort=%(d)d
AuthType=auth/munge
AuthInfo=socket=%(folder)s/munge.socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=%(folder)s/state
SlurmdSpoolDir=%(folder)s/spool
SlurmctldPidFile=%(folder)s/slurmctld.pid
SlurmdPidFile=%(folder)s/slurmd.pid
SlurmctldLogFile=%(folder)s/slurmctld.log
SlurmdLogFile=%(folder)s/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/builtin
SwitchType=switch/none
ReturnToService=2
MailProg=/bin/true
SlurmdParameters=config_overrides
NodeName=%(host)s NodeAddr=127.0.0.1 CPUs=%(ranks)d RealMemory=256 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
""" % {"host": self.host, "ctld": ports[0], "d": ports[1], "folder": self.folder, "ranks": RANKS}

    def start(self, line):
        log = open(self.folder + "/" + os.path.basename(line[0]) + ".out", "w", encoding="utf-8")
        with log:
            self.daemons.append(subprocess.Popen(line, stdout=log, stderr=log, preexec_fn=die_with_us,
                                                 env=dict(os.environ, **self.environment)))

    def is_idle(self):
        answer = subprocess.run([self.sinfo, "-h", "-o", "%T"], capture_output=True, text=True, check=False,
                                env=dict(os.environ, **self.environment))
        return answer.stdout.strip() == "idle"

    def wait_until(self, holds, what):
        for _ in range(300):
            if holds():
                return
            if any(daemon.poll() is not None for daemon in self.daemons):
                break
            time.sleep(0.1)
        reasons = [what]
        for name in sorted(os.listdir(self.folder)):
            if name.endswith((".out", ".log")):
                with open(self.folder + "/" + name, encoding="utf-8", errors="replace") as log:
                    reasons += [name + ": " + line.strip() for line in log.readlines()[-3:]]
        self.__exit__()
        skip("Slurm does not run here: " + "; ".join(reasons))

    def __exit__(self, *_):
        for daemon in reversed(self.daemons):
            daemon.terminate()
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def torchrun(program, environment):
    """What torchrun does for lci: variables."""
    port = str(free_ports(1)[0])
    ranks = []
    for rank in range(RANKS):
        own = dict(environment, RANK=str(rank), WORLD_SIZE=str(RANKS), LOCAL_RANK=str(rank),
                   LOCAL_WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
        ranks.append(subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=own,
                                      preexec_fn=die_with_us))
    out, status = "", 0
    for rank in ranks:
        try:
            text, _ = rank.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            rank.kill()
            text, _ = rank.communicate()
        out += text
        status = status or rank.returncode
    return out, status


def launch(launcher, program, lcrun, environment):
    if launcher == "openmpi":
        mpirun, = find(("mpirun.openmpi",), "openmpi")
        # It looks for ssh even when all ranks are here.
        environment = {**environment, "OMPI_MCA_plm_rsh_agent": shutil.which("ssh") or shutil.which("false")}
        return run([mpirun, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(RANKS)] + program,
                   environment)
    if launcher == "mpich":
        mpiexec, = find(("mpiexec.mpich",), "mpich")
        return run([mpiexec, "-n", str(RANKS)] + program, environment)
    if launcher == "torchrun":
        return torchrun(program, environment)
    if launcher == "lcrun":
        return run([lcrun, "-n", str(RANKS)] + program, environment)
    with Slurm() as slurm:
        line = [slurm.srun, "-Q", "--mpi=" + launcher[len("slurm_"):], "-n", str(RANKS), "--overcommit"] + program
        return run(line, dict(environment, **slurm.environment))


def main():
    words = sys.argv[1:]
    alone = words[0] == "alone"
    if alone:
        del words[0]
    launcher, program, lcrun = words[:3]
    bootstrap = words[3] if len(words) > 3 else ""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(OTHERS)}
    environment["LCI_ATTR_BACKEND"] = "shm"
    line = [program, bootstrap, str(RANKS)]
    if alone:
        nothing = "/lci-test-no-such-library"
        environment.update(LCI_PMIX_LIBRARY=nothing, LCI_MPI_LIBRARY=nothing, LCI_PMI_LIBRARY=nothing)
        environment.pop("HOME", None)
    elif words[4:]:
        line += ["--mpi", words[4]]
        try:
            ctypes.CDLL(words[4])
        except OSError as error:
            skip(str(error), launcher)
    elif bootstrap in ("mpi", "pmi1") and launcher != "slurm_none":
        environment["LCT_PMI_BACKEND"] = bootstrap  # another one goes before it
    out, status = launch(launcher, line, lcrun, environment)
    print(out)
    # Slurm's plugin opens the library by the name that only its development package has.
    if status and "can not load PMIx library" in out:
        skip("srun finds no libpmix.so", "slurm")
    if alone:
        wanted = ("has started this process as one of several", "would make it rank 0 of 1", "LCT_PMI_BACKEND=local")
        missing = [text for text in wanted if text not in out]
        problem = missing or ("it went on" if status == 0 or ": ok" in out else "")
    else:
        missing = [r for r in range(RANKS) if out.count("rank %d of %d: ok" % (r, RANKS)) != 1]
        problem = missing or ("exit status %d" % status if status else "")
    if problem:
        sys.exit("run.py: %s: not as it should be: %s" % (" ".join(sys.argv[1:]), problem))


if __name__ == "__main__":
    main()
