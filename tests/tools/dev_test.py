"""./dev without a network and without a build."""

import os
import pty
import re
import signal
import subprocess
import time
from pathlib import Path

from dev_sandbox import PRELUDE, SOURCE, Sandbox, demand

COMMANDS = ("demo", "test", "bench", "build", "coverage", "lint", "docs", "clean")


def help_does_nothing_else():
    box = Sandbox()
    for command in COMMANDS:
        for words in ((command, "--help"), (command, "-h"), (command, "gpu", "--help")):
            said = box.dev(*words)
            demand(said.startswith(f"./dev {command}") and len(said.splitlines()) < 20, f"help of {words}: {said}")
    demand("usage: ./dev" in box.dev("--help") and "usage: ./dev" in box.dev(), "what commands there are")
    demand(not box.calls(), f"help calls {box.calls()}")
    demand(not (box.root / "build").exists(), "help makes no folder")


def without_packages_what_is_there_is_used():
    box = Sandbox()
    (box.fake / "offline").touch()
    said = box.dev("test", "gpu")
    demand("all suites passed" in said and box.calls("ctest"), f"the tests ran:\n{said}")
    demand("g++" in said and "going on without" in said, f"what is missing is told:\n{said}")


def an_outage_is_over_when_it_is_over():
    box = Sandbox()
    (box.fake / "offline").touch()
    box.dev("test")
    (box.fake / "offline").unlink()
    said = box.dev("demo", expect=1)  # there is nothing to run, but what it needs is there
    demand({"g++", "cmake", "libibverbs-dev"} <= box.installed() and "ok packages: " in said, f"the demo asks again:\n{said}")
    said = box.dev("test")
    demand({"libgtest-dev", "clang", "openmpi-bin"} <= box.installed() and "without" not in said, f"and the tests:\n{said}")
    # What something needs is asked for at every call, also where the lists do not have it.
    box = Sandbox()
    box.mark("no_candidate", "cmake")
    box.dev("build")
    box.forget_calls()
    demand(box.dev("build") and len(box.calls("apt-get")) == 1, box.calls("apt-get"))


def what_cannot_be_installed_keeps_nothing_else_away():
    box = Sandbox()
    box.mark("no_candidate", "clang-format-14")
    box.mark("broken", "clang-tidy-14")
    box.dev("test", "gpu")
    installed = box.installed()
    demand({"g++", "libgtest-dev", "libfabric-dev", "doxygen"} <= installed, f"installed: {installed}")
    demand(not {"clang-format-14", "clang-tidy-14"} & installed, f"installed: {installed}")
    demand("clang-format-14" not in str(box.calls("apt-get")), "nobody asks for what has no candidate")


def optional_packages_without_a_candidate_are_no_error():
    box = Sandbox()
    box.mark("no_candidate", "clang-format-14", "clang-tidy-14")
    said = box.dev("test")
    demand(re.search(r"(?m)^ok packages: .*clang-format-14", said) and "failed packages" not in said, f"the step goes well:\n{said}")
    demand(said.count("without: clang-format-14 clang-tidy-14\n") == 1 and "going on" not in said, f"it is told:\n{said}")
    box.forget_calls()
    said = box.dev("test")
    demand(said.startswith("without: clang-format-14 clang-tidy-14\n") and not box.calls("apt-get"), f"and at later calls:\n{said}")
    # What the tests cannot do without is another matter.
    box = Sandbox()
    box.mark("no_candidate", "libgtest-dev", "clang-format-14")
    said = box.dev("test")
    demand(re.search(r"(?m)^failed packages: ", said), said)
    demand("going on without\nwithout: libgtest-dev clang-format-14\n" in said, said)


def a_refusal_of_sudo_keeps_nothing_else_away():
    box = Sandbox().have_everything()
    (box.fake / "installed/libsodium-dev").unlink()
    box.add_program("id", "echo 1000")
    box.add_program("sudo", "exit 1")
    ours, theirs = pty.openpty()
    said = box.dev("build", stdin=theirs)
    demand("missing packages, and neither root nor sudo: apt-get install libsodium-dev\n" in said, said)
    demand(box.calls("sudo") == ["sudo -v"] and not box.calls("apt-get"), "nobody is asked twice")
    demand(box.calls("cmake --build"), "what is there is used")
    # By all steps of a script that needs packages more than once.
    box.forget_calls()
    subprocess.run(["bash", "-c", ". tools/dev/common.sh; need libsodium-dev; need libsodium-dev"], cwd=box.root,
                   env=box.environment, stdin=theirs, capture_output=True, check=True)
    demand(box.calls("sudo") == ["sudo -v"], f"once is enough: {box.calls('sudo')}")
    os.close(ours)
    os.close(theirs)


