"""Loads a .pt file of 100 tensors of a million numbers and reads one number of each page. Prints GB a second, once
for torch.load and once with mmap=True.

  pytorch_load.py FOLDER REPETITIONS    makes FOLDER/weights.pt
"""

import sys
import time
from pathlib import Path

import torch


def main():
    path, repetitions = Path(sys.argv[1]) / "weights.pt", int(sys.argv[2])
    torch.set_num_threads(1)
    torch.save({f"layers.{i}.weight": torch.randn(1_000_000) for i in range(100)}, path)
    for name, mapped in (("load", False), ("mapped", True)):
        rates = []
        for _ in range(repetitions):
            begin = time.perf_counter()
            state = torch.load(path, weights_only=True, mmap=mapped)
            for tensor in state.values():
                tensor[::1024].sum()
            rates.append(0.4 / (time.perf_counter() - begin))
            del state
        print(f"{name}:", *(f"{rate:.3f}" for rate in rates))


main()
