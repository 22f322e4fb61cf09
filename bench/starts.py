"""The rows about starting several processes, by `troupe launch` and by Slurm's srun, until the
first training step; see rows.py."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from harness import (BIN, ROOT, Figure, NotHere, Row, await_first_row, python_with_torch,
                     run_timed)
from processes import SMALL, options

TASKS = 4
SRUN = ["srun", "--nodes=2", "--ntasks-per-node=2"]


class PyTorchStart:
    """One process of PyTorch to its first step. Without PyTorch a note says why."""

    def __init__(self):
        self.milliseconds, self.mebibytes, self.notes, self.python = [], [], [], None
        try:
            self.python = python_with_torch()
        except RuntimeError as error:
            self.notes = [f"PyTorch was not measured: {error}"]

    def run(self):
        if self.python:
            script = ROOT / "bench" / "pytorch_first_step.py"
            seconds, mebibytes, _ = run_timed([self.python, script])
            self.milliseconds.append(1000 * seconds)
            self.mebibytes.append(mebibytes)

    def time(self):
        return Figure("ms", self.milliseconds, "one PyTorch process") if self.python else None

    def memory(self):
        return Figure("MiB", self.mebibytes, "one PyTorch process") if self.python else None


def write_options(folder, stages):
    """Writes an options file of the small wide ResNet with a number of stages."""
    path = Path(folder) / f"{stages}.yaml"
    path.write_text(json.dumps(options(SMALL, steps=40, micro_batches=8, batch_size=64,
                                       parallel={"pipeline": stages})))
    return path


def launch_command(processes):
    return [BIN / "troupe", "launch", "--standalone", "--nproc-per-node", processes, "--"]


def started(launcher, path, output, environment=None, **how):
    command = [*launcher, "train", path, "-o", output]
    return subprocess.Popen([str(word) for word in command], cwd=ROOT, text=True,
                            stdout=subprocess.DEVNULL, env={**os.environ, **(environment or {})},
                            **how)


def first_step(launcher, path, output, environment=None):
    """Milliseconds from the launcher's start until the first step is in train.csv."""
    begin = time.perf_counter()
    process = started(launcher, path, output, stderr=subprocess.DEVNULL, environment=environment)
    await_first_row(process, output)
    took = 1000 * (time.perf_counter() - begin)
    process.terminate()  # the run stops after the step that it is making
    process.wait(60)
    return took


def peak_memory(launcher):
    """MiB of each live process that the launcher has started."""
    peaks = {}
    try:
        children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    except OSError:
        return peaks
    for child in children:
        try:
            command = Path(f"/proc/{child}/cmdline").read_text().split("\0")
            status = Path(f"/proc/{child}/status").read_text()
        except OSError:
            continue
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        if "train" in command and "launch" not in command and found:
            peaks[child] = int(found[1]) / 1024
    return peaks


def largest(path, output):
    peaks = {}
    process = started(launch_command(2), path, output, stderr=subprocess.DEVNULL)
    while process.poll() is None:
        peaks.update(peak_memory(process.pid))
        time.sleep(0.02)
    if process.returncode != 0 or len(peaks) != 2:
        raise RuntimeError(f"launch ended with {process.returncode}, {len(peaks)} processes seen")
    return max(peaks.values())


def launch(repetitions, _quick):
    """Four processes, from the launcher's start until the lead has made the first step; and the
    most that one process of two occupies in a run of 40 steps (VmHWM, shared pages included)."""
    milliseconds, memory, peer = [], [], PyTorchStart()
    with tempfile.TemporaryDirectory() as folder:
        four, two = write_options(folder, TASKS), write_options(folder, 2)
        for repetition in range(repetitions):
            milliseconds.append(first_step(launch_command(TASKS), four, f"{folder}/a{repetition}"))
            memory.append(largest(two, f"{folder}/b{repetition}"))
            peer.run()
    time_to_step, peak = Figure("ms", milliseconds), Figure("MiB", memory)
    return [Row("launch", f"`troupe launch` of {TASKS} processes to the first step", time_to_step,
                time_to_step.median, "<= 500 ms", f"{time_to_step.median:.0f} ms", peer.time(),
                "one PyTorch process", peer.notes),
            Row("process_memory", "peak memory of the larger of 2 processes", peak, peak.median,
                "<= 150 MiB", f"{peak.median:.0f} MiB", peer.memory(), "one PyTorch process",
                peer.notes)]


