"""The models as PyTorch modules, and what training them gives in f64 and in f32.

WideResNet is that of examples/pytorch, here with Troupe's dropout masks; MnistCnn is that of CSC's
PyTorch examples; CifarCnn is that of PyTorch's tutorial; Mlp is Troupe's own; the ResNets are
torchvision's."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from troupe_random import elements, normals, operation_id, uniform

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "pytorch"))
from wide_resnet import ConvBlock, WideResNet  # noqa: E402

STEPS = 20
BATCH = 8
SEED = 1


class CounterDropout(nn.Module):
    """Dropout whose mask is a function of (seed, step, micro-batch, path)."""

    def __init__(self, path, probability):
        super().__init__()
        self.path, self.probability, self.step = path, probability, 0

    def forward(self, x):
        if not self.training or self.probability == 0:
            return x
        u = elements(x.numel(), seed=SEED, step=self.step, operation=operation_id(self.path))
        scale = np.where(u < np.float32(self.probability), 0.0, 1.0 / (1.0 - self.probability))
        return x * torch.from_numpy(scale.reshape(x.shape)).to(x.dtype)


def with_counter_dropout(model):
    """The model with Troupe's masks in place of PyTorch's."""
    for path, module in model.named_modules():
        if isinstance(module, ConvBlock):
            module.dropout = CounterDropout(path + ".dropout", module.dropout.p)
    return model


class MnistCnn(nn.Module):
    def __init__(self):
        super().__init__()

        def layer(inputs, outputs):
            convolution = nn.Conv2d(inputs, outputs, kernel_size=5, stride=1, padding=2)
            return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2))

        self.layer1 = layer(1, 16)
        self.layer2 = layer(16, 32)
        self.fc = nn.Linear(7 * 7 * 32, 10)

    def forward(self, x):
        return self.fc(self.layer2(self.layer1(x)).flatten(1))


class Mlp(nn.Module):
    def __init__(self, features, hidden, classes):
        super().__init__()
        sizes = [features, *hidden, classes]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))

    def forward(self, x):
        x = x.flatten(1)
        for layer in self.layers[:-1]:
            x = F.relu(layer(x))
        return self.layers[-1](x)


class CifarCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 6, 5)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2).flatten(1)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


def resnets():
    """torchvision's module, which is imported late: bench/gpu/peer.py does without it."""
    from torchvision.models import resnet
    return resnet


def narrow_resnet(block, layers):
    from narrow_resnet import NarrowResNet
    return NarrowResNet(getattr(resnets(), block), layers)


def is_resnet(model):
    """None exists before torchvision is imported."""
    resnet = sys.modules.get("torchvision.models.resnet")
    return bool(resnet) and isinstance(model, resnet.ResNet)


def cifar_stem(model):
    """The ResNet with the first layers that are usual for images of 32x32 pixels."""
    model.conv1 = nn.Conv2d(3, model.conv1.out_channels, 3, padding=1, bias=False)
    model.maxpool = nn.Identity()
    return model


TRAINED = {
    "wide_resnet": lambda: with_counter_dropout(WideResNet(1, [4, 4, 8, 8], 10, 0.05)),
    "mnist_cnn": MnistCnn,
    "mlp": lambda: Mlp(784, [24, 16], 10),
    "cifar_cnn": CifarCnn,
    "resnet18": lambda: narrow_resnet("BasicBlock", [2, 2, 2, 2]),
    "resnet34": lambda: narrow_resnet("BasicBlock", [3, 4, 6, 3]),
    "resnet50": lambda: narrow_resnet("Bottleneck", [3, 4, 6, 3]),
    "resnet18_cifar": lambda: cifar_stem(narrow_resnet("BasicBlock", [2, 2, 2, 2])),
    "resnet50_cifar": lambda: cifar_stem(narrow_resnet("Bottleneck", [3, 4, 6, 3])),
}
SAMPLES = {
    "cifar_cnn": (3, 32, 32),
    "resnet18": (3, 20, 24),
    "resnet34": (3, 20, 24),
    "resnet50": (3, 33, 40),  # of fewer pixels, f64 would be amplified too
    "resnet18_cifar": (3, 8, 9),
    "resnet50_cifar": (3, 8, 9),
}  # others: MNIST's
RATES = {name: ["0.000001" if name.startswith("resnet") else "0.02", "0.001"] for name in TRAINED}
DEFAULT = {
    "wide_resnet": WideResNet,
    "mnist_cnn": MnistCnn,
    "mlp": lambda: Mlp(784, [128, 64], 10),
    "cifar_cnn": CifarCnn,
    "resnet18": lambda: resnets().resnet18(num_classes=10),
    "resnet34": lambda: resnets().resnet34(num_classes=10),
    "resnet50": lambda: resnets().resnet50(num_classes=10),
}


