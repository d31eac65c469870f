"""The colors of one image carried to another.

`color_transfer` has the calls `transfer` and `match_colors` and the fitted map; `images` reads arrays as colors, `spaces`
converts them. `linear` fits the linear map, `field` a smooth displacement of all colors, and `natural` decides between
the two by the `artifacts` that the image at hand would show. `apply` moves an image band by band, by a map that is
linear around each pixel (`guided`); `regions` blends maps of several parts of an image, `map_files` saves maps.
`threads` keeps torch on one thread, `comfyui` is a node for ComfyUI.

Imports `flows` and the rooms before it. Used by `lab` and by benchmarks.
"""

from slicewise.color.artifacts import Artifacts, SourceRegions
from slicewise.color.color_transfer import LOOKS, ColorTransfer, match_colors, transfer
from slicewise.color.map_files import SUFFIXES
from slicewise.color.regions import RegionTransfer, feather
from slicewise.color.threads import stay_on_one_thread, torch_on_one_thread  # noqa: F401, for the command line

__all__ = [
    "LOOKS",
    "SUFFIXES",
    "Artifacts",
    "ColorTransfer",
    "RegionTransfer",
    "SourceRegions",
    "feather",
    "match_colors",
    "transfer",
]
