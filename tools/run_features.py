#!/usr/bin/env python3
"""Runs the commands of docs/features.md: every `troupe …`, `mpirun …` and `torchrun …` in back quotes
without a placeholder such as FILE. They run in the order of the page, in an empty folder with links
to the tree, and training commands with two steps of a few samples. Prints each command that fails
and each test that the page names and the tree lacks; exit code 1 if there is one. Needs troupe in
PATH; leaves out commands of programs that are not installed, and downloads.

usage: run_features.py FOLDER [--list]"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/features.md"
FEW = "-r train.steps=2 -r data.limit=256 -r data.test_limit=64 -r parallel.partition=auto"
PROGRAMS = ("troupe", "mpirun", "torchrun")


def commands():
    for command in re.findall(r"`([^`\n]+)`", PAGE.read_text()):
        words = command.split()
        if words[0] not in PROGRAMS or len(words) == 1 or "…" in command:
            continue
        if "fetch" in words or any(re.search(r"(^|[=/])[A-Z]+(\.\w+)?$", word) for word in words):
            continue
        yield command


def small(command):
    return f"{command} {FEW}" if " train " in command else command


def missing_tests():
    source = "\n".join(file.read_text() for file in (ROOT / "tests").rglob("*.cpp"))
    for suite, name in re.findall(r"`([A-Z]\w+)\.([A-Z]\w+)`", PAGE.read_text()):
        if not re.search(rf"TEST(_F|_P)?\(\s*{suite},\s*{name}\)", source):
            yield f"{suite}.{name}: no such test"


def run(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in ("recipes", "examples", "tests"):
        (folder / name).symlink_to(ROOT / name)
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    environment = {**os.environ, **as_root}  # mpirun refuses root otherwise
    for command in commands():
        program = shlex.split(command)[0]
        if shutil.which(program) is None:
            print(f"left out, no {program}: {command}")
            continue
        ran = subprocess.run(["bash", "-c", small(command)], cwd=folder, env=environment, text=True,
                             stdin=subprocess.DEVNULL, capture_output=True, timeout=300)
        print(f"{ran.returncode} {command}", flush=True)
        if ran.returncode != 0:
            yield f"{command}: exit code {ran.returncode}\n{ran.stderr[-2000:]}"


def main():
    if sys.argv[2:] == ["--list"]:
        print("\n".join(commands()))
        return 0
    wrong = [*missing_tests(), *run(Path(sys.argv[1]).resolve())]
    for problem in wrong:
        print(problem, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
