"""The colors of one image carried to another.

`color_transfer` has the call `transfer` and the fitted map; `images` reads arrays as colors, `spaces` converts them,
`field` fits a smooth displacement of all colors, `detail` keeps it from magnifying grain, `apply` moves an image band
by band on one thread (`threads`), `map_files` saves maps.

Imports `flows` and the rooms before it. Used by `lab`.
"""

from slicewise.color.color_transfer import ColorTransfer, transfer
from slicewise.color.map_files import SUFFIXES

__all__ = [
    "SUFFIXES",
    "ColorTransfer",
    "transfer",
]
