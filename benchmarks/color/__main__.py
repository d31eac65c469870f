"""Compare color transfer with other methods, on photographs of installed packages.

python -m benchmarks.color --out benchmarks/results
"""

from __future__ import annotations

import argparse
import csv
import datetime
import io
import itertools
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.color.contenders import SHOWN, WAYS, Array, photographs, photographs_of
from benchmarks.color.measures import ARTIFACTS, STATUS, disliked, judged, memory
from slicewise.lab.images.before_after import contact_sheet
from slicewise.lab.images.frames import palette_w2
from slicewise.support import write_whole

# Pairs on which every way is tried, and timed.
CLOSE = (
    ("astronaut", "coffee"),
    ("coffee", "astronaut"),
    ("chelsea", "flower"),
    ("rocket", "china"),
    ("china", "coffee"),
    ("camera", "coffee"),
)
QUICK = (("chelsea", "coffee"),)
_SIDE = 512  # pixels of the longer side at which artifacts are looked for: as on a screen
_ROWS_OF_A_SHEET = 12


def tried(name: str, source: Array, target: Array) -> dict[str, Any]:
    """Judge and time a method on a pair; the second of two runs counts, because the first may compile."""
    way = WAYS[name]
    way(source[::8, ::8], target[::8, ::8])
    start = time.process_time()
    moved = way(source, target)
    seconds = time.process_time() - start
    return {"way": name, **judged(source, moved, target), "seconds": seconds}


def looked_at(
    images: dict[str, Array], pairs: list[tuple[str, str]], table: Path, sheets: Path | None
) -> list[dict[str, Any]]:
    """Measure palette W_2 and artifacts of every shown way on every pair, and draw contact sheets of them.

    The table is written after every pair: all of them take many minutes.
    """
    rows: list[dict[str, Any]] = []
    drawn: list[list[tuple[str, Array]]] = []
    for done, (a, b) in enumerate(pairs, start=1):
        source, target = small(images[a]), small(images[b])
        cells = [(a, source), (b, target)]
        for way in SHOWN:
            moved = WAYS[way](source, target)
            w2 = palette_w2(moved, target, 1, repeats=3)
            rows.append({"source": a, "target": b, "way": way, "w2": w2, **disliked(source, moved)})
            cells.append((f"{way} {w2:.0f}", moved))
        write_whole(table, as_csv(rows))
        drawn.append(cells)
        if sheets is not None and (len(drawn) == _ROWS_OF_A_SHEET or done == len(pairs)):
            write_whole(sheets / f"sheet-{done:03d}.png", contact_sheet(drawn, ".png", width=220))
            drawn = []
        print(f"{a} → {b}: " + ", ".join(f"{r['way']} {r['w2']:.1f}" for r in rows[-len(SHOWN) :]), flush=True)  # fmt: skip
    return rows


def small(image: Array) -> Array:
    """Return an image with at most 512 pixels along its longer side."""
    from PIL import Image

    scale = _SIDE / max(image.shape[:2])
    if scale >= 1:
        return np.ascontiguousarray(image)
    size = round(image.shape[1] * scale), round(image.shape[0] * scale)
    return np.asarray(Image.fromarray(image).resize(size, Image.Resampling.LANCZOS))


