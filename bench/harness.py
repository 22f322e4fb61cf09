"""Shared by all rows of bench/run: environments, pinned cores, worker processes that answer
requests, and figures with their spread."""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / "build" / "release" / "bin"


class NotHere(RuntimeError):
    """This machine lacks what a row needs; no failure of the benchmark."""


@dataclass
class Figure:
    """Repeated readings of one thing."""

    unit: str
    readings: list
    what: str = ""

    @property
    def median(self):
        return statistics.median(self.readings)

    def __str__(self):
        form = lambda x: f"{x:,.0f}" if x >= 1000 else f"{x:.3g}"
        spread = f"[{form(min(self.readings))}..{form(max(self.readings))}]"
        return f"{form(self.median)} {spread} {self.unit}"

    def json(self):
        return {"what": self.what, "unit": self.unit, "median": self.median,
                "min": min(self.readings), "max": max(self.readings), "readings": self.readings}


@dataclass
class Row:
    """A line of the table: Troupe's figure, the reference, their comparison and the target."""

    key: str
    what: str
    ours: Figure
    value: float  # what the target is about
    target: str  # ">= 2.0" or "<= 1.0", in the unit of `value`
    value_text: str
    peer: Figure = None
    peer_name: str = "PyTorch"
    notes: list = field(default_factory=list)
    others: list = field(default_factory=list)  # further figures, for the JSON file

    @property
    def met(self):
        sign, limit = self.target.split()[:2]
        return self.value >= float(limit) if sign == ">=" else self.value <= float(limit)

    def json(self):
        return {"key": self.key, "what": self.what, "ours": self.ours.json(),
                "peer": self.peer.json() if self.peer else None,
                "peer_name": self.peer_name, "value": self.value,
                "target": self.target, "met": self.met, "notes": self.notes,
                "others": [figure.json() for figure in self.others]}


ALLOWED = sorted(os.sched_getaffinity(0))  # cores, before pin()


def pin(cores):
    """Pins this process and its children to the last `count` allowed cores."""
    os.sched_setaffinity(0, ALLOWED[-cores:])
    return sorted(os.sched_getaffinity(0))


@contextmanager
def all_cores():
    """For children that may use all cores, since cores are not what is measured."""
    pinned = os.sched_getaffinity(0)
    os.sched_setaffinity(0, ALLOWED)
    try:
        yield
    finally:
        os.sched_setaffinity(0, pinned)


failures = {}  # environment: why it could not be made; each is tried once per run


def install(folder, *packages):
    """Makes a virtual environment of these arguments of pip. Returns the error, or None."""
    print(f"making {folder} from {' '.join(map(str, packages))}", file=sys.stderr)
    pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet",
           "--disable-pip-version-check"]
    for command in ([sys.executable, "-m", "venv", "--clear", folder], [*pip, *packages]):
        made = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if made.returncode != 0:
            return (made.stdout.strip().splitlines() or [f"{command[0]} failed"])[-1]
    return None


def environment_python(variable, name, requirements):
    """The Python that an environment variable names, or that of a virtual environment in build/NAME
    with bench/REQUIREMENTS, which is made once."""
    given = os.environ.get(variable)
    if given and not shutil.which(given):
        raise RuntimeError(f"{variable} names {given}, which is no program")
    if given:
        return given
    folder, source = ROOT / "build" / name, ROOT / "bench" / requirements
    stamp, wanted = folder / "requirements.txt", source.read_text()
    if not stamp.exists() or stamp.read_text() != wanted:
        if name not in failures:
            failures[name] = install(folder, "-r", source)
        if failures[name]:
            raise RuntimeError(f"{folder} could not be made: {failures[name]}")
        stamp.write_text(wanted)
    return str(folder / "bin" / "python")


def python_with_torch():
    return environment_python("TROUPE_BENCH_PYTHON", "bench-venv", "requirements.txt")


def python_with_monarch():
    return environment_python("TROUPE_BENCH_MONARCH_PYTHON", "bench-monarch-venv",
                              "requirements-monarch.txt")


class Worker:
    """A program that answers each line of its input with one line."""

    def __init__(self, name, command, environment=None):
        self.name = name
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self.errors, text=True, cwd=ROOT, env={**os.environ, **(environment or {})})

    def ask(self, request, count):
        try:
            self.process.stdin.write(f"{request} {count}\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self.process.wait()
            self.errors.seek(0)
            last = (self.errors.read().strip().splitlines() or ["no message"])[-1]
            raise RuntimeError(f"{self.name} ended with {self.process.returncode}: {last}")
        return [float(number) for number in line.split()]

    def close(self):
        try:
            self.process.stdin.close()
        except BrokenPipeError:  # it has ended before it read the last request
            pass
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextmanager
def workers(made):
    try:
        yield made
    finally:
        for worker in made:
            worker.close()


def await_first_row(process, output, seconds=60):
    """Waits until a training process has written its first step to the output folder's train.csv,
    after the row of names."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end and process.poll() is None:
        try:
            if Path(output, "train.csv").read_bytes().count(b"\n") >= 2:
                return
        except FileNotFoundError:
            pass
        time.sleep(0.0005)
    process.kill()
    raise RuntimeError(f"no step in {output}/train.csv")


def run_to_first_step(command, output):
    """Seconds from the start of a training command until its first step is in train.csv, and its
    peak memory in MiB then."""
    begin = time.perf_counter()
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL, cwd=ROOT)
    await_first_row(process, output)
    seconds = time.perf_counter() - begin
    process.kill()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return seconds, usage.ru_maxrss / 1024, ""


def run_timed(command, environment=None):
    """Seconds from start to end and the peak memory in MiB of a command that must succeed."""
    with tempfile.TemporaryFile("w+") as output:
        begin = time.perf_counter()
        process = subprocess.Popen([str(part) for part in command], stdout=output, stderr=output,
                                   cwd=ROOT, env={**os.environ, **(environment or {})})
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read()
    if process.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {process.returncode}: {text.strip()[-400:]}")
    return seconds, usage.ru_maxrss / 1024, text
