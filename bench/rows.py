"""The rows of the table that bench/run prints. Each function measures one and returns Rows."""

import csv
import itertools
import json
import random
import re
import statistics
import tempfile
from pathlib import Path

from harness import BIN, ROOT, Figure, Row, Worker, run_timed, run_to_first_step, workers

STEPS = {  # key: what, model, batch, our convolution, target
    "small": ("wide ResNet 1-16-16-32-64, 28x28, batch 64", "small", 64, "auto", ">= 2.3"),
    "olivia": ("wide ResNet 3-16-160-320-640, 32x32, batch 16, auto", "olivia", 16, "auto",
               ">= 2.0"),
    "olivia_direct": ("the same, direct convolution", "olivia", 16, "direct", ">= 1.05"),
    "mnist": ("MNIST CNN, batch 128", "mnist", 128, "auto", ">= 2.0"),
    "resnet18": ("ResNet-18, 32x32, batch 32", "resnet18", 32, "auto", ">= 1.5"),
    "resnet50": ("ResNet-50, 224x224, batch 8", "resnet50", 8, "auto", ">= 1.2"),
    "small_f64": ("wide ResNet 1-16-16-32-64, 28x28, batch 64, 64-true", "small", 64, "auto",
                  ">= 1.0"),
    "small_bf16": ("wide ResNet 1-16-16-32-64, 28x28, batch 64, bf16-mixed", "small", 64, "auto",
                   ">= 1.5"),
    "olivia_bf16": ("wide ResNet 3-16-160-320-640, 32x32, batch 16, bf16-mixed", "olivia", 16,
                    "auto", ">= 1.3"),
    "depthwise": ("depthwise network from a .pt2 file, 32x32, batch 32", "depthwise", 32, "auto",
                  ">= 1.3"),
    "vit": ("vision transformer from a .pt2 file, 65 tokens of 192, batch 32", "vit", 32, "auto",
            ">= 1.3"),
    "vit_as_intel": ("the same, MKL of PyTorch with AVX-512 on any processor", "vit", 32, "auto",
                     ">= 1.3"),
}
FROM_FILES = ["depthwise", "vit"]  # models of file_models.py
AS_INTEL = ["vit_as_intel"]  # PyTorch's MKL takes the processor for Intel's
PRECISIONS = {"small_f64": "64-true", "small_bf16": "bf16-mixed", "olivia_bf16": "bf16-mixed"}
# By precision: how far the first loss, and any loss, may lie from PyTorch's. PyTorch's autocast also
# rounds what convolutions and linear layers write.
TOLERANCES = {"32-true": (1e-5, 1e-2), "64-true": (1e-5, 1e-2), "bf16-mixed": (1e-2, 5e-2)}


def variants(busy):
    """All variants of PyTorch: threads, layout, mode, optimizer."""
    return itertools.product([1] if busy else [2, 1], ["nhwc", "nchw"], ["eager", "compile"],
                             ["plain", "fused"])


def first_pace(worker, reading):
    """A rough estimate of the seconds per step: two steps after two warm-up steps."""
    worker.ask("time", 2)
    return worker.ask("time", 2)[reading] / 2


def pace(worker, seconds, reading):
    """Seconds per step, the least of three readings."""
    count = max(2, round(0.3 * seconds / first_pace(worker, 0)))
    return min(worker.ask("time", count)[reading] for _ in range(3)) / count


def compare_losses(losses, worker, precision="32-true"):
    """Raises RuntimeError if the losses differ from Troupe's."""
    first, most = TOLERANCES[precision]
    theirs = worker.ask("losses", len(losses))
    distances = [abs(x - y) / abs(y) for x, y in zip(losses, theirs)]
    if len(theirs) != len(losses) or distances[0] > first or not max(distances) <= most:
        raise RuntimeError(f"{worker.name}: losses differ: {losses} and {theirs}")
    return theirs[-1]


