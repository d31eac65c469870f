"""Processes that talk to each other on this machine, over gloo unless said, started for one test."""

from __future__ import annotations

import datetime
import os
import tempfile
import time
import traceback
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import slicewise as sw

GONE = 7  # how a process ends that a test tells to die
# Imported once, by the process from which the others are forked: seconds less for each of them.
IMPORTED = [
    "slicewise.distributed",
    "slicewise.kernels.numba_loops",
    "torch.nn.parallel",
    "torch._dynamo",
]


def run(size, work, *given, timeout=60.0, patience=120.0, backend="gloo"):
    """What `work(rank, size, *given)` returns on each rank; None of one that died on purpose.

    The group's collectives give up after `timeout` seconds, the whole after `patience`.
    """
    with tempfile.TemporaryDirectory() as folder:
        context = mp.get_context("forkserver")
        context.set_forkserver_preload(IMPORTED)
        processes = [
            context.Process(target=_one, args=(rank, size, folder, timeout, backend, work, given))
            for rank in range(size)
        ]
        for process in processes:
            process.start()
        end = time.monotonic() + patience
        for process in processes:
            process.join(max(0.0, end - time.monotonic()))
        hung = [rank for rank, process in enumerate(processes) if process.is_alive()]
        for process in processes:
            process.kill()
            process.join()
        assert not hung, f"ranks {hung} did not end within {patience} s"
        results = []
        for rank, process in enumerate(processes):
            failure = Path(folder, f"failure-{rank}")
            assert not failure.exists(), f"rank {rank}:\n{failure.read_text()}"
            assert process.exitcode in (0, GONE), f"rank {rank} ended with {process.exitcode}"
            result = Path(folder, f"result-{rank}")
            results.append(torch.load(result) if result.exists() else None)
        return results


def _one(rank, size, folder, timeout, backend, work, given):
    torch.set_num_threads(1)
    torch.manual_seed(1000 + rank)  # ranks are seeded as they like
    try:
        dist.init_process_group(
            backend,
            store=dist.FileStore(str(Path(folder, "store")), size),
            rank=rank,
            world_size=size,
            timeout=datetime.timedelta(seconds=timeout),
        )
        torch.save(work(rank, size, *given), Path(folder, f"result-{rank}"))
    except BaseException:
        Path(folder, f"failure-{rank}").write_text(traceback.format_exc())
        os._exit(1)
    os._exit(0)  # no waiting for processes that a test has killed


def shares(tensor, size, dim=-2):
    """Unequal shares of samples, from four ranks on an empty one among them."""
    n = tensor.shape[dim]
    cuts = {1: [n], 2: [n - 4, 4], 3: [2, n - 7, 5], 4: [5, 0, n - 6, 1]}[size]
    return tensor.split(cuts, dim=dim)


def loss_of(variant="sw", **options):
    """The loss over all ranks."""
    return sw.SlicedWasserstein(variant, group=dist.group.WORLD, **options)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)
