"""The steps of first_light, the most valuable first. Each returns what it found: `summary`, and
`table` or `details`; it raises NotRun, Refused or Failed."""

import hashlib
import math
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Callable

import comparison
from processes import finished, started
from results import NotRun, Refused
from rows import PAIRS, PRECISIONS, ROWS, TINY
from trainings import Failed, Trainings, last_words, synthetic, used_gpu


NO_GPU = 77  # what cuda_device_tests ends with
# The tests of each step, as gtest's filters. Each test is in one of them; names of suites with
# parameters begin with the name of the parameters.
WHOLE_RUNS = "*CudaPipeline*:*CudaGraph*:*CudaResident*"
FILTERS = {"contract": "Contract*", "kernels": f"-Contract*:*CudaGolden*:{WHOLE_RUNS}",
           "goldens": "*CudaGolden*", "pipelines": WHOLE_RUNS}


@dataclass(frozen=True)
class Step:
    name: str
    seconds: int  # after which it is killed; it does not begin in less than half of them
    run: Callable  # of a Call


@dataclass
class Call:
    """What a step is run with."""

    name: str
    place: object
    results: object
    deadline: float
    short: bool = False  # its time is cut by --minutes
    cut: bool = False  # a program did not end in its time

    def trainings(self):
        return Trainings(self.place, self.deadline)

    def left(self):
        return max(1.0, self.deadline - time.monotonic())

    def run(self, command, log=None, limit=None):
        """A command's exit code, None at its limit, and its output, which also goes to a log."""
        log = self.results.log(log or self.name)
        with open(log, "w") as output, started(command, stdout=output, stderr=subprocess.STDOUT,
                                               env=self.place.environment) as process:
            try:
                code = process.wait(timeout=limit or self.left())
            except subprocess.TimeoutExpired:
                code, self.cut = None, True
        return code, log.read_text(errors="replace")


def optional(command, seconds=30, **options):
    """The output of a command that may be missing."""
    if not shutil.which(command[0]):
        return f"{command[0]} is not there"
    try:
        made = finished(command, seconds, **options)
    except subprocess.TimeoutExpired:
        return f"{Path(command[0]).name} did not answer in {seconds} s"
    return made.stdout.strip() or last_words(made.stderr)


def measured_with(place):
    """What all results of a folder have in common."""
    version = optional(place.command(place.troupe, "--version"), 60, env=place.environment)
    return {"device": "the emulator" if place.emulator else optional(
                ["nvidia-smi", *used_gpu(), "--query-gpu=name", "--format=csv,noheader"]),
            "version": "; ".join(version.splitlines()),
            **{f"SHA-256 of {part}": hashlib.sha256(path.read_bytes()).hexdigest()
               for part, path in (("troupe", place.troupe), ("the library", place.library))}}


def version_of_torch():
    """With those of its CUDA and cuDNN, and whether it can use a GPU."""
    made = optional([sys.executable, "-c", "import torch; print(torch.__version__, torch.version.cuda, "
                     "torch.backends.cudnn.version(), torch.cuda.is_available())"], 60)
    if "Error" not in made:
        return made
    return (f"{made.rpartition(' / ')[2]} in {sys.executable}; to compare with PyTorch, start this command by a Python "
            "that has it: PYTHON bench/gpu/first_light FOLDER")


def compute_sanitizer():
    return shutil.which("compute-sanitizer") or shutil.which(
        "compute-sanitizer", path="/usr/local/cuda/bin:/usr/local/cuda/compute-sanitizer")


def device(call):
    fields = "name,driver_version,memory.total,clocks.max.sm,clocks.max.mem,power.limit,mig.mode.current"
    found = {
        "gpu": optional(["nvidia-smi", *used_gpu(), f"--query-gpu={fields}",
                         "--format=csv,noheader"]),
        "nvcc": optional(["nvcc", "--version"]).rpartition("\n")[2],
        "processor": optional(["lscpu"]).partition("Model name:")[2].partition("\n")[0].strip(),
        "python": sys.version.split()[0],
        "torch": version_of_torch(),
        "compute-sanitizer": compute_sanitizer() or "not there: the last step needs it",
        **call.place.description()}
    trainings = call.trainings()
    found["troupe"] = trainings.command("--version").strip()
    for tool in ("torch", "compute-sanitizer"):  # while there is time to install them
        print(f"{tool}: {found[tool]}", flush=True)
    outcome = {"found": found}
    try:
        found["first_steps"] = [row["loss"] for row in trainings.train([*TINY.train_options(), *synthetic(TINY)], 2)]
        outcome["summary"] = f"{found['gpu']}; losses of two steps: {found['first_steps']}"
    except NotRun as error:
        outcome.update(status="not run", why=str(error))
    return {**outcome, "details": [f"{name}: {value}" for name, value in found.items()]}


