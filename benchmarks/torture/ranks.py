"""Ranks in trouble: whatever one of two processes does wrong, both hear of it soon, and go on together."""

from __future__ import annotations

import datetime
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

import slicewise as sw
from benchmarks.torture.tally import Tally
from slicewise.parts import Uniform

_CALLS = 40


class _Raises(Uniform):
    """A slicer that raises where it is told to."""

    def __call__(self, problem: Any, rng: Any) -> torch.Tensor:
        raise RuntimeError("out of ideas")


def ranks(seed: int, folder: str) -> Tally:
    """Return the tally of one batch: two processes call a shared loss 40 times, often with a mistake on one of them."""
    tally = Tally()
    work = Path(folder, f"ranks-{os.getpid()}-{seed}")
    work.mkdir(parents=True, exist_ok=True)
    children = []
    for rank in range(2):
        child = os.fork()
        if child == 0:
            try:
                lines = _calls(rank, seed, work / "meet")
                Path(work, f"told-{rank}").write_text("\n".join(lines))
                os._exit(0)
            except BaseException as error:
                Path(work, f"told-{rank}").write_text(f"{type(error).__name__}: {error}")
                os._exit(1)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    told = [Path(work, f"told-{rank}").read_text().split("\n") for rank in range(2)]
    for i in range(_CALLS):
        both = [lines[i] if i < len(lines) else f"no answer, after {lines[-1]}" for lines in told]
        # Both fine with one value, or both an error; late is wrong, too.
        kinds = {line.split(" ")[0] for line in both}
        good = (kinds == {"value"} and len(set(both)) == 1) or kinds == {"error"}
        tally.case(None if good else f"seed {seed}: call {i}: {both}")
    for file in work.iterdir():
        file.unlink()
    work.rmdir()
    return tally


def _calls(rank: int, seed: int, meet: Path) -> list[str]:
    patience = datetime.timedelta(seconds=20)
    dist.init_process_group(
        "gloo", init_method=f"file://{meet}", rank=rank, world_size=2, timeout=patience
    )
    rng, lines = np.random.default_rng(seed), []
    for _ in range(_CALLS):
        x, y = (torch.from_numpy(rng.normal(size=(6, 3))) for _ in range(2))
        kind, odd = int(rng.integers(12)), int(rng.integers(2)) == rank
        variant: Any = "sw" if rng.random() < 0.5 else "ebsw"
        given: dict[str, Any] = {"generator": 1}
        if odd and kind == 0:
            x = x[:, :2]
        elif odd and kind == 1:
            x, y = x.float(), y.float()
        elif odd and kind == 2:
            given["generator"] = "1"
        elif odd and kind == 3:
            x = x.long()
        elif odd and kind == 4:
            given["x_weights"] = torch.ones(6)
        elif odd and kind == 5:
            x = torch.full_like(x, float("nan"))
        elif odd and kind == 6:
            variant = "orthosw"
        elif odd and kind == 7:
            variant = sw.Recipe(_Raises(5))
        elif odd and kind == 8:
            given["generator"] = [1, 2, 3]
        start = time.monotonic()
        try:
            value = sw.SlicedWasserstein(variant, n_slices=None if not isinstance(variant, str) else 5, group=dist.group.WORLD)(x, y, **given)  # fmt: skip
            line = f"value {float(value):.12g}"
        except ValueError:
            line = "error"
        except RuntimeError as error:
            line = (
                "error" if "out of ideas" in str(error) else f"other {type(error).__name__} {error}"
            )
        late = time.monotonic() - start
        lines.append(" ".join((line if late < 10 else f"late {late:.0f} s, {line}").split()))
    dist.destroy_process_group()
    return lines
