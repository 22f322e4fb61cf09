"""Writes torch/*, small files of PyTorch (pip install torch==2.15.0 numpy): what training scripts save.

The numbers of a tensor follow from its place in the file, so the tests know them: the i-th element is
i + 0.5 (i for integers, i % 2 for bool). Run it again only to change the files; PyTorch writes a new
serialization_id each time.
"""

import collections
import pathlib
import shutil
import warnings

import numpy
import torch
import torch.distributed.checkpoint

FOLDER = pathlib.Path(__file__).parent / "torch"


def ramp(*shape, dtype=torch.float32):
    count = torch.arange(torch.Size(shape).numel())
    if dtype == torch.bool:
        return (count % 2).reshape(shape).to(dtype)
    return (count + 0.5 if dtype.is_floating_point else count).reshape(shape).to(dtype)


def module():
    """A linear layer and a batch norm: parameters, buffers and a counter."""
    net = torch.nn.Sequential(collections.OrderedDict(fc=torch.nn.Linear(3, 2), bn=torch.nn.BatchNorm1d(2)))
    with torch.no_grad():
        for tensor in net.state_dict().values():
            tensor.copy_(ramp(*tensor.shape, dtype=tensor.dtype))
    return net


def trained():
    net = module()
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.ones(2, 3)).sum().backward()
    state = optimizer.state_dict()
    optimizer.step()
    state = optimizer.state_dict()
    return module().state_dict(), state


def write_dtypes():
    names = "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool uint16 uint32 uint64"
    torch.save({name: ramp(2, 2, dtype=getattr(torch, name)) for name in names.split()}, FOLDER / "dtypes.pt")


def write_views():
    base = ramp(4, 6)
    torch.save(
        {
            "whole": base,
            "transposed": base.t(),
            "rows": base[1:3],
            "columns": base[:, 1::2],
            "scalar": base[2, 3],
            "expanded": ramp(1, 2).expand(3, 2),
            "empty": torch.zeros(0, 3),
            "parameter": torch.nn.Parameter(ramp(3)),
            "channels_last": ramp(2, 3, 2, 2).contiguous(memory_format=torch.channels_last),
        },
        FOLDER / "views.pt",
    )


class Callback:
    """A class that only the script that saved it has."""

    def __init__(self):
        self.best = 0.5


def write_training_states():
    state, optimizer = trained()
    torch.save(state, FOLDER / "state_dict.pt")
    torch.save({"epoch": 3, "model_state_dict": state, "optimizer_state_dict": optimizer}, FOLDER / "training.pt")
    torch.save({"model": {"module." + name: value for name, value in state.items()}, "args": {"lr": 0.1},
                "acc": numpy.float64(0.75), "rng": torch.get_rng_state()[:16]}, FOLDER / "parallel.pth")
    lightning = {
        "epoch": 1,
        "global_step": 20,
        "pytorch-lightning_version": "2.5.0",
        "state_dict": state,
        "loops": {"fit_loop": {"state_dict": {}, "progress": Callback()}},
        "callbacks": {"Checkpoint{}": {"best": torch.tensor(0.5), "path": pathlib.PurePosixPath("a/b")}},
        "optimizer_states": [optimizer],
        "lr_schedulers": [],
        "hyper_parameters": {"sizes": {1, 2}, "seed": 2**100},
    }
    torch.save(lightning, FOLDER / "lightning.ckpt")
    torch.save({"generator": state, "discriminator": state.copy()}, FOLDER / "several.pt")
    torch.save({"last": state, "best": state, "epoch": 3}, FOLDER / "same.pt")
    torch.save({"model": state, "best": {"epoch": 2, "model": state}}, FOLDER / "nested.pt")
    torch.save(module(), FOLDER / "module.pt")
    torch.save(ramp(2, 3), FOLDER / "tensor.pt")
    torch.save(state, FOLDER / "legacy.pt", _use_new_zipfile_serialization=False)
    torch.jit.save(torch.jit.script(module()), str(FOLDER / "script.pt"))
    torch.save({"w": ramp(2, 2).to_sparse()}, FOLDER / "sparse.pt")
    torch.save({"w": ramp(2, dtype=torch.float32).to(torch.complex64)}, FOLDER / "complex.pt")
    torch.serialization.set_crc32_options(False)
    torch.save(state, FOLDER / "no_checksums.pt")
    torch.serialization.set_crc32_options(True)


def write_distributed():
    state, optimizer = trained()
    torch.distributed.checkpoint.save({"model": state, "optimizer": optimizer, "epoch": 3},
                                      checkpoint_id=FOLDER / "distributed")


def write_sharded(name, whole, parts):
    """Parts of one tensor, as several processes write them. One process plans for all."""
    from torch.distributed.checkpoint.metadata import (ChunkStorageMetadata, Metadata, MetadataIndex,
                                                       TensorProperties, TensorStorageMetadata)
    from torch.distributed.checkpoint.filesystem import _StorageInfo
    import io
    import pickle

    folder = FOLDER / name
    folder.mkdir()
    chunks, storage = [], {}
    for rank, place in enumerate(parts):
        stream = io.BytesIO()
        torch.save(whole[place].clone(), stream)
        name = f"__{rank}_0.distcp"
        (folder / name).write_bytes(b"before" + stream.getvalue())
        offset = torch.Size([axis.start for axis in place])
        chunks.append(ChunkStorageMetadata(offset, whole[place].shape))
        storage[MetadataIndex("net.w", offset, rank)] = _StorageInfo(name, 6, len(stream.getvalue()))
    tensor = TensorStorageMetadata(TensorProperties(torch.float32), whole.shape, chunks)
    metadata = Metadata({"net.w": tensor}, planner_data={"net.w": ("net", "w")}, storage_data=storage)
    (folder / ".metadata").write_bytes(pickle.dumps(metadata))
    # The real reader finds the same tensor.
    loaded = {"net.w": torch.zeros(whole.shape)}
    torch.distributed.checkpoint.load(loaded, checkpoint_id=folder)
    assert torch.equal(loaded["net.w"], whole)


warnings.simplefilter("ignore")
shutil.rmtree(FOLDER, ignore_errors=True)
FOLDER.mkdir()
torch.manual_seed(1)
write_dtypes()
write_views()
write_training_states()
write_distributed()
write_sharded("sharded", ramp(5, 3), [(slice(0, 3), slice(0, 3)), (slice(3, 5), slice(0, 3))])
write_sharded("sharded_channels", ramp(2, 5, 3),
              [(slice(0, 2), slice(0, 2), slice(0, 3)), (slice(0, 2), slice(2, 5), slice(0, 3))])