def names():
    """A line for each tensor of a model's state_dict: model, name, shape, type."""
    for model, make in DEFAULT.items():
        for name, tensor in make().state_dict().items():
            kind = "i64" if tensor.dtype == torch.int64 else "f32"
            yield f"{model} {name} {list(tensor.shape)} {kind}"


def initialise(model):
    """Troupe's initial state: PyTorch's distributions, Troupe's numbers, rounded to f32."""
    fan_in, fan_out = {}, {}
    for path, module in model.named_modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            fan_in[path] = module.weight[0].numel()
        if is_resnet(model) and isinstance(module, nn.Conv2d):
            fan_out[path] = module.weight[:, 0].numel()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            owner = name.rpartition(".")[0]
            if owner not in fan_in:
                continue  # a batch norm: ones and zeros
            key = dict(seed=SEED, operation=operation_id(name))
            if owner in fan_out:
                deviation = np.sqrt(2.0 / fan_out[owner])
                values = (normals(parameter.numel(), **key) * deviation).astype(np.float32)
            else:
                u = elements(parameter.numel(), **key)
                bound = np.float32(1.0 / np.sqrt(np.float64(fan_in[owner])))
                values = (np.float32(2) * u - np.float32(1)) * bound
            parameter.copy_(torch.from_numpy(values.reshape(tuple(parameter.shape))))


def small_init_residual(model):
    """Makes the last norm of each residual branch small. The steps of a ResNet that begins with ones
    amplify rounding errors on these random images, by a factor of up to 10 a step."""
    for block in model.modules() if is_resnet(model) else ():
        if isinstance(block, (resnets().BasicBlock, resnets().Bottleneck)):
            nn.init.constant_(getattr(block, "bn3", block.bn2).weight, 0.125)


@dataclass
class Recipe:
    """How a model is trained: its optimizer, from the parameters, and what else differs."""

    optimizer: Callable
    label_smoothing: float = 0.0
    schedule: Callable = lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    clip_norm: float = 0.0
    clip_value: float = 0.0
    class_weights: tuple = ()
    elementwise: Callable = None  # a loss of all outputs, instead of cross-entropy of classes
    ema_decay: float = 0.0


def sgd(lr):
    return lambda parameters: torch.optim.SGD(parameters, lr=lr, momentum=0.9, weight_decay=5e-4)


RECIPES = {
    "adam": Recipe(lambda p: torch.optim.Adam(p, lr=0.002, weight_decay=0.01)),
    "adamw": Recipe(lambda p: torch.optim.AdamW(p, lr=0.0005, betas=(0.8, 0.99), eps=1e-6, weight_decay=0.1)),
    "clip_norm": Recipe(sgd(0.02), clip_norm=0.5),
    "clip_value": Recipe(sgd(0.02), clip_value=0.01),
    "ema": Recipe(sgd(0.02), ema_decay=0.9),
    "label_smoothing": Recipe(sgd(0.02), label_smoothing=0.1),
    "class_weights": Recipe(sgd(0.02), class_weights=tuple(0.25 + 0.25 * c for c in range(10))),
    "mse": Recipe(sgd(0.001), elementwise=F.mse_loss),
    "bce": Recipe(sgd(0.02), elementwise=F.binary_cross_entropy_with_logits),
    "polynomial": Recipe(sgd(0.02), schedule=lambda o: torch.optim.lr_scheduler.PolynomialLR(o, STEPS, power=2.0)),
}


