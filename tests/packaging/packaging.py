"""Installs the library in the ways that clients find it, and builds and runs a client each time.

installed    the shared build under test, moved after it was installed: find_package and pkg-config
subproject   add_subdirectory by a parent that installs and exports the targets: static, then shared from
             the same objects, and the static package through find_package and pkg-config --static; with the programs
unbuilt      configured where headers of networks are missing, and without asking for one: the summary, lci_info and
             the error of a program that asks for it say which of both it was
lct_only     the companion library without the other, in a folder given as an absolute one and with libsodium outside the
             system's: built, installed and used from C
several      several configurations in one build folder: configured alone
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1]


def run(*command, expect=0, environment=None, both=False):
    """Runs a command; ends the test with its output when it does not end as expected. both: answers with the errors too."""
    command = [str(part) for part in command]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **(environment or {})})
    if done.returncode != expect:
        sys.exit(f"$ {' '.join(command)}\n{done.stdout}{done.stderr}\nexit status {done.returncode}, expected {expect}")
    return done.stdout + (done.stderr if both else "")


def demand(condition, what):
    if not condition:
        sys.exit(f"not so: {what}")


def run_path(file):
    """The folders in which a program or library looks for others."""
    found = re.search(r"R(?:UN)?PATH.*\[(.*)\]", run("readelf", "-d", file))
    return found[1].split(":") if found else []


class Packaging:
    """One scenario, in a folder of its own."""

    def __init__(self, arguments):
        self.build, self.work = arguments.build, arguments.build / "packaging"
        self.launcher = self.build / "bin/lcrun"
        self.generator = ["-G", arguments.generator]
        self.archive, self.libraries = arguments.archive, arguments.libraries.split(",")
        self.work.mkdir(exist_ok=True)

    def clean(self, name):
        path = self.work / name
        shutil.rmtree(path, ignore_errors=True)
        return path

    def consume(self, name, *options, environment=None):
        """Configures, builds and runs the client at every language level, alone and as two ranks."""
        folder = self.clean("consumer_" + name)
        run("cmake", "-S", HERE / "consumer", "-B", folder, *self.generator, *options, environment=environment)
        run("cmake", "--build", folder, "-j", os.cpu_count())
        for standard in (11, 17, 20):
            run(folder / f"consumer_{standard}", environment=environment)
        for standard in (17, 20):
            run(folder / f"kernels_{standard}", environment=environment)
        run(self.launcher, "-n", 2, folder / "consumer_11", environment=environment)
        print(f"{name}: built and run as C++11, 17 and 20")
        return folder

    def find_from_afar(self, prefix):
        """A client that finds the package in one folder and links in another."""
        for by in ("variable", "word", ""):
            if by == "word" and tuple(map(int, re.findall(r"\d+", run("cmake", "--version"))[:2])) < (3, 24):
                continue
            folder = self.clean("global_" + (by or "not_asked"))
            run("cmake", "-S", HERE / "global", "-B", folder, *self.generator, f"-DBY={by}", f"-DCMAKE_PREFIX_PATH={prefix}")
        run("cmake", "--build", self.work / "global_variable")
        run(self.work / "global_variable/global")
        print("targets are known in all folders where that is asked for")

    def pkg_config(self, prefix, name, static):
        libdir = next(prefix.glob("**/liblci.pc")).parent
        environment = {"PKG_CONFIG_PATH": str(libdir), "LD_LIBRARY_PATH": str(libdir.parent)}
        run("pkg-config", "--validate", "liblci", environment=environment)
        run("pkg-config", "--validate", "liblct", environment=environment)
        flags = run("pkg-config", "--cflags", "--libs", *(["--static"] if static else []), "liblci",
                    environment=environment).split()
        program = self.work / f"pkg_config_{name}"
        run("c++", "-std=c++11", HERE / "consumer/main.cpp", "-o", program, *flags)
        run(program, environment=environment)
        self.consume(f"pkg_config_{name}", "-DPKG_CONFIG=ON", environment=environment)

    @staticmethod
    def look_at(prefix):
        """Nothing internal shows in what is installed."""
        for path in prefix.glob("**/*Targets*.cmake"):
            text = path.read_text()
            demand("lci_flags" not in text and "Boost::" not in text and "Threads::" not in text,
                   f"{path.name} names no internal target")
            demand(str(SOURCE) not in text, f"{path.name} does not name the source folder")
        for name in ("lci.hpp", "lci_config.hpp", "lct.h", "lct_config.h", "lct/log.h", "lci/config.hpp"):
            demand((prefix / "include" / name).is_file(), f"include/{name} is installed")
        demand(not list(prefix.glob("include/**/*.in")), "no template is installed")

    def installed(self):
        first, prefix = self.clean("installed_first"), self.clean("installed")
        run("cmake", "--install", self.build, "--prefix", first)
        first.rename(prefix)
        self.look_at(prefix)
        for program in ("lcrun", "lci_info", "lci_perf"):
            demand((prefix / "bin" / program).is_file(), f"bin/{program} is installed")
        run(prefix / "bin/lci_info")
        run(prefix / "bin/lci_perf", "latency", "--messages", "8", "--against", "raw")
        self.launcher = prefix / "bin/lcrun"
        folder = self.consume("shared", f"-DLCI_ROOT={prefix}")
        self.find_from_afar(prefix)
        libraries = run("readelf", "-d", folder / "consumer_11")
        demand(re.search(r"NEEDED.*liblci\.so\.2\]", libraries), "the client names liblci.so.2")
        for name in ("liblci.so", "liblct.so"):
            demand("NODELETE" in run("readelf", "-d", next(prefix.glob(f"**/{name}"))), f"{name} stays until the process ends")
        self.pkg_config(prefix, "shared", static=False)

    def subproject(self):
        folder = self.work / "parent"
        # It compiles all of the library in half the time, as a client might, whose own programs are gcc's.
        compiler = ["-DCMAKE_CXX_COMPILER=clang++"] if shutil.which("clang++") else []
        for kind, shared in (("static", "OFF"), ("shared", "ON")):
            prefix = self.clean(f"parent_{kind}")
            # The same folder both times: the objects are the same, only the libraries differ.
            run("cmake", "-S", HERE / "parent", "-B", folder, *self.generator, *compiler, f"-DBUILD_SHARED_LIBS={shared}",
                f"-DLCI_SOURCE_DIR_UNDER_TEST={SOURCE}", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O0",
                f"-DCMAKE_INSTALL_PREFIX={prefix}", "-DLCI_WITH_TOOLS=ON")
            run("cmake", "--build", folder, "-j", os.cpu_count())
            run(folder / "parent")
            run("cmake", "--install", folder)
            self.look_at(prefix)
            for program in ("lcrun", "lci_info"):
                demand(not [one for one in run_path(prefix / "bin" / program) if one.startswith(str(folder))],
                       f"bin/{program} does not look for libraries in the build folder")
            run(prefix / "bin/lci_info")
            self.consume(f"parent_{kind}_package", "-DPACKAGE=Parent", f"-DCMAKE_PREFIX_PATH={prefix}")
            if kind == "static":
                self.consume("static", f"-DLCI_ROOT={prefix}")
                self.pkg_config(prefix, "static", static=True)
        silent = self.clean("silent")
        run("cmake", folder, "-DLCI_FETCHCONTENT_INSTALL=OFF", f"-DCMAKE_INSTALL_PREFIX={silent}")
        run("cmake", "--install", folder)
        demand(not list(silent.glob("**/LCIConfig.cmake")), "LCI_FETCHCONTENT_INSTALL=OFF installs no package of ours")
        run("cmake", folder, "-DLCI_FETCHCONTENT_INSTALL=ON")

    def program_without(self, name, *options):
        """What a configuration says at its end, and a program that has its list of backends."""
        folder = self.clean(name)
        parts = [f"-DLCI_WITH_{part}=OFF" for part in ("TESTS", "EXAMPLES", "BENCHMARKS", "DOC", "TOOLS")]
        said = run("cmake", "-S", SOURCE, "-B", folder, *self.generator, "-DCMAKE_BUILD_TYPE=Debug", *parts, *options)
        run("cmake", "--build", folder, "--target", "lci_providers")
        program, lists = folder / "program", list(folder.glob("**/lci_providers.dir/**/*.o"))
        libraries = [part if "/" in part else f"-l{part}" for part in self.libraries]
        # What names the libraries that the build has, in place of that of the build under test.
        names, include = folder / "info.o", [f"-I{SOURCE}/include", f"-I{folder}/include"]
        have = [f"-DLCI_HAVE_{library}=0" for library in ("HWLOC", "SODIUM")]
        run("c++", "-std=c++20", f"-I{SOURCE}", *include, *have, "-c", SOURCE / "lci/api/info.cpp", "-o", names)
        run("c++", "-std=c++11", *include, HERE / "unbuilt.cpp", *lists, names, self.archive, *libraries, "-Wl,-z,muldefs",
            "-o", program)
        return said, program

    def unbuilt(self):
        # An empty name is a header that nobody looks for any more.
        said, program = self.program_without("unbuilt", "-DIBV_INCLUDE_DIR=", "-DLCI_NETWORK_BACKENDS=ibv",
                                             "-DLCI_HWLOC_INCLUDE_DIR=", "-DLCI_HWLOC_LIBRARY=", "-DLCI_SODIUM_LIBRARY=")
        demand(re.search(r"backend shm +yes", said), f"shm in the summary:\n{said}")
        demand(re.search(r"backend ibv +NO, infiniband/verbs.h is missing \(Debian: libibverbs-dev\)", said),
               f"what is missing in the summary:\n{said}")
        demand(re.search(r"libhwloc +NO, hwloc.h and libhwloc are missing \(Debian: libhwloc-dev\)", said), f"both:\n{said}")
        demand(re.search(r"backend ofi +NO, left out by LCI_NETWORK_BACKENDS", said), f"what is left out:\n{said}")
        has_header = "LCI_SODIUM_INCLUDE_DIR:PATH=/" in (self.work / "unbuilt/CMakeCache.txt").read_text()
        sodium = "libsodium was" if has_header else "sodium.h and libsodium were"
        told = run(program, environment={"LCI_ATTR_BACKEND": "ibv"}, expect=1)
        for wanted in (r"^  ibv +not built: infiniband/verbs.h was missing$",
                       r"^  ofi +not built: left out by LCI_NETWORK_BACKENDS$",
                       r"^  libhwloc +not built: hwloc.h and libhwloc were missing$",
                       rf"^  libsodium +not built: {sodium} missing$",
                       r"^error: [^\n]*backend ibv is not usable:\n(.*\n)?  ibv: not built: infiniband/verbs.h was missing$"):
            demand(re.search(wanted, told, re.MULTILINE), f"{wanted} in\n{told}")
        told = run(program, environment={"LCI_ATTR_BACKEND": "ofi"}, expect=1)
        demand("\n  ofi: not built: left out by LCI_NETWORK_BACKENDS" in told, f"the error names the option:\n{told}")
        run(program)  # shared memory is enough
        print("unbuilt: the summary, the list and the error name what is missing")

    def sodium_in(self, elsewhere):
        """What makes a build use a copy of libsodium in that folder, if there is a libsodium."""
        found = [part for part in self.libraries if "libsodium.so" in part]
        if not found:
            return []
        name = re.search(r"SONAME.*\[(.*)\]", run("readelf", "-d", found[0]))[1]
        shutil.copy(found[0], elsewhere / name)
        (elsewhere / "libsodium.so").symlink_to(name)
        return [f"-DLCI_SODIUM_LIBRARY={elsewhere}/libsodium.so"]

    def lct_only(self):
        # Outside the sources: folders in there are not for an installed library.
        with tempfile.TemporaryDirectory() as elsewhere:
            self.lct_only_with(Path(elsewhere))

    def lct_only_with(self, elsewhere):
        folder, prefix = self.clean("lct_only"), elsewhere / "installed"
        sodium = self.sodium_in(elsewhere)
        run("cmake", "-S", SOURCE, "-B", folder, *self.generator, "-DLCI_WITH_LCT_ONLY=ON", "-DCMAKE_BUILD_TYPE=Debug",
            "-DCMAKE_CXX_FLAGS_DEBUG=-O0", f"-DCMAKE_INSTALL_PREFIX={prefix}", f"-DCMAKE_INSTALL_LIBDIR={prefix}/lib",
            f"-DCMAKE_INSTALL_INCLUDEDIR={prefix}/include", *sodium)
        run("cmake", "--build", folder, "-j", os.cpu_count())
        run("cmake", "--install", folder)
        self.look_at(prefix)
        demand(not sodium or str(elsewhere) in run_path(prefix / "lib/liblct.so"), "it finds libsodium where that was")
        told = run("pkg-config", "--variable=libdir", "liblct", environment={"PKG_CONFIG_PATH": f"{prefix}/lib/pkgconfig"})
        demand(told.strip() == f"{prefix}/lib", f"the folder as it was given, not {told}")
        told = run("pkg-config", "--libs", "--static", "liblct", environment={"PKG_CONFIG_PATH": f"{prefix}/lib/pkgconfig"})
        demand(not sodium or f"-L{elsewhere} -lsodium" in told, f"a static program finds libsodium there: {told}")
        files = {path.name for path in prefix.glob("**/*")}
        demand("liblct.so" in files and "liblct.pc" in files, f"the library and how to find it: {sorted(files)}")
        demand(not {"liblci.so", "liblci.pc", "lcrun", "lci_info", "lci_perf"} & files, f"nothing of the other: {sorted(files)}")
        libdir = next(prefix.glob("**/liblct.pc")).parent
        environment = {"PKG_CONFIG_PATH": str(libdir), "LD_LIBRARY_PATH": str(libdir.parent)}
        for name, option in (("found", f"-DLCI_ROOT={prefix}"), ("pkg_config", "-DPKG_CONFIG=ON")):
            client = self.clean(f"lct_only_{name}")
            run("cmake", "-S", HERE / "lct_only", "-B", client, *self.generator, option, environment=environment)
            run("cmake", "--build", client, environment=environment)
            told = subprocess.run([client / "lct_only"], env={**os.environ, **environment}, capture_output=True, text=True, check=False)
            demand(told.returncode == 0 and "<lct:error:only> 0 of 1\n" in told.stderr, f"it runs alone: {told}")
            run(self.launcher, "-n", 2, client / "lct_only", environment=environment)
        print("lct_only: built, installed, and used from C, by find_package and pkg-config")


    def several(self):
        if "Ninja" not in self.generator:
            print("several: the generator has none for several configurations")
            return
        folder = self.clean("several")
        (folder / ".cmake/api/v1/query").mkdir(parents=True)
        (folder / ".cmake/api/v1/query/codemodel-v2").touch()
        run("cmake", "-S", SOURCE, "-B", folder, "-G", "Ninja Multi-Config", "-DLCI_WITH_DOC=OFF", "-DLCI_WITH_EXAMPLES=OFF")
        replies = folder / ".cmake/api/v1/reply"
        model = json.loads(next(replies.glob("codemodel-v2-*.json")).read_text())
        known = set()
        for configuration in model["configurations"]:
            read = (json.loads((replies / target["jsonFile"]).read_text()) for target in configuration["targets"])
            made = {target["name"]: target for target in read if "artifacts" in target}
            files = {name: folder / made[name]["artifacts"][0]["path"] for name in ("LCI", "LCT", "lci_info", "lcrun")}
            demand(not known & set(files.values()), f"each configuration has files of its own: {files}")
            known |= set(files.values())
            linked = " ".join(part["fragment"] for part in made["lci_info"]["link"]["commandFragments"])
            looks = re.search(r'-rpath,"?([^"\s]*)', linked)[1].split(":")
            places = {os.path.normpath(re.sub(r"[\\$]+ORIGIN", str(files["lci_info"].parent), one)) for one in looks}
            demand(str(files["LCI"].parent) in places, f"lci_info looks for {files['LCI']} in {places}")
        said = run("cmake", folder, "-DLCI_WITH_TESTS=ON", expect=1, both=True)
        demand("need a generator of one configuration" in " ".join(said.split()), f"tests are refused: {said}")
        print("several: configured, and programs find the library of their own configuration")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenario", choices=["installed", "subproject", "unbuilt", "lct_only", "several"])
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--generator", required=True)
    parser.add_argument("--archive", type=Path, required=True, help="all of the library but its list of backends")
    parser.add_argument("--libraries", required=True, help="what that is linked to, with commas")
    arguments = parser.parse_args()
    getattr(Packaging(arguments), arguments.scenario)()


if __name__ == "__main__":
    main()
