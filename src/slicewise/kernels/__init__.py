"""Faster versions of what the library computes in plain PyTorch, each tested against it.

`backend` chooses by what is installed; `cpu` has threads and products of the CPU and prices through `numba_loops`,
`numpy_match` with NumPy alone; `cuda` has kernels of our own, compiled at run time. Importing this room registers it with `support.dispatch`, so that no other
room imports it.

Imports `support` and `transport`. Used through `support.dispatch` only; `backends()` says what was chosen.
"""

from slicewise.kernels.backend import Chosen, backends, matcher
from slicewise.support import register

register(Chosen())

__all__ = ["backends", "matcher"]
