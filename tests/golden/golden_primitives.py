"""Outputs and gradients of every primitive by PyTorch in f64, on the samples of
tests/unit/ops/samples.cpp: same names, same shapes, same numbers."""

import numpy as np
import torch
from torch.nn import functional as F

from golden_functions import SAMPLES as FUNCTION_SAMPLES
from troupe_random import elements, operation_id, uniform


def dropout_scales(shape, probability, path):
    """What each element is multiplied with in the tests' pass (seed 5, step 2, micro-batch 1)."""
    probability = np.float32(probability)
    u = elements(int(np.prod(shape)), seed=5, step=2, micro_batch=1, operation=operation_id(path))
    scale = 1.0 / (1.0 - np.float64(probability))
    return torch.from_numpy(np.where(u < probability, 0.0, scale).reshape(shape))


def convolution(**options):
    return lambda x, w, b=None: F.conv2d(x[0], w, b, **options)


def batch_norm(relu=False, dropout=0.0, epsilon=1e-5, residual_first=False):
    def run(x, weight, bias):
        z = F.batch_norm(x[0], None, None, weight, bias, training=True, eps=epsilon)
        if residual_first:
            z = z + x[1]
        if relu:
            z = F.relu(z)
        if dropout:
            z = z * dropout_scales(z.shape, dropout, "block.dropout")
        return z + x[1] if len(x) > 1 and not residual_first else z

    return run


def drop(probability):
    return lambda x: x[0] * dropout_scales(x[0].shape, probability, "dropout")


def loss(classes, reduction, smoothing=0.0):
    return lambda x: F.cross_entropy(x[0], torch.tensor(classes), reduction=reduction, label_smoothing=smoothing)


def weighted_loss(classes, smoothing=0.0):
    """The sum over the samples, divided by their number."""
    def run(x):
        weight = torch.tensor([0.5 + 0.25 * c for c in range(x[0].shape[1])], dtype=x[0].dtype)
        total = F.cross_entropy(x[0], torch.tensor(classes), weight, reduction="sum", label_smoothing=smoothing)
        return total / len(classes)

    return run


def targets(name, shape, low=-1.0):
    """Uniform in [low, 1)."""
    numbers = torch.from_numpy(uniform(f"{name}/targets", shape))
    return numbers if low == -1.0 else 0.5 + 0.5 * numbers


IMAGES = (2, 3, 5, 3)
NORM = (3, 4, 3, 5)
CLASSES = [3, 0, 6, 3, 1]
OVERLAPPING = dict(kernel_size=(3, 2), stride=(2, 1), padding=(1, 1))

