"""The arrays of a call to POT's functions: NumPy arrays, tensors or JAX arrays in, the same kind out."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

Array = Any  # an array of the caller's kind
Seed = Any  # an int, a NumPy RandomState or Generator, a torch.Generator, or None


@dataclass(frozen=True)
class ArrayKind:
    """Which arrays a caller uses: "numpy", "torch" or "jax"."""

    name: str

    def tensor(self, array: Array | None, like: Tensor | None = None) -> Any:
        """An array as a tensor, without a copy where that is possible; whole numbers and lists become float64."""
        if array is None:
            return None
        if isinstance(array, Tensor):
            found = array
        elif isinstance(array, (np.ndarray, np.generic, list, tuple, int, float)):
            plain = np.asarray(array)
            if not plain.flags.writeable or any(stride < 0 for stride in plain.strides):
                plain = plain.copy()
            found = torch.from_numpy(plain)
        else:
            found = torch.from_dlpack(array)
        if not found.is_floating_point():
            found = found.double() if like is None else found.to(like.dtype)
        return found

    def back(self, found: Tensor) -> Array:
        """A tensor as an array of this kind; a single number as a NumPy number."""
        if self.name == "torch":
            return found
        if self.name == "jax":
            # jax has no exporter of tensors that record gradients.
            jax: Any = importlib.import_module("jax.numpy")
            return jax.from_dlpack(found.detach().contiguous())
        return found.detach().numpy()[()]


def kind_of(*arrays: Array | None) -> ArrayKind:
    """The kind of the first arrays that are given; all of them have to be of one.

    Raises:
        ValueError: for arrays of several kinds, as in POT.
    """
    found = {_name_of(array) for array in arrays if array is not None}
    if not found:
        return ArrayKind("numpy")
    if len(found) > 1:
        raise ValueError(
            f"All array should be from the same type/backend: {', '.join(sorted(found))} were given; convert them to one "
            f"kind, e.g. by torch.as_tensor or numpy.asarray"
        )
    return ArrayKind(found.pop())


def sample_tensors(kind: ArrayKind, X_s: Array, X_t: Array) -> tuple[Tensor, Tensor]:
    """Both sets as tensors; NumPy arrays of two precisions meet in the higher one, as NumPy has it."""
    x, y = kind.tensor(X_s), kind.tensor(X_t)
    if kind.name == "numpy" and x.dtype != y.dtype:
        both = torch.promote_types(x.dtype, y.dtype)
        x, y = x.to(both), y.to(both)
    return x, y


def kind_of_backend(backend: Any, type_as: Array | None = None) -> ArrayKind:
    """The kind of arrays that a backend object of POT, or its name, stands for; that of `type_as` if there is none."""
    if backend is None:
        return kind_of(type_as)
    name = str(getattr(backend, "__name__", backend))
    if name not in ("numpy", "torch", "jax"):
        raise ValueError(f"backend = {name}: NumPy, torch and JAX are served here")
    return ArrayKind(name)


def _name_of(array: Array) -> str:
    if isinstance(array, Tensor):
        return "torch"
    if isinstance(array, (np.ndarray, np.generic, list, tuple, int, float)):
        return "numpy"
    module = type(array).__module__.split(".")[0]
    if hasattr(array, "__dlpack__") and "jax" in sys.modules and module.startswith("jax"):
        return "jax"
    raise ValueError(
        f"an array of {module}.{type(array).__name__}: give NumPy arrays, torch tensors or JAX arrays"
    )


def normal(shape: tuple[int, ...], seed: Seed, kind: ArrayKind, like: Tensor | None) -> Tensor:
    """Standard normal numbers, those that POT draws from the same seed for this kind of array.

    NumPy: `RandomState(seed).randn`; torch: a generator with that seed on the device of `like`. Without a seed the
    numbers come from NumPy's or torch's global generator, which `numpy.random.seed` and `torch.manual_seed` control.
    """
    dtype = torch.float64 if like is None else like.dtype
    device = torch.device("cpu") if like is None else like.device
    if isinstance(seed, torch.Generator):
        return torch.randn(shape, generator=seed, dtype=dtype, device=seed.device).to(device)
    if isinstance(seed, np.random.RandomState):
        return torch.from_numpy(seed.randn(*shape)).to(device, dtype)
    if isinstance(seed, np.random.Generator):
        return torch.from_numpy(seed.standard_normal(shape)).to(device, dtype)
    if kind.name == "torch":
        source = None
        if seed is not None:
            source = torch.Generator(device).manual_seed(int(seed))
        return torch.randn(shape, generator=source, dtype=dtype, device=device)
    draws = np.random.randn(*shape) if seed is None else np.random.RandomState(seed).randn(*shape)
    return torch.from_numpy(draws).to(device, dtype)
