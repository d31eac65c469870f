"""One step of DDP on two processes, against the step of one process with the whole batch: who takes the same one?

Every process has half of the embeddings. A linear network makes them, DDP averages its gradients. For each regularizer the
value and the gradient of the weights are compared with those that one process has for the whole batch on the same slices
(torch's generators are seeded alike, so that each module draws the same directions).
"""

from __future__ import annotations

import argparse
import datetime
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from benchmarks.laws.peers import peers
from slicewise.nn import SIGReg, SlicedNormal, VISReg
from slicewise.support.files import write_whole

N, D, L = 256, 8, 64
OURS = {
    "slicewise SlicedNormal": SlicedNormal,
    "slicewise SIGReg": SIGReg,
    "slicewise VISReg": VISReg,
}


def _step(loss: Any, network: Any, x: torch.Tensor) -> tuple[float, torch.Tensor]:
    """The value, and the gradient in the weights of the network."""
    network.zero_grad()
    torch.manual_seed(7)
    value = loss(network(x))
    value.backward()
    inner = getattr(network, "module", network)
    return float(value.detach()), torch.cat([p.grad.flatten() for p in inner.parameters()])


def _own(loss: Any, x: torch.Tensor) -> torch.Tensor:
    """The gradient in embeddings themselves."""
    live = x.clone().requires_grad_()
    torch.manual_seed(7)
    loss(live).backward()
    assert live.grad is not None
    return live.grad


def _network() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Linear(D, D)


def _samples() -> torch.Tensor:
    return 2 * torch.randn(N, D, generator=torch.Generator().manual_seed(1))


def alone(folder: Path | None) -> dict[str, tuple[float, torch.Tensor, torch.Tensor]]:
    """Each with the whole batch in one process."""
    losses: dict[str, Any] = {name: make(L) for name, make in OURS.items()}
    losses |= {name: make(L, False) for name, make in peers(folder).items()}
    half = N // 2
    return {
        name: (*_step(loss, _network(), _samples()), _own(loss, _samples())[:half])
        for name, loss in losses.items()
    }


def _one(rank: int, size: int, folder: Path | None, store: str) -> None:
    dist.init_process_group(
        "gloo",
        store=dist.FileStore(str(Path(store, "meeting")), size),
        rank=rank,
        world_size=size,
        timeout=datetime.timedelta(seconds=60),
    )
    losses: dict[str, Any] = {
        name: make(L, group=dist.group.WORLD, averaged=True) for name, make in OURS.items()
    }
    losses |= {name: make(L, True) for name, make in peers(folder).items()}
    mine = _samples().chunk(size)[rank]
    found = {}
    for name, loss in losses.items():
        wrapped = torch.nn.parallel.DistributedDataParallel(_network())
        step = _step(loss, wrapped, mine)
        if name in OURS:
            loss = OURS[name](L, group=dist.group.WORLD)  # nobody averages here
        found[name] = (*step, _own(loss, mine))
    if rank == 0:
        torch.save(found, Path(store, "found"))
    dist.destroy_process_group()


def main() -> None:
    """Take both steps, compare, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--peers", type=Path, help="a folder with checkouts of lightly and stable-pretraining"
    )
    parser.add_argument("--out", type=Path, help="a file to write the table to")
    given = parser.parse_args()
    wanted = alone(given.peers)
    with tempfile.TemporaryDirectory() as store:
        mp.spawn(_one, (2, given.peers, store), nprocs=2)
        found = torch.load(Path(store, "found"))
    lines = [
        f"# Two processes against one: {N} embeddings of {D} dimensions in all, {L} slices, DDP over gloo",
        "",
        "| regularizer | value | step of DDP: length | step of DDP: off by | gradient in own embeddings: length |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, (value, gradient, own) in wanted.items():
        other, slope, own_slope = found[name]
        off = float((slope - gradient).norm() / gradient.norm())
        sizes = [float(a.norm() / b.norm()) for a, b in ((slope, gradient), (own_slope, own))]
        lines.append(
            f"| {name} | {other / value:.4f} | {sizes[0]:.4f} | {off:.1e} | {sizes[1]:.4f} |"
        )
    lines += [
        "",
        "Each is that of two processes divided by that of one with the whole batch: 1 and 0 are right.",
    ]
    page = "\n".join(lines) + "\n"
    print(page)
    if given.out is not None:
        write_whole(given.out, page)


if __name__ == "__main__":
    main()
