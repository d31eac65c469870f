"""Pictures of the statistics: the power of tests, a table that drifts, sets that are alike, the mean of shapes.

python -m benchmarks.stats.picture docs/images
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

import slicewise as sw
from slicewise.lab.images import BLUE, GREEN, ORANGE, blank
from slicewise.support import write_whole

STYLES = {
    "sw mean": ("#0072b2", "-", "o"),
    "sw max": ("#0072b2", "--", "s"),
    "sw standardized": ("#009e73", "-", "D"),
    "sliced energy": ("#56b4e9", "-", "^"),
    "energy (hyppo)": ("#d55e00", "-", "v"),
    "MMD (hyppo)": ("#e69f00", "--", "<"),
    "KS by coordinate (SciPy)": ("#777777", ":", "x"),
}


def draw_power(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw how often each test finds each difference, over the dimension."""
    names = list(dict.fromkeys(row["alternative"] for row in rows))
    figure = blank(3.0 * len(names), 3.4)
    panels = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
    for panel, name in zip(panels, names, strict=True):
        own = [row for row in rows if row["alternative"] == name]
        for test, (color, line, mark) in STYLES.items():
            panel.plot([str(r["d"]) for r in own], [r[test] for r in own], line, marker=mark, color=color,
                       label=test, ms=5, lw=1.4)  # fmt: skip
        panel.axhline(0.05, color="#999999", lw=0.8)
        panel.set(title=name, xlabel="dimension d", ylim=(0, 1.02))
    panels[0].set_ylabel("found, of all tests at level 0.05")
    figure.legend(
        *panels[0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=4,
        fontsize=8,
        frameon=False,
    )
    _save(figure, path)


def shape(name: str, n: int, seed: int = 0) -> torch.Tensor:
    """Draw n points (n, 2) of a shape about the origin, of size about one."""
    g = torch.Generator().manual_seed(seed)
    t = 2 * torch.pi * torch.rand(n, generator=g, dtype=torch.float64)
    noise = 0.03 * torch.randn(n, 2, generator=g, dtype=torch.float64)
    if name == "ring":
        return torch.stack([t.cos(), t.sin()], dim=1) + noise
    if name == "cross":
        arm = 2.4 * torch.rand(n, generator=g, dtype=torch.float64) - 1.2
        first = (torch.rand(n, generator=g) < 0.5).unsqueeze(1)
        return (
            torch.where(first, torch.stack([arm, 0 * arm], 1), torch.stack([0 * arm, arm], 1))
            + noise
        )
    if name == "heart":
        x = 16 * t.sin() ** 3
        y = 13 * t.cos() - 5 * (2 * t).cos() - 2 * (3 * t).cos() - (4 * t).cos()
        return torch.stack([x, y], dim=1) / 14 + noise
    side = 2 * torch.rand(n, 2, generator=g, dtype=torch.float64) - 1  # a square, filled
    return side


def draw_alike(path: Path) -> None:
    """Draw 40 sets of four shapes, turned a little, centered, as a matrix of distances and as points of a plane."""
    names = ("ring", "cross", "heart", "square")
    g = torch.Generator().manual_seed(1)
    sets, kinds = [], []
    for kind, name in enumerate(names):
        for k in range(10):
            n = int(torch.randint(60, 140, (), generator=g))
            angle = 0.25 * float(torch.randn((), generator=g))
            turn = torch.tensor([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
            turned = shape(name, n, seed=100 * kind + k) @ turn
            sets.append(turned - turned.mean(dim=0))
            kinds.append(kind)
    distances = sw.pairwise(sets, n_slices=100, generator=0)
    vectors = torch.stack([sw.embed(s, n_slices=100, n_quantiles=50) for s in sets])
    vectors = vectors - vectors.mean(dim=0)
    plane = vectors @ torch.linalg.svd(vectors, full_matrices=False).Vh[:2].mT
    figure = blank(8.6, 4.0)
    left, right = figure.subplots(1, 2)
    image = left.imshow(distances, cmap="viridis")
    left.set(xticks=[5, 15, 25, 35], yticks=[5, 15, 25, 35], xticklabels=names, yticklabels=names)
    left.set_title("SW₂ between 40 sets", fontsize=10)
    figure.colorbar(image, ax=left, shrink=0.8)
    colors = (BLUE, ORANGE, GREEN, "#cc79a7")
    for kind, name in enumerate(names):
        own = plane[torch.tensor(kinds) == kind]
        right.scatter(own[:, 0], own[:, 1], s=22, color=colors[kind], label=name)
    right.legend(fontsize=8)
    right.set(xticks=[], yticks=[], aspect="equal")
    right.set_title("the first two principal axes of their embeddings", fontsize=10)
    _save(figure, path)


def draw_means(path: Path) -> None:
    """Draw barycenters of three shapes over a triangle of weights."""
    corners = [shape(name, 400, seed=k) for k, name in enumerate(("ring", "cross", "heart"))]
    figure = blank(7.0, 6.4)
    panel = figure.subplots()
    places = torch.tensor([[0.0, 0.0], [12.0, 0.0], [6.0, 10.4]], dtype=torch.float64)
    steps = 4
    for i in range(steps + 1):
        for j in range(steps + 1 - i):
            weights = torch.tensor([i, j, steps - i - j], dtype=torch.float64) / steps
            corner = float(weights.max()) == 1
            found = (
                corners[int(weights.argmax())]
                if corner
                else sw.barycenter(corners, weights, generator=0).samples
            )
            at = weights @ places
            color = np.clip(
                weights @ torch.tensor([[0, 0.45, 0.7], [0.84, 0.37, 0], [0, 0.62, 0.45]]).double(),
                0,
                1,
            )
            panel.scatter((found + at)[:, 0], (found + at)[:, 1], s=2, color=tuple(color.tolist()))
    panel.set(xticks=[], yticks=[], aspect="equal")
    panel.set_frame_on(False)
    _save(figure, path)


def draw_drift(path: Path) -> None:
    """Print and draw what `slicewise drift` says of a table whose incomes are half again as high from row 1,400 on."""
    import tempfile

    import pyarrow as pa
    from pyarrow import parquet

    from slicewise.lab.cli import main

    with tempfile.TemporaryDirectory() as folder:
        names = [str(Path(folder) / name) for name in ("january.parquet", "february.parquet")]
        for seed, (name, n, month) in enumerate(
            zip(names, (3000, 2400), ("01", "02"), strict=True)
        ):
            g = np.random.default_rng(seed)
            minutes = 15 * np.arange(n).astype("timedelta64[m]")
            raised = np.where((seed == 1) & (np.arange(n) >= 1400), 1.5, 1.0)
            columns = {
                "when": (np.datetime64(f"2026-{month}-01") + minutes).astype("datetime64[s]"),
                "id": [f"user {seed} {k}" for k in range(n)],
                "age": g.normal(40, 9, n),
                "income": g.lognormal(10, 0.5, n) * raised,
                "city": g.choice(["Bonn", "Kiel", "Trier"], n),
                "clicks": g.poisson(3, n),
                "score": g.normal(size=n),
            }
            parquet.write_table(pa.table(columns), name)
        main(["drift", *names, "--time", "when", "--windows", "12", "-o", str(path)])


def _save(figure: Any, path: Path) -> None:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=130)
    write_whole(path, buffer.getvalue())


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    draw_drift(folder / "drift.png")
    draw_alike(folder / "alike.png")
    draw_means(folder / "means.png")