def tests(pattern, tiny):
    """Tests of cuda_device_tests, or a few of cuda_tests on the emulator."""
    def run(call):
        chosen, left_out = tiny if call.place.emulator else pattern, []
        if call.place.loader and pattern == FILTERS["contract"]:
            chosen += "-ContractLostContext.*"
            left_out = ["ContractLostContext was left out: it starts its program again, and then "
                        "without the carried C libraries, which this machine needs"]
        code, output = call.run(call.place.command(call.place.tests, f"--gtest_filter={chosen}"))
        if code == NO_GPU:
            raise NotRun(output.strip().splitlines()[-1])
        passed = len(re.findall(r"^\[       OK \]", output, re.M))
        skipped = re.findall(r": Skipped\n(.*)\n(?:.*\n)*?\[  SKIPPED \] (\S+)", output)
        failed = failed_tests(output)
        running = re.findall(r"^\[ RUN      \] (\S+)", output, re.M)
        found = {"summary": f"{passed} passed, {len(failed)} failed", "passed": passed, "failed": failed,
                 "details": left_out + [first_failure(output, name) for name in failed] +
                            [f"{name} was skipped: {why}" for why, name in skipped]}
        if skipped:
            found["summary"] += f", {len(skipped)} skipped"
        if code != 0 and not failed:
            how = "was killed at its time limit" if code is None else f"ended with {code}"
            found["failed"] = running[-1:] or ["no test ran"]
            found["summary"] += f"; it {how} in {running[-1] if running else 'its start'}"
            found["details"].append(last_words(output, 12))
        elif not passed and not failed:
            if skipped:
                found.update(status="not run", why=f"all {len(skipped)} tests were skipped: {skipped[0][0]}")
            else:
                found.update(failed=["no test ran"], summary="no test ran")
        return found
    return run


def failed_tests(output):
    return re.findall(r"^\[  FAILED  \] (\S+?),? .*\(\d+ ms\)", output, re.M)


def first_failure(output, name):
    """A failed test and the first thing that it said."""
    text = output.partition(f"[ RUN      ] {name}\n")[2].partition("[  FAILED  ]")[0]
    return f"{name}: {' '.join(text.split())[:400]}"


def sanitized(code, output):
    """The status of a run under compute-sanitizer, what came of it, and the first error."""
    said = [line.strip("= ") for line in output.splitlines()
            if line.startswith("=========") and "SUMMARY" not in line]
    unsupported = next((line for line in said if "not supported" in line), "")
    first = next((line for line in said if re.search("Error|Invalid|hazard", line)), "")
    passed = len(re.findall(r"^\[       OK \]", output, re.M))
    failed, running = failed_tests(output), re.findall(r"^\[ RUN      \] (\S+)", output, re.M)
    if code == NO_GPU or unsupported and not running:
        return "not run", unsupported or last_words(output, 1), ""
    if code == 9 or code is None and first:
        return "failed", "errors", first
    if failed:
        return "failed", f"{len(failed)} tests failed: {', '.join(failed)}", first
    if code is None:
        return "not run", f"time limit after {passed} tests", ""
    if code != 0 and running:
        return "failed", f"exit {code} in {running[-1]}", first
    if code != 0 or not passed:
        return "not run", f"exit {code} without a test: {last_words(output, 2)}", first
    return "passed", "no error", first


def sanitizer(call):
    if call.place.emulator:
        raise NotRun("compute-sanitizer needs a GPU; the emulator checks what it checks")
    program = compute_sanitizer()
    if not program:
        raise NotRun("compute-sanitizer is not there")
    runs = {"memcheck": "ContractKernel.*:CudaFence.*:CudaMemory.*:CudaOptimizers.*:CudaSoftmax.*",
            "racecheck": "ContractKernel.*:CudaSoftmax.*:CudaLayerNorm.*:CudaBatchNorm.*"}
    rows, statuses, limit = [], {}, call.left() / len(runs)
    for tool, pattern in runs.items():
        command = call.place.command(call.place.tests, f"--gtest_filter={pattern}")
        code, output = call.run([program, "--tool", tool, "--error-exitcode", "9", *command],
                                f"sanitizer_{tool}", limit)
        statuses[tool], result, first = sanitized(code, output)
        rows.append({"tool": tool, "result": result, "first": first,
                     "tests": len(re.findall(r"^\[       OK \]", output, re.M))})
    return {"summary": ", ".join(f"{row['tool']}: {row['result']}" for row in rows), "table": rows,
            "failed": [tool for tool, status in statuses.items() if status == "failed"],
            "status": "not run" if "not run" in statuses.values() else "passed"}


def lacks_bf16(refused):
    """Whether a run was refused for a GPU before sm_80."""
    return "does not multiply in bf16" in str(refused)


