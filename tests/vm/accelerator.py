"""How the machines' instructions are executed: by the processor (KVM) where that really works, else emulated (TCG).

/dev/kvm proves nothing: there are hosts where it opens, runs a few instructions, and then QEMU gives up or the kernel
stands still. So our own image is booted once, and the answer is kept until the host boots again.
"""

import ctypes
import mmap
import os
import signal
import subprocess
import time
from pathlib import Path

QEMU = "qemu-system-x86_64"
PROBE_SECONDS = 10
ALIVE = b"lci-vm: alive"  # printed by guest/init when it finds lci_probe
ARGUMENTS = {
    # Without "reliable" an emulated kernel reads the HPET instead of the TSC, and each look leaves the machine.
    # The kernel takes the check of its timer, and measures the TSC, within some milliseconds of the host's time: where
    # the host is busy the one panics and the other is wrong by a factor, so neither is left to it.
    # Where a processor has fast string instructions, kernel and libc copy by them, and an emulated one takes a loop for each
    # byte: without them contract_ibv_vm takes 37 s instead of 45.
    "tcg": (["-accel", "tcg,thread=multi", "-cpu", "max,la57=off,-erms,-fsrm"], "no_timer_check tsc=reliable tsc_early_khz={tsc_khz}"),
    "kvm": (["-accel", "kvm", "-cpu", "host"], ""),
}


def die_with_parent():
    """In the child before exec: should this process be killed, so is QEMU."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def counter_of_this_processor():
    """Reads the TSC, which emulated machines see as it is."""
    # rdtsc; shl rdx, 32; or rax, rdx; ret
    memory = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(bytes.fromhex("0f31 48c1e220 4809d0 c3"))
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    read = ctypes.CFUNCTYPE(ctypes.c_uint64)(address)
    read.memory = memory  # lives as long as what is in it
    return read


def tsc_khz():
    """Of several readings at each end the one counts during which least time went by: nobody was in between."""
    read = counter_of_this_processor()

    def reading():
        times = [(time.monotonic_ns(), read(), time.monotonic_ns()) for _ in range(50)]
        before, count, after = min(times, key=lambda one: one[2] - one[0])
        return (before + after) / 2, count

    first = reading()
    time.sleep(0.1)
    last = reading()
    return round((last[1] - first[1]) * 1e6 / (last[0] - first[0]))


def qemu_with(accelerator, boot, parameters):
    """What all our machines have in common. `parameters` is for the kernel."""
    arguments, more = ARGUMENTS[accelerator]
    if accelerator == "tcg":
        more = more.format(tsc_khz=tsc_khz())
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