def summary(
    close: list[dict[str, Any]], wide: list[dict[str, Any]], peaks: dict[str, float]
) -> str:
    """Return both comparisons as Markdown: means over pairs, and every pair."""
    lines = [
        "| way | palette W_2 | SW_2 | SSIM | edges | CPU s | extra MB |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(row["way"] for row in close):
        own = [row for row in close if row["way"] == name]
        w2, sliced, ssim, edges, seconds = (
            float(np.mean([row[key] for row in own]))
            for key in ("w2", "sw", "ssim", "edges", "seconds")
        )
        peak = f"{peaks[name] / 1e6:.0f}" if name in peaks else ""
        lines.append(
            f"| {name} | {w2:.1f} | {sliced:.1f} | {ssim:.2f} | {edges:.2f} | {seconds:.2f} | {peak} |"
        )
    ways = list(dict.fromkeys(row["way"] for row in wide))
    pairs = list(dict.fromkeys((row["source"], row["target"]) for row in wide))
    found = {(row["source"], row["target"], row["way"]): row for row in wide}
    lines += [
        "",
        f"Means over {len(pairs)} pairs, {_SIDE} pixels along the longer side:",
        "",
        "| way | palette W_2 | " + " | ".join(ARTIFACTS) + " |",
        "|---" * (len(ARTIFACTS) + 2) + "|",
    ]
    for way in ways:
        own = [row for row in wide if row["way"] == way]
        means = [f"{np.mean([row['w2'] for row in own]):.1f}"]
        for key in ARTIFACTS:
            values = np.array([row[key] for row in own])
            seen = values[~np.isnan(values)]  # pictures without skin have no shift of it
            means.append(f"{seen.mean():.2f}" if len(seen) else "")
        lines.append(f"| {way} | " + " | ".join(means) + " |")
    lines += ["", "Palette W_2 (seams) of every pair:", ""]
    lines += [
        "| source | target | " + " | ".join(ways) + " |",
        "|---" * (len(ways) + 2) + "|",
    ]
    for a, b in pairs:
        cells = [f"{found[a, b, way]['w2']:.1f} ({found[a, b, way]['seams']:.2f})" for way in ways]
        lines.append(f"| {a} | {b} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def as_csv(rows: list[dict[str, Any]]) -> str:
    """Return rows as CSV."""
    file = io.StringIO()
    table = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    return file.getvalue()


def package_pairs(images: dict[str, Array]) -> list[tuple[str, str]]:
    """All ordered pairs of the packages' photographs, but none to a gray one, which has no colors."""
    pairs = [(a, b) for a, b in itertools.permutations(images, 2) if b != "camera"]
    # In an order in which the first ones are a fair sample, should somebody not wait for all.
    return [pairs[i] for i in np.random.default_rng(0).permutation(len(pairs))]


def folder_pairs(images: dict[str, Array]) -> list[tuple[str, str]]:
    """NAME_source_* with NAME_target_*; of other names each with the one half the list further."""
    names = [name for name in images if "_source_" not in name and "_target_" not in name]
    pairs = [(a, names[(i + len(names) // 2) % len(names)]) for i, a in enumerate(names)]
    for name in images:
        if "_source_" in name:
            key = name.split("_source_")[0] + "_target_"
            pairs += [(name, other) for other in images if other.startswith(key)]
    return [(a, b) for a, b in pairs if a != b]


def main(arguments: list[str] | None = None) -> int:
    """Run the comparison; return its exit status."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.color.__main__", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--label", default=datetime.date.today().isoformat(), help="of the files")
    parser.add_argument("--images", type=Path, action="append", default=[], help="a folder of photographs to add")  # fmt: skip
    parser.add_argument("--only-images", action="store_true", help="leave the packages' pairs out")
    parser.add_argument("--sheets", type=Path, help="a folder to draw contact sheets into")
    parser.add_argument("--quick", action="store_true", help="one pair: to see that it runs")
    given = parser.parse_args(arguments)
    images = photographs()
    pairs = [] if given.only_images else package_pairs(images)
    for folder in given.images:
        more = photographs_of(folder)
        pairs += folder_pairs(more)
        images |= more
    close = []
    for a, b in QUICK if given.quick else () if given.only_images else CLOSE:
        for name in WAYS:
            row = {"source": a, "target": b, **tried(name, images[a], images[b])}
            close.append(row)
            print(
                ", ".join(f"{k} {v:.3g}" if isinstance(v, float) else v for k, v in row.items()),
                flush=True,
            )
    peaks = {}
    if close and STATUS.exists():
        names = ["natural"] if given.quick else list(WAYS)
        peaks = {name: memory(name, *(images[side] for side in CLOSE[0])) for name in names}
    stem = "color-quick" if given.quick else f"color-{given.label}"
    table = given.out / f"{stem}-pairs.csv"
    wide = looked_at(images, list(QUICK) if given.quick else pairs, table, given.sheets)
    if close:
        write_whole(given.out / f"{stem}.csv", as_csv(close))
    write_whole(given.out / f"{stem}.md", summary(close, wide, peaks))
    print(f"results: {given.out / stem}.md")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