# name: (shapes of the inputs, shapes of the weights, function)
SAMPLES = {
    "convolution2d/same": ([(2, 3, 5, 7)], [(4, 3, 3, 3), (4,)], convolution(padding=1)),
    "convolution2d/strided": ([(2, 2, 6, 7)], [(3, 2, 3, 3), (3,)], convolution(stride=(2, 3))),
    "convolution2d/pointwise": ([(3, 5, 3, 3)], [(2, 5, 1, 1), (2,)], convolution()),
    "convolution2d/wide": ([(1, 1, 7, 6)], [(2, 1, 5, 5), (2,)], convolution(padding=2)),
    "convolution2d/padded": ([(2, 2, 1, 2)], [(2, 2, 3, 3), (2,)], convolution(padding=(2, 1))),
    "convolution2d/uneven": ([(2, 2, 5, 4)], [(3, 2, 2, 3)], convolution(stride=(2, 1), padding=(1, 0))),
    "convolution2d/blocked": ([(1, 16, 3, 4)], [(16, 16, 3, 3), (16,)], convolution(padding=1)),
    "batch_norm2d/plain": ([NORM], [(4,), (4,)], batch_norm()),
    "batch_norm2d/rows": ([(7, 3)], [(3,), (3,)], batch_norm()),
    "batch_norm2d/relu": ([NORM], [(4,), (4,)], batch_norm(relu=True)),
    "batch_norm2d/residual": ([NORM, NORM], [(4,), (4,)], batch_norm(relu=True)),
    "batch_norm2d/dropout": ([NORM], [(4,), (4,)], batch_norm(relu=True, dropout=0.3)),
    "batch_norm2d/epsilon": ([NORM, NORM], [(4,), (4,)], batch_norm(epsilon=0.1)),
    "batch_norm2d/blocked": ([(2, 16, 2, 3)], [(16,), (16,)], batch_norm(relu=True, dropout=0.3)),
    "batch_norm2d/blocked_residual": ([(2, 16, 2, 3)] * 2, [(16,), (16,)], batch_norm(relu=True)),
    "batch_norm2d/relu_of_sum": ([NORM, NORM], [(4,), (4,)], batch_norm(relu=True, residual_first=True)),
    "batch_norm2d/sum": ([NORM, NORM], [(4,), (4,)], batch_norm(residual_first=True)),
    "batch_norm2d/blocked_relu_of_sum": (
        [(2, 16, 2, 3)] * 2,
        [(16,), (16,)],
        batch_norm(relu=True, residual_first=True),
    ),
    "linear/biased": ([(5, 7)], [(3, 7), (3,)], lambda x, w, b: F.linear(x[0], w, b)),
    "linear/unbiased": ([(1, 3)], [(9, 3)], lambda x, w: F.linear(x[0], w)),
    "relu/images": ([IMAGES], [], lambda x: F.relu(x[0])),
    "relu/blocked": ([(1, 16, 3, 2)], [], lambda x: F.relu(x[0])),
    "relu/rows": ([(3, 7)], [], lambda x: F.relu(x[0])),
    "add/images": ([IMAGES, IMAGES], [], lambda x: x[0] + x[1]),
    "add/rows": ([(3, 7), (3, 7)], [], lambda x: x[0] + x[1]),
    "dropout/images": ([IMAGES], [], drop(0.3)),
    "dropout/blocked": ([(1, 16, 3, 2)], [], drop(0.3)),
    "dropout/rows": ([(3, 7)], [], drop(0.6)),
    "max_pool2d/halves": ([(2, 3, 5, 7)], [], lambda x: F.max_pool2d(x[0], 2)),
    "max_pool2d/overlapping": ([(2, 2, 5, 6)], [], lambda x: F.max_pool2d(x[0], **OVERLAPPING)),
    "max_pool2d/blocked": ([(1, 16, 5, 4)], [], lambda x: F.max_pool2d(x[0], **OVERLAPPING)),
    "average_pool2d/global": ([(2, 3, 8, 7)], [], lambda x: F.avg_pool2d(x[0], 7)),
    "average_pool2d/overlapping": ([(2, 2, 5, 6)], [], lambda x: F.avg_pool2d(x[0], **OVERLAPPING)),
    "average_pool2d/blocked": ([(1, 16, 5, 4)], [], lambda x: F.avg_pool2d(x[0], **OVERLAPPING)),
    "adaptive_average_pool2d/one": ([(2, 3, 5, 7)], [], lambda x: F.adaptive_avg_pool2d(x[0], 1)),
    "adaptive_average_pool2d/uneven": ([(2, 2, 7, 5)], [], lambda x: F.adaptive_avg_pool2d(x[0], (3, 2))),
    "adaptive_average_pool2d/larger": ([(1, 2, 2, 3)], [], lambda x: F.adaptive_avg_pool2d(x[0], (3, 4))),
    "adaptive_average_pool2d/blocked": ([(1, 16, 5, 4)], [], lambda x: F.adaptive_avg_pool2d(x[0], (2, 3))),
    "flatten/images": ([IMAGES], [], lambda x: x[0].flatten(1)),
    "flatten/blocked": ([(2, 16, 2, 3)], [], lambda x: x[0].flatten(1)),
    "flatten/pixels": ([(3, 16, 1, 1)], [], lambda x: x[0].flatten(1)),
    "reshape/images": ([IMAGES], [], lambda x: x[0].reshape(5, 18)),
    "softmax_cross_entropy/mean": ([(5, 7)], [], loss(CLASSES, "mean")),
    "softmax_cross_entropy/sum": ([(5, 9)], [], loss(CLASSES, "sum")),
    "softmax_cross_entropy/smoothed": ([(5, 7)], [], loss(CLASSES, "mean", 0.1)),
    "softmax_cross_entropy/weighted": ([(5, 7)], [], weighted_loss(CLASSES)),
    "softmax_cross_entropy/weighted_smoothed": ([(5, 7)], [], weighted_loss(CLASSES, 0.1)),
    "squared_error/rows": ([(5, 3)], [], lambda x: F.mse_loss(x[0], targets("squared_error/rows", (5, 3)))),
    "squared_error/one": ([(4, 1)], [], lambda x: F.mse_loss(x[0], targets("squared_error/one", (4, 1)))),
    "binary_cross_entropy/rows": (
        [(5, 3)],
        [],
        lambda x: F.binary_cross_entropy_with_logits(x[0], targets("binary_cross_entropy/rows", (5, 3), 0.0)),
    ),
}


def numbers(name, role, shapes):
    return [torch.from_numpy(uniform(f"{name}/{role}{i}", s)).requires_grad_() for i, s in enumerate(shapes)]


def primitives():
    """A dictionary of tensors: <sample>/output, /input_gradient0, /weight_gradient0, /statistic0."""
    result = {}
    for name, (input_shapes, weight_shapes, function) in {**SAMPLES, **FUNCTION_SAMPLES}.items():
        inputs = numbers(name, "input", input_shapes)
        weights = numbers(name, "weight", weight_shapes)
        output = function(inputs, *weights)
        output.backward(torch.from_numpy(uniform(f"{name}/grad", tuple(output.shape))))
        result[f"{name}/output"] = output.detach()
        for i, tensor in enumerate(inputs):
            result[f"{name}/input_gradient{i}"] = tensor.grad
        for i, tensor in enumerate(weights):
            result[f"{name}/weight_gradient{i}"] = tensor.grad
        if name.startswith("batch_norm2d"):
            axes = [0] if inputs[0].dim() == 2 else [0, 2, 3]
            variance, mean = torch.var_mean(inputs[0].detach(), dim=axes)
            result[f"{name}/statistic0"], result[f"{name}/statistic1"] = mean, variance
    return result
