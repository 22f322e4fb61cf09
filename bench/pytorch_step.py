"""Whole training steps in PyTorch: the other side of bench/training/step_bench.cpp, with the same
models, initial weights, data, loss and optimizer, and the same requests on standard input.

  pytorch_step.py MODEL THREADS nchw|nhwc eager|compile plain|fused [PRECISION]
      MODEL: small, olivia, mnist, resnet18, resnet50, or one of file_models.py
      PRECISION: 32-true, 64-true or bf16-mixed (autocast to bfloat16)

The argument before PRECISION selects SGD with its defaults, or with fused=True.
"""

import sys
import time
from pathlib import Path

import torch
from torch import nn
from torchvision.models import resnet

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "golden"))
from golden_models import ConvBlock, MnistCnn, WideResNet, cifar_stem, initialise  # noqa: E402
from file_models import MODELS as FILE_MODELS  # noqa: E402
from troupe_random import uniform  # noqa: E402

MODELS = {
    "small": (lambda: WideResNet(1, [16, 16, 32, 64], 10, 0.0), (64, 1, 28, 28), 10),
    "olivia": (lambda: WideResNet(3, [16, 160, 320, 640], 100, 0.0), (16, 3, 32, 32), 100),
    "mnist": (MnistCnn, (128, 1, 28, 28), 10),
    "resnet18": (lambda: cifar_stem(resnet.resnet18(num_classes=10)), (32, 3, 32, 32), 10),
    "resnet50": (lambda: resnet.resnet50(num_classes=1000), (8, 3, 224, 224), 1000),
    **{name: (make, (32, 3, 32, 32), 10) for name, make in FILE_MODELS.items()},
}


class Trainer:
    """A freshly initialised model with its data."""

    def __init__(self, name, layout, mode, optimizer, precision="32-true", *, dropout):
        make, shape, classes = MODELS[name]
        self.model = make()
        initialise(self.model)
        for module in self.model.modules():
            if isinstance(module, ConvBlock):
                module.dropout = nn.Dropout(dropout)
        memory_format = torch.channels_last if layout == "nhwc" else torch.contiguous_format
        dtype = torch.float64 if precision == "64-true" else torch.float32
        self.autocast = precision == "bf16-mixed"
        self.model.to(dtype=dtype, memory_format=memory_format).train()
        images = torch.from_numpy(uniform("bench/images", shape)).to(dtype)
        self.images = images.contiguous(memory_format=memory_format)
        self.classes = (3 * torch.arange(shape[0])) % classes
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.001, momentum=0.9,
                                         fused=True if optimizer == "fused" else None)
        self.loss = nn.CrossEntropyLoss()
        self.forward = torch.compile(self.model) if mode == "compile" else self.model

    def step(self, with_loss=False):
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.autocast):
            loss = self.loss(self.forward(self.images), self.classes)
        loss.backward()
        self.optimizer.step()
        return loss.item() if with_loss else None


def main():
    name, threads, *variant = sys.argv[1:7]
    torch.set_num_threads(int(threads))
    torch.manual_seed(1)
    timed = Trainer(name, *variant, dropout=0.01)
    for line in sys.stdin:
        request, count = line.split()
        if request == "losses":
            trainer = Trainer(name, *variant, dropout=0.0)
            losses = [trainer.step(with_loss=True) for _ in range(int(count))]
            print(*(f"{loss:.9g}" for loss in losses), flush=True)
        else:
            begin, used = time.perf_counter(), time.process_time()
            for _ in range(int(count)):
                timed.step()
            end, used_then = time.perf_counter(), time.process_time()
            print(f"{end - begin:.9f} {used_then - used:.9f}", flush=True)


if __name__ == "__main__":
    main()
