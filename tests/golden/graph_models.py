"""Architectures as people write them in PyTorch, small, to be exported. Samples: 3 x 20 x 24, if not said otherwise."""

import torch
from torch import nn
from torch.nn import functional as F
from torchvision.models import resnet
from torchvision.ops import StochasticDepth

from narrow_resnet import NarrowResNet

SAMPLE = (3, 20, 24)
SEQUENCE = (20, 6)  # steps, features
CLASSES = 10


class Vgg(nn.Module):
    """Convolutions with batch norm, pooling, dropout, and two linear layers."""

    def __init__(self):
        super().__init__()
        layers, channels = [], 3
        for width in (8, 8, "pool", 16, 16, "pool"):
            if width == "pool":
                layers.append(nn.MaxPool2d(2))
                continue
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
            channels = width
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Linear(channels * 5 * 6, 24), nn.ReLU(), nn.Dropout(0.25), nn.Linear(24, CLASSES))

    def forward(self, x):
        x = self.features(x)
        return self.classifier(x.view(x.size(0), -1))


def resnet18():
    return NarrowResNet(resnet.BasicBlock, [2, 2, 2, 2], (4, 4, 8, 8))


class Gate(nn.Module):
    """Squeeze and excitation: a factor for each channel of a sample."""

    def __init__(self, channels, activation):
        super().__init__()
        self.reduce = nn.Conv2d(channels, 4, 1)
        self.expand = nn.Conv2d(4, channels, 1)
        self.activation = activation

    def forward(self, x):
        scale = F.silu(self.reduce(x.mean((2, 3), keepdim=True)))
        return x * self.activation(self.expand(scale))


class Inverted(nn.Module):
    """An inverted residual: widen, depthwise, gate, narrow."""

    def __init__(self, channels, out, hidden, kernel, stride, activation, gate):
        super().__init__()
        self.widen = nn.Sequential(nn.Conv2d(channels, hidden, 1, bias=False), nn.BatchNorm2d(hidden), activation())
        self.depthwise = nn.Conv2d(hidden, hidden, kernel, stride, kernel // 2, groups=hidden, bias=False)
        self.norm = nn.BatchNorm2d(hidden, momentum=0.2)
        self.activation = activation()
        self.gate = Gate(hidden, gate)
        self.narrow = nn.Sequential(nn.Conv2d(hidden, out, 1, bias=False), nn.BatchNorm2d(out))
        self.residual = stride == 1 and channels == out

    def forward(self, x):
        y = self.gate(self.activation(self.norm(self.depthwise(self.widen(x)))))
        y = self.narrow(y)
        return x + y if self.residual else y


class Depthwise(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8), nn.Hardswish())
        self.blocks = nn.Sequential(
            Inverted(8, 8, 16, 3, 1, nn.ReLU6, torch.sigmoid),
            Inverted(8, 16, 24, 5, 2, nn.Hardswish, F.hardsigmoid),
            Inverted(16, 16, 32, 3, 1, nn.SiLU, torch.sigmoid))
        self.head = nn.Conv2d(16, 32, 1, groups=2)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(32, CLASSES)

    def forward(self, x):
        x = F.hardswish(self.head(self.blocks(self.stem(x))))
        return self.classifier(torch.flatten(self.pool(x), 1))


