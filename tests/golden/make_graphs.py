#!/usr/bin/env python3
"""Writes small models as PyTorch exports them (all, or those named), and what training them gives in f64:

    python -m venv venv && venv/bin/pip install -r requirements.txt && venv/bin/python make_graphs.py [NAME…]

into this folder, or into that of --to FOLDER:

graphs/NAME.pt2, NAME.onnx  the models of graph_models.py through both doors, but those of ONLY_PT2
graphs/vit_opset18.onnx     the transformer by older operators, without metadata of nodes
graphs.safetensors          20 training steps of each from these weights: losses, and samples of the
                            final weights and running statistics
graph_names.txt             the state_dict of each: model, name, shape, type
"""

import argparse
import logging
import sys
import tempfile
from pathlib import Path

import onnx
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F
from torchvision.ops import StochasticDepth

from golden_models import BATCH, STEPS, CounterDropout, sampled, sgd
from graph_models import MODELS, ONLY_PT2, SAMPLE, Attend, example, sample
from troupe_random import uniform

FOLDER = Path(__file__).resolve().parent
RATES = {"resnet18": 0.001}  # the others: 0.01


def made(name):
    """The same weights at each call."""
    torch.manual_seed(len(name))
    return MODELS[name]()


FOLDERS = [f"{folder}/" for folder in sorted({str(FOLDER), *sys.path}, key=len, reverse=True) if folder]


def without_folders(text):
    """Stack traces that name files by their last parts, whatever the machine."""
    for folder in FOLDERS:
        text = text.replace(folder, "")
    return text


def write_pt2(source, target):
    """A copy as PyTorch writes it, without the folders of this machine."""
    reader = torch._C.PyTorchFileReader(str(source))
    writer = torch._C.PyTorchFileWriter(str(target))
    for name in reader.get_all_records():
        record = reader.get_record(name)
        if name.endswith(".json"):
            record = without_folders(record.decode()).encode()
        if name not in (".data/version", ".data/serialization_id", "byteorder", "version"):
            writer.write_record(name, record, len(record))
    writer.write_end_of_file()


def write_onnx(source, target):
    model = onnx.load(source)
    graph = model.graph
    for holder in [model, graph, *graph.node, *graph.value_info]:
        for entry in holder.metadata_props:
            entry.value = without_folders(entry.value)
    onnx.save(model, target)


def export(name, graphs):
    """Writes NAME.pt2 and NAME.onnx by the lines that docs/from-pytorch.md gives."""
    net, x = made(name), example(name, 2)
    program = torch.export.export(net.train(), (x,), dynamic_shapes=({0: torch.export.Dim("batch")},))
    with tempfile.TemporaryDirectory() as folder:
        torch.export.save(program, f"{folder}/{name}.pt2")
        write_pt2(f"{folder}/{name}.pt2", graphs / f"{name}.pt2")
        if name in ONLY_PT2:
            return
        torch.onnx.export(net.train(), (x,), f"{folder}/{name}.onnx", dynamic_shapes=({0: "batch"},),
                          optimize=False, opset_version=23, external_data=False, verbose=False)
        write_onnx(f"{folder}/{name}.onnx", graphs / f"{name}.onnx")


def export_in_parts(name, graphs):
    """Writes NAME_opset18.onnx, where attention and GELU are products, sums and a softmax."""
    with tempfile.TemporaryDirectory() as folder:
        torch.onnx.export(made(name).train(), (torch.zeros(2, *SAMPLE),), f"{folder}/{name}.onnx",
                          dynamic_shapes=({0: "batch"},), optimize=False, opset_version=18,
                          external_data=False, verbose=False)
        model = onnx.load(f"{folder}/{name}.onnx")
    for holder in [*model.graph.node, *model.graph.value_info, *model.graph.initializer]:
        del holder.metadata_props[:]
    del model.graph.value_info[:]
    onnx.save(model, graphs / f"{name}_opset18.onnx")


class PartDropout(CounterDropout):
    """One number for each element of the first axes."""

    def __init__(self, path, probability, axes):
        super().__init__(path, probability)
        self.axes = axes

    def forward(self, x):
        ones = torch.ones(*x.shape[: self.axes], *[1] * (x.dim() - self.axes), dtype=x.dtype)
        return x * super().forward(ones)


def with_counter_dropout(net):
    """The model with Troupe's masks in place of PyTorch's."""
    for path, module in list(net.named_modules()):
        parent, _, child = path.rpartition(".")
        if isinstance(module, nn.Dropout):
            setattr(net.get_submodule(parent), child, CounterDropout(path, module.p))
        if isinstance(module, (nn.Dropout1d, nn.Dropout2d)):
            setattr(net.get_submodule(parent), child, PartDropout(path, module.p, axes=2))
        if isinstance(module, StochasticDepth):
            setattr(net.get_submodule(parent), child, PartDropout(path, module.p, axes=1))
        if isinstance(module, Attend):
            module.weights_dropout = CounterDropout(path, module.p)
    return net


def train(name, make_optimizer):
    net = with_counter_dropout(made(name)).double().train()
    optimizer = make_optimizer([p for p in net.parameters() if p.requires_grad])
    losses = []
    for step in range(STEPS):
        for module in net.modules():
            if isinstance(module, CounterDropout):
                module.step = step
        images = torch.from_numpy(uniform(f"golden/images/{step}", (BATCH, *sample(name))))
        if name == "tokens":
            images = torch.tensor([[(i * i + 3 * t + step) % 10 for t in range(12)] for i in range(BATCH)])
        classes = torch.tensor([(3 * i + 7 * step) % 10 for i in range(BATCH)])
        optimizer.zero_grad()
        loss = F.cross_entropy(net(images), classes)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return net, torch.tensor(losses, dtype=torch.float64)


def trained(name, recipe, make_optimizer):
    net, losses = train(name, make_optimizer)
    result = {f"{name}/{recipe}/losses": losses}
    for key, tensor in net.state_dict().items():
        if tensor.dtype == torch.float64:
            result[f"{name}/{recipe}/final/{key}"] = sampled(tensor)[:64]
            result[f"{name}/{recipe}/norm/{key}"] = tensor.norm().reshape(1)
    return result


def names():
    for model in MODELS:
        for key, tensor in made(model).state_dict().items():
            kind = "i64" if tensor.dtype == torch.int64 else "f32"
            yield f"{model} {key} {list(tensor.shape)} {kind}"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these; the files of the others stay")
    parser.add_argument("--to", type=Path, default=FOLDER, help="folder for the files")
    return parser.parse_args()


def main():
    given = arguments()
    graphs = given.to / "graphs"
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    graphs.mkdir(parents=True, exist_ok=True)
    result = {}
    for name in MODELS:
        if name in (given.names or MODELS):
            export(name, graphs)
        result |= trained(name, "sgd", sgd(RATES.get(name, 0.01)))
    export_in_parts("vit", graphs)
    result |= trained("vit", "adamw", lambda p: torch.optim.AdamW(p, lr=0.0005, betas=(0.8, 0.99), eps=1e-6, weight_decay=0.1))
    save_file(result, given.to / "graphs.safetensors", {"torch": torch.__version__})
    (given.to / "graph_names.txt").write_text("\n".join(names()) + "\n")


if __name__ == "__main__":
    main()
