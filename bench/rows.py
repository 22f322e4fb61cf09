"""The rows of the table that bench/run prints. Each function measures one and returns Rows."""

import csv
import json
import re
import tempfile
from pathlib import Path

from harness import BIN, ROOT, Figure, Row, Worker, run_timed, workers

STEPS = {  # key: what, model, batch, our convolution, bar
    "small": ("wide ResNet 1-16-16-32-64, 28x28, batch 64", "small", 64, "auto", ">= 2.0"),
    "olivia": ("wide ResNet 3-16-160-320-640, 32x32, batch 16, auto", "olivia", 16, "auto",
               ">= 1.8"),
    "olivia_direct": ("the same, direct convolution", "olivia", 16, "direct", ">= 1.05"),
    "mnist": ("MNIST CNN, batch 128", "mnist", 128, "auto", ">= 1.5"),
}


def step_workers(model, convolution, python, quick, busy):
    ours = [Worker(f"{threads} thread(s)", [BIN / "step_bench", model, threads, convolution])
            for threads in ([1] if busy else [2, 1])]
    variants = [(threads, layout, mode) for threads in ([1] if busy else [2, 1])
                for mode in ("eager", "compile") for layout in ("nhwc", "nchw")
                if threads == 2 or busy or mode == "eager"]
    if quick:
        variants = variants[:1]
    script = ROOT / "bench" / "pytorch_step.py"
    peers = [Worker(f"{threads} thread(s) {layout} {mode}",
                    [python, script, model, threads, layout, mode])
             for threads, layout, mode in variants]
    return ours, peers


def warmed(candidates, seconds, notes):
    """(worker, steps that take about so long), the fastest first; the others were left out."""
    rated = []
    for worker in candidates:
        try:
            worker.ask("time", 2)
            few = worker.ask("time", 2)[0] / 2
            some = max(2, round(0.3 * seconds / few))
            rated.append((min(few, worker.ask("time", some)[0] / some), worker))
        except RuntimeError as error:
            notes.append(f"left out: {error}")
    rated.sort(key=lambda pair: pair[0])
    return [(worker, max(2, round(seconds / one))) for one, worker in rated]


def compare_losses(ours, peer, steps=20):
    """Largest relative difference of the losses; complains where they do not tell one story."""
    a, b = ours.ask("losses", steps), peer.ask("losses", steps)
    distances = [abs(x - y) / abs(y) for x, y in zip(a, b)]
    if len(a) != steps or len(b) != steps or distances[0] > 1e-5 or max(distances) > 1e-2:
        raise RuntimeError(f"losses differ: {a} and {b}")
    return f"loss after {steps} steps {a[-1]:.6f}, PyTorch's {b[-1]:.6f}"


def training_step(key, python, repetitions, quick, busy):
    what, model, batch, convolution, bar = STEPS[key]
    notes, seconds = [], 0.4 if quick else 1.0
    reading = 1 if busy else 0  # of a worker's answer: wall seconds, seconds of processor time
    ours, peers = step_workers(model, convolution, python, quick, busy)
    with workers(ours + peers):
        notes.append(compare_losses(ours[0], peers[0], 3 if quick else 20))
        ours, peers = warmed(ours, seconds, notes), warmed(peers, seconds, notes)[:2]
        rates = {worker: [] for worker, _ in ours + peers}
        for _ in range(repetitions):  # in turn, so that all see the same machine
            for (mine, n), (theirs, m) in ((o, p) for o in ours for p in peers):
                rates[mine].append(batch * n / mine.ask("time", n)[reading])
                rates[theirs].append(batch * m / theirs.ask("time", m)[reading])
    unit = "images per second of processor time" if busy else "images/s"
    figures = lambda chosen: sorted(
        (Figure(unit, rates[worker], worker.name) for worker, _ in chosen),
        key=lambda figure: -figure.median)
    mine, theirs = figures(ours), figures(peers)
    ratio = mine[0].median / theirs[0].median
    notes.append(f"ours {mine[0].what}, PyTorch {theirs[0].what}")
    return [Row(key, what, mine[0], ratio, bar, f"{ratio:.2f} x", theirs[0], "PyTorch", notes,
                mine[1:] + theirs[1:])]


def train(folder, options, output):
    """Runs `troupe train` on options given as a dict (JSON is YAML); its train.csv as dicts."""
    path = Path(folder) / f"{output}.yaml"
    path.write_text(json.dumps(options))
    run_timed([BIN / "troupe", "train", path, "-o", Path(folder) / output])
    with open(Path(folder) / output / "train.csv") as file:
        rows = list(csv.DictReader(file))
    return rows[1:]  # the first row holds units


