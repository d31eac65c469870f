"""Compare color transfer with other methods, on photographs of installed packages.

python -m benchmarks.color --out benchmarks/results
"""

from __future__ import annotations

import argparse
import csv
import datetime
import io
import itertools
import multiprocessing
import time
from pathlib import Path
from typing import Any

import numpy as np

import slicewise as sw
from benchmarks.color.contenders import WAYS, Array, photographs
from slicewise.lab.images.before_after import before_after
from slicewise.lab.images.frames import palette_w2
from slicewise.support import write_whole

# Pairs on which every way is tried; all pairs are compared with match_histograms alone.
CLOSE = (
    ("astronaut", "coffee"),
    ("coffee", "astronaut"),
    ("chelsea", "flower"),
    ("rocket", "china"),
    ("china", "coffee"),
    ("camera", "coffee"),
)
GALLERY = (("astronaut", "coffee"), ("chelsea", "coffee"), ("coffee", "astronaut"))
QUICK = (("chelsea", "coffee"),)
_STATUS = Path("/proc/self/status")


def judged(source: Array, moved: Array, target: Array, *, repeats: int = 4) -> dict[str, float]:
    """Measure how near the colors are to the target's, and how much of the structure is kept."""
    import torch
    from skimage.color import rgb2gray
    from skimage.filters import sobel
    from skimage.metrics import structural_similarity

    before, after = rgb2gray(source), rgb2gray(moved)
    edges = [sobel(gray).ravel() for gray in (before, after)]
    x, y = (
        torch.from_numpy(image.reshape(-1, 3)[::7].astype(np.float64)) for image in (moved, target)
    )
    generator = torch.Generator().manual_seed(0)
    return {
        "w2": palette_w2(moved, target, 1, repeats=repeats),
        "sw": float(sw.sliced_wasserstein(x, y, n_slices=200, generator=generator)),
        "ssim": float(structural_similarity(before, after, data_range=1.0)),
        "edges": float(np.corrcoef(*edges)[0, 1]) if edges[1].std() > 0 else 0.0,
    }


def tried(name: str, source: Array, target: Array) -> dict[str, Any]:
    """Judge and time a method on a pair; the second of two runs counts, because the first may compile."""
    way = WAYS[name]
    way(source[::8, ::8], target[::8, ::8])
    start = time.process_time()
    moved = way(source, target)
    seconds = time.process_time() - start
    return {"way": name, **judged(source, moved, target), "seconds": seconds}


