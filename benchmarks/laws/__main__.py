"""Time a step (value and gradient in the samples) against a law: beside samples of it, and beside other libraries."""

from __future__ import annotations

import argparse
import datetime
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

Step = Callable[[Tensor], Any]  # of embeddings that ask for a gradient


def contenders(n_slices: int, y: Tensor, folder: Path | None) -> dict[str, Step]:
    """Steps by name: value and gradient of embeddings."""

    def step_of(loss: Step) -> Step:
        return lambda x: loss(x).backward()

    def step_to(target: Tensor | sw.laws.Normal) -> Step:
        how: dict[str, Any] = {"n_slices": n_slices, "objective": "power"}
        return lambda x: sw.value_and_grad(x.detach(), target, **how)

    found = {name: step_of(loss) for name, loss in losses(n_slices, y, folder).items()}
    found["value_and_grad, samples of the law"] = step_to(y)
    found["value_and_grad, the law"] = step_to(sw.laws.Normal())
    return found


def losses(n_slices: int, y: Tensor, folder: Path | None) -> dict[str, Step]:
    """Losses of embeddings by name."""
    distance, law = sw.SlicedWasserstein(n_slices=n_slices), sw.laws.Normal()
    slices = torch.nn.functional.normalize(torch.randn_like(y[:1].expand(n_slices, -1)), dim=-1)
    found: dict[str, Callable[[Tensor], Any]] = {
        "samples of the law": lambda x: distance(x, y),
        "the law": lambda x: distance(x, law),
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
    steps: dict[str, Step],
    x: Tensor,
    rounds: int,
    each: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Seconds of a step of each, in turn, round by round; the first rounds are left out.

    A round has `each` steps in a row, waited for at its end: on a device one step takes less than a look at the clock
    should cost, and the first three are made before it is captured.
    """
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    unseen = 4 if x.is_cuda else 1
    for turn in range(unseen + rounds):
        for name, step in steps.items():
            live = [x.clone().requires_grad_() for _ in range(each)]
            if x.is_cuda:
                torch.cuda.synchronize()
            began = clock()
            for one in live:
                step(one)
            if x.is_cuda:
                torch.cuda.synchronize()
            if turn >= unseen:
                seconds[name].append((clock() - began) / each)
    return seconds


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
    parser.add_argument(
        "--cpu-time", action="store_true", help="the time of the process, for a busy machine"
    )
    parser.add_argument("--threads", type=int, help="how many torch may use")
    given = parser.parse_args()
    if given.threads is not None:
        torch.set_num_threads(given.threads)
    n, d, n_slices = (256, 32, 100) if given.quick else (2048, 512, 1000)
    rounds = 3 if given.quick else given.rounds
    torch.manual_seed(0)
    x = (1.3 * torch.randn(n, d) + 0.1).to(given.device)
    y = torch.randn(n, d).to(given.device)
    clock = time.process_time if given.cpu_time else time.perf_counter
    steps = contenders(n_slices, y, given.peers)
    seconds = timed(steps, x, rounds, 20 if x.is_cuda else 1, clock)
    medians = {name: statistics.median(some) for name, some in seconds.items()}
    where = platform.machine() if given.device == "cpu" else torch.cuda.get_device_name()
    title = f"n = {n}, d = {d}, L = {n_slices}, float32, {where}, {torch.get_num_threads()} threads, {rounds} rounds"
    title += ", CPU time" if given.cpu_time else ""
    lines = [
        f"# A step against the standard normal law: {title}",
        "",
        "| step | ms | least | the law is faster by | our SIGReg is | our VISReg is |",
    ]
    lines += ["|---|---:|---:|---:|---:|---:|"]
    for name, one in medians.items():
        by = [one / medians[ours] for ours in ("the law", "slicewise SIGReg", "slicewise VISReg")]
        ratios = " | ".join(f"{ratio:.2f}" for ratio in by)
        lines.append(f"| {name} | {1e3 * one:.3g} | {1e3 * min(seconds[name]):.3g} | {ratios} |")
    page = "\n".join(lines) + "\n"
    print(page)
    kind = "cpu" if given.device == "cpu" else "gpu"
    given.out.mkdir(parents=True, exist_ok=True)
    record = {"title": title, "torch": torch.__version__, "seconds": seconds}
    threads = f"-{torch.get_num_threads()}-threads" if kind == "cpu" else ""
    threads += "-cpu-time" if given.cpu_time else ""
    name = f"laws-{kind}{threads}{'-quick' if given.quick else ''}-{datetime.date.today()}"
    write_whole(given.out / f"{name}.md", page)
    write_whole(given.out / f"{name}.json", json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