def unknown_words_are_refused():
    box = Sandbox().have_everything()
    for words in (("demo", "--hlep"), ("test", "--list"), ("test", "gpu", "-x"), ("bench", "--json"), ("bench", "gpu", "-n"),
                  ("build", "--debug"), ("coverage", "--x"), ("lint", "-v"), ("docs", "--html"), ("clean", "--hlep"),
                  ("demo", "nonsense"), ("coverage", "x"), ("docs", "x"), ("clean", "x")):
        box.dev(*words, expect=2)
    demand(not box.calls(), f"nothing else is done: {box.calls()}")
    demand("the table" in box.dev("bench", "start", "-n", "4"), "an option that there is")


def lint_tells_how_far_it_is():
    box = Sandbox().have_everything()
    (box.root / "tools/lint").mkdir()
    programs = {"selfcheck": "print('[1/2] planting')\nprint('ok selfcheck: 2 planted violations found')",
                "floors": "print('ok floors: 3 includes')", "budgets": "print('  a long function')\nraise SystemExit(1)",
                "tidy": "print('skipped tidy: no clang-tidy-14')\nraise SystemExit(77)"}
    for name, text in programs.items():
        (box.root / f"tools/lint/{name}.py").write_text(text + "\n")
    said = box.dev("lint", "selfcheck", "floors", "tidy")
    demand(re.search(r"(?m)^ok lint selfcheck \(\d+ s\)\n  2 planted violations found\nok lint floors", said), said)
    demand("planting" not in said, "how far it was is of no interest afterwards")
    demand("\nskipped tidy: no clang-tidy-14\n" in said, "what could not be checked is no failure")
    said = box.dev("lint", "floors", "budgets", expect=1)
    demand(re.search(r"(?m)^  a long function\nfailed lint budgets", said), said)
    demand(box.dev("lint", "floors", "nonsense", expect=1) == "", "an unknown check is refused before the others run")


def networks_belong_to_the_build():
    box = Sandbox()
    box.dev("build")
    demand({"libibverbs-dev", "libfabric-dev", "libhwloc-dev", "libsodium-dev"} <= box.installed(), f"installed: {box.installed()}")


def what_was_installed_since_is_found():
    box = Sandbox()
    box.dev("demo", expect=1)
    demand(not box.calls("apt-get")[-1].endswith("libpmix-dev"), "launchers are no part of the demo")
    box.forget_calls()
    box.dev("test")
    calls = [line.split()[0:2] for line in box.calls("cmake")]
    demand(not {"qemu-system-x86", "chromium", "relacy-dev"} & box.installed(), "the quick tests emulate nothing")
    demand("openmpi-bin" in box.installed() and calls == [["cmake", "--preset"], ["cmake", "--build"]], f"tests look again: {calls}")
    box.forget_calls()
    demand(box.dev("test") and not box.calls("cmake --preset"), "and once is enough")
    # By somebody else.
    (box.fake / "dpkg/status").touch()
    box.dev("build")
    demand(len(box.calls("cmake --preset")) == 1, "packages have come or gone")


def what_the_build_lacks_is_told():
    box = Sandbox().have_everything()
    (box.fake / "summary").write_text("""\
-- lci: no ucp/api/ucp.h or no libucp (Debian: libucx-dev): lci_perf_ucx is left out
-- lci 2.0.0-dev, Release, GNU 12.2.0:
--   backend shm     yes
--   backend ibv     NO, infiniband/verbs.h is missing (Debian: libibverbs-dev): no InfiniBand
--   libsodium       NO, libsodium is missing (Debian: libsodium-dev): no keys
-- Configuring done
""")
    said = box.dev("build")
    demand(re.search(r"(?m)^ok configure release \(\d+ s\)\n   backend ibv     NO, infiniband/verbs.h is missing .*\n"
                     r"   libsodium       NO, libsodium is missing .*\nok build release", said), said)
    demand("NO, " not in box.dev("build"), "once")


