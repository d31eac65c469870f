"""Time a step (value and gradient in the samples) against a law: beside samples of it, and beside other libraries."""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import slicewise as sw
from benchmarks.laws.peers import peers
from slicewise.nn import SIGReg, SlicedNormal, VISReg
from slicewise.support.files import write_whole


def contenders(n_slices: int, y: Tensor, folder: Path | None) -> dict[str, Callable[[Tensor], Any]]:
    """Losses of embeddings by name."""
    distance = sw.SlicedWasserstein(n_slices=n_slices)
    slices = torch.nn.functional.normalize(torch.randn_like(y[:1].expand(n_slices, -1)), dim=-1)
    found: dict[str, Callable[[Tensor], Any]] = {
        "samples of the law": lambda x: distance(x, y),
        "the law": lambda x: distance(x, sw.laws.Normal()),
        "two matrix products alone": lambda x: (x @ slices.mT).sum(),
        "slicewise SlicedNormal": SlicedNormal(n_slices),
        "slicewise SIGReg": SIGReg(n_slices),
        "slicewise VISReg": VISReg(n_slices),
    }
    others = {name: make(n_slices, False) for name, make in peers(folder).items()}
    return found | {
        name: one.to(y.device) if isinstance(one, torch.nn.Module) else one
        for name, one in others.items()
    }


def timed(
    losses: dict[str, Callable[[Tensor], Any]], x: Tensor, rounds: int
) -> dict[str, list[float]]:
    """Seconds of each, in turn, round by round; the first round is left out."""
    seconds: dict[str, list[float]] = {name: [] for name in losses}
    for _ in range(rounds + 1):
        for name, loss in losses.items():
            live = x.clone().requires_grad_()
            if x.is_cuda:
                torch.cuda.synchronize()
            began = time.perf_counter()
            loss(live).backward()
            if x.is_cuda:
                torch.cuda.synchronize()
            seconds[name].append(time.perf_counter() - began)
    return {name: some[1:] for name, some in seconds.items()}


def main() -> None:
    """Time, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    parser.add_argument(
        "--peers", type=Path, help="a folder with checkouts of lightly and stable-pretraining"
    )
    parser.add_argument("--quick", action="store_true", help="a small problem, few rounds")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    n, d, n_slices = (256, 32, 100) if given.quick else (2048, 512, 1000)
    rounds = 3 if given.quick else given.rounds
    torch.manual_seed(0)
    x = (1.3 * torch.randn(n, d) + 0.1).to(given.device)
    y = torch.randn(n, d).to(given.device)
    seconds = timed(contenders(n_slices, y, given.peers), x, rounds)
    medians = {name: statistics.median(some) for name, some in seconds.items()}
    where = platform.machine() if given.device == "cpu" else torch.cuda.get_device_name()
    title = f"n = {n}, d = {d}, L = {n_slices}, float32, {where}, {torch.get_num_threads()} threads, {rounds} rounds"
    lines = [
        f"# A step against the standard normal law: {title}",
        "",
        "| loss | ms | law is faster by | SIGReg is faster by |",
    ]
    lines += ["|---|---:|---:|---:|"]
    for name, one in medians.items():
        by = [one / medians[ours] for ours in ("the law", "slicewise SIGReg")]
        lines.append(f"| {name} | {1e3 * one:.1f} | {by[0]:.2f} | {by[1]:.2f} |")
    page = "\n".join(lines) + "\n"
    print(page)
    kind = "cpu" if given.device == "cpu" else "gpu"
    given.out.mkdir(parents=True, exist_ok=True)
    record = {"title": title, "torch": torch.__version__, "seconds": seconds}
    name = f"laws-{kind}{'-quick' if given.quick else ''}-2026-11-18"
    write_whole(given.out / f"{name}.md", page)
    write_whole(given.out / f"{name}.json", json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
