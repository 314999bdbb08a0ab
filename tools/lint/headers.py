"""Public headers compile alone as C++11, 17 and 20 with all warnings as errors; the others as C++20."""

import re
import shutil
import subprocess

from common import EXPERIMENTAL, Planted, Result, Skip, commands_of, files, in_parallel, relative, run

NAME = "headers"
FIRST_INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
# gcc and clang give different warnings; the second language level is the one that most clients use.
PUBLIC_RUNS = [("g++", "c++11"), ("g++", "c++20"), ("clang++", "c++11"), ("clang++", "c++17")]


def compile_alone(root, build, header, compiler, standard, include):
    """The compiler's complaint about a file that includes only this header, twice."""
    flags = ["-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only", f"-std={standard}", "-x", "c++", "-"]
    folders = [f"-I{root / folder}" for folder in include] + [f"-I{build / 'include'}"]
    source = f'#include "{header}"\n#include "{header}"\n'
    done = subprocess.run([compiler, *folders, *flags], input=source, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"{header} alone as {standard} with {compiler}: {done.stderr.strip()}"


def check(root, build):
    """A header that lacks an include is found here, not by a client."""
    compilers = [c for c in ("g++", "clang++") if shutil.which(c)]
    if not compilers:
        raise Skip("neither g++ nor clang++")
    jobs = []
    for path in files(root, ("include",), (".hpp", ".h")):
        header = path.relative_to(root / "include").as_posix()
        jobs += [(header, c, s, ["include"]) for c, s in PUBLIC_RUNS if c in compilers]
    # The first include of x.cpp is x.hpp, which every build thus compiles alone.
    proven = set()
    for path in files(root, ("lci", "backends", *EXPERIMENTAL, "lct"), (".cpp",)):
        first = FIRST_INCLUDE.search(path.read_text())
        proven.add(first.group(1) if first else "")
    # A network whose headers are missing on this machine is not built.
    database = build / "compile_commands.json"
    built = {path.parent for path in commands_of(database)} if database.exists() else None
    left_out = []
    for path in files(root, ("lci", "backends", *EXPERIMENTAL, "lct"), (".hpp",)):
        header = relative(path, root)
        may_be_left_out = header.startswith(("backends/", "experimental/")) and len(header.split("/")) > 2
        is_left_out = header not in proven and built is not None and may_be_left_out and path.parent not in built
        if is_left_out:
            left_out.append(header)
        elif header not in proven:
            jobs.append((header, compilers[0], "c++20", [".", "include"]))
    result = Result(summary=f"{len(jobs)} compilations with {' and '.join(compilers)}")
    result.notes = [f"not built here, so not looked at: {', '.join(left_out)}"] if left_out else []
    answers = in_parallel(lambda job: compile_alone(root, build, *job), jobs, lambda job: f"{job[0]} as {job[2]}")
    result.problems = sorted(answer for answer in answers if answer)
    return result


PLANTED = [
    Planted({"include/lci/a.hpp": "#ifndef A\n#define A\nstd::string f();\n#endif\n"}, "lci/a.hpp alone"),
    Planted({"include/lci/a.hpp": "#ifndef A\n#define A\ninline auto f() { return 1; }\n#endif\n"}, "as c++11"),
    Planted({"lci/base/a.hpp": "#pragma once\nstd::size_t f();\n"}, "lci/base/a.hpp alone"),
]

if __name__ == "__main__":
    run(NAME, check)
