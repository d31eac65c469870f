"""Draw five pairs of photographs with every way of `benchmarks.color`, as docs/color.md shows them.

python docs/images/looks.py
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from benchmarks.color.__main__ import small  # noqa: E402
from benchmarks.color.contenders import SHOWN, WAYS, photographs  # noqa: E402
from slicewise.lab.images.before_after import contact_sheet  # noqa: E402
from slicewise.lab.images.frames import palette_w2  # noqa: E402
from slicewise.support import write_whole  # noqa: E402

PAIRS = (
    ("rocket", "coffee"),
    ("chelsea", "coffee"),
    ("astronaut", "rocket"),
    ("coffee", "chelsea"),
    ("rocket", "astronaut"),
)


def main() -> None:
    """Write color-looks.jpg beside this script."""
    images = {name: small(pixels) for name, pixels in photographs().items()}
    rows = []
    for a, b in PAIRS:
        row = [(a, images[a]), (b, images[b])]
        for way in SHOWN:
            moved = WAYS[way](images[a], images[b])
            row.append((f"{way} {palette_w2(moved, images[b], 1, repeats=3):.0f}", moved))
        rows.append(row)
    write_whole(HERE / "color-looks.jpg", contact_sheet(rows, ".jpg", width=190))


if __name__ == "__main__":
    main()
