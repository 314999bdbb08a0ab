#!/usr/bin/env python3
"""Runs a command on a real verbs device, soft-RoCE (rdma_rxe), inside one small virtual machine or two.

  vm.py run  [OPTION...] -- COMMAND...   one machine
  vm.py pair [OPTION...] -- COMMAND...   two machines joined by a link; the command runs in both
  vm.py prepare                          fetches the kernel and makes the image, if that is still to be done
  vm.py doctor                           says what is missing, and how machines would run
  vm.py cache-dir                        where the image is kept

The machine sees the host's files under the same paths, read only, with a scratch layer in memory over them; what is to
stay goes to OUT_DIR. The command runs as root in the current folder, with no input, and stdout and stderr are one. It
finds OUT_DIR, VM_MACHINE (0 or 1), VM_MACHINES, VM_ADDRESS, VM_PEER, VM_DEVICES and the tools vm-fault and vm-job.

Exit status: the command's, of two the first that is not 0; 123 a machine ended without one, 124 time was up, 125 the
kernel of a machine crashed, 2 wrong usage or no machine possible (77 with --if-possible).
"""

import argparse
import os
import signal
import sys

import accelerator
import image
import kept
import machine

KEPT = ("HOME", "LANG", "LD_LIBRARY_PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS")
KEPT_PREFIXES = ("LCI_", "LCT_", "GTEST_")
SKIPPED = 77


def arguments_of(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=["run", "pair", "prepare", "doctor", "cache-dir"])
    parser.add_argument("--timeout", type=float, default=300, metavar="S", help="seconds, the last boot included (300)")
    parser.add_argument("--boot", type=float, default=40, metavar="S",
                        help="where a machine is not ready for the command by then, all are started again, twice at most (40)")
    parser.add_argument("--grace", type=float, default=20, metavar="S",
                        help="seconds left to the other machine once the command failed in one (20)")
    parser.add_argument("--processes", type=int, default=0, metavar="N",
                        help="start the command N times on each machine, as ranks of one job over the tcp bootstrap")
    parser.add_argument("--devices", type=int, default=1, metavar="N", help="verbs devices, each on a link of its own (1)")
    parser.add_argument("--cpus", type=int, metavar="N", help="processors of each machine (2; of a pair 1)")
    parser.add_argument("--mem", default="2G", metavar="SIZE", help="memory of each machine; half of it for scratch files (2G)")
    parser.add_argument("--mtu", type=int, default=4200, metavar="N", help="of the interfaces; 4200 gives 4096 to verbs")
    parser.add_argument("--out", metavar="DIR", help="OUT_DIR, under the same path in the machines (a throw-away folder)")
    parser.add_argument("--writable", metavar="DIR", help="another folder that the machines may write to")
    parser.add_argument("--env", action="append", default=[], metavar="NAME[=VALUE]",
                        help=f"passed on, beside {', '.join(KEPT)} and {'*, '.join(KEPT_PREFIXES)}*")
    parser.add_argument("--loss", metavar="PERCENT", help="of what each machine of a pair sends")
    parser.add_argument("--delay", metavar="TIME", help="of what each machine of a pair sends, such as 1ms")
    parser.add_argument("--drop", action="store_true",
                        help="what a machine of a pair does not take is lost, as on a cable; else the other has to wait")
    parser.add_argument("--keep", action="store_true",
                        help="under ctest: in machines that are up already, and stay up for the next command of their kind")
    parser.add_argument("--accel", choices=["auto", "kvm", "tcg"], default="auto", help="auto: kvm if it really works")
    parser.add_argument("--verbose", action="store_true", help="kernel messages on stderr at the end")
    parser.add_argument("--if-possible", action="store_true",
                        help="where no machine can be started, say why and end with 77; run and pair then fetch nothing")
    at = words.index("--") if "--" in words else len(words)
    parsed = parser.parse_args(words[:at])
    parsed.command = words[at + 1:]
    if (parsed.mode in ("run", "pair")) != bool(parsed.command):
        parser.error("run and pair, and no others, need a command after --")
    if parsed.mode == "run" and (parsed.loss or parsed.delay or parsed.drop):
        parser.error("--loss, --delay and --drop need pair: inside one machine packets never reach the interface")
    return parsed


def environment_of(extra):
    found = {name: value for name, value in os.environ.items() if name in KEPT or name.startswith(KEPT_PREFIXES)}
    for item in extra:
        name, equals, value = item.partition("=")
        if equals or name in os.environ:
            found[name] = value if equals else os.environ[name]
    return found


def real(path):
    return os.path.realpath(path) if path else ""


def job_of(arguments):
    machines = 2 if arguments.mode == "pair" else 1
    netem = [f"{name} {value}" for name, value in (("loss", arguments.loss), ("delay", arguments.delay)) if value]
    return machine.Job(
        command=arguments.command, machines=machines, processes=arguments.processes, devices=arguments.devices,
        cpus=arguments.cpus or (1 if machines > 1 else 2), memory=arguments.mem, mtu=arguments.mtu, netem=" ".join(netem),
        drops=arguments.drop, timeout=arguments.timeout, boot=arguments.boot, grace=arguments.grace, accelerator=arguments.accel,
        out=real(arguments.out), writable=real(arguments.writable), environment=environment_of(arguments.env),
        verbose=arguments.verbose)


def doctor():
    image.check_host()
    found = image.find_image()
    print("packages  complete")
    print("image     " + ((found / "version").read_text().strip() if found else "none yet; vm.py prepare makes one"))
    if found:
        print("machines  " + accelerator.choose("auto", found))


def main(words):
    arguments = arguments_of(words)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _: sys.exit(128 + received))
    image.add_system_folders()
    try:
        if arguments.mode == "cache-dir":
            print(image.cache_folder())
            return 0
        if arguments.mode == "doctor":
            doctor()
            return 0
        image.check_host()
        boot = image.find_image()
        if not boot and arguments.if_possible and arguments.mode != "prepare":
            raise image.Unavailable("no image of a machine; vm.py prepare makes it, and says so when it cannot")
        boot = boot or image.prepare()
        if not arguments.command:
            return 0
        return (kept if arguments.keep else machine).run(job_of(arguments), boot)
    except image.Unavailable as reason:
        print(f"vm: {reason}", flush=True)
        return SKIPPED if arguments.if_possible else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
