"""What every row of bench/run needs: the environment, pinned cores, worker processes that answer
requests, and figures with their spread."""

import os
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
VENV = ROOT / "build" / "bench-venv"
REQUIREMENTS = ROOT / "bench" / "requirements.txt"


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
    """A line of the table: ours, what it is set against, and how that compares with the bar."""

    key: str
    what: str
    ours: Figure
    value: float  # what the bar is about
    bar: str  # ">= 2.0" or "<= 1.0", in the unit of `value`
    value_text: str
    peer: Figure = None
    peer_name: str = "PyTorch"
    notes: list = field(default_factory=list)
    others: list = field(default_factory=list)  # further figures, for the JSON file

    @property
    def met(self):
        sign, limit = self.bar.split()[:2]
        return self.value >= float(limit) if sign == ">=" else self.value <= float(limit)

    def json(self):
        return {"key": self.key, "what": self.what, "ours": self.ours.json(),
                "peer": self.peer.json() if self.peer else None,
                "peer_name": self.peer_name, "value": self.value,
                "bar": self.bar, "met": self.met, "notes": self.notes,
                "others": [figure.json() for figure in self.others]}


def pin(cores):
    """Keeps this process and its children on so many cores, the last ones of those allowed."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) > cores:
        os.sched_setaffinity(0, allowed[-cores:])
    return sorted(os.sched_getaffinity(0))


def python_with_torch():
    """A Python with what bench/requirements.txt names; made once, below build/."""
    given = os.environ.get("TROUPE_BENCH_PYTHON")
    if given:
        return given
    python, stamp = VENV / "bin" / "python", VENV / "requirements.txt"
    wanted = REQUIREMENTS.read_text()
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"bench: making {VENV} from {REQUIREMENTS} (once)", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", VENV], check=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "-r", REQUIREMENTS], check=True)
        stamp.write_text(wanted)
    return str(python)


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
        self.process.stdin.close()
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
