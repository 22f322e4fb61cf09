"""Rows measured by the programs of bench/kernels: data workers and optimizers."""

import json
import tempfile
from pathlib import Path

from harness import BIN, ROOT, Figure, Row, Worker, run_timed, workers


def rates(program, pattern, counter, repetitions=1, environment=None):
    """Readings of a counter by benchmark name, from a program of Google Benchmark."""
    text = run_timed([BIN / program, f"--benchmark_filter={pattern}",
                      f"--benchmark_repetitions={repetitions}", "--benchmark_format=json",
                      "--benchmark_enable_random_interleaving=true"], environment)[2]
    found = {}
    for run in json.loads(text[text.index("{"):])["benchmarks"]:
        if run.get("error_occurred"):
            raise RuntimeError(f"{run['name']}: {run['error_message']}")
        if run["run_type"] == "iteration":
            found.setdefault(run["run_name"], []).append(run[counter])
    if not found:
        raise RuntimeError(f"{program} has no benchmark {pattern}")
    return found


def loader(repetitions, _quick):
    """Images of CIFAR's size, cropped, flipped and normalised by one data worker."""
    (readings,) = rates("loader_bench", "^flip_crop_normalise/3x32x32$", "items_per_second",
                        repetitions).values()
    ours = Figure("images per second of processor time", readings)
    return [Row("loader", "data worker: 3x32x32 crop, flip, normalise", ours, ours.median,
                ">= 60000", f"{ours.median:,.0f} a core")]


def photos(python, repetitions, quick):
    """A folder of 500 × 375 JPEGs, random crops of 224 × 224, against torchvision's faster way."""
    with tempfile.TemporaryDirectory() as folder:
        script = ROOT / "bench" / "pytorch_photos.py"
        run_timed([python, script, "make", folder])
        ways = [Worker(way, [python, script, way, folder]) for way in ("pillow", "tensor")]
        ours, theirs, count = [], {way: [] for way in ways}, 100 if quick else 400
        with workers(ways):
            for _ in range(repetitions):  # in turn, so that all meet the same load
                (once,) = rates("loader_bench", "^decode_crop_flip_normalise$", "items_per_second",
                                environment={"TROUPE_BENCH_IMAGES": folder}).values()
                ours += once
                for way in ways:
                    theirs[way].append(count / way.ask("time", count)[1])
    unit = "images per second of processor time"
    mine = Figure(unit, ours)
    peers = sorted((Figure(unit, theirs[way], way.name) for way in ways),
                   key=lambda figure: -figure.median)
    ratio = mine.median / peers[0].median
    return [Row("photos", "data worker: JPEG 500x375, random crop to 224x224, flip, normalise",
                mine, ratio, ">= 2.0", f"{ratio:.2f} x", peers[0], "torchvision",
                [f"torchvision's ways: {', '.join(f'{peer.what} {peer}' for peer in peers)}"],
                peers[1:])]


def adamw(repetitions, _quick):
    """AdamW over 100 M parameters, against memcpy over as many bytes, with the same threads."""
    found = rates("vector_bench", "^(adam_step|memcpy_in_place)/100M/", "GB/s", repetitions)
    rows = []
    for threads in (1, 2):
        mine, copy = (next(Figure("GB/s", readings, name) for name, readings in found.items()
                           if name.startswith(f"{kernel}/100M/threads:{threads}"))
                      for kernel in ("adam_step", "memcpy_in_place"))
        ratio = mine.median / copy.median
        rows.append(Row(f"adamw_{threads}", f"AdamW over 100 M parameters, {threads} thread(s)",
                        mine, ratio, ">= 0.9", f"{ratio:.2f} x", copy, "memcpy"))
    return rows