def same_bits(call):
    """One run twice, and in other forms, in each precision."""
    work = TINY if call.place.emulator else ROWS[0].work
    trainings = call.trainings()
    steps = 2 if call.place.emulator else 20
    base = [*work.train_options(), *synthetic(work), "train.micro_batches=2"]
    few = {"once": [], "again": [], "two stages": ["parallel.pipeline=2"]}
    every = {**few, "two replicas": ["parallel.data=2"], "CUDA graphs": ["cuda_graphs=true"],
             "resident images": ["data.resident=true"]}
    rows, failed, firsts = [], [], {}
    with tempfile.TemporaryDirectory() as folder:
        for precision, chosen in PRECISIONS.items():
            for way, options in (every if precision == "32-true" else few).items():
                row = {"precision": precision, "run": way}
                rows.append(row)
                output = Path(folder) / str(len(rows))
                try:
                    trainings.train([*base, *chosen, *options], steps, keep=output)
                except Refused as refused:
                    row["digest"] = f"refused: {refused}"
                    if not lacks_bf16(refused):
                        failed.append(f"{precision}, {way}")
                    break
                row["digest"] = trainings.digest(output)[:16]
                if row["digest"] != firsts.setdefault(precision, row["digest"]):
                    failed.append(f"{precision}, {way}")
    kinds = {row["digest"] for row in rows if row["precision"] in firsts}
    return {"summary": f"{len(rows)} runs of {steps} steps end with {len(kinds)} digests in {len(firsts)} precisions",
            "table": rows, "failed": failed}


def resumption(call):
    """A run that is killed after its first checkpoint and resumed, beside one that nobody disturbs."""
    work = TINY if call.place.emulator else replace(TINY, batch=64, samples=2_560)
    options = [*work.train_options(), *synthetic(work), "device=cuda", "seed=1", "train.epochs=3", "train.evaluate=false",
               "train.micro_batches=2", "train.optimizer=adamw", "train.clip_norm=1", "parallel.pipeline=2"]
    trainings, rows = call.trainings(), []
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "options.yaml"
        base.write_text("seed: 1\n")
        words = ["train", base, *(part for option in options for part in ("-r", option)), "-o"]
        whole, killed = Path(folder) / "whole", Path(folder) / "killed"
        trainings.command(*words, whole)
        rows.append({"run": "undisturbed", "digest": trainings.digest(whole)[:16]})
        with started(call.place.command(call.place.troupe, *words, killed), env=call.place.environment,
                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            while process.poll() is None and not list(killed.glob("checkpoints/step_*")):
                if time.monotonic() > call.deadline:
                    raise subprocess.TimeoutExpired(process.args, call.left())
                time.sleep(0.005)
            code = process.poll()
        if code == 0:
            raise NotRun("the run ended before it could be killed")
        if code is not None:
            raise Failed(f"the run that was to be killed ended with {code}")
        if "resuming " not in trainings.command(*words, killed, "--restart", "auto"):
            raise Failed("the killed run began anew")
        rows.append({"run": "killed and resumed", "digest": trainings.digest(killed)[:16]})
    same = rows[0]["digest"] == rows[1]["digest"]
    return {"summary": "the same digest" if same else "another digest", "table": rows,
            "failed": [] if same else ["killed and resumed"]}


def precisions(call):
    """Losses of each precision against f64's on the CPU."""
    work = TINY if call.place.emulator else replace(
        TINY, options=("model.name=wide_resnet", "model.widths=[16,16,32,64]"),
        batch=64, samples=1280, shape=(1, 28, 28), classes=10)
    steps = 2 if call.place.emulator else 20
    trainings = call.trainings()
    base = [*work.train_options(), *synthetic(work), "model.dropout=0", "train.lr=0.02"]
    rows, exact = [], None
    for name, options in {"64-true": ("precision=64-true",), **PRECISIONS}.items():
        try:
            found = trainings.train([*base, *options], steps)
            exact = exact or trainings.train([*base, "precision=64-true"], steps, device="cpu")
            far = [abs(a["loss"] - b["loss"]) / abs(b["loss"]) for a, b in zip(found, exact)]
            far = next(filter(math.isnan, far), max(far))
            rows.append({"precision": name, "result": "ran", "last loss": found[-1]["loss"],
                         "farthest from f64 on the CPU": f"{far:.2e}", "_far": far})
        except Refused as refused:
            rows.append({"precision": name, "result": f"refused: {refused}"})
    failed = [row["precision"] for row in rows if row["result"] != "ran" and not lacks_bf16(row["result"])]
    # Generous: rounding is amplified from step to step.
    bounds = {"64-true": 1e-7, "32-true": 1e-2, "tf32": 0.05, "bf16-mixed": 0.1, "16-mixed": 0.1}
    failed += [row["precision"] for row in rows
               if not row.pop("_far", 0) <= bounds[row["precision"]]]
    return {"summary": ", ".join(f"{row['precision']} {row['result'].split(':')[0]}" for row in rows),
            "table": rows, "failed": failed}


def all_steps():
    return [
        Step("device", 120, device),
        Step("contract", 120, tests(FILTERS["contract"], "ContractStream.*:ContractDevice.*")),
        Step("kernels", 240, tests(FILTERS["kernels"], "CudaMemory.*")),
        Step("same_bits", 120, same_bits),
        Step("resumption", 120, resumption),
        Step("goldens", 240, tests(FILTERS["goldens"], FILTERS["goldens"])),
        Step("precisions", 120, precisions),
        *(Step(row.key, 300, comparison.against_pytorch(row)) for row in ROWS),
        *(Step(pair.key, 150, comparison.of_divisions(pair)) for pair in PAIRS),
        Step("pipelines", 240, tests(FILTERS["pipelines"], "CudaPipeline.AdamW*")),
        Step("sanitizer", 240, sanitizer),
    ]
