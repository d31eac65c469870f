"""Time a movie of ten seconds, and see whether its flat areas stay as steady as they were.

python -m benchmarks.color.film --out benchmarks/results
"""

from __future__ import annotations

import argparse
import datetime
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.color.contenders import Array, photographs
from slicewise.color.spaces import to_cielab
from slicewise.lab.errors import UserError
from slicewise.lab.images.movies import Movie
from slicewise.lab.images.video import find_encoder
from slicewise.support import write_whole

# Films as a camera on a tripod makes them: a still photograph, over which a disk cut from another one passes.
FILMS = (("rocket", "coffee", "china"), ("china", "astronaut", "coffee"))  # still, disk, target
_SIZE, _RATE, _SECONDS = (1280, 720), 25, 10
_QUICK_SIZE = (320, 180)
_NOISE = 2.0  # levels of 255, drawn anew for every frame
_FLAT = 0.5  # largest gradient of the still, in levels per pixel, after a mean over 9 × 9 pixels
_DISK = 0.12  # radius, as a fraction of the width
_AROUND = 8  # pixels around the disk that do not count: its edge, and the codec's blocks
_SQUARE = 8  # pixels of the squares whose means show flicker, without grain


def fitted_to(image: Array, size: tuple[int, int]) -> Array:
    """Return an image that covers a frame (width, height), cut at its longer side."""
    from PIL import Image, ImageOps

    return np.asarray(ImageOps.fit(Image.fromarray(image), size, Image.Resampling.LANCZOS))


def film(
    still: Array, disk: Array, frames: int, noise: float = _NOISE
) -> Iterator[tuple[Array, Array]]:
    """Yield frames (H, W, 3) and where the disk is, or nearly, (H, W)."""
    height, width = still.shape[:2]
    generator = np.random.default_rng(0)
    y, x = np.mgrid[:height, :width]
    radius = _DISK * width
    for index in range(frames):
        middle = (index + 0.5) / frames * width
        away = np.hypot(x - middle, y - height / 2)
        frame = np.where((away < radius)[..., None], disk, still).astype(np.float32)
        frame += noise * generator.standard_normal(frame.shape, dtype=np.float32)
        yield frame.round().clip(0, 255).astype(np.uint8), away < radius + _AROUND


def flat_areas(still: Array) -> Array:
    """Return which pixels (H, W) of a photograph hardly differ from those around them."""
    from scipy.ndimage import uniform_filter

    gray = uniform_filter(still.mean(2), 9)
    down, across = np.gradient(gray)
    return np.asarray(uniform_filter((np.hypot(down, across) < _FLAT).astype(np.float32), 9) > 0.99)


class Steadiness:
    """The root mean square change from frame to frame of the flat areas outside of the disk.

    Attributes are sums; `result` has levels of 255 and ΔE of CIELAB, each of pixels and of means over squares.
    """

    def __init__(self, flat: Array) -> None:
        self._flat = flat
        self._sums = np.zeros(4)
        self._counts = np.zeros(4)

    def add(self, before: Array, after: Array, covered: Array) -> None:
        """Count two consecutive frames (H, W, 3) in 8 bits."""
        seen = self._flat & ~covered
        whole = _squares(seen[..., None].astype(np.float32))[..., 0] == 1
        lab = [100 * to_cielab(torch.from_numpy(one / np.float32(255))).numpy() for one in (before, after)]  # fmt: skip
        levels = [one.astype(np.float32) for one in (before, after)]
        for place, (a, b) in enumerate((levels, lab)):
            change = b - a
            for offset, (values, where) in enumerate(((change, seen), (_squares(change), whole))):
                self._sums[2 * place + offset] += float(np.square(values[where]).sum())
                self._counts[2 * place + offset] += int(where.sum())

    def result(self) -> dict[str, float]:
        """Return the changes."""
        names = ("levels", "levels_of_squares", "delta_e", "delta_e_of_squares")
        values = np.sqrt(self._sums / np.maximum(self._counts, 1))
        return dict(zip(names, values.tolist(), strict=True))


