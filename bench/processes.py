"""The rows about training in several processes; see rows.py."""

import csv
import itertools
import json
import socket
import tempfile
from contextlib import contextmanager
from pathlib import Path

from harness import BIN, ROOT, Figure, Row, Worker, run_timed

SCRIPT = ROOT / "bench" / "distributed" / "pytorch_process.py"
SMALL = {"name": "wide_resnet", "widths": [16, 16, 32, 64]}
OLIVIA = {"name": "wide_resnet", "in_channels": 3, "widths": [16, 160, 320, 640], "classes": 100}


def options(model, steps, micro_batches, batch_size, parallel):
    shape = [3, 32, 32] if model is OLIVIA else [1, 28, 28]
    data = {"name": "synthetic", "shape": shape, "classes": model.get("classes", 10),
            "count": 100 * batch_size}
    if model is OLIVIA:
        data.update(mean=[0.5], std=[0.25])
    return {"model": model, "data": data,
            "train": {"epochs": 1 + steps // 100, "steps": steps, "batch_size": batch_size,
                      "micro_batches": micro_batches, "lr": 0.01, "evaluate": False},
            "parallel": {"intra_op_threads": 1, **parallel}}


class Ours:
    """Runs of `troupe train` in a number of processes, with the steps, losses and digest of each run."""

    def __init__(self, name, folder, processes, **about):
        self.name, self.folder, self.processes, self.about = name, Path(folder), processes, about
        self.runs, self.rates, self.digest, self.losses = 0, [], None, None

    def run(self, skip):
        output = self.folder / f"{self.name.replace(' ', '-')}-{self.runs}"
        self.runs += 1
        path = output.with_suffix(".yaml")
        path.write_text(json.dumps(options(**self.about)))
        launch = ["launch", "--standalone", "--nproc-per-node", self.processes, "--"]
        run_timed([BIN / "troupe", *(launch if self.processes > 1 else []), "train", path, "-o",
                   output])
        with open(output / "train.csv") as file:
            rows = list(csv.DictReader(file))
        seconds = [1 / float(row["images_per_second"]) for row in rows[skip:]
                   if row["images_per_second"]]
        self.rates.append(len(seconds) / sum(seconds))  # over all of them, as PyTorch's
        self.losses = [float(row["loss"]) for row in rows]
        checkpoint = output / "checkpoints" / f"step_{self.about['steps']:08d}"
        self.digest = run_timed([BIN / "troupe", "inspect", "--digest", checkpoint])[2].strip()

    def figure(self):
        return Figure("images/s", self.rates, self.name)


def free_port():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()[1]


