"""Parts do not use each other in wide circles, as the linker sees it.

The check `circles` reads text: who includes and declares what. This one adds what is used: a part knows another
one as well if an object of it has a symbol that an object of the other one defines, however it was declared.

The build compiles several sources together, and such an object does not say which of them a symbol belongs to, so
each source is compiled by itself here: without optimisation, since nothing is to be inlined, and only to read its
symbols. What was read is kept below the build folder, in lint_symbols, until the source or something that it includes
changes. With nothing kept that is five minutes of two cores, so `./dev lint` runs this check and `./dev test all`
does not; afterwards it is seconds.
"""

import json
import re
import shlex
import shutil
import subprocess
from collections import defaultdict

from circles import FOLDERS, MAX_CIRCLE, Parts
from common import Planted, Result, Skip, commands_of, files, in_parallel, relative, run
from tidy import flags_of, stamp_of

NAME = "symbols"
# Uses of what these define do not count. The first lists the providers of a build, for functions that lci/mem and
# lci/net declare: who calls them knows no backend. The others stand for several parts that are not built.
SEAMS = ("backends/providers.cpp", "experimental/cuda/not_built.cpp", "experimental/ibv/not_built.cpp")
# Symbols that only one source defines: inline functions, which many objects have, are nobody's.
STRONG = "TDBRSG"
LINE = re.compile(r"^(?:[0-9a-f]+)? +([A-Za-z]) (.*)$", re.MULTILINE)


def read(source, command, kept):
    """Compiles a source and keeps its symbols. Answers what went wrong."""
    compiler = []
    for word in shlex.split(command):
        if word.startswith("-"):
            break
        compiler.append(word)  # after a launcher, if there is one
    compiled = kept.with_suffix(".o")
    done = subprocess.run([*compiler, *flags_of(command), "-O0", "-w", "-c", "-o", str(compiled), str(source)],
                          capture_output=True, text=True, check=False)
    if done.returncode == 0:
        done = subprocess.run(["nm", "-C", str(compiled)], capture_output=True, text=True, check=False)
    compiled.unlink(missing_ok=True)
    if done.returncode != 0:
        return f"{source}: {done.stderr.strip()[:500]}"
    unfinished = kept.with_suffix(".new")
    unfinished.write_text(done.stdout)
    unfinished.rename(kept)
    return None


def symbols_of(root, build, result):
    """{source: where its symbols are kept}, all of them new enough."""
    database = build / "compile_commands.json"
    if not database.is_file():
        raise Skip(f"there is no {database}: configure first")
    if not shutil.which("nm"):
        raise Skip("there is no nm")
    commands, folder, kept = commands_of(database), build / "lint_symbols", {}
    folder.mkdir(exist_ok=True)
    for source in files(root, FOLDERS, (".cpp",)):
        if source in commands:
            options = " ".join(flags_of(commands[source])).encode()
            kept[source] = folder / f"{stamp_of(root, [source], options)}_{source.stem}"
    for old in set(folder.iterdir()) - set(kept.values()):
        old.unlink()
    missing = [source for source in kept if not kept[source].is_file()]
    problems = in_parallel(lambda source: read(source, commands[source], kept[source]), missing,
                           lambda source: relative(source, root))
    result.problems += [problem for problem in problems if problem]
    return kept


def uses(kept):
    """[(user, definer, symbol)]: which source has a symbol that another one, and no third one, defines."""
    definers, users = defaultdict(set), defaultdict(set)
    for source, place in kept.items():
        for kind, name in LINE.findall(place.read_text() if place.is_file() else ""):
            if kind in STRONG:
                definers[name].add(source)
            elif kind == "U":
                users[name].add(source)
    return sorted((user, *definers[name], name) for name, found in users.items() if len(definers[name]) == 1
                  for user in found - definers[name])


def check(root, build):
    """Circles of the library through its symbols and includes."""
    result = Result()
    kept = symbols_of(root, build, result)
    parts, between = Parts(root), 0
    for user, definer, name in uses(kept):
        mine, other = (parts.part_of[relative(source, root)] for source in (user, definer))
        if mine != other and relative(definer, root) not in SEAMS:
            between += 1
            parts.knows[mine].setdefault(other, f"{relative(user, root)} uses {name}")
    circles = parts.circles()
    for circle in circles:
        if len(circle) <= MAX_CIRCLE:
            continue
        result.problems.append(f"{len(circle)} parts use each other, at most {MAX_CIRCLE}: {parts.describe(circle)}")
    widest = max(map(len, circles), default=0)
    result.summary = (f"{len(kept)} sources, {between} uses of a symbol of another part, {len(circles)} circles, "
                      f"the widest of {widest} parts")
    return result


def planted(count):
    """Sources without any header, each of which declares and calls a function of the next one."""
    tree = {}
    for i in range(count):
        other = (i + 1) % count
        tree[f"lci/mem/p{i}.cpp"] = f"void f{other}();\nvoid f{i}() {{ f{other}(); }}\n"
    database = [{"file": f"@ROOT@/{name}", "command": "c++ -I@ROOT@ -c"} for name in tree]
    return {**tree, "compile_commands.json": json.dumps(database)}


PLANTED = [
    Planted(planted(4), "4 parts use each other"),
    Planted({**planted(3), "lci/mem/p1.cpp": "void f1() { f2(); }\n"}, "p1.cpp"),  # does not compile
]

if __name__ == "__main__":
    run(NAME, check)