def _squares(image: Array) -> Array:
    """The means (h, w, c) of the whole squares of an image (H, W, c)."""
    height, width = (side // _SQUARE for side in image.shape[:2])
    cut = image[: height * _SQUARE, : width * _SQUARE]
    return np.asarray(cut.reshape(height, _SQUARE, width, _SQUARE, -1).mean((1, 3)))


def measured(
    names: tuple[str, str, str], size: tuple[int, int], seconds: int, folder: Path
) -> dict[str, Any]:
    """Make a film, let the command change it, and compare both."""
    from PIL import Image

    images = photographs()
    still, disk = (fitted_to(images[name], size) for name in names[:2])
    target, source, out = folder / "target.png", folder / "film.mp4", folder / "new.mp4"
    Image.fromarray(images[names[2]]).save(target)
    _write(source, still, disk, size, seconds * _RATE)
    command = [sys.executable, "-m", "slicewise", "transfer", str(source), str(target)]
    start = time.perf_counter()
    told = subprocess.run(
        [*command, "-o", str(out), "--json", "--force"], check=True, capture_output=True
    )
    wall = time.perf_counter() - start
    changes = {}
    for name, path in (("source", source), ("result", out)):
        steady = Steadiness(flat_areas(still))
        covers = (covered for _, covered in film(still, disk, seconds * _RATE, 0.0))
        shown = zip(Movie.open(path).frames(), covers, strict=True)
        for (before, old), (after, new) in pairwise(shown):
            steady.add(before, after, old | new)
        changes[name] = steady.result()
    return {
        "still": names[0],
        "disk": names[1],
        "target": names[2],
        "width": size[0],
        "height": size[1],
        "frames": seconds * _RATE,
        "flat": float(flat_areas(still).mean()),
        "seconds": wall,
        "seconds_by_command": json.loads(told.stdout)["seconds"],
        "peak_of_children_bytes": 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss,
        **changes,
        "ratio": {
            key: changes["result"][key] / changes["source"][key] for key in changes["source"]
        },
    }


def _write(path: Path, still: Array, disk: Array, size: tuple[int, int], frames: int) -> None:
    found = find_encoder(".mp4")
    if found is None or found.program is None:
        raise UserError("ffmpeg is missing: install it, or pip install 'slicewise[video]'")
    command = [found.program, "-loglevel", "error", "-y", "-f", "rawvideo", "-pix_fmt", "rgb24"]
    command += ["-s", f"{size[0]}x{size[1]}", "-r", str(_RATE), "-i", "pipe:"]
    # Fine enough to keep the noise: it is what is measured.
    command += ["-c:v", "libx264", "-crf", "8", "-preset", "veryfast", "-pix_fmt", "yuv420p"]
    with subprocess.Popen([*command, str(path)], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        for frame, _ in film(still, disk, frames):
            process.stdin.write(frame.tobytes())
        process.stdin.close()
        if process.wait():
            raise UserError("ffmpeg could not write the film: see its message above")


def main(arguments: list[str] | None = None) -> int:
    """Measure all films; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.color.film", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--label", default=datetime.date.today().isoformat(), help="of the file")
    parser.add_argument("--quick", action="store_true", help="one small film: to see that it runs")
    parser.add_argument("--seconds", type=int, default=_SECONDS, help="of each film")
    given = parser.parse_args(arguments)
    size, seconds = (_QUICK_SIZE, 1) if given.quick else (_SIZE, given.seconds)
    rows = []
    for names in FILMS[: 1 if given.quick else None]:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(measured(names, size, seconds, Path(folder)))
        print(json.dumps(rows[-1]), flush=True)
    stem = "color-film-quick" if given.quick else f"color-film-{given.label}"
    write_whole(given.out / f"{stem}.json", json.dumps(rows, indent=1) + "\n")
    print(f"results: {given.out / stem}.json")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
