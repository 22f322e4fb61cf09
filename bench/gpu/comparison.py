"""The performance table: Troupe and PyTorch, one after the other on the same device."""

import itertools
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

from processes import started
from results import NotRun, Refused
from rows import PRECISIONS, TOLERANCES
from trainings import Failed, Watch, last_words, synthetic

PEER = Path(__file__).resolve().parent / "peer.py"
# In the steps of the check, which repeat one batch, the losses of the rows fall by 45% to 90%.
CHECKED_BATCH, CHECKED_STEPS, CHECKED_LR = 32, 5, 0.02
SGD = ["train.momentum=0.9", "train.weight_decay=0"]  # as peer.py
LR = ["train.lr=0.001", *SGD]


def ask_peer(call, work, precision, mode, share, **more):
    """PyTorch's answer to a request within a share of the time that is left; see peer.py."""
    request = {"model": work.model, "widths": work.widths(), "shape": work.shape, "classes": work.classes, "batch": work.batch,
               "augment": work.augment, "samples": work.samples, "precision": precision, "mode": mode, **more}
    limit = share * call.left()
    with started([sys.executable, PEER, json.dumps(request)], text=True,
                 stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            output, errors = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            call.cut = True
            raise NotRun(f"PyTorch did not answer in {limit:.0f} s") from None
    if process.returncode != 0:
        raise NotRun(f"PyTorch: {last_words(errors, 1)}")
    answer = json.loads(output.strip().splitlines()[-1])
    if "missing" in answer:
        raise NotRun(answer["missing"])
    return answer


def dropout_of(work, probability):
    return [f"model.dropout={probability}"] if work.model == "wide_resnet" else []


def write_samples(folder, work, count):
    """The data set of the check, as `data.name: npy` reads it."""
    import numpy
    make_random = numpy.random.default_rng(1)
    for part, samples in (("train", count), ("test", 1)):
        numpy.save(f"{folder}/x_{part}.npy",
                   make_random.integers(0, 256, (samples, *work.shape), dtype=numpy.uint8))
        numpy.save(f"{folder}/y_{part}.npy", 3 * numpy.arange(samples, dtype=numpy.int64) % work.classes)


def check_losses(call, row, work):
    """Both train one batch for some steps from the same weights; how far their losses are apart."""
    batch = min(work.batch, CHECKED_BATCH)
    with tempfile.TemporaryDirectory() as folder:
        write_samples(folder, work, batch)
        theirs = ask_peer(call, work, row.precision, "eager", 1 / 3, batch=batch,
                          steps=CHECKED_STEPS, lr=CHECKED_LR, losses=folder)["losses"]
        form = [option for option in synthetic(work) if option.startswith(("data.mean", "data.std"))]
        ours = call.trainings().train(
            [*work.options, "data.name=npy", f"data.path={folder}", "data.shuffle=false", *form, *SGD,
             f"train.lr={CHECKED_LR}", *PRECISIONS[row.precision], f"train.batch_size={batch}",
             "train.micro_batches=1", f"model.classes={work.classes}", *dropout_of(work, 0)], CHECKED_STEPS)
    ours = [step["loss"] for step in ours]
    far = [abs(a - b) / abs(b) for a, b in zip(ours, theirs)]
    first, most = TOLERANCES[row.precision]
    farthest = next(filter(math.isnan, far), max(far))
    found = f"the first loss is within {far[0]:.1e} of PyTorch's, {len(far)} losses within {farthest:.1e}"
    if not (far[0] <= first and farthest <= most):  # nor NaN
        raise Failed(f"wrong result, so not timed: {found}: {[round(loss, 5) for loss in ours]}"
                     f" and {[round(loss, 5) for loss in theirs]}")
    if not ours[-1] <= 0.9 * ours[0]:
        raise Failed(f"not timed: the losses do not fall, so agreement proves nothing: {ours}")
    return {"who": "check", "note": found}


def line(who, found, note=""):
    spread = f"{found['images_per_second']:,.0f} [{found['least']:,.0f}..{found['most']:,.0f}]"
    return {"who": who, "images/s": spread, "MiB in use on the GPU": found.get("memory_mib", ""),
            "a kernel runs": f"{found['busy']:.0%}" if "busy" in found else "", "note": note}


def verdict(value, target):
    return f"target {target:,}: {'met' if value >= target else 'missed'}"


def measure_peer(call, row, work, mode, share):
    """A mode of PyTorch; memory as Troupe's: what nvidia-smi says is in use."""
    with Watch(call.place.emulator) as watch:
        found = ask_peer(call, work, row.precision, mode, share, seconds=6,
                         dropout=0.01 if dropout_of(work, 0) else 0.0)
    return {**found, **{key: value for key, value in watch.seen().items() if key == "memory_mib"}}


def peer_note(ours, theirs, target):
    ways = {way: f"{found['images_per_second']:,.0f}" for way, found in theirs["ways"].items()}
    notes = [f"{ways['prepared']} with one prepared batch, {ways['gathered']} if the GPU gathers, "
             "augments and normalises each: the larger counts; Troupe augments on the CPU"]
    if ours:
        ratio = ours["images_per_second"] / theirs["images_per_second"]
        judged = [verdict(ratio, target)] if target else []
        notes = [f"Troupe is {ratio:.2f} x", *judged, *notes]
    return "; ".join(notes)


def measure_again(call, row, work, options):
    """A line with Troupe's second reading, and what failed. It must not cost the earlier ones."""
    try:
        again = call.trainings().rate(work, options, 3)
    except subprocess.TimeoutExpired:
        return {"who": "Troupe again", "note": "not run: no time is left for it"}, []
    except (Failed, NotRun, Refused) as error:
        return {"who": "Troupe again", "note": f"failed: {error}"}, ["Troupe again"]
    judged = row.busy and "busy" in again
    busy = f"a kernel runs: {verdict(again['busy'], row.busy)}" if judged else ""
    return line("Troupe again", again, busy), []


def against_pytorch(row):
    def run(call):
        work = row.tiny if call.place.emulator else row.work
        options = [*PRECISIONS[row.precision], *LR, *dropout_of(work, 0.01)]
        lines, refused, ours, theirs, failed = [], None, None, {}, []
        absent = {}  # of the comparison, and why
        try:
            lines.append(check_losses(call, row, work))
        except (NotRun, ImportError) as missing:
            absent["check"] = str(missing)
            lines.append({"who": "check", "note": f"not run: {missing}"})
        except Refused as error:
            refused = error
        try:
            ours = call.trainings().rate(work, options, 6)
            notes = ["unchecked" if absent else "",
                     verdict(ours["images_per_second"], row.least) if row.least else ""]
            lines.append(line("Troupe", ours, "; ".join(filter(None, notes))))
        except Refused as error:
            refused = error
            lines.append({"who": "Troupe", "note": f"refused: {error}"})
        for mode, target in row.targets.items():
            try:
                # The compiled one is the slowest and the last: it may use up what is left.
                share = 0.9 if mode == "compile" else 0.5
                theirs[mode] = measure_peer(call, row, work, mode, share)
                note = peer_note(ours, theirs[mode], target)
                lines.append(line(f"PyTorch, {mode}", theirs[mode], note))
            except NotRun as missing:
                absent[mode] = str(missing)
                lines.append({"who": f"PyTorch, {mode}", "note": f"not run: {missing}"})
            if mode == "eager" and ours and not call.place.emulator:
                again, failed = measure_again(call, row, work, options)
                lines.append(again)
        rate = f"{ours['images_per_second']:,.0f} images/s" if ours else f"refused: {refused}"
        summary = f"{row.what}: {rate}" + (", unchecked" if "check" in absent else "")
        if absent:
            whys = "; ".join(dict.fromkeys(absent.values()))
            summary += f"; without PyTorch's {', '.join(absent)}: {whys}"
        incomplete = "check" in absent or not theirs or absent and call.short
        status = "refused" if refused else "not run" if incomplete else "passed"
        return {"summary": summary, "table": lines, "values": {"ours": ours, "peers": theirs},
                "status": status, "failed": failed}
    return run


def compare_losses(pair, works, found):
    """What the losses of both forms say, if they train the same batches."""
    losses = [one.pop("losses") for one in found]
    if not all(map(math.isfinite, itertools.chain(*losses))):
        raise Failed(f"wrong result: a loss is not finite: {losses}")
    if works[0].batch != works[1].batch:
        return "other batches, losses not compared"
    far = max(abs(a - b) / abs(a) for a, b in zip(*losses))
    if far > (0 if pair.same_bits else TOLERANCES[pair.precision][1]):
        raise Failed(f"wrong result: the first {len(losses[0])} losses differ by up to {far:.1e}: {losses}")
    return f"the first {len(losses[0])} losses are {'equal' if far == 0 else f'within {far:.1e}'}"


def of_divisions(pair):
    def run(call):
        works = pair.tiny if call.place.emulator else pair.works
        found = [call.trainings().rate(work, [*PRECISIONS[pair.precision], *LR], 5) for work in works]
        same = compare_losses(pair, works, found)
        ratio = found[1]["images_per_second"] / found[0]["images_per_second"]
        note = f"{ratio:.2f} x; {verdict(ratio, pair.least)}; {same}"
        return {"summary": f"{pair.what}: {note}", "values": {"found": found, "ratio": ratio},
                "table": [line(pair.names[0], found[0]), line(pair.names[1], found[1], note)]}
    return run
