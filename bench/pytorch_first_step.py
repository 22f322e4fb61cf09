"""A PyTorch script up to its first training step: import, model, optimizer, one batch of the small
wide ResNet. It ends right after that step."""

import os
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "golden"))
from golden_models import WideResNet  # noqa: E402

model = WideResNet(1, [16, 16, 32, 64], 10, 0.0)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
loss = torch.nn.functional.cross_entropy(model(torch.randn(64, 1, 28, 28)), torch.arange(64) % 10)
loss.backward()
optimizer.step()
os._exit(0)
