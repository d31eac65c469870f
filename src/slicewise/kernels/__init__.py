"""Faster versions of what the library computes in plain PyTorch, each tested against it.

`backend` chooses by what is installed; `numba_match` (with `numba_sort`, `numba_price`) and `numpy_match` sort and price
on a CPU, sharing `rows` and `threads`; `cuda` has kernels of our own, compiled at run time. Importing this room
registers it with `support.dispatch`, so that no other room imports it.

Imports `support` and `transport`. Used through `support.dispatch` only; `backends()` says what was chosen.
"""

from slicewise.kernels.backend import Chosen, backends, matcher
from slicewise.support import register

register(Chosen())

__all__ = ["backends", "matcher"]
