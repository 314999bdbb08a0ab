"""The layout is what clang-format makes of it, in one pinned version."""

import shutil
import subprocess

from common import LIBRARY, ROOT, Planted, Result, Skip, files, relative, run

NAME = "format"
TOOL = "clang-format-14"


def check(root, build):
    """clang-format would change nothing."""
    del build
    if not shutil.which(TOOL):
        raise Skip(f"no {TOOL}")
    paths = files(root, (*LIBRARY, "tools", "examples", "tests", "bench"))
    command = [TOOL, f"--style=file:{ROOT / '.clang-format'}", "--dry-run", "-Werror", "--ferror-limit=1"]
    done = subprocess.run([*command, *map(str, paths)], capture_output=True, text=True, check=False)
    result = Result(summary=f"{len(paths)} files")
    for line in done.stderr.splitlines():
        if " error: " in line:
            result.problems.append(line.replace(f"{root}/", ""))
    if done.returncode and not result.problems:
        result.problems.append(done.stderr.strip())
    if result.problems:
        result.notes.append(f"to mend: {TOOL} -i " + " ".join(
            sorted({relative(p, root) for p in paths if any(relative(p, root) + ":" in x for x in result.problems)})))
    return result


PLANTED = [Planted({"lci/base/a.cpp": "int  x ;\n"}, "lci/base/a.cpp:1")]

if __name__ == "__main__":
    run(NAME, check)
