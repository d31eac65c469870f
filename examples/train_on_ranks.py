"""Data-parallel training with one loss over the samples of all processes: the same result as on one process.

    python examples/train_on_ranks.py --processes 2 --steps 200
    torchrun --nproc-per-node 4 examples/train_on_ranks.py --steps 200

A generator is trained by DistributedDataParallel; each process makes 8 samples per step. With group= all processes
compute one loss of all samples, and every parameter is, up to rounding, that of one process trained on the joined batch.
Without it each process compares its own 8 samples, and DDP averages the gradients of these losses: another objective,
whose minimizer has the less variance the fewer samples a process has.
"""

from __future__ import annotations

import argparse
import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel

import slicewise as sw

PER_PROCESS = 8


def data(n: int, generator: torch.Generator) -> torch.Tensor:
    """Draw samples (n, 2) of a ring."""
    angle = 2 * torch.pi * torch.rand(n, generator=generator, dtype=torch.float64)
    ring = torch.stack([angle.cos(), angle.sin()], dim=1)
    return ring + 0.05 * torch.randn(n, 2, generator=generator, dtype=torch.float64)


def fresh_generator() -> torch.nn.Module:
    """Make the same network on every process."""
    torch.manual_seed(0)
    layers = torch.nn.Linear(4, 64), torch.nn.Tanh(), torch.nn.Linear(64, 2)
    return torch.nn.Sequential(*layers).double()


def train(steps: int, size: int, rank: int | None, *, one_loss: bool = True) -> torch.nn.Module:
    """Train a network on this rank's share of every batch; rank None is one process with all of it."""
    network = fresh_generator()
    model = network if rank is None else DistributedDataParallel(network)
    if rank is not None and one_loss:
        loss = sw.SlicedWasserstein("sw", group=dist.group.WORLD, averaged=True)
    else:
        loss = sw.SlicedWasserstein("sw")
    optimizer = torch.optim.Adam(network.parameters(), lr=0.005)
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        noise = torch.randn(size * PER_PROCESS, 4, generator=generator, dtype=torch.float64)
        target = data(size * PER_PROCESS, generator)
        mine = slice(None) if rank is None else slice(rank * PER_PROCESS, (rank + 1) * PER_PROCESS)
        slices = torch.Generator().manual_seed(int(torch.randint(2**31, (), generator=generator)))
        optimizer.zero_grad()
        loss(model(noise[mine]), target[mine], generator=slices).backward()
        optimizer.step()
    return network


def distance_to_data(network: torch.nn.Module) -> float:
    """Estimate SW_2 to the data on 20,000 new samples."""
    generator = torch.Generator().manual_seed(2)
    noise = torch.randn(20_000, 4, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        return sw.sliced_wasserstein(
            network(noise), data(20_000, generator), generator=generator
        ).item()


def compare(rank: int, size: int, steps: int) -> dict[str, float]:
    """Train in three ways; return SW_2 of each, and how far one loss over processes is from one process."""
    alone = train(steps, size, None)
    together = train(steps, size, rank)
    apart = train(steps, size, rank, one_loss=False)
    pairs = zip(alone.parameters(), together.parameters(), strict=True)
    return {
        "difference": max((a - b).abs().max().item() for a, b in pairs),
        "one process": distance_to_data(alone),
        "one loss over processes": distance_to_data(together),
        "a loss for each": distance_to_data(apart),
    }


def main() -> None:
    """Run under torchrun, or start the processes here."""
    parser = argparse.ArgumentParser(description="One loss over all processes.")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--steps", type=int, default=200)
    given = parser.parse_args()
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
        _work(dist.get_rank(), dist.get_world_size(), given.steps)
        return
    with tempfile.TemporaryDirectory() as folder:
        where = (given.processes, given.steps, os.path.join(folder, "store"))
        mp.spawn(_start, where, given.processes)


def _start(rank: int, size: int, steps: int, file: str) -> None:
    torch.set_num_threads(1)
    store = dist.FileStore(file, size)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    _work(rank, size, steps)


def _work(rank: int, size: int, steps: int) -> None:
    found = compare(rank, size, steps)
    if rank == 0:
        difference = found.pop("difference")
        print(
            f"{size} processes, {steps} steps: parameters differ from one process by {difference:.1e}"
        )
        for name, distance in found.items():
            print(f"  SW_2 left, {name + ':':26}{distance:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
