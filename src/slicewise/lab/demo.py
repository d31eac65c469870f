"""Flows that are given no rate, and every variant between two real point sets: pictures, tables, a page.

python -m slicewise.lab.demo --out report
"""

from __future__ import annotations

import argparse
import base64
import io
import platform
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch

import slicewise as sw
from slicewise.files import write_whole
from slicewise.lab import race
from slicewise.lab.data import TOYS, Pair, digits, photographs


@dataclass(frozen=True)
class Row:
    """One variant on one pair of point sets."""

    variant: str
    recipe: str
    value: float
    stderr: float  # of the value, by the slope of the root
    share: float  # of the exact distance
    milliseconds: float


def measure(pair: Pair, exact: float, *, repeats: int = 5, seed: int = 0) -> list[Row]:
    """Every variant on one pair, the seed the same for all."""
    rows = []
    for name, variant in sw.VARIANTS.items():
        seconds = []
        for _ in range(repeats):
            generator = torch.Generator().manual_seed(seed)
            start = time.perf_counter()
            found = sw.evaluate(pair.x, pair.y, name, generator=generator)
            seconds.append(time.perf_counter() - start)
        value = found.value.item()
        # d SW = d(SW²) / (2 SW)
        stderr = found.stderr.item() / (2 * value) if value > 0 else 0.0
        milliseconds = 1e3 * sorted(seconds)[repeats // 2]
        rows.append(Row(name, repr(variant()), value, stderr, value / exact, milliseconds))
    return rows


def draw(pairs: list[Pair], tables: list[list[Row]]) -> bytes:
    """The picture: the sets, what two slices see of them, and how much each variant sees, as PNG."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    blue, orange, grey = "#0072b2", "#d55e00", "#777777"  # told apart by colour-blind readers
    figure = plt.figure(figsize=(13, 6.4), layout="constrained")
    grid = figure.add_gridspec(2, 3, width_ratios=[1, 1, 1.35])
    for row, pair in enumerate(pairs):
        axes = figure.add_subplot(grid[row, 0])
        plane = sw.effective_subspace(pair.x, pair.y).basis[:, :2]
        for samples, name, colour, marker in (
            (pair.x, pair.x_name, blue, "o"),
            (pair.y, pair.y_name, orange, "^"),
        ):
            points = (samples @ plane).numpy()
            own = samples.clamp(0, 1).numpy() if pair.x.shape[1] == 3 else colour
            edge = colour if pair.x.shape[1] == 3 else "none"
            axes.scatter(points[:, 0], points[:, 1], s=14, c=own, marker=marker, edgecolors=edge,
                         linewidths=0.4, label=f"{name} ({len(points)})")  # fmt: skip
        axes.set_title(f"{pair.name}, d = {pair.x.shape[1]}", fontsize=10)
        axes.legend(fontsize=8, loc="best")
        axes.set_xticks([])
        axes.set_yticks([])

        axes = figure.add_subplot(grid[row, 1])
        generator = torch.Generator().manual_seed(0)
        best = sw.evaluate(pair.x, pair.y, "maxsw", generator=generator)
        usual = sw.evaluate(pair.x, pair.y, "sw", generator=generator)
        middle = usual.costs.argsort()[len(usual.costs) // 2]
        for height, slice_, words in (
            (1.15, best.slices[0], f"the dearest slice: {best.value:.3f}"),
            (0.0, usual.slices[middle], f"a median slice: {usual.costs[middle] ** 0.5:.3f}"),
        ):
            u, v = (samples @ slice_ for samples in (pair.x, pair.y))
            low, high = min(u.min(), v.min()).item(), max(u.max(), v.max()).item()
            edges = torch.linspace(low, high, 41)
            counts = [torch.histogram(t, edges.double(), density=True).hist for t in (u, v)]
            peak = max(c.max() for c in counts)
            for c, colour in zip(counts, (blue, orange), strict=True):
                centred = (edges[1:] + edges[:-1]) / 2 - (low + high) / 2
                axes.fill_between(
                    centred, height, height + c / peak, color=colour, alpha=0.5, step="mid"
                )
            axes.text(0.02, height + 1.02, words, fontsize=8, transform=axes.get_yaxis_transform())
        axes.set_ylim(0, 2.35)
        axes.set_yticks([])
        axes.set_title("what a slice sees", fontsize=10)

    axes = figure.add_subplot(grid[:, 2])
    names = [row.variant for row in tables[0]]
    for pair, table, colour, marker, shift in zip(
        pairs, tables, (blue, orange), "os", (0.14, -0.14), strict=True
    ):
        heights = [len(names) - 1 - i + shift for i in range(len(names))]
        shares = [row.share for row in table]
        errors = [
            0 if row.stderr != row.stderr else row.share * row.stderr / row.value for row in table
        ]
        axes.errorbar(shares, heights, xerr=[2 * e for e in errors], fmt=marker, color=colour,
                      ms=5, lw=1, capsize=2, label=pair.name)  # fmt: skip
    axes.axvline(1, color=grey, lw=1, ls="--")
    axes.text(0.985, -0.6, "exact W₂", rotation=90, fontsize=8, color=grey, ha="right", va="bottom")
    axes.set_yticks([len(names) - 1 - i for i in range(len(names))], names)
    axes.set_xlim(0, 1.05)
    axes.grid(axis="x", alpha=0.3)
    axes.set_xlabel("share of the exact distance seen (bars: ± 2 standard errors)")
    axes.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=110)
    plt.close(figure)
    return file.getvalue()


def as_text(pair: Pair, exact: float, rows: list[Row]) -> str:
    """The table for a terminal."""
    lines = [
        f"{pair.name}: {len(pair.x)} {pair.x_name} and {len(pair.y)} {pair.y_name} in "
        f"{pair.x.shape[1]} dimensions, exact W2 = {exact:.4f}",
        f"  {'variant':9} {'value':>8} {'± s.e.':>8} {'of W2':>6} {'ms':>7}",
    ]
    for row in rows:
        error = "–" if row.stderr != row.stderr else f"{row.stderr:.4f}"
        lines.append(
            f"  {row.variant:9} {row.value:8.4f} {error:>8} {row.share:6.0%} {row.milliseconds:7.2f}"
        )
    return "\n".join(lines)


def run(out: Path) -> Path:
    """Measure, draw and write the page; returns where it is."""
    from jinja2 import Environment, PackageLoader

    write_whole(
        out / "index.html", "in the making"
    )  # a folder that cannot be written to says so now
    races = []
    for name in TOYS:
        races.append(race.race(name))
        print(race.as_text(races[-1]), flush=True)
    flows = race.draw_races(races)
    write_whole(out / "flows.png", flows)
    print()
    pairs, tables, texts = [photographs(), digits()], [], []
    for pair in pairs:
        exact = sw.wasserstein(pair.x, pair.y).item()
        tables.append(measure(pair, exact))
        texts.append((pair, exact, tables[-1]))
        print(as_text(*texts[-1]), end="\n\n", flush=True)
    picture = draw(pairs, tables)
    write_whole(out / "distances.png", picture)
    template = Environment(loader=PackageLoader("slicewise.lab"), autoescape=True)
    page = template.get_template("demo.html").render(
        picture=base64.b64encode(picture).decode(),
        flows=base64.b64encode(flows).decode(),
        races=races,
        tables=texts,
        versions=f"slicewise {sw.__version__}, torch {torch.__version__}, "
        f"Python {platform.python_version()}, {torch.get_num_threads()} threads",
    )
    write_whole(out / "index.html", page)
    return out / "index.html"


def main(arguments: list[str] | None = None) -> int:
    """The command line of the demonstration."""
    parser = argparse.ArgumentParser(prog="slicewise.lab.demo", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("report"), help="folder of the report")
    given = parser.parse_args(arguments)
    if given.out.exists() and not given.out.is_dir():
        print(f"--out {given.out} is a file: name a folder for the report", file=sys.stderr)
        return 2
    try:
        page = run(given.out)
    except ImportError as missing:
        print(
            f"the demonstration needs {missing.name}: pip install 'slicewise[lab]'", file=sys.stderr
        )
        return 2
    except OSError as trouble:
        print(
            f"cannot write {given.out}: {trouble}; name another folder with --out", file=sys.stderr
        )
        return 2
    print(f"report: {page}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
