"""The rows of the table in PyTorch: the same models, initial weights, optimizer and samples.

    peer.py REQUEST      a JSON object; prints one JSON object

A request names `model`, `shape`, `classes`, `batch`, `precision`, `mode` (eager, compile), `device`
and what is wanted: `losses`: a folder with x_train.npy and y_train.npy, one batch that is trained
for so many `steps` at the rate `lr`; or `seconds`: how long to measure training steps, twice.
First, samples lie on the device and are gathered, flipped, cropped and normalised there in each
step, each on its own, so that no loader holds PyTorch back; then each step has the same prepared
batch. The larger rate counts. Autocast, SGD in one kernel, and channels_last where tensor cores
compute (else NCHW, which is faster there).
"""

import json
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "tests" / "golden"))
from golden_models import ConvBlock, MnistCnn, WideResNet, initialise  # noqa: E402

MEAN, STD, PADDING = 0.5, 0.25, 4
MOMENTUM = 0.9


def layout(request):
    return torch.contiguous_format if request["precision"] == "32-true" else torch.channels_last


def make(request):
    channels, classes = request["shape"][0], request["classes"]
    if request["model"] == "wide_resnet":
        model = WideResNet(channels, request["widths"], classes, request["dropout"])
    elif request["model"] == "mnist_cnn":
        model = MnistCnn()
    else:
        from torchvision.models import resnet18
        model = resnet18(num_classes=classes)
    initialise(model)
    for module in model.modules():
        if isinstance(module, ConvBlock):
            module.dropout = nn.Dropout(request["dropout"])
    return model.to(request["device"], memory_format=layout(request)).train()


class Trainer:
    def __init__(self, request):
        torch.backends.cudnn.benchmark = True
        tf32 = request["precision"] != "32-true"
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
        self.device = request["device"]
        self.model = make(request)
        self.forward = torch.compile(self.model) if request["mode"] == "compile" else self.model
        self.type = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}.get(request["precision"])
        self.scaler = torch.amp.GradScaler(self.device, enabled=self.type is torch.float16)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=request["lr"], momentum=MOMENTUM,
                                         fused=self.device == "cuda")

    def step(self, images, classes):
        """The loss before the step, on the device."""
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device, self.type, enabled=self.type is not None):
            loss = F.cross_entropy(self.forward(images), classes)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.detach()


def normalised(pixels, memory_format):
    x = (pixels.float() / 255 - MEAN) / STD
    return x.contiguous(memory_format=memory_format)


def losses(request):
    trainer = Trainer(request)
    pixels, classes = (torch.from_numpy(np.load(Path(request["losses"]) / name)).to(trainer.device)
                       for name in ("x_train.npy", "y_train.npy"))
    x = normalised(pixels, layout(request))
    return {"losses": [trainer.step(x, classes).item() for _ in range(request["steps"])]}


class Samples:
    """Random pixels on the device; each sample of a batch is cropped and flipped by itself."""

    def __init__(self, request):
        self.device, self.n, self.augment = request["device"], request["batch"], request["augment"]
        self.layout = layout(request)
        channels, self.height, self.width = request["shape"]
        count = max(self.n, min(request["samples"], 2**31 // (channels * self.height * self.width)))
        make_random = torch.Generator(self.device).manual_seed(1)
        self.pixels = torch.randint(0, 256, (count, *request["shape"]), dtype=torch.uint8,
                                    device=self.device, generator=make_random)
        self.classes = torch.arange(count, device=self.device) % request["classes"]
        self.channel = torch.arange(channels, device=self.device).view(1, -1, 1, 1)

    def next(self):
        n, device = self.n, self.device
        pick = torch.randint(0, self.pixels.shape[0], (n,), device=device)
        rows = torch.arange(self.height, device=device).expand(n, -1)
        columns = torch.arange(self.width, device=device).expand(n, -1)
        if "flip" in self.augment:
            flips = torch.rand(n, 1, device=device) < 0.5
            columns = torch.where(flips, self.width - 1 - columns, columns)
        x = self.pixels[pick]
        if "crop" in self.augment:
            x = F.pad(x, (PADDING,) * 4)
            rows = rows + torch.randint(0, 2 * PADDING + 1, (n, 1), device=device)
            columns = columns + torch.randint(0, 2 * PADDING + 1, (n, 1), device=device)
        if self.augment:
            sample = torch.arange(n, device=device).view(-1, 1, 1, 1)
            x = x[sample, self.channel, rows[:, None, :, None], columns[:, None, None, :]]
        return normalised(x, self.layout), self.classes[pick]


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def stretch(trainer, next_batch, steps):
    """Seconds of some steps by the clock, and by CUDA's events."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(2)] if trainer.device == "cuda" else []
    synchronize(trainer.device)
    begin = time.perf_counter()
    if events:
        events[0].record()
    for _ in range(steps):
        trainer.step(*next_batch())
    if events:
        events[1].record()
    synchronize(trainer.device)
    seconds = time.perf_counter() - begin
    return seconds, events[0].elapsed_time(events[1]) / 1000 if events else seconds


def busy_share(trainer, next_batch, steps=10):
    """The share of the time of some steps in which kernels ran, by PyTorch's profiler."""
    kinds = [torch.profiler.ProfilerActivity.CUDA, torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=kinds) as profile:
        seconds, _ = stretch(trainer, next_batch, steps)
    kernels = sum(event.time_range.elapsed_us() for event in profile.events()
                  if event.device_type == torch.autograd.DeviceType.CUDA
                  and not getattr(event, "is_user_annotation", False))
    return kernels / 1e6 / seconds


def reading(trainer, next_batch, batch, seconds, warm=10, repetitions=3):
    pace = stretch(trainer, next_batch, warm)[0] / warm
    each = max(1, round(seconds / repetitions / pace))
    times = [stretch(trainer, next_batch, each) for _ in range(repetitions)]
    readings = [each * batch / clock for clock, _ in times]
    return {"images_per_second": statistics.median(readings), "least": min(readings),
            "most": max(readings),
            "by_events": each * batch / statistics.median(event for _, event in times)}


def rate(request, warm=10):
    trainer, samples = Trainer(request), Samples(request)
    begin = time.perf_counter()
    stretch(trainer, samples.next, warm)
    warm_seconds = time.perf_counter() - begin
    prepared = samples.next()
    ways = {"gathered": samples.next, "prepared": lambda: prepared}
    readings = {way: reading(trainer, next_batch, samples.n, request["seconds"])
                for way, next_batch in ways.items()}
    faster = max(readings, key=lambda way: readings[way]["images_per_second"])
    found = {**readings[faster], "warm_seconds": warm_seconds, "ways": readings}
    if trainer.device == "cuda":
        found["allocated_mib"] = torch.cuda.max_memory_allocated() >> 20
        try:
            found["busy"] = busy_share(trainer, ways[faster])
        except RuntimeError as error:
            found["busy_unknown"] = str(error)[:200]
    return found


def main():
    request = {"dropout": 0.0, "device": "cuda", "lr": 0.001, **json.loads(sys.argv[1])}
    if request["device"] == "cuda" and not torch.cuda.is_available():
        print(json.dumps({"missing": f"PyTorch {torch.__version__} sees no GPU"}))
        return
    torch.manual_seed(1)
    found = losses(request) if "losses" in request else rate(request)
    print(json.dumps({"torch": torch.__version__, "cudnn": torch.backends.cudnn.version(), **found}))


if __name__ == "__main__":
    main()
