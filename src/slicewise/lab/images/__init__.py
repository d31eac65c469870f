"""Photographs from files and back, and what is drawn of samples: animations, comparisons, galleries.

`files` reads and writes photographs with their `metadata` (`bit_depth` and `tiff` for 16 bits), `frames` a folder of them;
`movies` reads and writes those of users; `scenes` chooses what is shown of a flow, `animation` draws it and `video`
encodes it; `before_after` shows color transfers, `figures` rows of images, and has the
style of all figures and the colors of variants.
Pillow and matplotlib are imported when something is read or drawn.

Imports distance and the rooms before it, lab.data and lab.errors. Used by latents, experiments, report, cli and benchmarks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slicewise.support import open_on_demand

if TYPE_CHECKING:
    from slicewise.lab.images.animation import as_gif, as_html, as_video
    from slicewise.lab.images.before_after import before_after, contact_sheet, palette_strip
    from slicewise.lab.images.figures import (
        BLUE,
        CLASSES,
        GRAY,
        GREEN,
        ORANGE,
        PAGE_WIDTH,
        PINK,
        SKY,
        STYLE_FILE,
        STYLES,
        YELLOW,
        Style,
        blank,
        draw_variant,
        gallery,
        in_style,
        photographs,
        save_png,
    )
    from slicewise.lab.images.files import (
        WRITTEN,
        convert_profile,
        encode_picture,
        read_mask,
        read_picture,
    )
    from slicewise.lab.images.frames import (
        Frames,
        as_rgb,
        palette_sw2,
        palette_w2,
        visible_pixels,
    )
    from slicewise.lab.images.movies import (
        MOVIES,
        MOVIES_WRITTEN,
        Movie,
        find_shots,
        frames_to_fit,
    )
    from slicewise.lab.images.scenes import (
        Film,
        choose_frames,
        film,
        log_spaced,
        seen_in,
        steps_to_record,
    )
    from slicewise.lab.images.video import VIDEOS, Encoder, find_encoder
else:
    __getattr__, __dir__ = open_on_demand(
        __name__,
        {
            "animation": "as_gif as_html as_video",
            "before_after": "before_after contact_sheet palette_strip",
            "figures": "BLUE CLASSES GRAY GREEN ORANGE PAGE_WIDTH PINK SKY STYLES STYLE_FILE Style YELLOW blank draw_variant gallery "
            "in_style photographs save_png",
            "files": "WRITTEN convert_profile encode_picture read_mask read_picture",
            "frames": "Frames as_rgb palette_sw2 palette_w2 visible_pixels",
            "movies": "MOVIES MOVIES_WRITTEN Movie find_shots frames_to_fit",
            "scenes": "Film choose_frames film log_spaced seen_in steps_to_record",
            "video": "VIDEOS Encoder find_encoder",
        },
    )

__all__ = [
    "BLUE",
    "CLASSES",
    "GRAY",
    "GREEN",
    "MOVIES",
    "MOVIES_WRITTEN",
    "ORANGE",
    "PAGE_WIDTH",
    "PINK",
    "SKY",
    "STYLES",
    "STYLE_FILE",
    "VIDEOS",
    "WRITTEN",
    "YELLOW",
    "Encoder",
    "Film",
    "Frames",
    "Movie",
    "Style",
    "as_gif",
    "as_html",
    "as_rgb",
    "as_video",
    "before_after",
    "blank",
    "choose_frames",
    "contact_sheet",
    "convert_profile",
    "draw_variant",
    "encode_picture",
    "film",
    "find_encoder",
    "find_shots",
    "frames_to_fit",
    "gallery",
    "in_style",
    "log_spaced",
    "palette_strip",
    "palette_sw2",
    "palette_w2",
    "photographs",
    "read_mask",
    "read_picture",
    "save_png",
    "seen_in",
    "steps_to_record",
    "visible_pixels",
]
