"""The rows of the performance table: what is trained, how, and the target against PyTorch."""

import json
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Work:
    """One training, as options of `troupe train` and as arguments of peer.py."""

    model: str  # of peer.py
    options: tuple  # KEY=VALUE of the model
    shape: tuple  # channels, height, width
    classes: int
    batch: int
    augment: tuple = ()
    samples: int = 50_000
    micro_batches: int = 1
    parallel: tuple = ()  # KEY=VALUE
    parts: int = 1  # stages and replicas

    def widths(self):
        """Of a wide ResNet."""
        return next((json.loads(option.partition("=")[2]) for option in self.options
                     if option.startswith("model.widths=")), None)

    def train_options(self):
        """Without data: synthetic images are of this form and number."""
        return [*self.options, f"train.batch_size={self.batch}",
                f"train.micro_batches={self.micro_batches}", *self.parallel]


# The options that select a precision. PyTorch's are in peer.py.
PRECISIONS = {
    "32-true": ("precision=32-true",),
    "tf32": ("precision=32-true", "conv_precision=tf32", "matmul_precision=tf32"),
    "bf16-mixed": ("precision=bf16-mixed",),
    "16-mixed": ("precision=16-mixed",),
}
# How far the first loss, and any loss, may lie from PyTorch's of the same precision, relatively.
TOLERANCES = {"32-true": (1e-4, 1e-2), "tf32": (2e-3, 2e-2), "bf16-mixed": (1e-2, 5e-2),
              "16-mixed": (5e-3, 3e-2)}

WIDE = Work("wide_resnet", ("model.name=wide_resnet", "model.widths=[16,160,320,640]"),
            (3, 32, 32), 100, 256, ("flip", "crop"))
RESNET18 = Work("resnet18", ("model.name=resnet18",), (3, 224, 224), 1000, 256, ("flip",),
                samples=2_560)
MNIST = Work("mnist_cnn", ("model.name=mnist_cnn",), (1, 28, 28), 10, 128)
# Small enough for the emulator, where seconds stand for milliseconds.
TINY = Work("wide_resnet", ("model.name=wide_resnet", "model.widths=[2,2,2,2]"), (3, 28, 28), 4, 2,
            ("flip",), samples=16)


def stages_of(work, micro_batches=4):
    """The same micro-batches in one stage and in two."""
    split = {**work.__dict__, "micro_batches": micro_batches}
    return Work(**split), Work(**{**split, "parallel": ("parallel.pipeline=2",), "parts": 2})


def replicas_of(work, count=8):
    """One replica, and eight with a batch each."""
    many = {**work.__dict__, "batch": count * work.batch, "micro_batches": count}
    return work, Work(**{**many, "parallel": (f"parallel.data={count}",), "parts": count})


def with_option(work, option):
    return Work(**{**work.__dict__, "parallel": (*work.parallel, option)})


def with_graphs(work):
    return with_option(work, "cuda_graphs=true")


def with_resident(work):
    return with_option(work, "data.resident=true")


def with_any_order(work):
    return with_option(work, "deterministic=false")


@dataclass(frozen=True)
class Row:
    key: str
    what: str
    precision: str
    work: Work
    tiny: Work
    targets: dict = field(default_factory=dict)  # each mode of PyTorch: the least ratio to it; 0: none
    least: float = 0  # images/s
    busy: float = 0  # least share of the time in which a kernel runs


ROWS = (
    Row("wide_bf16", "large wide ResNet, flip, crop and normalise, batch 256, bf16-mixed",
        "bf16-mixed", WIDE, TINY, {"eager": 1.3, "compile": 1.1}, least=27_000, busy=0.95),
    Row("wide_tf32", "the same in TF32", "tf32", WIDE, TINY, {"eager": 1.2, "compile": 1.1}),
    Row("resnet18_bf16", "ResNet-18, 224x224, flip and normalise, batch 256, bf16-mixed",
        "bf16-mixed", RESNET18, TINY, {"eager": 1.2, "compile": 1.1}, busy=0.95),
    Row("wide_f16", "large wide ResNet, batch 256, 16-mixed", "16-mixed", WIDE, TINY,
        {"eager": 1.3, "compile": 1.1}),
    Row("wide_f32", "large wide ResNet, batch 256, 32-true", "32-true", WIDE, TINY,
        {"eager": 0}),
)


@dataclass(frozen=True)
class Pair:
    """Two forms of the same work: the ratio of their images/s."""

    key: str
    what: str
    works: tuple
    tiny: tuple
    least: float
    names: tuple
    precision: str = "32-true"
    same_bits: bool = True  # of the losses, if the batches are the same


PAIRS = (
    Pair("two_stages", "two stages on one GPU against one, batch 256 in 4 micro-batches",
         stages_of(WIDE), stages_of(TINY, 2), 0.95, ("one stage", "two stages")),
    Pair("replicas", "8 replicas of the MNIST CNN, batch 128 each, against one",
         replicas_of(MNIST), replicas_of(TINY, 2), 3.0, ("one replica", "8 replicas")),
    Pair("replicas_graphs", "8 replicas of the MNIST CNN against one, all with CUDA graphs",
         tuple(map(with_graphs, replicas_of(MNIST))), tuple(map(with_graphs, replicas_of(TINY, 2))), 3.0,
         ("one replica", "8 replicas")),
    Pair("mnist_graphs", "the MNIST CNN, batch 128, with CUDA graphs against without",
         (MNIST, with_graphs(MNIST)), (TINY, with_graphs(TINY)), 1.0, ("without", "with CUDA graphs")),
    Pair("wide_graphs", "large wide ResNet, batch 256, bf16-mixed, with CUDA graphs against without",
         (WIDE, with_graphs(WIDE)), (TINY, with_graphs(TINY)), 1.0, ("without", "with CUDA graphs"),
         "bf16-mixed"),
    Pair("wide_resident", "large wide ResNet, batch 256, bf16-mixed, with resident images against without",
         (WIDE, with_resident(WIDE)), (TINY, with_resident(TINY)), 1.0,
         ("images sent", "images resident"), "bf16-mixed"),
    Pair("wide_any_order", "large wide ResNet, batch 256, 32-true, not deterministic against deterministic",
         (WIDE, with_any_order(WIDE)), (TINY, with_any_order(TINY)), 1.0,
         ("deterministic", "not deterministic"), same_bits=False),
)
