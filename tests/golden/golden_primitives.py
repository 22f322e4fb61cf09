"""Outputs and gradients of every primitive by PyTorch in f64, on the samples of
tests/unit/ops/samples.cpp: same names, same shapes, same numbers."""

import numpy as np
import torch
from torch.nn import functional as F

from golden_functions import SAMPLES as FUNCTION_SAMPLES
from troupe_random import elements, operation_id, uniform


def dropout_scales(shape, probability, path):
    """What each element is multiplied with in the tests' pass (seed 5, step 2, micro-batch 1)."""
    u = elements(int(np.prod(shape)), seed=5, step=2, micro_batch=1, operation=operation_id(path))
    scale = 1.0 / (1.0 - probability)
    return torch.from_numpy(np.where(u < np.float32(probability), 0.0, scale).reshape(shape))


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


def attention(mask=None, **options):
    """As written out, since scaled_dot_product_attention takes a mask or is_causal, not both."""
    def run(x):
        q, k, v = x
        scores = q @ k.mT * options.get("scale", q.shape[-1] ** -0.5)
        if mask:
            scores = scores + torch.from_numpy(uniform(*mask))
        if options.get("causal"):
            hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
            scores = scores.masked_fill(hidden, -torch.inf)
        return scores.softmax(-1) @ v

    return run


IMAGES = (2, 3, 5, 3)
NORM = (3, 4, 3, 5)
CLASSES = [3, 0, 6, 3, 1]
HEADS = (2, 3, 5, 4)
INDICES = torch.tensor([[1, 4, 0], [2, 1, 2]])
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
    "convolution2d/depthwise": ([(1, 16, 4, 3)], [(16, 1, 3, 3), (16,)], convolution(padding=1, groups=16)),
    "convolution2d/multiplied": ([(2, 3, 5, 4)], [(6, 1, 3, 3), (6,)], convolution(stride=(2, 1), groups=3)),
    "convolution2d/grouped": ([(2, 8, 3, 4)], [(12, 2, 3, 3)], convolution(groups=4)),
    "convolution2d/dilated": ([(2, 2, 6, 7)], [(3, 2, 3, 3), (3,)], convolution(padding=(1, 0), dilation=(2, 3))),
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
    "linear/tokens": ([(2, 3, 5)], [(4, 5), (4,)], lambda x, w, b: F.linear(x[0], w, b)),
    "linear/images": ([(1, 16, 2, 4)], [(3, 4), (3,)], lambda x, w, b: F.linear(x[0], w, b)),
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
    "matmul/matrices": ([(3, 5), (5, 4)], [], lambda x: x[0] @ x[1]),
    "matmul/batches": ([(2, 3, 4, 5), (2, 3, 5, 2)], [], lambda x: x[0] @ x[1]),
    "matmul/broadcast": ([(2, 1, 3, 4), (5, 4, 2)], [], lambda x: x[0] @ x[1]),
    "matmul/common": ([(2, 3, 4), (4, 5)], [], lambda x: x[0] @ x[1]),
    "matmul/left_transposed": ([(2, 4, 3), (4, 5)], [], lambda x: x[0].mT @ x[1]),
    "matmul/right_transposed": ([(2, 3, 4), (2, 5, 4)], [], lambda x: x[0] @ x[1].mT),
    "matmul/both_transposed": ([(2, 4, 3), (1, 5, 4)], [], lambda x: x[0].mT @ x[1].mT),
    "permute/images": ([(2, 3, 4, 5)], [], lambda x: x[0].permute(0, 2, 3, 1)),
    "permute/heads": ([(2, 3, 4, 5)], [], lambda x: x[0].transpose(1, 2)),
    "permute/blocked": ([(2, 16, 2, 1)], [], lambda x: x[0].permute(3, 1, 0, 2)),
    "permute/matrix": ([(5, 17)], [], lambda x: x[0].mT),
    "slice/channels": ([(2, 5, 3, 4)], [], lambda x: x[0][:, 1:4]),
    "slice/blocks": ([(1, 48, 1, 2)], [], lambda x: x[0][:, 16:48]),
    "slice/parts_of_blocks": ([(1, 32, 2, 2)], [], lambda x: x[0][:, 5:21]),
    "slice/rows": ([(1, 16, 5, 2)], [], lambda x: x[0][:, :, 3:5]),
    "slice/samples": ([(5, 3, 2, 4)], [], lambda x: x[0][1:4]),
    "slice/token": ([(2, 5, 3)], [], lambda x: x[0][:, :1]),
    "expand/samples": ([(1, 1, 5)], [], lambda x: x[0].expand(3, 1, 5)),
    "expand/outer": ([(2, 1)], [], lambda x: x[0].expand(3, 2, 4)),
    "expand/images": ([(1, 16, 1, 3)], [], lambda x: x[0].expand(1, 16, 2, 3)),
    "expand/same": ([(2, 3, 4, 5)], [], lambda x: x[0].clone()),
    "concatenate/channels": ([(2, 3, 2, 4), (2, 1, 2, 4), (2, 5, 2, 4)], [], lambda x: torch.cat(x, 1)),
    "concatenate/blocks": ([(1, 16, 2, 1), (1, 32, 2, 1)], [], lambda x: torch.cat(x, -3)),
    "concatenate/rows": ([(1, 16, 2, 2), (1, 16, 1, 2), (1, 16, 2, 2)], [], lambda x: torch.cat(x, 2)),
    "concatenate/tokens": ([(2, 1, 5), (2, 3, 5)], [], lambda x: torch.cat(x, 1)),
    "concatenate/one": ([(2, 3)], [], lambda x: torch.cat(x, 0)),
    "parameter/shared": ([(4, 3)], [(3, 5)], lambda x, w: x[0] @ w @ w.mT),
    "parameter/positions": ([(2, 3, 4)], [(1, 3, 4)], lambda x, w: x[0] + w),
    "embedding/indices": ([(2, 3, 4)], [(5, 4)], lambda x, w: x[0] + F.embedding(INDICES, w)),
    "attention/heads": ([HEADS] * 3, [], lambda x: F.scaled_dot_product_attention(*x)),
    "attention/causal": ([HEADS] * 3, [], lambda x: F.scaled_dot_product_attention(*x, is_causal=True)),
    "attention/scaled": ([(3, 2, 4), (3, 5, 4), (3, 5, 3)], [], attention(scale=0.7)),
    "attention/fewer_keys": ([(2, 5, 4), (2, 3, 4), (2, 3, 2)], [], attention(causal=True)),
    "attention/masked": ([HEADS] * 3, [], attention(("attention/masked/mask", (2, 1, 5, 5)))),
    "attention/mask_of_keys": (
        [(4, 3, 2), (4, 6, 2), (4, 6, 2)],
        [],
        attention(("attention/mask_of_keys/mask", (6,)), causal=True),
    ),
    "embedding/shared": ([(5, 4)], [], lambda x: F.embedding(INDICES, x[0])),
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