class DenseLayer(nn.Module):
    def __init__(self, channels, growth):
        super().__init__()
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv1 = nn.Conv2d(channels, 2 * growth, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(2 * growth)
        self.conv2 = nn.Conv2d(2 * growth, growth, 3, padding=1, bias=False)

    def forward(self, x):
        y = self.conv1(F.relu(self.norm1(x)))
        return torch.cat([x, self.conv2(F.relu(self.norm2(y)))], 1)


class Dense(nn.Module):
    """Dense blocks with concatenation, average pooling between them, and a tanh before the head."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.block1 = nn.Sequential(DenseLayer(8, 4), DenseLayer(12, 4))
        self.transition = nn.Sequential(nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 8, 1), nn.AvgPool2d(2))
        self.block2 = nn.Sequential(DenseLayer(8, 4), DenseLayer(12, 4))
        self.norm = nn.BatchNorm2d(16)
        self.fc = nn.Linear(16, CLASSES)

    def forward(self, x):
        x = self.block2(self.transition(self.block1(self.stem(x))))
        x = torch.tanh(self.norm(x)).mean([-1, -2])
        return F.log_softmax(self.fc(x), dim=1)


class Attention(nn.Module):
    def __init__(self, features, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(features, 3 * features)
        self.proj = nn.Linear(features, features)

    def forward(self, x):
        batch, tokens, features = x.shape
        shape = (batch, tokens, self.heads, features // self.heads)
        q, k, v = (part.reshape(shape).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        x = F.scaled_dot_product_attention(q, k, v)
        return self.proj(x.transpose(1, 2).reshape(batch, tokens, features))


class Encoder(nn.Module):
    def __init__(self, features, heads, approximate):
        super().__init__()
        self.norm1 = nn.LayerNorm(features)
        self.attention = Attention(features, heads)
        self.norm2 = nn.LayerNorm(features, eps=1e-6)
        self.mlp = nn.Sequential(
            nn.Linear(features, 2 * features), nn.GELU(approximate), nn.Linear(2 * features, features))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Vit(nn.Module):
    """A vision transformer with a class token and a table of positions."""

    def __init__(self, features=24):
        super().__init__()
        self.patch = nn.Conv2d(3, features, 4, stride=4)
        self.token = nn.Parameter(torch.randn(1, 1, features) * 0.02)
        self.positions = nn.Parameter(torch.randn(1, 31, features) * 0.02)
        self.encoder = nn.Sequential(Encoder(features, 3, "none"), Encoder(features, 3, "tanh"))
        self.norm = nn.LayerNorm(features)
        self.head = nn.Linear(features, CLASSES)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.size(0), -1, -1), x], dim=1) + self.positions
        return self.head(self.norm(self.encoder(x))[:, 0])


class Tied(nn.Module):
    """One weight under two names, used three times; a frozen layer; a constant in the state_dict."""

    def __init__(self):
        super().__init__()
        self.pool = nn.AvgPool2d(4)
        self.frozen = nn.Linear(90, 16)
        self.frozen.requires_grad_(False)
        self.encode = nn.Linear(16, 16)
        self.decode = nn.Linear(16, 16)
        self.decode.weight = self.encode.weight
        self.register_buffer("scale", torch.tensor([0.5, 2.0]).repeat(8))
        self.fc = nn.Linear(16, CLASSES)

    def forward(self, x):
        x = self.frozen(self.pool(x).flatten(1))
        x = torch.relu(self.encode(x)) * self.scale
        x = torch.sigmoid(self.decode(x))
        return self.fc(F.linear(x, self.encode.weight.t()))


class Tokens(nn.Module):
    """A small language model that is trained as a classifier: its head is its embedding."""

    def __init__(self, features=16):
        super().__init__()
        self.embed = nn.Embedding(CLASSES, features)
        self.positions = nn.Embedding(12, features)
        self.qkv = nn.Linear(features, 3 * features, bias=False)
        self.norm = nn.LayerNorm(features)
        self.head = nn.Linear(features, CLASSES, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("mask", torch.tril(torch.ones(12, 12, dtype=torch.bool)), persistent=False)

    def forward(self, tokens):
        x = self.embed(tokens) + self.positions(torch.arange(tokens.shape[1]))
        batch, length, features = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, 2, features // 2).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = y + F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask, scale=0.5)
        y = torch.softmax(q @ k.transpose(-2, -1) * 0.3, dim=-1) @ v - 0.1 * y
        x = self.norm(x + y.transpose(1, 2).flatten(2))
        return self.head(x[:, -1])


class Attend(nn.Module):
    """Attention with dropout. `weights_dropout` replaces PyTorch's where the model is trained."""

    def __init__(self, features, heads, dropout):
        super().__init__()
        self.heads, self.p, self.weights_dropout = heads, dropout, None
        self.inputs = nn.Linear(features, 3 * features)

    def forward(self, x):
        q, k, v = (t.unflatten(2, (self.heads, -1)).transpose(1, 2) for t in self.inputs(x).chunk(3, dim=2))
        if self.weights_dropout is None:
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.p)
        else:
            y = self.weights_dropout(torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, dim=-1)) @ v
        return y.transpose(1, 2).flatten(2)