def bench_builds_benchmarks():
    box = Sandbox().have_everything()
    # Programs alone, which their build does not make here.
    for name in ("lci_perf", "bench_deaths"):
        program = box.root / "build/release/bin" / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text("#!/bin/sh\necho the table of $*\n")
        program.chmod(0o755)
    for words, given, built in (((), "", "lcrun lci_perf benchmarks"), (("own",), "", "lcrun benchmarks"), (("deaths", "12"), "of 12", "bench_deaths"),
                                (("perf", "rate", "--op", "put"), "rate --op put", "lcrun lci_perf benchmarks")):
        box.forget_calls()
        demand(re.search(rf"the table.*{given}\n", box.dev("bench", *words)), f"bench {words} ran")
        builds = box.calls("cmake --build")
        demand(builds == [f"cmake --build build/release -j 2 --target {built}"], f"built: {builds}")
    for kind in ("gpu", "ibv", "ofi", "start"):
        box.forget_calls()
        demand("the table" in box.dev("bench", kind), f"the benchmarks of {kind} ran")
        builds = box.calls("cmake --build")
        demand(len(builds) == 1 and re.search(r"--target lcrun bench_\w+$", builds[0]), f"{kind}: built: {builds}")


def test_is_quick_and_all_is_all():
    box = Sandbox().have_everything()
    demand(box.dev("test").endswith("\n1 passed, 0 failed, 0 skipped\n"), "the sums come last")
    quick = box.calls("cmake --build")
    demand(len(quick) == 1 and quick[0].split()[2] == "build/release" and quick[0].endswith("--target lci_quick"), quick)
    demand("-LE long|full" in box.calls("ctest")[0], box.calls("ctest"))
    demand("WARN_AS_ERROR" not in str(box.calls("cmake")) + (SOURCE / "CMakePresets.json").read_text(),
           "warnings are no errors in a test at a desk, whatever the preset")
    box.forget_calls()
    said = box.dev("test", "all")
    built = [call.split()[2] for call in box.calls("cmake --build")]
    demand(built[0] == "build/release", f"first what the quick tests need: {built}")
    # Beside the tests, and once more before its own.
    demand(sorted(built) == 2 * ["build/asan"] + 2 * ["build/release"] + 2 * ["build/tsan"], built)
    demand(all(call.endswith("--target lci_tested") == ("san " in call) for call in box.calls("cmake --build")),
           "a sanitizer builds what its tests run")
    demand(re.search(r"^ok build tsan: lci_tested \(\d+ s\), beside the tests$", said, re.MULTILINE), said)
    runs = box.calls("ctest")
    demand("-LE long|full" in runs[0] and "-L full|vm -LE long" in runs[1] and "full" not in str(runs[2:]), runs)
    demand("-DLCI_EXPERIMENTAL=ON" in box.calls("cmake --preset release")[0], "the rest has what is experimental")
    strict = box.calls("cmake -S . -B build/strict-clang")
    demand(len(strict) == 1 and "-DLCI_BUILD_WARN_AS_ERROR=ON" in strict[0], strict)
    demand(box.calls("clang++ -c") == ["clang++ -c tools/x.cpp -fsyntax-only"], "by the front end, and not at the library")
    # The one test in both parts of release and twice more, three presets without warnings, clang.
    demand(said.endswith("\n8 passed, 0 failed, 5 skipped\n"), said)
    demand(re.search("skipped: trixie: demo, .* and 1 more: debootstrap failed: E: no release file anywhere", said), said)
    box.forget_calls()
    box.dev("test", "all", "some_test", LCI_PRESETS="asan asan")
    demand(len(box.calls("ctest")) == 1, f"a preset that is named twice runs once: {box.calls('ctest')}")
    demand(box.calls("cmake --build")[0].split()[2] == "build/asan" and "-R some_test" in box.calls("ctest")[0], box.calls())
    box.forget_calls()
    box.dev("test", "some_test")
    demand("EXPERIMENTAL" not in box.calls("cmake --preset release")[0], "which is taken back")
    demand("-R some_test -LE long" in box.calls("ctest")[0], f"also one that is not quick: {box.calls('ctest')}")


def is_running(process, program):
    try:
        return program in Path(f"/proc/{process}/cmdline").read_text()
    except OSError:
        return False


