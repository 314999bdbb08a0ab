"""Public headers compile alone as C++11, and together as C++11 and 20, with all warnings as errors; the others as C++20."""

import re
import shutil
import subprocess

from common import EXPERIMENTAL, Planted, Result, Skip, commands_of, files, in_parallel, relative, run

NAME = "headers"
FIRST_INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
# gcc and clang give different warnings. A header that lacks an include lacks it at every language level and with every
# compiler, so one compiles each alone, and the other all of them together.
PUBLIC_ALONE = "c++11"
TOGETHER = [("g++", "c++20"), ("clang++", "c++11")]


def compile_headers(root, build, headers, compiler, standard, include):
    """The compiler's complaint about a file that includes only these headers, twice."""
    flags = ["-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only", f"-std={standard}", "-x", "c++", "-"]
    folders = [f"-I{root / folder}" for folder in include] + [f"-I{build / 'include'}"]
    source = "".join(f'#include "{header}"\n' for header in 2 * headers)
    done = subprocess.run([compiler, *folders, *flags], input=source, capture_output=True, text=True, check=False)
    which = f"{headers[0]} alone" if len(headers) == 1 else "all public headers"
    return "" if done.returncode == 0 else f"{which} as {standard} with {compiler}: {done.stderr.strip()}"


def check(root, build):
    """A header that lacks an include is found here, not by a client."""
    compilers = [c for c in ("g++", "clang++") if shutil.which(c)]
    if not compilers:
        raise Skip("neither g++ nor clang++")
    public = [path.relative_to(root / "include").as_posix() for path in files(root, ("include",), (".hpp", ".h"))]
    jobs = [(public, c, s, ["include"]) for c, s in TOGETHER if c in compilers and public]
    jobs += [([header], compilers[0], PUBLIC_ALONE, ["include"]) for header in public]
    # The first include of x.cpp is x.hpp, which a build that compiles sources one by one (LCI_UNITY=OFF) thus compiles alone;
    # what such a header lacks of the standard library, the check `includes` finds.
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
            jobs.append(([header], compilers[0], "c++20", [".", "include"]))
    result = Result(summary=f"{len(jobs)} compilations with {' and '.join(compilers)}")
    result.notes = [f"not built here, so not looked at: {', '.join(left_out)}"] if left_out else []
    answers = in_parallel(lambda job: compile_headers(root, build, *job), jobs, lambda job: f"{job[0][0]} as {job[2]}")
    result.problems = sorted(answer for answer in answers if answer)
    return result


PLANTED = [
    Planted({"include/lci/a.hpp": "#ifndef A\n#define A\nstd::string f();\n#endif\n"}, "lci/a.hpp alone"),
    Planted({"include/lci/a.hpp": "#ifndef A\n#define A\ninline auto f() { return 1; }\n#endif\n"}, "as c++11"),
    Planted({"lci/base/a.hpp": "#pragma once\nstd::size_t f();\n"}, "lci/base/a.hpp alone"),
]

if __name__ == "__main__":
    run(NAME, check)