class Draws(nn.Module):
    """Dropout of channels, of samples (stochastic depth) and of attention, and layers made of several operators."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.dropout = nn.Dropout2d(0.3)
        self.groups = nn.GroupNorm(2, 8)
        self.activation = nn.LeakyReLU(0.2)
        self.pool = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.conv = nn.Conv2d(8, 8, 3, padding=1)
        self.depth = StochasticDepth(0.2, "row")
        self.instances = nn.InstanceNorm2d(8, affine=True)
        self.attend = Attend(8, 2, 0.1)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x):
        x = self.groups(self.dropout(F.relu(self.norm(self.stem(x)))))
        x = self.pool(self.activation(x))
        x = self.instances(x + self.depth(self.conv(x)))
        x = x.flatten(2).transpose(1, 2)
        return self.head((x + self.attend(x)).mean(1))


class Series(nn.Module):
    """Convolutions, batch norm and pooling over the 20 steps of a sequence, with a residual."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv1d(6, 8, 3, padding=1, bias=False), nn.BatchNorm1d(8), nn.ReLU(), nn.MaxPool1d(2))
        self.dropout = nn.Dropout1d(0.2)
        self.mix = nn.Conv1d(8, 8, 5, padding="same", groups=2)
        self.norm = nn.BatchNorm1d(8, momentum=0.2)
        self.narrow = nn.Conv1d(8, 12, 3, stride=2, dilation=2, padding=2)
        self.average = nn.AvgPool1d(2)
        self.longest = nn.MaxPool1d(3, 2, padding=1, ceil_mode=True)
        self.pool = nn.AdaptiveAvgPool1d(1)
        self.head = nn.Linear(12, CLASSES)

    def forward(self, x):
        x = self.stem(x.transpose(1, 2))
        x = F.relu(x + self.norm(self.mix(self.dropout(x))))
        x = F.silu(self.narrow(self.longest(x)))
        return self.head(self.pool(self.average(x)).flatten(1))