def synthetic(steps, micro_batches, parallel, checkpoint_every=0):
    return {"model": {"name": "wide_resnet"},
            "data": {"name": "synthetic", "shape": [1, 28, 28], "count": 6400},
            "train": {"epochs": 1 + steps // 100, "steps": steps, "batch_size": 64,
                      "micro_batches": micro_batches, "lr": 0.01, "evaluate": False},
            "parallel": parallel, "checkpoint": {"every_steps": checkpoint_every}}


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


def hop(repetitions, _quick):
    _, _, text = run_timed([BIN / "hop_bench", 2, repetitions])
    rows = []
    for threads, median, low, high in re.findall(
            r"hop, (\d) threads?: median ([\d.]+) us, 10 % ([\d.]+) us, 99 % ([\d.]+) us", text):
        figure = Figure("us", [float(low), float(median), float(high)], "10 %, median, 99 %")
        rows.append(Row(f"hop_{threads}", f"hop between two actors, {threads} thread(s)", figure,
                        float(median), "<= 2.0", f"{median} us"))
    for threads, median, low, high in re.findall(
            r"one way, (\d) threads?: ([\d.]+) M hops/s \[([\d.]+) .. ([\d.]+)\]", text):
        figure = Figure("M hops/s", [float(low), float(median), float(high)], "least, median, most")
        rows.append(Row(f"hops_{threads}", f"hops one way, {threads} thread(s)", figure,
                        float(median), ">= 1.0", f"{median} M/s"))
    return rows


def first_step(python, repetitions, _quick):
    ours, peers = [], []
    with tempfile.TemporaryDirectory() as folder:
        for repetition in range(repetitions):
            command = [BIN / "troupe", "train", ROOT / "recipes" / "demo.yaml", "-o",
                       Path(folder) / str(repetition)]
            ours.append(run_timed(command, {"TROUPE_EXIT_AFTER_FIRST_STEP": "1"}))
            peers.append(run_timed([python, ROOT / "bench" / "pytorch_first_step.py"]))
    milliseconds = lambda runs: Figure("ms", [1000 * seconds for seconds, _, _ in runs])
    memory = lambda runs: Figure("MiB", [mebibytes for _, mebibytes, _ in runs])
    time, peak = milliseconds(ours), memory(ours)
    return [Row("first_step", "process start to the first step, demo recipe", time, time.median,
                "<= 300 ms", f"{time.median:.0f} ms", milliseconds(peers)),
            Row("first_step_memory", "peak memory then", peak, peak.median, "<= 150 MiB",
                f"{peak.median:.0f} MiB", memory(peers))]


def checkpoint_stall(repetitions, quick):
    """Mean time of a step with a checkpoint one in 50 steps, against without, in turn."""
    stalls = []
    with tempfile.TemporaryDirectory() as folder:
        for repetition in range(2 * repetitions):
            means = []
            for every in (0, 50):
                rows = train(folder, synthetic(110 if quick else 310, 4,
                                               {"pipeline": 2, "actor_threads": 2}, every),
                             f"{repetition}-{every}")
                seconds = step_seconds(rows)
                means.append(sum(seconds) / len(seconds))
            stalls.append(100 * (means[1] / means[0] - 1))
    figure = Figure("%", stalls, "lengthening of the mean step, pair by pair")
    return [Row("checkpoint_stall", "checkpoint of the demo's model, one in 50 steps", figure,
                figure.median, "<= 1.0 %", f"{figure.median:.2f} %")]


def readings(text):
    """What the lines "name: 1 2 3" of a program's output hold."""
    return {name: [float(number) for number in numbers.split()]
            for name, numbers in re.findall(r"^([a-z ]+): ([-\d. ]+)$", text, re.MULTILINE)}


def big_checkpoint(python, repetitions, _quick):
    """On tmpfs; the first checkpoint of each is left out, where memory is touched the first time."""
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


def timed_schedule(_repetitions, quick):
    """Stages that only take time: how far a step is over the bound of its schedule."""
    text = run_timed([BIN / "schedule_bench", 5, 5])[2]
    over = [(float(percent), f"{kind}, {stages} stages, {count} micro-batches") for
            kind, stages, count, percent in re.findall(
                r"^(\w+)\s+(\d+)\s+(\d+)\s.*?(-?[\d.]+) %$", text, re.MULTILINE)]
    figure = Figure("%", [percent for percent, _ in over], "over the bound, each p, m, schedule")
    worst = max(over)
    return [Row("schedule", "pipeline of timed stages, p = 2, 4, 8, m = 4..32: over the bound",
                figure, worst[0], "<= 3.0 %", f"worst {worst[0]:.2f} %", notes=[worst[1]])]
