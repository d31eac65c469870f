"""Pictures of color transfers: before and after, contact sheets, palettes."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from slicewise.lab.data import Array

_HEIGHT, _STRIP, _GAP, _LINE, _COLORS = 360, 36, 12, 22, 8
_STRIP_WIDTH, _STRIP_HEIGHT = 960, 160


def before_after(pictures: list[tuple[str, Array]], suffix: str = ".png") -> bytes:
    """Draw pictures side by side, under their names and above their palettes.

    Args:
        pictures: names and pixels, (H, W, 3) or (H, W, 4) with alpha, uint8.
        suffix: of the file: .png, .jpg or .jpeg.

    Returns:
        The content of the file.
    """
    from PIL import Image

    drawn = [(name, _column(pixels)) for name, pixels in pictures]
    width = sum(column.width for _, column in drawn) + _GAP * (len(drawn) + 1)
    sheet = Image.new("RGB", (width, drawn[0][1].height + _LINE + 2 * _GAP), "white")
    left = _GAP
    for name, column in drawn:
        _write(sheet, (left, _GAP // 2), name, column.width)
        sheet.paste(column, (left, _LINE + _GAP // 2))
        left += column.width + _GAP
    return _encoded(sheet, suffix)


def contact_sheet(
    rows: list[list[tuple[str, Array]]], suffix: str = ".png", *, width: int = 320
) -> bytes:
    """Draw rows of pictures under their names, each at most `width` pixels wide and high.

    Args:
        rows: names and pixels, (H, W, 3) or (H, W, 4) with alpha, uint8.
        suffix: of the file: .png, .jpg or .jpeg.
        width: of a picture.

    Returns:
        The content of the file.
    """
    from PIL import Image

    drawn = [[(name, _upright_size(pixels, width, width)) for name, pixels in row] for row in rows]
    heights = [max(image.height for _, image in row) + _LINE + 4 for row in drawn]
    across = max(len(row) for row in drawn) * (width + 6) + 6
    sheet = Image.new("RGB", (across, sum(heights)), "white")
    top = 0
    for row, height in zip(drawn, heights, strict=True):
        for i, (name, image) in enumerate(row):
            place = 6 + i * (width + 6)
            _write(sheet, (place, top + 3), name, width)
            sheet.paste(image, (place, top + _LINE))
        top += height
    return _encoded(sheet, suffix)


def palette_strip(pixels: Array, suffix: str = ".png", *, n_colors: int = 8) -> bytes:
    """Draw the main colors of a picture side by side, as wide as their shares, with their codes.

    Args:
        pixels: (H, W, 3) or (H, W, 4) with alpha, uint8.
        suffix: of the file: .png, .jpg or .jpeg.
        n_colors: how many, at most.

    Returns:
        The content of the file.
    """
    from PIL import Image

    sheet = Image.new("RGB", (_STRIP_WIDTH, _STRIP_HEIGHT), "white")
    left = 0.0
    for color, share in palette(pixels, n_colors):
        right = left + share * _STRIP_WIDTH
        sheet.paste(tuple(color), (round(left), 0, round(right), _STRIP_HEIGHT - _LINE))
        code = "#{:02x}{:02x}{:02x}".format(*color)
        if right - left >= 60:
            _write(sheet, (round(left) + 2, _STRIP_HEIGHT - _LINE + 3), code, round(right - left))
        left = right
    return _encoded(sheet, suffix)


def _write(sheet: Any, place: tuple[int, int], name: str, width: int) -> None:
    """Write a name, shortened to a width."""
    from PIL import ImageDraw, ImageFont

    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(14)
    while len(name) > 1 and draw.textlength(name, font) > width:
        name = name[:-2] + "…"
    draw.text(place, name, "black", font)


def _encoded(sheet: Any, suffix: str) -> bytes:
    file = io.BytesIO()
    options = {"quality": 88} if suffix in (".jpg", ".jpeg") else {"optimize": True}
    sheet.save(file, "JPEG" if suffix in (".jpg", ".jpeg") else "PNG", **options)
    return file.getvalue()


def _upright_size(pixels: Array, width: int, height: int) -> Any:
    """An image on white, reduced or enlarged to fit into a rectangle."""
    from PIL import Image

    image = Image.fromarray(np.ascontiguousarray(pixels))
    if image.mode == "RGBA":  # transparent pixels may have any color
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    scale = min(width / image.width, height / image.height)
    size = max(1, round(image.width * scale)), max(1, round(image.height * scale))
    return image.resize(size, Image.Resampling.LANCZOS)


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


def palette(pixels: Array, n_colors: int = _COLORS) -> list[tuple[list[int], float]]:
    """Return the main colors and their shares, dark ones first; transparent pixels do not count."""
    from sklearn.cluster import KMeans

    colors = pixels[:, :, :3].reshape(-1, 3)
    if pixels.shape[2] == 4:
        colors = colors[pixels[:, :, 3].reshape(-1) > 0]
    if not len(colors):
        return []
    colors = colors[:: max(1, len(colors) // 5000)].astype(np.float64)
    count = min(n_colors, len(np.unique(colors, axis=0)))
    means = KMeans(count, n_init=1, random_state=0).fit(colors)
    shares = np.bincount(means.labels_, minlength=count) / len(colors)
    order = np.argsort(means.cluster_centers_ @ (0.299, 0.587, 0.114))
    return [([round(c) for c in means.cluster_centers_[i]], float(shares[i])) for i in order]
