"""Counts Fashion-MNIST's test set in PyTorch with weights that `troupe export` wrote.

    evaluate.py FILE [FOLDER of the data set]        needs: pip install torch safetensors

FILE is a .safetensors or a .pt.
"""
import gzip
import sys

import torch
from wide_resnet import WideResNet


def idx(name, header):
    with gzip.open(f"{folder}/t10k-{name}-ubyte.gz") as file:
        return torch.frombuffer(bytearray(file.read()[header:]), dtype=torch.uint8)


def weights(file):
    if file.endswith(".pt"):
        return torch.load(file, weights_only=True, mmap=True)
    from safetensors.torch import load_file
    return load_file(file)


if len(sys.argv) not in (2, 3) or not sys.argv[1].endswith((".safetensors", ".pt")):
    sys.exit(__doc__)
file, folder = (sys.argv[1:] + ["/usr/share/datasets/fashion-mnist"])[:2]
images, labels = idx("images-idx3", 16).view(-1, 1, 28, 28), idx("labels-idx1", 8)
model = WideResNet().eval()
model.load_state_dict(weights(file), strict=True)
correct = counted = 0
with torch.no_grad():
    for x, y in zip(((images / 255 - 0.286) / 0.353).split(500), labels.split(500)):
        correct += int((model(x).argmax(dim=1) == y).sum())
        counted += len(y)
        if sys.stderr.isatty():
            print(f"\r{counted}/{len(labels)} images", end="", file=sys.stderr, flush=True)
if sys.stderr.isatty():
    print(file=sys.stderr)
print(f"test accuracy {correct / len(labels):.4f} ({correct}/{len(labels)})")