def fastest(candidates, count, seconds, reading, losses, notes, precision):
    """The `count` fastest candidates with correct losses; the others are closed. Candidates run one
    after the other. A candidate that starts 1.5 times slower than the best is dropped early."""
    rated, paces = [], []
    for worker in candidates:
        try:
            first = first_pace(worker, reading)
            slow = len(rated) == count and first > 1.5 * rated[-1][0]
            if not slow:
                compare_losses(losses, worker, precision)
            rated.append((first if slow else pace(worker, seconds, reading), worker))
        except RuntimeError as error:
            notes.append(f"left out: {error}")
            worker.close()
            continue
        paces.append(f"{worker.name} {1000 * rated[-1][0]:.1f}")
        rated.sort(key=lambda pair: pair[0])
        for _, slower in rated[count:]:
            slower.close()
        del rated[count:]
    if not rated:
        raise RuntimeError("; ".join(notes))
    notes.append("PyTorch's ms a step at the choice: " + ", ".join(paces))
    return [worker for _, worker in rated]


chosen = {}  # by model, precision and environment: PyTorch's fastest variants, for other rows


def peers_of(model, precision, python, seconds, reading, losses, quick, notes, environment=None):
    script = ROOT / "bench" / "pytorch_step.py"
    kind = model, precision, str(environment)
    ways = chosen.get(kind) or list(variants(reading == 1))[:1 if quick else None]
    workers_of_ways = (Worker(" ".join(map(str, way)), [python, script, model, *way, precision],
                              environment)
                       for way in ways)
    peers = fastest(workers_of_ways, 3, seconds, reading, losses, notes, precision)
    chosen[kind] = [worker.name.split() for worker in peers]
    return peers


def exported(model, folder, python):
    """The path of a file with a model of file_models.py."""
    path = Path(folder) / f"{model}.pt2"
    run_timed([python, ROOT / "bench" / "file_models.py", model, path])
    return path


def training_step(key, python, repetitions, quick, busy):
    model = STEPS[key][1]
    if model not in FROM_FILES:
        return compare_steps(key, model, python, repetitions, quick, busy)
    with tempfile.TemporaryDirectory() as folder:
        environment = {"LD_PRELOAD": str(as_intel(folder))} if key in AS_INTEL else None
        return compare_steps(key, exported(model, folder, python), python, repetitions, quick, busy,
                             environment)


def as_intel(folder):
    """A library that lets MKL use AVX-512 on processors of other makers, too."""
    source, library = Path(folder) / "as_intel.c", Path(folder) / "as_intel.so"
    source.write_text("int mkl_serv_intel_cpu_true(void) { return 1; }\n"
                      "int mkl_serv_intel_cpu(void) { return 1; }\n")
    run_timed(["cc", "-shared", "-fPIC", source, "-o", library])
    return library


def compare_steps(key, source, python, repetitions, quick, busy, environment=None):
    """Steps of a model that step_bench calls `source`. PyTorch runs in this environment."""
    what, model, batch, convolution, target = STEPS[key]
    precision = PRECISIONS.get(key, "32-true")
    notes, seconds = [], 0.4 if quick else 1.0
    reading = 1 if busy else 0  # of a worker's answer: wall seconds, seconds of processor time
    ours = [Worker(f"{threads} thread(s)",
                   [BIN / "step_bench", source, threads, convolution, 0.01, precision])
            for threads in ([1] if busy else [2, 1])]
    with workers([*ours]) as all_workers:
        losses = ours[0].ask("losses", 3 if quick else 20)
        for other in ours[1:]:
            compare_losses(losses, other, precision)
        peers = peers_of(model, precision, python, seconds, reading, losses, quick, notes,
                         environment)
        all_workers += peers
        counts = {worker: max(2, round(seconds / pace(worker, seconds, 0)))
                  for worker in all_workers}
        rates = {worker: [] for worker in all_workers}
        for _ in range(repetitions):  # in turn, so that all meet the same load
            for pair in itertools.product(all_workers[:len(ours)], peers):
                for worker in pair:
                    took = worker.ask("time", counts[worker])[reading]
                    rates[worker].append(batch * counts[worker] / took)
        notes.append(f"loss after {len(losses)} steps {losses[-1]:.6f}, PyTorch's "
                     f"{compare_losses(losses, peers[0], precision):.6f}; compared for each variant")
    unit = "images per second of processor time" if busy else "images/s"
    figures = lambda some: sorted((Figure(unit, rates[worker], worker.name) for worker in some),
                                  key=lambda figure: -figure.median)
    mine, theirs = figures(ours), figures(peers)
    ratio = mine[0].median / theirs[0].median
    notes.append(f"ours {mine[0].what}, PyTorch {theirs[0].what}")
    return [Row(key, what, mine[0], ratio, target, f"{ratio:.2f} x", theirs[0], "PyTorch", notes,
                mine[1:] + theirs[1:])]


