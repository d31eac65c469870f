"""Where the time of a step against a law goes on a CUDA device: each kernel of it, and the host."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.laws.__main__ import contenders
from slicewise.support.files import write_whole

Step = Callable[[Tensor], Any]


def kernels(step: Step, x: Tensor, calls: int = 20) -> list[tuple[str, float, float]]:
    """What a captured step runs on the device: names, launches and microseconds of a call, the longest first."""
    from torch.profiler import ProfilerActivity, profile

    live = [x.clone().requires_grad_() for _ in range(calls)]
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for one in live:
            step(one)
        torch.cuda.synchronize()
    found: list[tuple[str, float, float]] = []
    for event in seen.key_averages():
        spent = float(getattr(event, "self_device_time_total", 0.0))
        if spent > 0:
            found.append((event.key, event.count / calls, spent / calls))
    return sorted(found, key=lambda one: -one[2])


def host_time(step: Step, x: Tensor, calls: int = 30) -> tuple[float, float]:
    """Microseconds of a call until it returns, and until the device is done as well."""
    live = [x.clone().requires_grad_() for _ in range(calls)]
    returned, done = [], []
    for one in live:
        torch.cuda.synchronize()
        began = time.perf_counter()
        step(one)
        returned.append(time.perf_counter() - began)
        torch.cuda.synchronize()
        done.append(time.perf_counter() - began)
    middle = calls // 2
    return 1e6 * sorted(returned)[middle], 1e6 * sorted(done)[middle]


def main() -> None:
    """Profile, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    parser.add_argument(
        "--peers", type=Path, help="a folder with checkouts of lightly and stable-pretraining"
    )
    given = parser.parse_args()
    torch.manual_seed(0)
    x = (1.3 * torch.randn(2048, 512) + 0.1).cuda()
    y = torch.randn(2048, 512).cuda()
    title = f"n = 2048, d = 512, L = 1000, float32, {torch.cuda.get_device_name()}, torch {torch.__version__}"
    lines = [f"# The kernels of a step against the standard normal law: {title}", ""]
    for name, step in contenders(1000, y, given.peers).items():
        for _ in range(6):  # captured in the third call
            step(x.clone().requires_grad_())
        found, (returned, done) = kernels(step, x), host_time(step, x)
        total = sum(spent for *_, spent in found)
        lines += [
            f"## {name}: {total:.0f} µs of kernels, {returned:.0f} µs until the call returns, {done:.0f} until it is done",
            "",
        ]
        lines += ["| kernel | launches | µs |", "|---|---:|---:|"]
        lines += [
            f"| `{key[:90]}` | {count:.2g} | {spent:.1f} |" for key, count, spent in found[:16]
        ]
        lines.append("")
    page = "\n".join(lines)
    print(page)
    write_whole(given.out / "laws-kernels-gpu-2026-11-18.md", page)


if __name__ == "__main__":
    main()