def missing_slurm():
    """Why this machine cannot run a Slurm of the benchmark's own, or None."""
    if os.geteuid() != 0:
        return "a Slurm of one's own needs root"
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    for program in ("munged", "slurmctld", "slurmd", "srun", "unshare"):
        if not shutil.which(program, path=path):
            return f"{program} is not installed (the packages slurm-wlm and munge)"
    probe = ["unshare", "--pid", "--mount-proc", "--fork", "true"]
    if subprocess.run(probe, stderr=subprocess.DEVNULL).returncode != 0:
        return "this machine gives out no PID namespaces"
    return ""


@contextmanager
def slurm():
    """The tests' Slurm of two nodes on loopback; the environment of its commands."""
    why = missing_slurm()
    if why:
        raise NotHere(why)
    own = tempfile.TemporaryDirectory(prefix="troupe_slurm_", ignore_cleanup_errors=True)
    with own as folder, tempfile.TemporaryFile("w+") as log:
        script = ROOT / "tests" / "system" / "slurm" / "cluster.sh"
        cluster = subprocess.Popen([script, folder, "2"], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            said = cluster.stdout.readline()
            if said != "ready\n":
                log.seek(0)
                raise RuntimeError(f"Slurm did not start: {said}{log.read()[-400:]}".strip())
            # A home of its own: each such Slurm counts its jobs from 1, and a lead that ends right
            # after its first step leaves the job's key file there, which the next would find.
            yield {"SLURM_CONF": f"{folder}/slurm.conf", "HOME": folder}
        finally:
            cluster.stdin.close()  # the cluster then ends, with its daemons
            try:
                cluster.wait(timeout=20)
            except subprocess.TimeoutExpired:
                cluster.kill()
                cluster.wait()


def srun_alone(environment):
    """Milliseconds until trivial tasks have all printed a line, and until srun has ended."""
    begin = time.perf_counter()
    process = subprocess.Popen([*SRUN, "echo", "here"], stdout=subprocess.PIPE, text=True,
                               env={**os.environ, **environment})
    times = [1000 * (time.perf_counter() - begin) for _ in process.stdout]
    if process.wait() != 0 or len(times) != TASKS:
        raise RuntimeError(f"srun of {TASKS} tasks: exit code {process.returncode}, {len(times)} "
                           "lines")
    return times[-1], 1000 * (time.perf_counter() - begin)


def srun(repetitions, _quick):
    """Four tasks on two nodes of a Slurm that does nothing else, from srun's start until the first
    step is in train.csv; in turn with `troupe launch` of as many and with srun alone."""
    by_srun, by_launch, alone, peer = [], [], [], PyTorchStart()
    with tempfile.TemporaryDirectory() as folder, slurm() as environment:
        path = write_options(folder, TASKS)
        for repetition in range(-1, repetitions):  # the first one warms caches
            if repetition == 0:
                by_srun, by_launch, alone = [], [], []
            by_srun.append(first_step([*SRUN, BIN / "troupe"], path, f"{folder}/a{repetition}",
                                      environment))
            by_launch.append(first_step(launch_command(TASKS), path, f"{folder}/b{repetition}"))
            alone.append(srun_alone(environment))
            if repetition >= 0:
                peer.run()
    mine = Figure("ms", by_srun)
    others = [Figure("ms", by_launch, "the same by `troupe launch`"),
              Figure("ms", [begun for begun, _ in alone], f"srun alone until {TASKS} tasks run"),
              Figure("ms", [ended for _, ended in alone], "srun alone to its end")]
    return [Row("srun", f"`srun troupe train` of {TASKS} processes to the first step", mine,
                mine.median, "<= 500 ms", f"{mine.median:.0f} ms", peer.time(),
                "one PyTorch process",
                [f"{other.what} {other}" for other in others] + peer.notes, others)]
