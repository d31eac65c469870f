"""Draw how near the colors come to the target's against how steep smooth regions become, for every way and strength.

python -m benchmarks.color.front --out benchmarks/results
"""

from __future__ import annotations

import argparse
import csv
import datetime
import io
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.color.__main__ import as_csv, small
from benchmarks.color.contenders import WAYS, Array, ours, photographs
from benchmarks.color.measures import ARTIFACTS, disliked
from slicewise.color import natural
from slicewise.lab.images.frames import palette_w2
from slicewise.support import write_whole

# The pairs by which the look `natural` was developed: hard ones, and none of other folders.
DEVELOPED_BY = (
    ("chelsea", "rocket"),
    ("hubble_deep_field", "coffee"),
    ("rocket", "flower"),
    ("coffee", "chelsea"),
    ("china", "chelsea"),
    ("camera", "flower"),
    ("astronaut", "flower"),
    ("coffee", "retina"),
    ("flower", "retina"),
    ("china", "hubble_deep_field"),
    ("chelsea", "flower"),
    ("rocket", "coffee"),
    ("hubble_deep_field", "china"),
    ("retina", "astronaut"),
)
_SMOOTHNESSES, _PRICES = (100.0, 10.0, 1.0), (9.0, 25.0, 40.0)
_OTHERS = ("linear", "Reinhard", "match_histograms", "hm-mvgd-hm")


def priced(source: Array, target: Array, *, price: float) -> Array:
    """The look `natural`, with another price of steepness."""
    with patch.object(natural, "_PRICE", price):
        return ours(source, target)


def ways() -> dict[str, Callable[[Array, Array], Array]]:
    """Return all ways, in the order of lines of the figure."""
    found: dict[str, Callable[[Array, Array], Array]] = {n: WAYS[n] for n in _OTHERS if n in WAYS}
    found |= {f"price {p:g}": partial(priced, price=p) for p in _PRICES}
    found |= {f"smoothness {s:g}": partial(ours, smoothness=s) for s in _SMOOTHNESSES}
    return found | {"exact": WAYS["exact"]}


def means(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return the means over pairs of each way."""
    names = dict.fromkeys(row["way"] for row in rows)
    return {
        way: {
            key: float(np.nanmean([float(row[key]) for row in rows if row["way"] == way]))
            for key in ("w2", *(name for name in ARTIFACTS if name != "skin"))
        }
        for way in names
    }


def figure(found: dict[str, dict[str, float]]) -> bytes:
    """Draw mean W_2 against mean steepness and seams, both over those of the linear map."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    drawn, axes = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True, layout="constrained")
    for axis, key in zip(axes, ("steepness", "seams"), strict=True):
        linear = found["linear"][key]
        for kind, color in (("smoothness", "tab:gray"), ("price", "tab:blue")):
            line = [one for way, one in found.items() if way.startswith(kind)]
            axis.plot([o[key] / linear for o in line], [o["w2"] for o in line], "o-", color=color)
        for way, one in found.items():
            place = one[key] / linear, one["w2"]
            axis.plot(*place, ".", color="black")
            # On the other side of their line, which lies close to that of prices.
            smooth = way.startswith("smoothness")
            offset, side = ((-6, -4), "right") if smooth else ((6, -1), "left")
            axis.annotate(way, place, offset, textcoords="offset points", fontsize=7, ha=side)
        axis.axvline(1.1, color="tab:red", linewidth=0.8)
        axis.set_xscale("log")
        axis.set_xlim(0.2, 25)
        axis.set_xticks((0.5, 1, 2, 5, 10), ("0.5", "1", "2", "5", "10"))
        axis.minorticks_off()
        axis.set_xlabel(f"{key}, over that of the linear map")
    axes[0].set_ylabel("palette W_2")
    file = io.BytesIO()
    drawn.savefig(file, format="png", dpi=110)
    plt.close(drawn)
    return file.getvalue()


def main(arguments: list[str] | None = None) -> int:
    """Measure all ways on all pairs, going on where a table was left; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.color.front", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--label", default=datetime.date.today().isoformat(), help="of the files")
    parser.add_argument("--pairs", type=int, default=len(DEVELOPED_BY), help="the first so many")
    given = parser.parse_args(arguments)
    table = given.out / f"color-front-{given.label}.csv"
    rows: list[dict[str, Any]] = []
    if table.exists():
        rows = list(csv.DictReader(table.read_text().splitlines()))
    done = {(row["source"], row["target"], row["way"]) for row in rows}
    images = photographs()
    for a, b in DEVELOPED_BY[: given.pairs]:
        source, target = small(images[a]), small(images[b])
        for name, way in ways().items():
            if (a, b, name) in done:
                continue
            moved = way(source, target)
            w2 = palette_w2(moved, target, 1, repeats=3)
            rows.append(
                {"source": a, "target": b, "way": name, "w2": w2, **disliked(source, moved)}
            )
            write_whole(table, as_csv(rows))
            print(f"{a} → {b}, {name}: {w2:.1f}", flush=True)
    found = means([row for row in rows if row["way"] in ways()])
    for name, one in found.items():
        print(f"{name:18s} " + " ".join(f"{key} {value:.3g}" for key, value in one.items()))
    write_whole(table.with_suffix(".png"), figure(found))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
