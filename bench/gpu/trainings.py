"""Runs of `troupe train`, and what they leave behind."""

import contextlib
import csv
import functools
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from processes import finished, started
from results import NotRun, Refused


class Failed(RuntimeError):
    """A command failed; the text is the end of what it said."""


def last_words(text, lines=6):
    """The end of what a program said, without the emulator's summary."""
    said = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("cuda_on_cpu: ")]
    return " / ".join(said[-lines:])


def synthetic(work):
    """Images of a work's form: random pixels, which are normalised like real ones."""
    return ["data.name=synthetic", f"data.shape={list(work.shape)}", f"data.classes={work.classes}",
            f"data.count={work.samples}", f"data.augment=[{','.join(work.augment)}]",
            f"data.mean={[0.5] * work.shape[0]}", f"data.std={[0.25] * work.shape[0]}",
            f"data.workers={max(1, (os.cpu_count() or 1) // 2)}"]


class Trainings:
    def __init__(self, place, deadline):
        self.place = place
        self.deadline = deadline  # of the step, by time.monotonic()

    def left(self):
        return max(1.0, self.deadline - time.monotonic())

    def command(self, *words, check=True):
        """Standard output of `troupe` with these words."""
        made = finished(self.place.command(self.place.troupe, *words), self.left(),
                        env=self.place.environment)
        if check and (made.returncode == 2 or "has no kernels" in made.stderr):
            raise Refused(last_words(made.stderr).replace("troupe: error: ", ""))
        if check and "no GPU can be used" in made.stderr:
            raise NotRun(last_words(made.stderr).replace("troupe: error: ", ""))
        if check and made.returncode != 0:
            raise Failed(f"troupe {words[0]} ended with {made.returncode}: "
                         f"{last_words(made.stderr + made.stdout)}")
        return made.stdout

    def train(self, options, steps, device="cuda", keep=None):
        """The rows of train.csv, of so many steps; the output folder is `keep`, or goes."""
        folder = Path(keep or tempfile.mkdtemp(prefix="first_light_"))
        words = [f"device={device}", "seed=1", f"train.steps={steps}", "train.evaluate=false",
                 "train.epochs=1000000", "checkpoint.every_epochs=0", *options]
        base = folder.with_name(folder.name + ".yaml")
        base.write_text("seed: 1\n")
        try:
            self.command("train", base, "-o", folder, *(part for word in words for part in ("-r", word)))
            with open(folder / "train.csv") as rows:
                found = [{name: float(value) for name, value in row.items() if value}
                         for row in csv.DictReader(rows)]
            if len(found) != steps:
                raise Failed(f"train.csv has {len(found)} rows after {steps} steps")
            return found
        finally:
            base.unlink(missing_ok=True)
            if not keep:
                shutil.rmtree(folder, ignore_errors=True)

    def digest(self, folder):
        return re.search(r"[0-9a-f]{16,}", self.command("inspect", "--digest", folder)).group(0)

    def rate(self, work, precision, seconds, warm=20, repetitions=3):
        """Images/s of `repetitions` stretches of one training after its first steps, the losses of
        those, and what NVML and nvidia-smi saw meanwhile."""
        options = [*work.train_options(), *synthetic(work), *precision]
        each = 1
        if self.place.emulator:
            warm, repetitions = 2, 1  # the second loss is that of changed weights
        else:
            probe = self.train(options, warm + 10)
            pace = (probe[-1]["training_seconds"] - probe[warm - 1]["training_seconds"]) / 10
            each = max(1, round(seconds / repetitions / max(pace, 1e-4)))
        with Watch(self.place.emulator) as watch:
            rows = self.train(options, warm + repetitions * each)
        ends = [rows[warm - 1 + i * each]["training_seconds"] for i in range(repetitions + 1)]
        readings = [each * work.batch / max(b - a, 1e-3) for a, b in zip(ends, ends[1:])]
        seen = watch.seen()
        used = [row["gpu_utilisation_percent"] for row in rows[warm:] if "gpu_utilisation_percent" in row]
        if used:  # of these steps alone
            seen["busy"] = statistics.median(used) / 100
        return {"images_per_second": statistics.median(readings), "least": min(readings),
                "most": max(readings), "steps": repetitions * each,
                "losses": [row["loss"] for row in rows[:warm]], **seen}


# In a process of its own, so that nothing of the driver stays in this one.
PRINT_BUS_ID = """
import ctypes
cuda, device, text = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.create_string_buffer(32)
assert cuda.cuInit(0) == 0 and cuda.cuDeviceGet(ctypes.byref(device), 0) == 0
assert cuda.cuDeviceGetPCIBusId(text, 32, device) == 0
print(text.value.decode())
"""


@functools.cache
def used_gpu():
    """nvidia-smi's words for CUDA's first device, which both sides use; it counts in another order
    and knows no CUDA_VISIBLE_DEVICES. No words if nobody can tell."""
    try:
        made = finished([sys.executable, "-c", PRINT_BUS_ID], 60)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return ["-i", made.stdout.strip()] if made.returncode == 0 else []


class Watch:
    """Samples of nvidia-smi while something runs. Its utilization is the share of the time in which
    a kernel ran, over the last 1/6 to 1 second."""

    FIELDS = ("index", "utilization.gpu", "memory.used", "power.draw", "clocks.sm")

    def __init__(self, off):
        self.lines = []
        self.reader = None
        self.running = contextlib.ExitStack()
        if off or not shutil.which("nvidia-smi"):
            return
        self.process = self.running.enter_context(started(
            ["nvidia-smi", *used_gpu(), f"--query-gpu={','.join(self.FIELDS)}",
             "--format=csv,noheader,nounits", "-lms", "200"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True))
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.append(line)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.running.close()
        if self.reader:
            self.reader.join(timeout=5)

    def seen(self):
        """The most memory, and the rest of the middle half of the samples: the beginning and the
        end of a run are no steps. Nothing of several GPUs."""
        numbers = []
        for line in self.lines:
            try:
                numbers.append([float(part) for part in line.split(",")])
            except ValueError:
                continue  # [N/A] of some driver
        middle = numbers[len(numbers) // 4:len(numbers) - len(numbers) // 4]
        if not middle or len({row[0] for row in numbers}) > 1:
            return {}
        _, busy, _, power, clock = zip(*middle)
        return {"busy": statistics.median(busy) / 100, "memory_mib": max(row[2] for row in numbers),
                "watts": statistics.median(power), "sm_mhz": statistics.median(clock)}