def memory(name: str, source: Array, target: Array) -> float:
    """Return the bytes that a method needs beyond its images and libraries, in a separate process."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(_peak, (name, source, target))


def _peak(name: str, source: Array, target: Array) -> float:
    WAYS[name](source[::8, ::8], target[::8, ::8])
    # Importing libraries takes more for a moment than most ways ever do: forget that peak. Linux alone can.
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    WAYS[name](source, target)
    return _status("VmHWM") - before


def _status(name: str) -> float:
    """Return the bytes of an entry of /proc/self/status."""
    (line,) = [one for one in _STATUS.read_text().splitlines() if one.startswith(f"{name}:")]
    return 1024.0 * int(line.split()[1])


def against_histograms(
    images: dict[str, Array], pairs: list[tuple[str, str]]
) -> list[dict[str, Any]]:
    """Compare slicewise with match_histograms by palette W_2 on every pair, on the same pixels."""
    rows = []
    for a, b in pairs:
        source, target = images[a], images[b]
        left = {
            way: palette_w2(WAYS[way](source, target), target, 1, repeats=10)
            for way in ("slicewise", "match_histograms")
        }
        rows.append({"source": a, "target": b, "before": palette_w2(source, target, 1), **left})
        print(
            f"{a} → {b}: {left['slicewise']:.1f}, histograms {left['match_histograms']:.1f}",
            flush=True,
        )
    return rows


def summary(
    close: list[dict[str, Any]], wide: list[dict[str, Any]], peaks: dict[str, float]
) -> str:
    """Return both comparisons as Markdown: means over pairs, and how often slicewise is nearer."""
    lines = [
        "| way | palette W_2 | SW_2 | SSIM | edges | CPU s | extra MB |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(row["way"] for row in close):
        own = [row for row in close if row["way"] == name]
        means = [
            float(np.mean([row[key] for row in own]))
            for key in ("w2", "sw", "ssim", "edges", "seconds")
        ]
        peak = f"{peaks[name] / 1e6:.0f}" if name in peaks else ""
        w2, sliced, ssim, edges, seconds = means
        lines.append(
            f"| {name} | {w2:.1f} | {sliced:.1f} | {ssim:.2f} | {edges:.2f} | {seconds:.2f} | {peak} |"
        )
    nearer = sum(row["slicewise"] < row["match_histograms"] for row in wide)
    lines += [
        "",
        f"Palette W_2 below that of match_histograms on {nearer} of {len(wide)} pairs:",
        "",
    ]
    lines += [
        "| source | target | before | slicewise | match_histograms |",
        "|---|---|---|---|---|",
    ]
    for row in wide:
        lines.append(
            f"| {row['source']} | {row['target']} | {row['before']:.1f} | {row['slicewise']:.1f} | "
            f"{row['match_histograms']:.1f} |"
        )
    return "\n".join(lines) + "\n"


def as_csv(rows: list[dict[str, Any]]) -> str:
    """Return rows as CSV."""
    file = io.StringIO()
    table = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    return file.getvalue()


def main(arguments: list[str] | None = None) -> int:
    """Run the comparison; return its exit status."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.color.__main__", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    parser.add_argument(
        "--images",
        type=Path,
        help="a folder of PNG photographs to add: NAME_source_*, NAME_target_*",
    )
    parser.add_argument("--gallery", type=Path, help="a folder to draw before and after into")
    parser.add_argument("--quick", action="store_true", help="one pair: to see that it runs")
    given = parser.parse_args(arguments)
    images = photographs(given.images)
    own = [name for name in images if "_source_" not in name and "_target_" not in name]
    pairs = list(itertools.permutations(own, 2))
    pairs = [(a, b) for a, b in pairs if b != "camera"]  # a gray photograph has no colors
    for name in images:
        if "_source_" in name:
            key = name.split("_source_")[0] + "_target_"
            pairs += [(name, other) for other in images if other.startswith(key)]
    if given.gallery is not None:
        draw_gallery(images, given.gallery)
    close_pairs = QUICK if given.quick else CLOSE
    close = []
    for a, b in close_pairs:
        for name in WAYS:
            row = {"source": a, "target": b, **tried(name, images[a], images[b])}
            close.append(row)
            print(
                ", ".join(f"{k} {v:.3g}" if isinstance(v, float) else v for k, v in row.items()),
                flush=True,
            )
    first = images[close_pairs[0][0]], images[close_pairs[0][1]]
    measured = not given.quick and _STATUS.exists()
    peaks = {name: memory(name, *first) for name in WAYS} if measured else {}
    wide = against_histograms(images, list(QUICK) if given.quick else pairs)
    stem = "color-quick" if given.quick else f"color-{datetime.date.today().isoformat()}"
    write_whole(given.out / f"{stem}.csv", as_csv(close))
    write_whole(given.out / f"{stem}-pairs.csv", as_csv(wide))
    write_whole(given.out / f"{stem}.md", summary(close, wide, peaks))
    print(f"results: {given.out / stem}.csv, -pairs.csv, .md")
    return 0


def draw_gallery(images: dict[str, Array], folder: Path) -> None:
    """Draw before and after beside match_histograms, for photographs with a free license."""
    for a, b in GALLERY:
        source, target = images[a], images[b]
        ways = [(name, WAYS[name](source, target)) for name in ("slicewise", "match_histograms")]
        shown = [(a, source), *ways, (f"colors of {b}", target)]
        write_whole(folder / f"color-{a}-{b}.jpg", before_after(shown, ".jpg"))


if __name__ == "__main__":
    raise SystemExit(main())
