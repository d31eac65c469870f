"""A loss over several processes of this machine: seconds per step, and bytes sent, by two counts.

    python -m benchmarks.speed.ranks --processes 1 2 4

Weak scaling: every process has the same number of samples, however many processes there are. Bytes are those the
loss states, and those that crossed the loopback device, which other programs use too.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from slicewise.distance import SlicedWasserstein

_LOOPBACK = Path("/proc/net/dev")


def step_on_ranks(rank: int, size: int, store: str, given: argparse.Namespace) -> None:
    """Run some steps of each exchange in one process; the first process writes the results."""
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    meeting = dist.FileStore(os.path.join(store, "meet"), size)
    dist.init_process_group("gloo", store=meeting, rank=rank, world_size=size)
    x = torch.randn(given.n, given.d, requires_grad=True)
    y = torch.randn(given.n, given.d)
    for exchange in ("projections", "samples"):
        loss = SlicedWasserstein(n_slices=given.slices, group=dist.group.WORLD, exchange=exchange)
        seconds, crossed = [], []
        for _ in range(given.steps + 1):
            dist.barrier()
            before, start = _crossed(), time.perf_counter()
            x.grad = None
            loss(x, y).backward()
            dist.barrier()
            seconds.append(time.perf_counter() - start)
            crossed.append(_crossed() - before)
        if rank == 0:
            assert loss.exchanged is not None
            print(
                f"{size} processes, {exchange:12} {min(seconds[1:]) * 1e3:9.1f} ms a step, rank 0 sends "
                f"{loss.exchanged.sent / 1e6:9.3f} MB, on the loopback for all {min(crossed[1:]) / 1e6:9.3f} MB",
                flush=True,
            )
    dist.barrier()
    dist.destroy_process_group()


def _crossed() -> int:
    """Return the bytes that the loopback device has sent since the machine started; 0 if unknown."""
    if not _LOOPBACK.exists():
        return 0
    line = next(row for row in _LOOPBACK.read_text().splitlines() if row.strip().startswith("lo:"))
    return int(line.split(":")[1].split()[8])


def main(arguments: Any = None) -> None:
    """Time each number of processes in turn."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--n", type=int, default=16_384, help="samples a process and side")
    parser.add_argument("--d", type=int, default=512)
    parser.add_argument("--slices", type=int, default=50)
    parser.add_argument("--steps", type=int, default=5)
    given = parser.parse_args(arguments)
    print(
        f"n = {given.n} a process, d = {given.d}, L = {given.slices}, float32, value and gradient"
    )
    for size in given.processes:
        with tempfile.TemporaryDirectory() as store:
            mp.spawn(step_on_ranks, (size, store, given), size)


if __name__ == "__main__":
    main()
