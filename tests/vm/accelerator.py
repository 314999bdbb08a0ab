"""How the machines' instructions are executed: by the processor (KVM) where that really works, else emulated (TCG).

/dev/kvm proves nothing: there are hosts where it opens, runs a few instructions, and then QEMU gives up or the kernel
stands still. So our own image is booted once, and the answer is kept until the host boots again.
"""

import ctypes
import os
import signal
import subprocess
from pathlib import Path

QEMU = "qemu-system-x86_64"
PROBE_SECONDS = 10
ALIVE = b"lci-vm: alive"  # printed by guest/init when it finds lci_probe
ARGUMENTS = {
    # Without "reliable" an emulated kernel reads the HPET instead of the TSC, and each look leaves the machine.
    "tcg": (["-accel", "tcg,thread=multi", "-cpu", "max,la57=off"], "tsc=reliable"),
    "kvm": (["-accel", "kvm", "-cpu", "host"], ""),
}


def die_with_parent():
    """In the child before exec: should this process be killed, so is QEMU."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def qemu_with(accelerator, boot, parameters):
    """What all our machines have in common. `parameters` is for the kernel."""
    arguments, more = ARGUMENTS[accelerator]
    return [QEMU, *arguments, "-M", "q35", "-no-user-config", "-nodefaults", "-display", "none", "-no-reboot",
            "-kernel", f"{boot}/kernel", "-initrd", f"{boot}/initramfs",
            "-append", f"console=ttyS0 panic=-1 oops=panic nowatchdog mitigations=off {more} {parameters}"]


def boots_with_kvm(boot):
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    command = qemu_with("kvm", boot, "quiet lci_probe=1") + ["-m", "512M", "-serial", "stdio"]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              check=False, timeout=PROBE_SECONDS, preexec_fn=die_with_parent)
    except subprocess.TimeoutExpired:
        return False
    return ALIVE in done.stdout


def choose(wanted, boot):
    if wanted != "auto":
        return wanted
    answer = Path(boot) / "accelerator"
    this_boot = Path("/proc/sys/kernel/random/boot_id").read_text()
    known = answer.read_text().split() if answer.exists() else []
    if known[:1] != this_boot.split():
        known = [this_boot.strip(), "kvm" if boots_with_kvm(boot) else "tcg"]
        answer.write_text(" ".join(known) + "\n")
    return known[1]
