"""Samples of the plane embedded in R^d, and slices of R^d as seen from that plane."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

import slicewise as sw
from slicewise.lab.data import swiss
from slicewise.lab.experiments.check import Task, chunks, rng_of
from slicewise.sampling import Randomness, orthonormal, uniform

K = 2  # In the plane a mean over all slices is a sum over equispaced angles, exact for our purposes.
_ANGLES = 4000


@dataclass(frozen=True, eq=False)
class Embedded:
    """A normal cloud x and a Swiss roll y of the plane, and the frame that carries them into R^d."""

    x: Tensor  # (n, 2)
    y: Tensor  # (n, 2)
    frame: Tensor  # (2, d)

    @property
    def diameter(self) -> float:
        """The largest distance between a sample of x and one of y."""
        return float(torch.cdist(self.x, self.y).max())

    def values(self, slices: Tensor, p: float) -> Tensor:
        """SW_p^p (runs,) on each set of slices, (runs, L, 2) of the plane or (runs, L, d) of R^d."""
        return sw.sliced_wasserstein(*self._seen_by(slices), p=p, objective="power", slices=slices)

    def gradients(self, slices: Tensor, p: float) -> Tensor:
        """Its gradients in x, (runs, n, 2) or (runs, n, d)."""
        return sw.value_and_grad(*self._seen_by(slices), p=p, objective="power", slices=slices)[1]

    def _seen_by(self, slices: Tensor) -> tuple[Tensor, Tensor]:
        in_plane = slices.shape[-1] == K
        x, y = (self.x, self.y) if in_plane else (self.x @ self.frame, self.y @ self.frame)
        return x.expand(len(slices), *x.shape), y


def every_angle() -> Tensor:
    """Slices all around the plane, each a set of its own: (angles, 1, 2)."""
    angle = (torch.arange(_ANGLES, dtype=torch.float64) + 0.5) * (math.pi / _ANGLES)
    return torch.stack([angle.cos(), angle.sin()], dim=-1).unsqueeze(-2)


def embedded(task: Task) -> Embedded:
    """The samples of a task, of a seed of their own: tasks that differ in L alone share them."""
    generator = torch.Generator().manual_seed(task["data_seed"])
    rng = Randomness(generator, torch.device("cpu"))
    x = rng.normal(task["n"], K).double()
    return Embedded(x, swiss(task["n"], generator), orthonormal((K, task["d"]), rng))


def sliced(task: Task, frame: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Runs of L uniform slices θ (runs, L, d), with r = ‖Uᵀθ‖ (runs, L) and Uᵀθ / r (runs, L, 2)."""
    rng, d, n_slices = rng_of(task), task["d"], task["n_slices"]
    for runs in chunks(task["runs"], n_slices * (d + task["n"])):
        slices = uniform((runs, n_slices, d), rng)
        inside = slices @ frame.mT
        r = torch.linalg.vector_norm(inside, dim=-1)
        yield slices, r, inside / r.unsqueeze(-1)


def moment(task: Task, power: float) -> float:
    """E r^power, by the Beta law of r²; r is independent of the direction Uᵀθ / r."""
    return sw.essf(task["d"], K, p=power)