def build_that_waits(box, preset):
    """The build of this preset leaves its process in a file and goes on when that is gone."""
    cmake, builder = box.fake / "bin/cmake", box.fake / "builder"
    slow = (f'if [ "$1 $2" = "--build build/{preset}" ] && [ ! -e {builder}.over ]; then echo $$ >{builder}.new\n'
            f'mv {builder}.new {builder}; touch {builder}.over; while [ -e {builder} ]; do sleep 0.02; done; fi\n')
    cmake.write_text(cmake.read_text().replace(PRELUDE, PRELUDE + slow))
    return builder


def wait_for_file(path, run):
    while not path.exists():
        demand(run.poll() is None, "it waits for what is built beside the tests")
        time.sleep(0.02)


def what_is_built_beside_the_tests_ends_with_them():
    box = Sandbox().have_everything()
    builder = build_that_waits(box, "asan")
    with subprocess.Popen([box.root / "dev", "test", "all"], env=box.environment, stdout=subprocess.DEVNULL,
                          stdin=subprocess.DEVNULL) as run:
        wait_for_file(builder, run)
        demand(box.calls("chrt --idle -p 0 "), "it gets what the tests leave")
        run.terminate()
    while is_running(int(builder.read_text()), "build/asan"):
        time.sleep(0.02)


def what_ends_early_beside_the_tests_is_a_failure():
    box = Sandbox().have_everything()
    builder = build_that_waits(box, "tsan")
    with subprocess.Popen([box.root / "dev", "test", "all"], env=box.environment, stdout=subprocess.PIPE, text=True,
                          stdin=subprocess.DEVNULL) as run:
        wait_for_file(builder, run)
        os.kill(int((box.root / "build/log/beside/shell").read_text()), signal.SIGKILL)
        builder.unlink()
        said = run.stdout.read()
    demand(run.returncode == 1 and "FAILED: beside the tests: tsan: it ended early" in said, said)
    demand("FAILED: beside the tests: clang" in said and "FAILED: beside the tests: next" in said, said)


def another_debian_gets_the_tree_as_it_is():
    box = Sandbox().have_everything()
    (box.fake / "mirror").touch()
    (box.root / "new.cpp").touch()
    (box.root / "old.cpp").touch()
    said = box.dev("test", "all")
    demand(said.endswith("\n13 passed, 0 failed, 0 skipped\n"), said)
    there = box.root / "build/roots/trixie.now/lci"
    demand((there / "new.cpp").exists() and (there / "tools/dev/next.sh").exists(), "the tree is there")
    demand(not (there / "build").exists(), "what was built here is not")
    done = [match.group() for match in (re.search(r" /lci/(dev|tools/).*", call) for call in box.calls()) if match]
    demand(done == [" /lci/dev demo", " /lci/tools/dev/next.sh build",
                    " /lci/tools/dev/strict.sh build/strict-clang clang++ -DLCI_WITH_EXAMPLES=OFF",
                    " /lci/tools/dev/next.sh selfcheck", " /lci/tools/dev/next.sh test"], f"first the demo: {done}")
    # Each time on a system as new, but nothing is fetched twice.
    (there / "build/release").mkdir(parents=True)
    fetched = there.parent / "var/cache/apt/archives/g++_1_amd64.deb"
    fetched.touch()
    (box.root / "old.cpp").unlink()
    box.forget_calls()
    (box.fake / "fails_there").write_text("/lci/dev demo")
    said = box.dev("test", "all", expect=1)
    demand(not (there / "old.cpp").exists() and not (there / "build").exists() and fetched.exists(), "a system as new")
    demand("FAILED: trixie: demo: see build/log/" in said and "12 passed, 1 failed" in said and not box.calls("debootstrap"), said)
    # A warning of the other compiler.
    (box.fake / "fails_there").unlink()
    (box.fake / "bin/unshare").write_text(PRELUDE + f"mkdir -p {there}/build/release && echo slow.o >{there}/build/release/.warned\n")
    said = box.dev("test", "all", expect=1)
    demand("FAILED: trixie: no warnings: the compiler warned of slow.o" in said, said)


