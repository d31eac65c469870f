"""POT's helper functions that draw projections: lines, circles, spirals, orthogonal blocks, rotations."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from slicewise.parts import turns
from slicewise.pot.arrays import Array, ArrayKind, Seed, kind_of, kind_of_backend, normal
from slicewise.sampling import point_sets

SAMPLINGS = ("uniform", "qsw", "rqsw", "uniortho")


def get_random_projections(
    d: int, n_projections: int, seed: Seed = None, backend: Any = None, type_as: Array = None
) -> Array:
    """Draw directions uniformly from the sphere, (d, n_projections): columns, as POT has them.

    An int gives the draws of POT for the same kind of array. See `slicewise.pot.arrays.normal`.
    """
    kind, like = _like(backend, type_as)
    return kind.back(random_projections(d, n_projections, seed, kind, like))


def get_projections_sphere(
    d: int, n_projections: int, seed: Seed = None, backend: Any = None, type_as: Array = None
) -> Array:
    """Draw pairs of orthonormal vectors uniformly, (n_projections, d, 2): circles of the sphere."""
    kind, like = _like(backend, type_as)
    return kind.back(circle_projections(d, n_projections, seed, kind, like))


def get_projections_spiral(
    d: int,
    n_projections: int,
    seed: Seed = None,
    backend: Any = None,
    type_as: Array = None,
    randomized: bool = False,
) -> Array:
    """Compute directions on a generalized spiral, (3, n_projections), for d = 3; randomized: under a random rotation."""
    kind, like = _like(backend, type_as)
    name = "rqsw" if randomized else "qsw"
    return kind.back(sampled_projections(d, n_projections, name, seed, kind, like))


def get_projections_orthogonal(
    d: int, n_projections: int, seed: Seed = None, backend: Any = None, type_as: Array = None
) -> Array:
    """Draw blocks of d orthogonal directions, each uniform on the sphere, (d, n_projections)."""
    kind, like = _like(backend, type_as)
    return kind.back(sampled_projections(d, n_projections, "uniortho", seed, kind, like))


def get_random_rotations(
    d: int, n_rotations: int, seed: Seed = None, backend: Any = None, type_as: Array = None
) -> Array:
    """Draw rotations uniformly, (n_rotations, d, d)."""
    kind, like = _like(backend, type_as)
    return kind.back(random_rotations(d, n_rotations, seed, kind, like))


def projection_sphere_to_circle(
    x: Array,
    n_projections: int = 50,
    projections: Array = None,
    seed: Seed = None,
    backend: Any = None,
) -> tuple[Array, Array]:
    """Project samples on a sphere to circles: coordinates in [0, 1), (n_projections, n), and the projections used.

    The number of given projections counts, not `n_projections` (POT fails unless both are equal).
    """
    kind = kind_of(x, projections) if backend is None else kind_of_backend(backend)
    samples: Tensor = kind.tensor(x)
    if projections is None:
        drawn = circle_projections(samples.shape[1], n_projections, seed, kind, samples)
    else:
        drawn = kind.tensor(projections, samples)
    return kind.back(turns(samples, circle_slices(drawn))), kind.back(drawn)


def random_projections(
    d: int, n_projections: int, seed: Seed, kind: ArrayKind, like: Tensor | None
) -> Tensor:
    """Unit columns (d, n_projections)."""
    drawn = normal((d, n_projections), seed, kind, like)
    return drawn / drawn.square().sum(dim=0, keepdim=True).sqrt()


def circle_projections(
    d: int, n_projections: int, seed: Seed, kind: ArrayKind, like: Tensor | None
) -> Tensor:
    """Orthonormal pairs (n_projections, d, 2), by the QR decomposition that POT uses for this kind of array."""
    drawn = normal((n_projections, d, 2), seed, kind, like)
    if kind.name == "numpy":
        return torch.from_numpy(np.linalg.qr(drawn.numpy())[0])
    return torch.linalg.qr(drawn)[0]


def random_rotations(
    d: int, n_rotations: int, seed: Seed, kind: ArrayKind, like: Tensor | None
) -> Tensor:
    """Uniform rotations (n_rotations, d, d), of determinant one."""
    q, r = torch.linalg.qr(normal((n_rotations, d, d), seed, kind, like))
    # With the signs of the diagonal of R the orthogonal matrix is uniform.
    q = q * torch.diagonal(r, dim1=-2, dim2=-1).sign().unsqueeze(-2)
    turned = torch.linalg.det(q).sign().reshape(-1, 1)
    return torch.cat([q[..., :1] * turned.unsqueeze(-1), q[..., 1:]], dim=-1)


def sampled_projections(
    d: int, n_projections: int, sampling: str, seed: Seed, kind: ArrayKind, like: Tensor | None
) -> Tensor:
    """Unit columns (d, n_projections) by the name of a sampling.

    Raises:
        ValueError: for an unknown name, or a spiral in other dimensions than three.
    """
    if sampling not in SAMPLINGS:
        raise ValueError(f"sampling_slices = {sampling!r}: choose from {', '.join(SAMPLINGS)}")
    if sampling == "uniform":
        return random_projections(d, n_projections, seed, kind, like)
    if sampling == "uniortho":
        blocks = -(-n_projections // d)
        turned = random_rotations(d, blocks, seed, kind, like)
        return turned.transpose(0, 1).reshape(d, -1)[:, :n_projections]
    if d != 3:
        raise ValueError(
            f"sampling_slices = {sampling!r} lies on a spiral of the sphere in d = 3, but d = {d}: use 'uniortho'"
        )
    columns = point_sets.directions("spiral", n_projections, d, torch.device("cpu")).T
    columns = columns if like is None else columns.to(like)
    if sampling == "rqsw":
        columns = random_rotations(d, 1, seed, kind, like)[0] @ columns
    return columns


def circle_slices(projections: Tensor) -> Tensor:
    """Pairs (L, d, 2) as the slices (L, 2 d) of `slicewise.parts.GreatCircles`."""
    return projections.transpose(-1, -2).flatten(-2)


def _like(backend: Any, type_as: Array) -> tuple[ArrayKind, Tensor | None]:
    kind = kind_of_backend(backend, type_as)
    return kind, kind.tensor(type_as)
