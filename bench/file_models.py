"""Models that only PyTorch knows: Troupe trains them from a file that torch.export.save has written.

  file_models.py MODEL FILE    writes MODEL (a name of MODELS) to FILE (.pt2)
"""

import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from torchvision.models import resnet

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "golden"))
from golden_models import cifar_stem, initialise  # noqa: E402


class Gate(nn.Module):
    """Squeeze and excitation."""

    def __init__(self, channels):
        super().__init__()
        self.reduce = nn.Conv2d(channels, channels // 4, 1)
        self.expand = nn.Conv2d(channels // 4, channels, 1)

    def forward(self, x):
        return x * torch.sigmoid(self.expand(F.relu(self.reduce(x.mean((2, 3), keepdim=True)))))


class InvertedResidual(nn.Module):
    def __init__(self, channels, out, *, expansion=4, stride=1, gated=False):
        super().__init__()
        inner = channels * expansion
        layers = [nn.Conv2d(channels, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.Hardswish(),
                  nn.Conv2d(inner, inner, 3, stride, 1, groups=inner, bias=False),
                  nn.BatchNorm2d(inner), nn.Hardswish()]
        layers += [Gate(inner)] if gated else []
        layers += [nn.Conv2d(inner, out, 1, bias=False), nn.BatchNorm2d(out)]
        self.layers = nn.Sequential(*layers)
        self.residual = stride == 1 and channels == out

    def forward(self, x):
        y = self.layers(x)
        return x + y if self.residual else y


def depthwise():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.Hardswish(),
        InvertedResidual(16, 24, stride=2), InvertedResidual(24, 24),
        InvertedResidual(24, 40, stride=2, gated=True), InvertedResidual(40, 40, gated=True),
        InvertedResidual(40, 80, stride=2), InvertedResidual(80, 80, gated=True),
        nn.Conv2d(80, 256, 1, bias=False), nn.BatchNorm2d(256), nn.Hardswish(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 10))


class Attention(nn.Module):
    def __init__(self, features, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(features, 3 * features)
        self.out = nn.Linear(features, features)

    def forward(self, x):
        n, tokens, features = x.shape
        q, k, v = self.qkv(x).reshape(n, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(n, tokens, features))


class Encoder(nn.Module):
    def __init__(self, features, heads):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(features), Attention(features, heads)
        self.norm2 = nn.LayerNorm(features)
        self.mlp = nn.Sequential(nn.Linear(features, 4 * features), nn.GELU(),
                                 nn.Linear(4 * features, features))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class VisionTransformer(nn.Module):
    """64 patches of 4x4 pixels and a class token."""

    def __init__(self, features=192, heads=3, depth=6, classes=10):
        super().__init__()
        self.patches = nn.Conv2d(3, features, 4, 4)
        count = 65 * features
        table = 0.02 * torch.sin(torch.arange(count, dtype=torch.float32))
        self.token = nn.Parameter(torch.zeros(1, 1, features))
        self.positions = nn.Parameter(table.reshape(1, 65, features))
        self.encoders = nn.Sequential(*(Encoder(features, heads) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(features), nn.Linear(features, classes)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1) + self.positions
        return self.head(self.norm(self.encoders(x))[:, 0])


MODELS = {
    "resnet18_file": lambda: cifar_stem(resnet.resnet18(num_classes=10)),
    "depthwise": depthwise,
    "vit": VisionTransformer,
}


def export(name, path):
    model = MODELS[name]()
    initialise(model)
    batch = torch.export.Dim("batch")
    program = torch.export.export(model.train(), (torch.zeros(2, 3, 32, 32),),
                                  dynamic_shapes=({0: batch},))
    torch.export.save(program, path)


if __name__ == "__main__":
    export(*sys.argv[1:3])