def resnet18_file(python, repetitions, quick):
    """The same network from a file of PyTorch's and as a model of the library."""
    with tempfile.TemporaryDirectory() as folder:
        ways = {"file": exported("resnet18_file", folder, python), "resnet18": "resnet18"}
        made = {name: Worker(name, [BIN / "step_bench", way, 2, "auto"])
                for name, way in ways.items()}
        with workers(made.values()):
            count = 3 if quick else 20
            losses = made["file"].ask("losses", count)
            compare_losses(losses, made["resnet18"])
            steps = max(2, round((0.4 if quick else 1.0) / pace(made["file"], 1.0, 0)))
            rates = {name: [] for name in made}
            for _ in range(3 * repetitions):  # in turn, so that both meet the same load
                for name, worker in made.items():
                    rates[name].append(32 * steps / worker.ask("time", steps)[0])
    ours, peer = (Figure("images/s", rates[name], name) for name in ways)
    ratio = ours.median / peer.median
    return [Row("resnet18_file", "ResNet-18 from a .pt2 file, 32x32, batch 32", ours, ratio,
                ">= 0.95", f"{ratio:.3f} x", peer, "resnet18",
                [f"loss after {count} steps {losses[-1]:.6f} in both"])]


def train(folder, options, output):
    """Runs `troupe train` on options given as a dict (JSON is YAML); its train.csv as dicts."""
    path = Path(folder) / f"{output}.yaml"
    path.write_text(json.dumps(options))
    run_timed([BIN / "troupe", "train", path, "-o", Path(folder) / output])
    with open(Path(folder) / output / "train.csv") as file:
        return list(csv.DictReader(file))


def synthetic(steps, micro_batches, parallel, checkpoint_every=0):
    return {"model": {"name": "wide_resnet"},
            "data": {"name": "synthetic", "shape": [1, 28, 28], "count": 6400},
            "train": {"epochs": 1 + steps // 100, "steps": steps, "batch_size": 64,
                      "micro_batches": micro_batches, "lr": 0.01, "evaluate": False},
            "parallel": {"intra_op_threads": 1, **parallel}, "checkpoint": {"every_steps": checkpoint_every}}


def step_seconds(rows, skip=10):
    return [64 / float(row["images_per_second"]) for row in rows[skip:] if row["images_per_second"]]