def loss_of(recipe, outputs, step):
    """The targets are functions of the step."""
    if recipe.elementwise:
        targets = torch.from_numpy(uniform(f"golden/targets/{step}", (BATCH, 10))).to(outputs.dtype)
        return recipe.elementwise(outputs, 0.5 + 0.5 * targets)
    classes = torch.tensor([(3 * i + 7 * step) % 10 for i in range(BATCH)])
    if not recipe.class_weights:
        return F.cross_entropy(outputs, classes, label_smoothing=recipe.label_smoothing)
    weight = torch.tensor(recipe.class_weights, dtype=outputs.dtype)
    return F.cross_entropy(outputs, classes, weight, reduction="sum") / BATCH


def train(name, recipe, dtype, mixed=False):
    """Losses, and the flattened weights after every step; of an average, the average. With `mixed`,
    under autocast to bfloat16."""
    model = TRAINED[name]()
    initialise(model)
    small_init_residual(model)
    model.to(dtype).train()
    optimizer = recipe.optimizer(model.parameters())
    average = torch.optim.swa_utils.get_ema_multi_avg_fn(recipe.ema_decay)
    averaged = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=average) if recipe.ema_decay else model
    scheduler = recipe.schedule(optimizer)
    losses, weights = [], []
    for step in range(STEPS):
        for module in model.modules():
            if isinstance(module, CounterDropout):
                module.step = step
        shape = (BATCH, *SAMPLES.get(name, (1, 28, 28)))
        images = torch.from_numpy(uniform(f"golden/images/{step}", shape)).to(dtype)
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
            loss = loss_of(recipe, model(images), step)
        loss.backward()
        if recipe.clip_norm:
            nn.utils.clip_grad_norm_(model.parameters(), recipe.clip_norm)
        if recipe.clip_value:
            nn.utils.clip_grad_value_(model.parameters(), recipe.clip_value)
        optimizer.step()
        scheduler.step()
        if averaged is not model:
            averaged.update_parameters(model)
        losses.append(loss.item())
        weights.append(torch.cat([p.detach().double().flatten() for p in averaged.parameters()]))
    return getattr(averaged, "module", model), np.array(losses), torch.stack(weights)


def sampled(tensor):
    """At most about 256 elements of a tensor, evenly spread."""
    flat = tensor.detach().flatten()
    return flat[:: max(1, flat.numel() // 256)].clone()


def compared(key, name, recipe):
    """Losses, what is left of the weights, and how far f32 is from them."""
    result = {}
    exact = train(name, recipe, torch.float64)
    model, losses, _ = exact
    result[f"{key}/losses"] = torch.from_numpy(losses)
    final = {n: t for n, t in model.state_dict().items() if t.dtype == torch.float64}
    if is_resnet(model):  # hundreds of tensors: their norms, by sorted names
        result[f"{key}/norms"] = torch.stack([final[n].norm() for n in sorted(final)])
    else:
        for tensor_name, tensor in final.items():
            result[f"{key}/final/{tensor_name}"] = sampled(tensor)
            result[f"{key}/norm/{tensor_name}"] = tensor.norm().reshape(1)
    single = train(name, recipe, torch.float32)
    return result | distances(f"{key}/f32", exact, single)


def distances(prefix, exact, other):
    """How far the losses and weights of another precision are from the exact ones, by step."""
    (_, losses, weights), (_, other_losses, other_weights) = exact, other
    distance = (other_weights - weights).norm(dim=1) / weights.norm(dim=1)
    return {f"{prefix}_loss_distance": torch.from_numpy(np.abs(other_losses - losses)),
            f"{prefix}_weight_distance": distance}


def mixed():
    """How far PyTorch's own runs in mixed precision are from those in f64."""
    result = {}
    for name in ("wide_resnet", "mnist_cnn", "mlp"):
        for lr in ("0.001", "0.02"):
            recipe = Recipe(sgd(float(lr)))
            exact, other = train(name, recipe, torch.float64), train(name, recipe, torch.float32, mixed=True)
            result |= distances(f"{name}/{lr}/bf16", exact, other)
    return result


def models():
    """Each model with SGD at two rates."""
    result = {}
    for name in TRAINED:
        for lr in RATES[name]:
            result |= compared(f"{name}/{lr}", name, Recipe(sgd(float(lr))))
    return result


def recipes():
    """Two models by each recipe."""
    result = {}
    for name in ("mnist_cnn", "mlp"):
        for recipe in RECIPES:
            result |= compared(f"{name}/{recipe}", name, RECIPES[recipe])
    return result
