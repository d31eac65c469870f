"""Faster versions of `match_slices`, each tested against the plain one."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import warnings

import torch

from slicewise.transport import Matcher, match_slices


@functools.cache
def matcher(backend: str, device: torch.device) -> Matcher:
    """The `match_slices` of a backend; "auto" is the fastest there is for the device."""
    if device.type != "cpu":
        if backend not in ("auto", "torch"):
            raise ValueError(
                f"backend = {backend!r} runs on the CPU, the samples are on {device}: use 'auto'"
            )
        return match_slices
    if backend == "auto":
        backend = _fastest_on_cpu()
    if backend == "numba":
        if not has_numba():
            raise ImportError("backend 'numba' needs numba: pip install 'slicewise[fast]'")
        from slicewise.kernels.compiled import match_slices as compiled

        return compiled
    if backend == "numpy":
        from slicewise.kernels.packed import match_slices as packed

        return packed
    return match_slices


def _fastest_on_cpu() -> str:
    if not has_numba():
        return "numpy"
    try:
        importlib.import_module("slicewise.kernels.compiled")
    except ImportError as trouble:
        warnings.warn(
            f"numba is installed but cannot be used ({trouble}); sorting with NumPy instead, up to five "
            f"times slower. Choose backend='numpy' to say no more of it",
            stacklevel=2,
        )
        return "numpy"
    return "numba"


@functools.cache
def has_numba() -> bool:
    """Is numba installed? Found out without importing it, which takes half a second."""
    return importlib.util.find_spec("numba") is not None
