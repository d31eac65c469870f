"""A picture of a color transfer: the photograph before and after, and the target."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from slicewise.lab.data import Array

_HEIGHT, _STRIP, _GAP, _LINE, _COLORS = 360, 36, 12, 22, 8


def before_after(pictures: list[tuple[str, Array]], suffix: str = ".png") -> bytes:
    """Draw pictures side by side, under their names and above their palettes.

    Args:
        pictures: names and pixels, (H, W, 3) or (H, W, 4) with alpha, uint8.
        suffix: of the file: .png, .jpg or .jpeg.

    Returns:
        The content of the file.
    """
    from PIL import Image, ImageDraw, ImageFont

    drawn = [(name, _column(pixels)) for name, pixels in pictures]
    width = sum(column.width for _, column in drawn) + _GAP * (len(drawn) + 1)
    sheet = Image.new("RGB", (width, drawn[0][1].height + _LINE + 2 * _GAP), "white")
    draw, font, left = ImageDraw.Draw(sheet), ImageFont.load_default(14), _GAP
    for name, column in drawn:
        while len(name) > 1 and draw.textlength(name, font) > column.width:
            name = name[:-2] + "…"
        draw.text((left, _GAP // 2), name, "black", font)
        sheet.paste(column, (left, _LINE + _GAP // 2))
        left += column.width + _GAP
    file = io.BytesIO()
    options = {"quality": 88} if suffix in (".jpg", ".jpeg") else {"optimize": True}
    sheet.save(file, "JPEG" if suffix in (".jpg", ".jpeg") else "PNG", **options)
    return file.getvalue()


def _column(pixels: Array) -> Any:
    from PIL import Image

    image = Image.fromarray(np.ascontiguousarray(pixels))
    if image.mode == "RGBA":  # transparent pixels may have any color
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    # Very wide pictures are made smaller instead of cut.
    scale = min(_HEIGHT / image.height, 3 * _HEIGHT / image.width)
    size = max(40, round(image.width * scale)), max(1, round(image.height * scale))
    small = image.resize(size, Image.Resampling.LANCZOS)
    column = Image.new("RGB", (size[0], _HEIGHT + _STRIP), "white")
    column.paste(small, (0, (_HEIGHT - size[1]) // 2))
    left = 0.0
    for color, share in palette(pixels):
        right = left + share * size[0]
        column.paste(tuple(color), (round(left), _HEIGHT + 6, round(right), _HEIGHT + _STRIP))
        left = right
    return column


def palette(pixels: Array) -> list[tuple[list[int], float]]:
    """Return the main colors and their shares, dark ones first; transparent pixels do not count."""
    from sklearn.cluster import KMeans

    colors = pixels[:, :, :3].reshape(-1, 3)
    if pixels.shape[2] == 4:
        colors = colors[pixels[:, :, 3].reshape(-1) > 0]
    if not len(colors):
        return []
    colors = colors[:: max(1, len(colors) // 5000)].astype(np.float64)
    count = min(_COLORS, len(np.unique(colors, axis=0)))
    means = KMeans(count, n_init=1, random_state=0).fit(colors)
    shares = np.bincount(means.labels_, minlength=count) / len(colors)
    order = np.argsort(means.cluster_centers_ @ (0.299, 0.587, 0.114))
    return [([round(c) for c in means.cluster_centers_[i]], float(shares[i])) for i in order]