def median_rate(rows):
    seconds = sorted(step_seconds(rows))
    return 64 / seconds[len(seconds) // 2]


def pipeline(repetitions, quick):
    kinds = {"2 stages, 2 actor threads": {"pipeline": 2, "actor_threads": 2},
             "1 stage, 1 thread": {"pipeline": 1, "actor_threads": 1},
             "1 stage, 2 intra-op threads": {"pipeline": 1, "actor_threads": 1,
                                             "intra_op_threads": 2}}
    rates = {name: [] for name in kinds}
    with tempfile.TemporaryDirectory() as folder:
        for repetition in range(repetitions):
            for number, (name, parallel) in enumerate(kinds.items()):
                rows = train(folder, synthetic(40 if quick else 100, 8, parallel),
                             f"{repetition}-{number}")
                rates[name].append(median_rate(rows))
    mine, *others = (Figure("images/s", readings, name) for name, readings in rates.items())
    others.sort(key=lambda figure: -figure.median)
    ratio = mine.median / others[0].median
    return [Row("pipeline", "small wide ResNet, 2 stages, 8 micro-batches of 8", mine, ratio,
                ">= 0.9", f"{ratio:.2f} x", others[0], "one stage",
                [f"against {others[0].what}"], others[1:])]


def auto_threads(python, repetitions, quick):
    """`troupe train` with one stage and the default number of threads, against PyTorch."""
    options = synthetic(40 if quick else 200, 1, {"intra_op_threads": "auto"})
    ours, notes, seconds = [], [], 0.4 if quick else 1.0
    with workers([Worker("losses", [BIN / "step_bench", "small", 1, "auto"])]) as (reference,):
        losses = reference.ask("losses", 3 if quick else 20)
    peers = peers_of("small", "32-true", python, seconds, 0, losses, quick, notes)
    theirs = {peer: [] for peer in peers}
    with tempfile.TemporaryDirectory() as folder, workers(peers):
        counts = {peer: max(2, round(seconds / pace(peer, seconds, 0))) for peer in peers}
        for repetition in range(repetitions):
            # The mean over all steps, as of the peers.
            ours.append(64 / statistics.mean(step_seconds(train(folder, options, f"{repetition}"))))
            for peer in peers:
                took = peer.ask("time", counts[peer])[0]
                theirs[peer].append(64 * counts[peer] / took)
    best = max((Figure("images/s", theirs[peer], peer.name) for peer in peers),
               key=lambda figure: figure.median)
    mine = Figure("images/s", ours)
    ratio = mine.median / best.median
    return [Row("auto_threads", "small wide ResNet, one stage of `troupe train`, auto threads",
                mine, ratio, ">= 2.19", f"{ratio:.2f} x", best, "PyTorch",
                [*notes, f"PyTorch {best.what}"])]


def hop(repetitions, _quick):
    """Several processes of each, in turn, since single processes are slow from start to end."""
    found = {}
    for _ in range(repetitions):
        for program in (["hop_bench", 2, 3], ["caf_bench", 2]):
            text = run_timed([BIN / program[0], *program[1:]])[2]
            for way, threads, median in re.findall(
                    r"^([\w ]+), (\d) threads?: (?:median )?([\d.]+) ", text, re.MULTILINE):
                found.setdefault((way, int(threads)), []).append(float(median))
    rows = []
    for threads in (1, 2):
        there = Figure("us", found["hop", threads])
        alone = Figure("us", found["CAF", threads])
        one_way = Figure("M hops/s", found["one way", threads])
        rows += [Row(f"hop_{threads}", f"hop between two actors, {threads} thread(s)", there,
                     there.median, "<= 2.0", f"{there.median:.2f} us", alone, "CAF alone"),
                 Row(f"hops_{threads}", f"hops one way, {threads} thread(s)", one_way,
                     one_way.median, ">= 1.0", f"{one_way.median:.2f} M/s")]
    return rows


def first_step(python, repetitions, _quick):
    ours, peers = [], []
    with tempfile.TemporaryDirectory() as folder:
        for repetition in range(repetitions):
            output = Path(folder) / str(repetition)
            command = [BIN / "troupe", "train", ROOT / "recipes" / "demo.yaml", "-o", output]
            ours.append(run_to_first_step(command, output))
            peers.append(run_timed([python, ROOT / "bench" / "pytorch_first_step.py"]))
    milliseconds = lambda runs: Figure("ms", [1000 * seconds for seconds, _, _ in runs])
    memory = lambda runs: Figure("MiB", [mebibytes for _, mebibytes, _ in runs])
    time, peak = milliseconds(ours), memory(ours)
    return [Row("first_step", "process start to the first step, demo recipe", time, time.median,
                "<= 300 ms", f"{time.median:.0f} ms", milliseconds(peers)),
            Row("first_step_memory", "peak memory then", peak, peak.median, "<= 150 MiB",
                f"{peak.median:.0f} MiB", memory(peers))]


def lengthening(seconds, step):
    """The seconds by which the steps around a snapshot after `step` exceed their neighbours: the
    step that ends with it and the five after it, less the median of 24 others."""
    around = seconds[step - 1:step + 5]
    others = seconds[step - 13:step - 1] + seconds[step + 5:step + 17]
    return sum(around) - len(around) * statistics.median(others)


def interval(values, statistic, draws=4000):
    """The 95 % interval of the statistic (percentile bootstrap)."""
    source = random.Random(1)
    found = sorted(statistic(source.choices(values, k=len(values))) for _ in range(draws))
    return found[draws // 40], found[-draws // 40 - 1]


def checkpoint_stall(_repetitions, quick):
    """One run with a snapshot each 100 steps: the excess of the steps around it over their
    neighbours, as a share of 50 steps. The same estimate halfway between two snapshots shows the
    noise. Whole windows of 50 steps, with and without a snapshot, are compared as well."""
    count, every = (12 if quick else 40), 100
    options = synthetic(every * (count + 1), 4, {"pipeline": 2, "actor_threads": 2}, every)
    with tempfile.TemporaryDirectory() as folder:
        seconds = step_seconds(train(folder, options, "run"), skip=0)
        log = (Path(folder) / "run" / "train.log").read_text()
    writing = [1000 * float(time) for time in
               re.findall(r"checkpoint of step \d+ written in ([\d.]+) s", log)][:count]
    usual = statistics.median(seconds)
    share = lambda step: 100 * lengthening(seconds, step) / (50 * usual)
    snapshots = [share(every * i) for i in range(1, count + 1)]
    nothing = [share(every * i + every // 2) for i in range(1, count + 1)]
    mean = lambda begin: sum(seconds[begin:begin + 50])
    windows = [100 * (mean(every * i) / mean(every * i + 50) - 1) for i in range(1, count + 1)]
    text = lambda values, of: "{:.2f} % (95 %: {:.2f}..{:.2f})".format(
        of(values), *interval(values, of))
    worst = interval(snapshots, statistics.median)[1]
    figure = Figure("%", snapshots, "of 50 steps, snapshot by snapshot")
    notes = [f"median {text(snapshots, statistics.median)}, mean {text(snapshots, statistics.mean)}",
             f"where no snapshot is: median {text(nothing, statistics.median)}, "
             f"mean {text(nothing, statistics.mean)}",
             f"50 steps with a snapshot against the next 50 without: "
             f"median {text(windows, statistics.median)}",
             f"a step takes {1000 * usual:.1f} ms, writing "
             f"{Figure('ms', writing)}, in the background"]
    return [Row("checkpoint_stall", "checkpoint of the demo's model, as one in 50 steps", figure, worst,
                "<= 1.0 %", f"at most {worst:.2f} %", notes=notes,
                others=[Figure("%", nothing, "the same without a snapshot"),
                        Figure("%", windows, "windows of 50 steps, with against without"),
                        Figure("ms", writing, "until written")])]


def readings(text):
    """The numbers of the lines "name: 1 2 3" of a program's output."""
    return {name: [float(number) for number in numbers.split()]
            for name, numbers in re.findall(r"^([a-z ]+): ([-\d. ]+)$", text, re.MULTILINE)}


def big_checkpoint(python, repetitions, _quick):
    """On tmpfs. The first checkpoint of each side is left out, since it touches memory first."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        ours = readings(run_timed([BIN / "checkpoint_bench", f"{folder}/a", repetitions + 1])[2])
        script = [python, ROOT / "bench" / "pytorch_checkpoint.py", f"{folder}/b"]
        peer = {way: readings(run_timed([*script, way, repetitions + 1])[2])
                for way in ("dcp", "safetensors")}
    figure = lambda source, key, what: Figure("ms", source[key][1:], what)
    stall, complete = (figure(ours, key, "") for key in ("stall ms", "complete ms"))
    others = [figure(peer["safetensors"], "complete ms", "safetensors save_file"),
              figure(ours, "step ms", "step of the same training"),
              figure(ours, "step while saving ms", "step after a snapshot")]
    return [Row("big_checkpoint_stall", "checkpoint of 100 M parameters: stall", stall,
                stall.median, "<= 25 ms", f"{stall.median:.2f} ms",
                figure(peer["dcp"], "stall ms", ""), "dcp.async_save"),
            Row("big_checkpoint", "checkpoint of 100 M parameters: until complete", complete,
                complete.median, "<= 350 ms", f"{complete.median:.0f} ms",
                figure(peer["dcp"], "complete ms", ""), "dcp.async_save",
                [f"{other.what} {other}" for other in others],
                others)]


def torch_file(python, repetitions, _quick):
    """A .pt file in the page cache: opened, all tensors read and compared with their checksums, against a copy."""
    with tempfile.TemporaryDirectory() as folder:
        ours = readings(run_timed([BIN / "torch_file_bench", folder, repetitions])[2])
        script = [python, ROOT / "bench" / "pytorch_load.py", folder, repetitions]
        peer = readings(run_timed(script)[2])
    figure = lambda source, key, what: Figure("GB/s", source[key], what)
    read, copy = figure(ours, "read", ""), figure(ours, "copy", "")
    others = [figure(ours, "read and copy", "read and copied into other memory"),
              figure(peer, "load", "torch.load(weights_only=True)"),
              figure(peer, "mapped", "torch.load(weights_only=True, mmap=True), no checksums")]
    ratio = read.median / copy.median
    return [Row("torch_file", "a .pt file of 400 MB, all tensors read", read, ratio, ">= 0.7",
                f"{ratio:.2f} x", copy, "memcpy", [f"{other.what} {other}" for other in others],
                others)]


def timed_schedule(_repetitions, quick):
    """Stages that only take time: by how much the median step exceeds the bound of its schedule."""
    steps = 5 if quick else 15
    text = run_timed([BIN / "schedule_bench", 5, steps])[2]
    over = [(float(percent), f"{kind}, {stages} stages, {count} micro-batches") for
            kind, stages, count, percent in re.findall(
                r"^(\w+)\s+(\d+)\s+(\d+)\s.*?(-?[\d.]+) %$", text, re.MULTILINE)]
    figure = Figure("%", [percent for percent, _ in over], "over the bound, each p, m, schedule")
    worst = max(over)
    return [Row("schedule", "pipeline of timed stages, p = 2, 4, 8, m = 4..32: over the bound",
                figure, worst[0], "<= 3.0 %", f"worst {worst[0]:.2f} %",
                notes=[f"{worst[1]}; each case the median of {steps} steps"])]


def transports(repetitions, quick):
    """Between processes of this host. Gloo uses loopback."""
    def bench(*arguments):
        # Several runs, since the system decides once per run which threads share a core.
        readings = {}
        for _ in range(5 if quick else 9):
            text = run_timed([BIN / "transport_bench", *arguments])[2]
            for name, numbers in re.findall(r"^([a-z, ]+): ([\d. ]+)$", text, re.MULTILINE):
                readings.setdefault(name, []).extend(float(number) for number in numbers.split())
        return {name: Figure("ms", values, name) for name, values in readings.items()}

    def row(key, what, ours, peer, target, others):
        ratio = peer.median / ours.median
        return Row(key, what, ours, ratio, target, f"{100 * ratio:.0f} %", peer, peer.what,
                   [f"{other.what} {other}" for other in others], list(others))

    count = repetitions if quick else 10 * repetitions
    sent, stream = bench("send", count), bench("stream", max(2, repetitions // 2))
    return [row("send_shm", "16 MiB to another process and an answer, shared memory", sent["shm"],
                sent["memcpy"], ">= 0.7", [stream["shm"], stream["memcpy"]]),
            row("send_gloo", "the same by Gloo", sent["gloo"], sent["gloo alone"], ">= 0.9",
                [stream["gloo"], stream["gloo alone"]])]
