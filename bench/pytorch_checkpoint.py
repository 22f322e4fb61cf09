"""Saving 100 million f32 parameters in PyTorch: safetensors, and torch.distributed.checkpoint in the
background. Prints, for each save, how long the caller waits and how long until it is complete.

  pytorch_checkpoint.py FOLDER safetensors|dcp SAVES
"""

import os
import shutil
import sys
import time
from pathlib import Path

import torch


def safetensors(state, path):
    from safetensors.torch import save_file

    path.parent.mkdir(parents=True, exist_ok=True)
    begin = time.perf_counter()
    save_file(state, path)
    end = time.perf_counter()
    return end - begin, end - begin


def in_background(state, path):
    import torch.distributed.checkpoint as dcp

    begin = time.perf_counter()
    future = dcp.async_save({"model": state}, checkpoint_id=path)
    waited = time.perf_counter() - begin
    future.result()
    return waited, time.perf_counter() - begin


def main():
    folder, way, saves = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    torch.manual_seed(1)
    state = {f"layers.{i}.weight": torch.randn(1000, 1000) for i in range(100)}
    if way == "dcp":
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29731")
        torch.distributed.init_process_group("gloo", rank=0, world_size=1)
    save = in_background if way == "dcp" else safetensors
    readings = []
    for i in range(saves):
        readings.append(save(state, folder / f"save{i}"))
        shutil.rmtree(folder, ignore_errors=True)
    print("stall ms:", *(f"{1000 * stall:.3f}" for stall, _ in readings))
    print("complete ms:", *(f"{1000 * complete:.3f}" for _, complete in readings), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
