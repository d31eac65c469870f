"""The estimators of SW_2² that are compared, and the samples they are compared on."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import slicewise as sw
from slicewise.lab.images import PINK, SKY, STYLES, YELLOW
from slicewise.parts import LowDiscrepancy
from slicewise.sampling import Randomness, orthonormal

_CPU = torch.device("cpu")


def _named(name: str, **options: Any) -> Callable[[int], sw.Recipe]:
    return lambda n_slices: sw.VARIANTS[name](n_slices=n_slices, **options)


@dataclass(frozen=True)
class Contestant:
    """An estimator that evaluates L slices; `dimension` is set if it works in one dimension only."""

    recipe: Callable[[int], sw.Recipe]
    color: str | None = None  # None for gray: those that gain little over sw
    line: str = "-"
    dimension: int | None = None
    reduces: bool = False  # whether it estimates SW in the k dimensions of the data


# Of points that are spread over the sphere and rotated.
_BROWN = "#8c510a"
CONTESTANTS = {
    "sw": Contestant(_named("sw"), STYLES["sw"].color),
    "orthosw": Contestant(_named("orthosw"), YELLOW),
    "rqsw": Contestant(_named("rqsw"), _BROWN),
    "rqsw spiral": Contestant(_named("rqsw", points="spiral"), _BROWN, "--", 3),
    "rqsw equal-area": Contestant(_named("rqsw", points="equal_area"), _BROWN, ":", 3),
    "rqsw coulomb": Contestant(_named("rqsw", points="coulomb"), _BROWN, "-.", 3),
    "qsw": Contestant(_named("qsw")),
    "even": Contestant(lambda n: sw.Recipe(LowDiscrepancy(n)), SKY),
    "lcvsw": Contestant(_named("lcvsw"), "black"),
    "ucvsw": Contestant(_named("ucvsw"), "black", "--"),
    "gaussiansw": Contestant(_named("gaussiansw")),
    "omsw": Contestant(lambda n: sw.VARIANTS["omsw"](n_slices=n, n_steps=5)),
    "rmsw": Contestant(lambda n: sw.VARIANTS["rmsw"](n_slices=n, n_steps=5)),
    "phisw": Contestant(_named("phisw"), PINK, reduces=True),
    "momentsw": Contestant(lambda n: sw.VARIANTS["momentsw"](check=False)),
}


def entered(d: int) -> list[str]:
    """Return the estimators that work in d dimensions."""
    return [name for name, one in CONTESTANTS.items() if one.dimension in (None, d)]


@functools.lru_cache(maxsize=8)
def samples(n: int, d: int, k: int, moved: bool = True) -> tuple[Tensor, Tensor]:
    """Return normal samples and skewed ones with other scales, of another mean if `moved`; of R^k, rotated into R^d."""
    rng = Randomness(torch.Generator().manual_seed(1000 * k + n), _CPU)
    x, z = rng.normal(n, k).double(), rng.normal(n, k).double()
    scales = torch.linspace(0.5, 1.5, k, dtype=torch.float64)
    y = scales * (torch.exp(z / 2) - math.exp(1 / 8)) / 0.6
    y = y + 0.5 if moved else y - y.mean(dim=0) + x.mean(dim=0)
    frame = orthonormal((k, d), rng)
    return x @ frame, y @ frame


@functools.lru_cache(maxsize=8)
def truth(n: int, k: int, moved: bool, n_slices: int) -> tuple[float, float]:
    """Return SW_2² in the k dimensions of the data, from many slices, and its standard error."""
    x, y = samples(n, k, k, moved)
    if k == 2:
        angle = (torch.arange(n_slices, dtype=torch.float64) + 0.5) * (math.pi / n_slices)
        slices = torch.stack([angle.cos(), angle.sin()], dim=-1)
        return float(sw.evaluate(x, y, slices=slices).power), 0.0
    if k == 3:
        # The error of a spiral is below what is measured here (2e-6 between 20,000 and 200,000 points).
        spiral = sw.evaluate(x, y, "qsw", n_slices=n_slices, points="spiral")
        return float(spiral.power), 0.0
    # Orthonormal frames have a far smaller error than independent slices.
    generator = torch.Generator().manual_seed(k)
    found = [
        sw.evaluate(x, y, "orthosw", n_slices=n_slices // 20, generator=generator).power
        for _ in range(20)
    ]
    values = torch.stack(found)
    return float(values.mean()), float(values.std() / math.sqrt(len(values)))
