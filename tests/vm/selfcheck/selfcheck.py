"""The virtual machines do what the tests in them rely on, and leave nothing behind.

  selfcheck.py machines [PROBE]   with machines; status 77 where there are none
  selfcheck.py refusals           without: what is said, and how soon, where there can be none
"""

import io
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import accelerator  # noqa: E402  pylint: disable=wrong-import-position
import image  # noqa: E402  pylint: disable=wrong-import-position

# Is ctest as far as a keeper of machines can tell: runs each word in machines that stay up, and says with which status.
LIKE_CTEST = """
import ctypes, subprocess, sys
ctypes.CDLL(None).prctl(15, b"ctest")  # PR_SET_NAME
for word in sys.argv[2:]:
    done = subprocess.run([sys.argv[1], "run", "--keep", "--timeout", "600", "--", "sh", "-c", word])
    print("status", done.returncode, flush=True)
"""
VM = [sys.executable, str(HERE.parent / "vm.py")]
PROBE = []


def vm(*words, **options):
    return subprocess.run([*VM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, timeout=900,
                          **options)


def children(pid):
    """Process ids, from the kernel's own list."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def is_qemu(pid):
    try:
        return "qemu-system" in os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return False


def wait_until(question, seconds=300):
    until = time.monotonic() + seconds
    while not question():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


class Machines(unittest.TestCase):
    def test_one_machine(self):
        with tempfile.TemporaryDirectory() as folder:
            done = vm("run", "--devices", "2", "--timeout", "600", "--out", folder + "/out", "--writable", folder, "--", str(HERE / "one_machine.sh"), *PROBE,
                      env=dict(os.environ, LCI_VM_SELFCHECK="two words", VM_NOT_PASSED_ON="1"))
            self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
            self.assertIn("on stderr\nto a device\nno end of line", done.stdout)
            self.assertEqual((Path(folder) / "out/kept").read_text(), "kept\n")
            self.assertEqual((Path(folder) / "here_too").read_text(), "kept\n")
        self.assertFalse(Path("vm_selfcheck_scratch").exists())

    def test_two_machines(self):
        done = vm("pair", "--loss", "30%", "--timeout", "600", "--", sys.executable, str(HERE / "two_machines.py"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("[1] check_kill passed", done.stdout)

    def test_first_failure_ends_a_pair(self):
        done = vm("pair", "--grace", "1", "--", "sh", "-c", "[ $VM_MACHINE = 0 ] || exit 4; sleep 100")
        self.assertEqual(done.returncode, 4, done.stdout + done.stderr)

    def test_a_crash_of_the_kernel_has_its_own_status(self):
        done = vm("run", "--", "sh", "-c", "echo before; until grep -q before /run/lci-vm/output.0; do :; done; echo c >/proc/sysrq-trigger")
        self.assertEqual((done.returncode, done.stdout), (125, "before\n"), done.stdout + done.stderr)
        self.assertIn("sysrq triggered crash", done.stderr)

    def test_time_is_up(self):
        done = vm("run", "--timeout", "10", "--", "sleep", "100")
        self.assertEqual(done.returncode, 124)
        self.assertIn("not done after 10 s", done.stderr)
        self.assertRegex(done.stderr, r"machine 0 was here:\n(.*\n)*lci-vm: ")

    def test_what_hangs_before_the_command_is_started_again(self):
        for mode, output in (("run", "there\n"), ("pair", "[0] there\n[1] there\n")):
            done = vm(mode, "--boot", "0.2", "--", "echo", "there")
            self.assertEqual((done.returncode, "".join(sorted(done.stdout.splitlines(True)))), (0, output), done.stderr)
            self.assertEqual(done.stderr.count("not ready after 0.2 s, and started again\nmachine 0 was here:"), 2)

    def test_a_machine_that_ends_by_itself(self):
        with subprocess.Popen([*VM, "run", "--", "sleep", "100"], stderr=subprocess.PIPE, text=True) as process:
            os.kill(self.qemu_of(process), signal.SIGKILL)
            self.assertEqual(process.wait(timeout=300), 123)
            self.assertIn("ended without a status", process.stderr.read())

    def test_machines_are_kept(self):
        boot_id = "cat /proc/sys/kernel/random/boot_id"
        with tempfile.TemporaryDirectory() as folder:
            words = (f"{boot_id}; sleep 1000 & touch /dev/shm/left $OUT_DIR/left",
                     f"{boot_id}; ls -A /dev/shm $OUT_DIR | grep left; pgrep sleep; exit 3", boot_id)
            done = subprocess.run([sys.executable, "-c", LIKE_CTEST, VM[1], *words], stdout=subprocess.PIPE, text=True,
                                  stderr=subprocess.PIPE, env=dict(os.environ, TMPDIR=folder), check=False, timeout=900)
            said = done.stdout.splitlines()
            self.assertEqual(said[1::2], ["status 0", "status 3", "status 0"], done.stdout + done.stderr)
            self.assertEqual(said[0], said[2], "the second command ran in another machine")
            self.assertNotEqual(said[2], said[4], "a machine in which something failed was used again")
            self.assertIn("these machines have run 1 commands before this one", done.stderr)
            self.assertTrue(wait_until(lambda: not os.listdir(folder)), f"left behind: {os.listdir(folder)}")

    def test_kept_machines_end_with_ctest(self):
        with tempfile.TemporaryDirectory() as folder:
            with subprocess.Popen([sys.executable, "-c", LIKE_CTEST, VM[1], "true", "echo there; sleep 1000"],
                                  stdout=subprocess.PIPE, env=dict(os.environ, TMPDIR=folder)) as process:
                while process.stdout.readline() != b"there\n":
                    self.assertIsNone(process.poll())
                process.kill()
            self.assertTrue(wait_until(lambda: not os.listdir(folder)), f"left behind: {os.listdir(folder)}")

    def qemu_of(self, process):
        self.assertTrue(wait_until(lambda: any(map(is_qemu, children(process.pid)))), "no machine was started")
        return next(filter(is_qemu, children(process.pid)))

    def test_nothing_is_left_behind(self):
        for number, status in ((signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -9)):
            with self.subTest(signal=number), tempfile.TemporaryDirectory() as folder:
                with subprocess.Popen([*VM, "pair", "--", "sleep", "100"], env=dict(os.environ, TMPDIR=folder)) as process:
                    self.assertTrue(wait_until(lambda p=process: sum(map(is_qemu, children(p.pid))) == 2))
                    machines = children(process.pid)
                    process.send_signal(number)
                    self.assertEqual(process.wait(timeout=300), status)
                self.assertTrue(wait_until(lambda m=machines: not any(map(is_qemu, m))), "a machine is left")
                if number != signal.SIGKILL:  # nobody can tidy up after that
                    self.assertEqual(os.listdir(folder), [])


class Refusals(unittest.TestCase):
    """No package, no kernel, no network: soon, in one line, and never a failure."""

    def refused(self, path, *words):
        with tempfile.TemporaryDirectory() as folder:
            environment = dict(os.environ, PATH=path, LCI_VM_CACHE=folder + "/cache", LCI_VM_KERNEL=folder)
            start = time.monotonic()
            with_option = vm(*words, "--if-possible", *(["--", "true"] if words[0] == "run" else []), env=environment)
            self.assertLess(time.monotonic() - start, 100)  # a second, on a machine with nothing else to do
        self.assertEqual(with_option.returncode, 77, with_option.stderr)
        self.assertEqual(with_option.stdout.count("\n"), 1)
        self.assertEqual(with_option.stderr, "")
        return with_option.stdout

    def test_no_packages(self):
        # The folders of the administrator are looked in as well, so only QEMU and busybox are missing for sure.
        for mode in ("prepare", "run"):
            self.assertRegex(self.refused("/nonexistent", mode), "apt-get install .*busybox-static.*qemu-system-x86")
        done = vm("run", "--", "true", env=dict(os.environ, PATH="/nonexistent"))
        self.assertEqual(done.returncode, 2)

    def test_no_kernel_and_no_way_to_fetch_one(self):
        for apt in (None, "echo 'Depends: linux-image-1'; exit 100"):
            with self.subTest(apt=apt), tempfile.TemporaryDirectory() as tools:
                self.plant(tools, dict.fromkeys(image.TOOLS, "exit 0"))
                if apt:
                    self.plant(tools, {"apt-get": apt, "apt-cache": apt, "dpkg-deb": "exit 0"})
                self.assertIn("apt-get install ", self.refused(f"{tools}:/bin" if apt else tools, "prepare"))
                self.assertIn("no ", self.refused(tools, "run"))

    def test_packages_of_the_kernel(self):
        for lists, wanted in (
                ({"linux-image-amd64": ["linux-image-6.1.0-9-amd64"], "linux-image-6.1.0-9-amd64": ["kmod", "linux-base"]},
                 ["linux-image-6.1.0-9-amd64"]),
                ({"linux-image-generic": ["linux-image-6.8.0-3-generic", "linux-modules-extra-6.8.0-3-generic", "linux-firmware"],
                  "linux-image-6.8.0-3-generic": ["kmod", "linux-modules-6.8.0-3-generic"]},
                 ["linux-image-6.8.0-3-generic", "linux-modules-extra-6.8.0-3-generic", "linux-modules-6.8.0-3-generic"]),
                ({}, [])):
            def depends(*command, known=lists):
                text = "".join(f"  Depends: {name}\n" for name in known.get(command[-1], []))
                return subprocess.CompletedProcess(command, 0, stdout=text)

            with mock.patch.object(image, "run_quietly", depends):
                self.assertEqual(image.kernel_packages(), wanted)

    @staticmethod
    def plant(folder, programs):
        for name, text in programs.items():
            path = Path(folder) / name
            path.write_text(f"#!/bin/sh\n{text}\n")
            path.chmod(0o755)

    def test_kvm_has_to_prove_itself(self):
        programs = {"boots": "echo lci-vm: alive", "gives_up": "exit 1", "hangs": "exec sleep 20"}
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(accelerator, "PROBE_SECONDS", 1), \
             mock.patch.object(os, "access", lambda *_: True):
            self.plant(folder, programs)
            for name, wanted in (("gives_up", "tcg"), ("hangs", "tcg"), ("boots", "kvm")):
                with mock.patch.object(accelerator, "QEMU", f"{folder}/{name}"):
                    self.assertEqual(accelerator.choose("auto", folder), wanted)
                    self.assertEqual(accelerator.choose("auto", folder), wanted)  # as it was kept
                (Path(folder) / "accelerator").write_text("another-boot kvm\n")


def run(test):
    said = io.StringIO()
    result = unittest.TextTestRunner(said, verbosity=2).run(test)
    print(said.getvalue(), flush=True)
    return result.wasSuccessful() and result.testsRun == 1


def main():
    image.add_system_folders()
    suite = {"machines": Machines, "refusals": Refusals}[sys.argv[1]]
    PROBE[:] = sys.argv[2:]
    if suite is Machines:
        try:
            image.check_host()
            if not image.find_image():
                raise image.Unavailable("no image of a machine; vm.py prepare makes it")
        except image.Unavailable as reason:
            print(f"vm: {reason}")
            sys.exit(77)
    tests = list(unittest.defaultTestLoader.loadTestsFromTestCase(suite))
    # A machine that starts uses one processor, and its test waits for it. Refusals patch what all of them see.
    with ThreadPoolExecutor(2 if suite is Machines else 1) as pool:
        is_good = list(pool.map(run, tests))
    sys.exit(not all(is_good))


if __name__ == "__main__":
    main()