def a_warning_fails_all_and_no_more():
    box = Sandbox().have_everything()
    box.mark("warns", "slow")
    demand("a compiler warned: 1 objects" in box.dev("test"), "it is told")
    (box.fake / "warns/slow").unlink()
    # Not compiled again, not forgotten.
    (box.fake / "bin/cmake").write_text((box.fake / "bin/cmake").read_text().replace("in quick slow", "in quick"))
    said = box.dev("test", "all", expect=1)
    demand("FAILED: release: no warnings: the compiler warned of slow.o" in said, said)
    (box.fake / "bin/cmake").write_text((box.fake / "bin/cmake").read_text().replace("in quick", "in slow"))
    demand("0 failed" in box.dev("test", "all"), "it is mended")
    box.mark("warns", "slow")
    said = box.dev("test", "all", expect=1)
    for preset in ("release", "asan", "tsan"):
        demand(f"FAILED: {preset}: no warnings: the compiler warned of slow.o" in said, said)


def what_a_step_does_is_read_off_its_output():
    box = Sandbox()
    log = box.fake / "log"
    for said, told in (("[3/4] Building CXX object a/b.o\n", "75 % Building CXX object a/b.o"),
                       ("[ 42%] Linking z\nx.cpp:1:2: warning: so it seems\n", "42 % Linking z"),
                       ("      Start 7: abc\n 3/12 Test   #7: abc ......   Passed    0.1 sec\n", "25 % abc"),
                       ("Get:1 x\ndlstatus:4:37.5:Retrieving file 4 of 9 (1s remaining)\n", "37 % Retrieving file 4 of 9 (1s remaining)"),
                       ("pmstatus:libfoo:amd64:81.2:Unpacking libfoo:amd64\n", "81 % Unpacking libfoo:amd64"),
                       ("pmstatus:dpkg-exec:41.2:Running dpkg\n", "41 % Running dpkg"),
                       ("ok configure (3 s)\n   build release... 61 s: 25 % Linking y\n", "build release... 61 s: 25 % Linking y"),
                       ("-- Found Boost\n", "-- Found Boost")):
        log.write_text(said)
        seen = subprocess.run(["bash", "-c", f". tools/dev/common.sh; look_at {log}"], cwd=box.root, env=box.environment,
                              capture_output=True, text=True, check=False).stdout.strip()
        demand(seen == told, f"'{told}' is told of {said!r}, not '{seen}'")


def long_steps_tell_percent():
    box = Sandbox().have_everything()
    wait = box.fake / "wait"

    def read_until(stream, pattern):
        text = ""
        while not re.search(pattern, text):
            more = os.read(stream, 4096).decode()
            demand(more, f"{pattern} in\n{text}")
            text += more
        wait.unlink()

    wait.touch()
    told = {**box.environment, "LCI_PROGRESS_EVERY": "0.02"}
    with subprocess.Popen([box.root / "dev", "build"], env=told, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as run:
        read_until(run.stdout.fileno(), r"(?m)^   build release\.\.\. \d+ s: 25 % Building CXX object quick\.o$")
        rest = run.stdout.read().decode()
        demand(re.search(r"(?m)^ok build release \(\d+ s\)$", rest) and run.wait() == 0, rest)
    # On a terminal in place.
    wait.touch()
    ours, theirs = pty.openpty()
    with subprocess.Popen([box.root / "dev", "build"], env={**told, "TERM": "xterm"}, stdout=theirs,
                          stdin=subprocess.DEVNULL) as run:
        os.close(theirs)
        read_until(ours, r"\r\x1b\[K[^\n]*build release\.\.\. \d+ s: 25 % Building CXX object quick\.o[^\n]*")
        demand(run.wait() == 0, "the build on a terminal")
    os.close(ours)


if __name__ == "__main__":
    for check in (help_does_nothing_else, without_packages_what_is_there_is_used, an_outage_is_over_when_it_is_over,
                  what_cannot_be_installed_keeps_nothing_else_away, optional_packages_without_a_candidate_are_no_error,
                  a_refusal_of_sudo_keeps_nothing_else_away, unknown_words_are_refused, lint_tells_how_far_it_is,
                  networks_belong_to_the_build, what_was_installed_since_is_found, what_the_build_lacks_is_told,
                  bench_builds_benchmarks, test_is_quick_and_all_is_all, what_is_built_beside_the_tests_ends_with_them,
                  what_ends_early_beside_the_tests_is_a_failure,
                  another_debian_gets_the_tree_as_it_is, a_warning_fails_all_and_no_more,
                  what_a_step_does_is_read_off_its_output, long_steps_tell_percent):
        check()
        print("ok", check.__name__)