class Peers:
    """PyTorch's processes, started as by torchrun. Rank 0 answers requests."""

    def __init__(self, python, *words, size=2):
        port, members = free_port(), []
        for rank in range(size):
            environment = {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1",
                           "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
            members.append(Worker(f"PyTorch's rank {rank}", [python, SCRIPT, *words], environment))
        self.members = members

    def ask(self, request, count):
        return self.members[0].ask(request, count)

    def close(self):
        for member in self.members:
            member.close()


@contextmanager
def peers(python, *words):
    """PyTorch's fastest variant: layout and optimizer first, then torch.compile with the best of
    these, since a trial of it takes a minute."""
    ways = list(itertools.product(["nchw", "nhwc"], ["plain", "fused"], ["eager"]))
    paces, best = {}, None
    try:
        for at in range(len(ways) + 1):
            way = ways[at] if at < len(ways) else (*min(paces, key=paces.get)[:2], "compile")
            made = Peers(python, *words, *way)
            try:
                made.ask("time", 5)
                paces[way] = made.ask("time", 10)[0] / 10
            except RuntimeError:  # the pipeline refuses some layouts
                made.close()
                continue
            if best and paces[way] > min(paces.values()):
                made.close()
                continue
            if best:
                best.close()
            best = made
        best.note = "PyTorch's ms a step at the choice: " + ", ".join(
            f"{' '.join(way)} {1000 * pace:.1f}" for way, pace in paces.items())
        yield best
    finally:
        if best:
            best.close()


def check_same(runs):
    if len({run.digest for run in runs}) != 1:
        raise RuntimeError("weights differ: " + ", ".join(f"{r.name} {r.digest}" for r in runs))


def check_falls(who, losses):
    if not losses[-1] < 0.7 * losses[0]:
        raise RuntimeError(f"{who}: the loss does not fall: {losses}")
    return f"{who}: loss {losses[0]:.3f} before, {losses[-1]:.3f} after {len(losses)} steps"


def alternate(runs, peer, batch, repetitions, steps, skip):
    """Takes readings in turn. Returns PyTorch's images per second."""
    rates, notes = [], []
    if peer:
        notes += [check_falls("PyTorch", peer.ask("losses", 40)), peer.note]
    for _ in range(repetitions):
        for run in runs:
            run.run(skip)
        if peer:
            rates.append(batch * steps / peer.ask("time", steps)[0])
    check_same(runs)
    notes += [check_falls("ours", runs[0].losses[:40]), f"SHA-256 of weights: {runs[0].digest}"]
    return Figure("images/s", rates, "PyTorch"), notes


def data_parallel(python, repetitions, quick):
    rows, steps = [], 40 if quick else 80
    for key, what, model, each in (("small", "wide ResNet, 32 a rank", SMALL, 32),
                                   ("mnist", "MNIST CNN, 64 a rank", {"name": "mnist_cnn"}, 64)):
        about = {"model": model, "steps": steps, "micro_batches": 2, "batch_size": 2 * each}
        with tempfile.TemporaryDirectory() as folder, \
                peers(python, "ddp", key, str(each)) as ddp:
            runs = [Ours("2 processes", folder, 2, parallel={"data": 2}, **about),
                    Ours("one process", folder, 1, parallel={"data": 1, "actor_threads": 1}, **about)]
            theirs, notes = alternate(runs, ddp, 2 * each, repetitions, steps, 10)
        mine, alone = (run.figure() for run in runs)
        ratio = mine.median / theirs.median
        notes.append(f"ours in one process and thread {alone}: {mine.median / alone.median:.2f} x")
        rows.append(Row(f"data_parallel_{key}", f"data parallel, 2 processes: {what}", mine, ratio,
                        ">= 2.0", f"{ratio:.2f} x", theirs, "DDP on Gloo", notes, [alone]))
    return rows


def world_pipeline(python, repetitions, quick):
    steps = 40 if quick else 80
    about = {"model": SMALL, "steps": steps, "micro_batches": 8, "batch_size": 64}
    with tempfile.TemporaryDirectory() as folder, peers(python, "pipeline", "small", "8") as peer:
        runs = [Ours("2 processes", folder, 2, parallel={"pipeline": 2}, **about),
                Ours("zero bubble", folder, 2, parallel={"pipeline": 2, "schedule": "zb_h2"}, **about),
                Ours("one process", folder, 1, parallel={"pipeline": 1, "actor_threads": 1}, **about)]
        theirs, notes = alternate(runs, peer, 64, repetitions, steps, 10)
    mine, split, alone = (run.figure() for run in runs)
    what = "pipeline of 2 processes, small wide ResNet, 8 micro-batches of 8"
    ratio, gain = mine.median / theirs.median, split.median / alone.median
    return [Row("world_pipeline", f"{what}, 1F1B", mine, ratio, ">= 2.5", f"{ratio:.2f} x", theirs,
                "1F1B on Gloo", notes),
            Row("world_pipeline_gain", "the same by ZB-H2 against our own one thread", split,
                gain, ">= 1.65", f"{gain:.2f} x", alone, "one thread",
                [f"ideal of equal stages 1.92 x; by 1F1B {mine.median / alone.median:.2f} x (1.78)",
                 f"against PyTorch's 1F1B {split.median / theirs.median:.2f} x"], [mine])]


def olivia_pipeline(repetitions, quick):
    """The same two stages in two processes, and on two actor threads of one process."""
    steps = 3 if quick else 5
    about = {"model": OLIVIA, "steps": steps, "micro_batches": 8, "batch_size": 32}
    with tempfile.TemporaryDirectory() as folder:
        runs = [Ours("2 processes", folder, 2, parallel={"pipeline": 2}, **about),
                Ours("one process", folder, 1, parallel={"pipeline": 2, "actor_threads": 2}, **about)]
        for _ in range(repetitions):
            for run in runs:
                run.run(1)
        check_same(runs)
    mine, alone = (run.figure() for run in runs)
    ratio = mine.median / alone.median
    return [Row("olivia_pipeline", "pipeline of 2 processes, wide ResNet 3-16-160-320-640", mine,
                ratio, ">= 0.95", f"{ratio:.2f} x", alone, "one process",
                [f"SHA-256 of weights: {runs[0].digest}"])]


def aggregation(repetitions, quick):
    """Two replicas over Gloo with a few images each, so that summing gradients (69 MB of weights)
    takes its share of a step. Sums at the end of a step, bucket by bucket during the backward
    pass, and while the next step computes."""
    steps = 6 if quick else 12
    about = {"model": OLIVIA, "steps": steps, "micro_batches": 2, "batch_size": 8}
    gloo = {"data": 2, "transport": "gloo"}
    with tempfile.TemporaryDirectory() as folder:
        runs = [Ours("one bucket", folder, 2, parallel={**gloo, "bucket_cap_mb": 1000}, **about),
                Ours("buckets", folder, 2, parallel=gloo, **about),
                Ours("asynchronous", folder, 2, parallel={**gloo, "aggregation": "asynchronous"},
                     **about)]
        for _ in range(repetitions):
            for run in runs:
                run.run(1)
        check_same(runs[:2])
    whole, buckets, late = (run.figure() for run in runs)
    what = "data parallel, 2 processes over Gloo, wide ResNet 3-16-160-320-640, 4 images a rank"
    return [Row(f"aggregation_{run.name.split()[0]}", f"{what}: {name}", mine,
                mine.median / whole.median, target, f"{mine.median / whole.median:.2f} x", whole,
                "sums at the end of each step", [f"SHA-256 of weights: {run.digest}"])
            for name, mine, target, run in (
                ("buckets of 25 MiB", buckets, ">= 1.0", runs[1]),
                ("asynchronous", late, ">= 1.0", runs[2]))]
