"""One of the processes of PyTorch's side of the rows about processes, on Gloo: DDP or a 1F1B pipeline.

    pytorch_process.py ddp small|mnist SAMPLES_A_RANK nchw|nhwc plain|fused eager|compile
    pytorch_process.py pipeline small SAMPLES_A_MICRO_BATCH nchw|nhwc plain|fused eager|compile

RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT say which one it is. Rank 0 reads requests from its
input and answers each with a line; the others do what it does:

    losses N   N losses of further steps
    time N     seconds of N further steps

Rank 0's losses: of its own samples (ddp), of the whole batch (pipeline). Ends with rank 0's input.
"""

import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "golden"))
from golden_models import MnistCnn, WideResNet  # noqa: E402

MICRO_BATCHES = 8
LR, MOMENTUM = 0.01, 0.9


def data(samples, rank):
    generator = torch.Generator().manual_seed(rank)
    images = torch.randn(samples, 1, 28, 28, generator=generator)
    if sys.argv[4] == "nhwc":
        images = images.to(memory_format=torch.channels_last)
    return images, torch.randint(0, 10, (samples,), generator=generator)


def model(name):
    torch.manual_seed(1)
    made = MnistCnn() if name == "mnist" else WideResNet(1, [16, 16, 32, 64], 10, 0.01)
    return made.to(memory_format=torch.channels_last) if sys.argv[4] == "nhwc" else made


def sgd(module):
    return torch.optim.SGD(module.parameters(), lr=LR, momentum=MOMENTUM,
                           fused=sys.argv[5] == "fused")


def compiled(module):
    return torch.compile(module) if sys.argv[6] == "compile" else module


class DataParallel:
    def __init__(self, name, samples):
        self.model = compiled(nn.parallel.DistributedDataParallel(model(name)))
        self.optimizer = sgd(self.model)
        self.images, self.classes = data(samples, dist.get_rank())

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(self.model(self.images), self.classes)
        loss.backward()
        self.optimizer.step()
        return loss.item()


class Pipeline:
    """Two stages, cut where the first pooling has made activations small and each stage takes half
    of the time."""

    def __init__(self, name, samples):
        from torch.distributed import pipelining

        rank, stages = dist.get_rank(), dist.get_world_size()
        layers = self.layers(model(name))
        half = layers[:4] if rank == 0 else layers[4:]
        self.module = nn.Sequential(*half)
        stage = pipelining.PipelineStage(compiled(self.module), rank, stages, torch.device("cpu"))
        self.schedule = pipelining.Schedule1F1B(stage, n_microbatches=MICRO_BATCHES,
                                                loss_fn=nn.CrossEntropyLoss())
        self.optimizer = sgd(self.module)
        self.images, self.classes = data(MICRO_BATCHES * samples, 0)

    @staticmethod
    def layers(network):
        flat = []
        for layer in network.children():
            flat += list(layer) if type(layer) is nn.Sequential else [layer]
        return flat

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        losses = []
        if dist.get_rank() == 0:
            self.schedule.step(self.images)
        else:
            self.schedule.step(target=self.classes, losses=losses)
        self.optimizer.step()
        return float(torch.stack(losses).mean()) if losses else 0.0

    def whole_loss(self, loss):
        last = torch.tensor([loss])
        dist.broadcast(last, dist.get_world_size() - 1)
        return last.item()


def requests():
    """What rank 0 reads, for all; (0, 0) at the end."""
    while True:
        request = torch.zeros(2, dtype=torch.int64)
        if dist.get_rank() == 0:
            request, count = (sys.stdin.readline().split() or ["end", "0"])
            request = torch.tensor([["end", "losses", "time"].index(request), int(count)])
        dist.broadcast(request, 0)
        if request[0] == 0:
            return
        yield request.tolist()


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    kind, name, samples = sys.argv[1:4]
    trainer = (Pipeline if kind == "pipeline" else DataParallel)(name, int(samples))
    for request, count in requests():
        begin = time.perf_counter()
        losses = [trainer.step() for _ in range(count)]
        if request == 2:
            dist.barrier()
            losses = [time.perf_counter() - begin]
        elif kind == "pipeline":
            losses = [trainer.whole_loss(loss) for loss in losses]
        if dist.get_rank() == 0:
            print(*(f"{number:.9g}" for number in losses), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