class Masked(nn.Module):
    """Attention with the masks and positions that models compute themselves, and tensors moved by constants."""

    def __init__(self, features=8):
        super().__init__()
        self.inputs = nn.Linear(6, features)
        self.qkv = nn.Linear(features, 3 * features)
        self.norm = nn.RMSNorm(features, eps=1e-6)
        self.head = nn.Linear(features, CLASSES)
        self.first = nn.Parameter(torch.full((1, 1, features), 0.1))
        self.bias = nn.Parameter(torch.linspace(-1, 1, 9).reshape(9, 1).repeat(1, 2))
        self.register_buffer("causal", torch.tril(torch.ones(32, 32)))
        self.mix = nn.Parameter(torch.linspace(-0.5, 0.5, features * features).reshape(features, features))
        self.register_buffer("allowed", torch.ones(32, 32, dtype=torch.bool).triu(-3), persistent=False)
        self.register_buffer("distance", torch.arange(9).reshape(3, 3), persistent=False)

    def rotated(self, x):
        rates = 1.0 / 100 ** (torch.arange(0, x.shape[-1], 2).to(x.dtype) / x.shape[-1])
        angles = torch.outer(torch.arange(x.shape[1]).to(x.dtype), rates)
        angles = torch.cat([angles, angles], dim=-1)
        return x * angles.cos() + torch.roll(x, (2, -1), (2, 1)) * angles.sin()

    def forward(self, x):
        x = self.rotated(torch.relu(self.inputs(x)))
        x = torch.cat([self.first.repeat(x.shape[0], 1, 1), x], dim=1)
        x = F.pad(x, (0, 0, 2, -3))
        steps = x.shape[1]
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        scores = torch.einsum("bid,bjd->bij", q, k) / q.shape[-1] ** 0.5
        scores = torch.baddbmm(scores, q, k.transpose(1, 2))
        scores = scores.masked_fill(self.causal[:steps, :steps] == 0, float("-inf"))
        i = torch.arange(steps)
        near = (i[:, None] - i[None, :]).abs() < 5
        scores = torch.where(near | (i[None, :] == 0), scores, -torch.inf)
        weights = torch.softmax(scores + torch.triu(torch.full((steps, steps), -1e3), 1), dim=-1)
        kept = torch.zeros(steps, steps, dtype=torch.bool)
        kept[:5, 2:][:, 1:6] = True
        weights = weights.masked_fill(kept, 0.25)
        weights = weights.masked_fill(torch.ones(steps, steps, dtype=torch.bool).tril(-4).logical_not() & ~near, 0.5)
        mask = (near * (self.causal[:steps, :steps] > 0) + near * (i[None, :] == 0)).expand(x.shape[0], -1, -1)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        y = y + F.scaled_dot_product_attention(q, torch.cat([torch.tensor([]), k], dim=-2), v, attn_mask=self.allowed[:steps, :steps])
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5)
        cubes = y.pow(3)
        y = y - 0.1 * (cubes / torch.sqrt(cubes.square().mean((1, 2), keepdim=True) + 0.1))
        y = torch.addmm(self.qkv.bias[:8], y.flatten(0, 1), self.mix).view(x.shape[0], steps, 8)
        y = y + torch.einsum("btd, bst->bsd", v.flip(1), torch.tril(weights, 2))
        bias = self.bias[self.distance.gather(1, torch.tensor([[2, 1, 0], [0, 0, 1], [1, 2, 2]])).view(-1)].view(3, 3, 2)
        y = torch.cat([y[:, :3, :], y[:, 1::7, :]], dim=1) + torch.cat([y[:, ::5, :], y[:, 3:5, :]], dim=1)
        y = y[:, :3, :] + y[:, 3:, :].mean(1, keepdim=True) + bias.permute(2, 0, 1).reshape(1, 2, 9)[:, :1, :8]
        return self.head(y.mean(1))


class Recurrent(nn.Module):
    """An LSTM of two layers in both directions, a GRU over its outputs, and what cells make of those."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(6, 5, num_layers=2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(10, 4)
        self.plain = nn.RNN(4, 3, nonlinearity="relu", bias=False, batch_first=True)
        self.cell = nn.LSTMCell(3, 3)
        self.gru_cell = nn.GRUCell(3, 3, bias=False)
        self.head = nn.Linear(10 + 4 + 3, CLASSES)

    def forward(self, x):
        outputs, (h, _) = self.lstm(x)
        outputs, last = self.gru(outputs.transpose(0, 1))
        outputs, _ = self.plain(outputs.transpose(0, 1))
        state = self.cell(outputs[:, 0])
        for step in range(1, 4):
            state = self.cell(outputs[:, step], state)
        z = self.gru_cell(outputs[:, -1], state[0])
        return self.head(torch.cat([h[-1], h[0], last[0], z], dim=1))


MODELS = {"vgg": Vgg, "resnet18": resnet18, "depthwise": Depthwise, "dense": Dense, "vit": Vit, "tied": Tied, "tokens": Tokens, "draws": Draws,
          "series": Series, "masked": Masked, "recurrent": Recurrent}
ONLY_PT2 = ["masked", "recurrent"]


def example(name, batch):
    """An input to export the model with."""
    return torch.zeros(batch, 12, dtype=torch.int64) if name == "tokens" else torch.zeros(batch, *sample(name))


def sample(name):
    return SEQUENCE if name in ("series", *ONLY_PT2) else SAMPLE
