"""Photographs from files and back, and what is drawn of samples: animations, comparisons, galleries.

`files` reads and writes photographs with their `metadata` (`bit_depth` and `tiff` for 16 bits), `frames` a folder of them;
`animation` shows a flow, `before_after` a color transfer, `figures` rows of images; `figure_colors` has the colors of figures.
Pillow and matplotlib are imported when something is read or drawn.

Imports problem, support, transport, lab.data and lab.errors. Used by latents, experiments, report, cli and benchmarks.
"""

from __future__ import annotations

from slicewise.lab.images.animation import Film, as_gif, as_html, film, log_spaced, nearest
from slicewise.lab.images.before_after import before_after
from slicewise.lab.images.figure_colors import BLUE, GRAY, GREEN, ORANGE
from slicewise.lab.images.figures import blank, gallery, photographs
from slicewise.lab.images.files import (
    WRITTEN,
    convert_profile,
    encode_picture,
    read_mask,
    read_picture,
)
from slicewise.lab.images.frames import Frames, as_rgb, palette_w2, visible_pixels

__all__ = [
    "BLUE",
    "GRAY",
    "GREEN",
    "ORANGE",
    "WRITTEN",
    "Film",
    "Frames",
    "as_gif",
    "as_html",
    "as_rgb",
    "before_after",
    "blank",
    "convert_profile",
    "encode_picture",
    "film",
    "gallery",
    "log_spaced",
    "nearest",
    "palette_w2",
    "photographs",
    "read_mask",
    "read_picture",
    "visible_pixels",
]
