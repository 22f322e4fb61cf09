"""The samples of tests/unit/ops/function_samples.cpp for golden_primitives.py: activations, arithmetic,
reductions and normalisations of rows."""

import torch
from torch.nn import functional as F

IMAGES = (2, 3, 5, 3)
BLOCKED = (2, 16, 3, 2)
TOKENS = (2, 5, 7)


def of_four_x(function):
    return ([(1, 16, 3, 2)], [], lambda x: function(4 * x[0]))


def hardsigmoid(x):
    """F.hardsigmoid's gradient has a sixth in single precision also where x has double precision."""
    return F.hardtanh(x + 3, 0, 6) / 6


def hardswish(x):
    return x * hardsigmoid(x)


def multiply(x):
    return x[0] * x[1]


def add(x):
    return x[0] + x[1]


def subtract(x):
    return x[0] - x[1]


def divide(x):
    return x[0] / (0.5 * x[1] + 2)


def layer_norm(features, epsilon=1e-5):
    return lambda x, *parameters: F.layer_norm(x[0], features, *parameters, eps=epsilon)


# name: (shapes of the inputs, shapes of the weights, function)
SAMPLES = {
    "activate/sigmoid": of_four_x(torch.sigmoid),
    "activate/tanh": of_four_x(torch.tanh),
    "activate/silu": of_four_x(F.silu),
    "activate/gelu": of_four_x(F.gelu),
    "activate/gelu_tanh": of_four_x(lambda x: F.gelu(x, approximate="tanh")),
    "activate/hardsigmoid": of_four_x(hardsigmoid),
    "activate/hardswish": of_four_x(hardswish),
    "affine/rows": ([(3, 7)], [], lambda x: -1.5 * x[0] + 0.25),
    "clamp/images": ([IMAGES], [], lambda x: x[0].clamp(-0.5, 0.25)),
    "arithmetic/equal": ([IMAGES, IMAGES], [], multiply),
    "arithmetic/gate": ([IMAGES, (2, 3, 1, 1)], [], multiply),
    "arithmetic/blocked_gate": ([BLOCKED, (2, 16, 1, 1)], [], multiply),
    "arithmetic/gate_first": ([(2, 16, 1, 1), BLOCKED], [], multiply),
    "arithmetic/channels": ([IMAGES, (3, 1, 1)], [], add),
    "arithmetic/blocked_channels": ([BLOCKED, (1, 16, 1, 1)], [], subtract),
    "arithmetic/pixels": ([BLOCKED, (1, 3, 2)], [], multiply),
    "arithmetic/image": ([BLOCKED, (16, 3, 2)], [], subtract),
    "arithmetic/features": ([TOKENS, (7,)], [], add),
    "arithmetic/positions": ([TOKENS, (1, 5, 7)], [], add),
    "arithmetic/token_factors": ([TOKENS, (2, 5, 1)], [], multiply),
    "arithmetic/outer": ([(4, 1), (1, 3)], [], multiply),
    "arithmetic/number": ([(), TOKENS], [], subtract),
    "arithmetic/quotient": ([BLOCKED, (16, 1, 1)], [], divide),
    "arithmetic/quotient_of_row": ([(7,), (3, 7)], [], divide),
    "arithmetic/square": ([TOKENS], [], lambda x: x[0] * x[0]),
    "reduce/features": ([TOKENS], [], lambda x: x[0].mean(-1, keepdim=True)),
    "reduce/outer_and_inner": ([TOKENS], [], lambda x: x[0].sum((2, 0))),
    "reduce/tokens": ([TOKENS], [], lambda x: x[0].mean(1)),
    "reduce/pixels": ([IMAGES], [], lambda x: x[0].mean((2, 3))),
    "reduce/blocked_pixels": ([BLOCKED], [], lambda x: x[0].mean((-1, -2), keepdim=True)),
    "reduce/channels": ([BLOCKED], [], lambda x: x[0].sum(1)),
    "reduce/samples": ([BLOCKED], [], lambda x: x[0].mean(0)),
    "reduce/columns": ([BLOCKED], [], lambda x: x[0].sum((0, 3), keepdim=True)),
    "reduce/all": ([BLOCKED], [], lambda x: x[0].mean()),
    "softmax/rows": ([(5, 7)], [], lambda x: x[0].softmax(-1)),
    "softmax/middle": ([(2, 5, 3)], [], lambda x: x[0].softmax(1)),
    "softmax/channels": ([(1, 16, 3, 2)], [], lambda x: x[0].softmax(1)),
    "softmax/logarithm": ([(5, 19)], [], lambda x: x[0].log_softmax(1)),
    "softmax/logarithm_of_columns": ([(4, 3, 2)], [], lambda x: x[0].log_softmax(0)),
    "layer_norm/rows": ([(5, 7)], [(7,), (7,)], layer_norm((7,))),
    "layer_norm/tokens": ([(2, 3, 19)], [(19,), (19,)], layer_norm((19,))),
    "layer_norm/plain": ([(3, 7)], [], layer_norm((7,))),
    "layer_norm/unbiased": ([(3, 7)], [(7,)], layer_norm((7,))),
    "layer_norm/images": ([BLOCKED], [(16, 3, 2), (16, 3, 2)], layer_norm((16, 3, 2))),
}
