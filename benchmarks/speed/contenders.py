"""The implementations that are timed: slicewise and others.

Each is a function (x, y, n_slices, slices=None) -> (SW_2, gradient in x). Slices are drawn inside unless
given. All do the same work: the root, float32, the gradient of the sum over a batch.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

import slicewise as sw

Contender = Callable[..., tuple[Tensor, Tensor]]


def slicewise(
    x: Tensor, y: Tensor, n_slices: int, slices: Tensor | None = None, **options: Any
) -> tuple[Tensor, Tensor]:
    """`value_and_grad`."""
    count = n_slices if slices is None else None
    return sw.value_and_grad(x, y, n_slices=count, slices=slices, **options)


def slicewise_autograd(
    x: Tensor, y: Tensor, n_slices: int, slices: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """`SlicedWasserstein()(x, y).backward()`, as in a training loop."""
    live = x.detach().requires_grad_()
    value = _loss(n_slices)(live, y, slices=slices)
    (value.sum() if value.dim() else value).backward()
    assert live.grad is not None
    return value.detach(), live.grad


@functools.cache
def _loss(n_slices: int) -> sw.SlicedWasserstein:
    return sw.SlicedWasserstein(n_slices=n_slices, objective="root", reduction="none")


def torch_sort(
    x: Tensor, y: Tensor, n_slices: int, slices: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Plain torch: project, sort, subtract, backward."""
    live = x.detach().requires_grad_()
    if slices is None:
        shape = (*x.shape[:-2], n_slices, x.shape[-1])
        drawn = torch.randn(shape, dtype=x.dtype, device=x.device)
        slices = torch.nn.functional.normalize(drawn, dim=-1)
    u, v = slices @ live.mT, slices @ y.mT
    value = (u.sort(-1).values - v.sort(-1).values).square().mean(dim=(-2, -1)).sqrt()
    value.sum().backward()
    assert live.grad is not None
    return value.detach(), live.grad


def pot(x: Tensor, y: Tensor, n_slices: int, slices: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """POT's `sliced_wasserstein_distance`, one pair after another."""
    import ot

    live = x.detach().requires_grad_()
    pairs = live if x.dim() == 3 else live[None]
    columns = None if slices is None else slices.mT
    values = [
        ot.sliced_wasserstein_distance(one, y, n_projections=n_slices, projections=columns)
        for one in pairs
    ]
    value = torch.stack(values)
    value.sum().backward()
    assert live.grad is not None
    return value.detach() if x.dim() == 3 else value.detach()[0], live.grad


def ott(x: Tensor, y: Tensor, n_slices: int, slices: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """OTT-JAX's `sliced_wasserstein`, compiled."""
    import jax

    step, key = _ott_step(n_slices), _next_key()
    directions = None if slices is None else jax.numpy.asarray(slices.numpy())
    value, gradient = step(
        jax.numpy.asarray(x.numpy()), jax.numpy.asarray(y.numpy()), key, directions
    )
    gradient.block_until_ready()
    return torch.tensor(float(value)), torch.tensor(np.array(gradient))


@functools.cache
def _ott_step(n_slices: int) -> Any:
    import jax
    from ott.tools import sliced

    def root(x: Any, y: Any, key: Any, directions: Any) -> Any:
        def projector(points: Any, rng: Any = None, **_: Any) -> Any:
            if directions is not None:
                return points @ directions.T
            return sliced.random_proj_sphere(points, n_proj=n_slices, rng=key)

        value, _ = sliced.sliced_wasserstein(x, y, proj_fn=projector)
        return jax.numpy.sqrt(value)

    return jax.jit(jax.value_and_grad(root))


@functools.cache
def _keys() -> list[Any]:
    import jax

    return [jax.random.PRNGKey(0)]


def _next_key() -> Any:
    import jax

    keys = _keys()
    keys[0], fresh = jax.random.split(keys[0])
    return fresh


def contenders() -> dict[str, Contender]:
    """Return the implementations that are installed."""
    known: dict[str, Contender] = {
        "slicewise": slicewise,
        "slicewise, autograd": slicewise_autograd,
        "slicewise, NumPy": functools.partial(slicewise, backend="numpy"),
        "torch sort": torch_sort,
        "POT": pot,
    }
    if importlib.util.find_spec("ott") is not None:
        known["OTT-JAX"] = ott
    return known
