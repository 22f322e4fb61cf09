#!/usr/bin/env python3
"""Writes the files that the tests of ops/ compare with (all, or those named), computed in f64 by PyTorch on a CPU:

    python -m venv venv && venv/bin/pip install -r requirements.txt && venv/bin/python make_golden.py [NAME…]

primitives.safetensors  outputs and gradients of every primitive
models.safetensors      20 training steps of every model at two rates, and how far PyTorch's own
                        f32 run is from its f64 run, step by step
recipes.safetensors     the same of two models by other optimizers, losses and schedules
mixed.safetensors       how far PyTorch's own runs under autocast to bfloat16 are from f64, step by step
rates.safetensors       learning rates of PyTorch's schedulers
model_names.txt         the state_dict of every model: model, name, shape, type
"""

import argparse
from pathlib import Path

import torch
from safetensors.torch import save_file

from golden_models import mixed, models, names, recipes
from golden_primitives import primitives


def rates():
    """50 steps from a largest rate of 0.1."""

    def run(make, **options):
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
        scheduler = make(optimizer, **options)
        result = []
        for _ in range(50):
            result.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            scheduler.step() if len(result) < 50 else None
        return torch.tensor(result, dtype=torch.float64)

    schedulers = torch.optim.lr_scheduler
    return {
        "one_cycle": run(schedulers.OneCycleLR, max_lr=0.1, total_steps=50),
        "cosine": run(schedulers.CosineAnnealingLR, T_max=50),
        "polynomial": run(schedulers.PolynomialLR, total_iters=50, power=1.5),
        "step": run(schedulers.StepLR, step_size=15, gamma=0.1),
    }


def main():
    makers = {make.__name__: make for make in (primitives, models, recipes, mixed, rates)}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these: " + ", ".join(makers))
    named = parser.parse_args().names
    if unknown := set(named) - set(makers):
        parser.error(f"no file {unknown.pop()}; there are {', '.join(makers)}")
    torch.manual_seed(0)
    torch.set_num_threads(1)  # so that the f32 runs do not depend on the machine's cores
    folder = Path(__file__).parent
    for name in named or makers:
        tensors = makers[name]()
        contiguous = {key: tensor.contiguous() for key, tensor in tensors.items()}
        save_file(contiguous, folder / f"{name}.safetensors", {"torch": torch.__version__})
    if named:
        return
    (folder / "model_names.txt").write_text("\n".join(names()) + "\n")


if __name__ == "__main__":
    main()
