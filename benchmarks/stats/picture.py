"""Pictures of the statistics: the power of tests, a table that drifts, sets that are alike, the mean of shapes.

python -m benchmarks.stats.picture docs/images
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

import slicewise as sw
from slicewise.lab.images import (
    BLUE,
    GRAY,
    GREEN,
    ORANGE,
    PAGE_WIDTH,
    PINK,
    SKY,
    YELLOW,
    blank,
    in_style,
    save_png,
)

# A color, a line and a mark for each test.
STYLES = {
    "sw mean": (BLUE, "-", "o"),
    "sw max": (BLUE, "--", "s"),
    "sw standardized": (GREEN, "-", "D"),
    "sliced energy": (SKY, "-", "^"),
    "energy (hyppo)": (ORANGE, "-", "v"),
    "MMD (hyppo)": (YELLOW, "--", "<"),
    "KS by coordinate (SciPy)": (GRAY, ":", "x"),
}


def draw_power(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw how often each test finds each difference, over the dimension."""
    names = list(dict.fromkeys(row["alternative"] for row in rows))
    with in_style():
        figure = blank(PAGE_WIDTH, 0.6 + 2.6 * -(-len(names) // 2))
        panels = figure.subplots(-(-len(names) // 2), 2, sharex=True, sharey=True, squeeze=False)
        for panel, name in zip(panels.flat, names, strict=False):
            own = [row for row in rows if row["alternative"] == name]
            for test, (color, line, mark) in STYLES.items():
                panel.plot([str(r["d"]) for r in own], [100 * r[test] for r in own], line, marker=mark, color=color,
                           label=test, ms=5, lw=1.4)  # fmt: skip
            panel.axhline(5, color="#999999", lw=0.8)
            panel.set(title=_found_most(name, own), ylim=(0, 103))
            panel.grid(axis="y")
        for panel in panels[:, 0]:
            panel.set_ylabel("found, % of tests")
        for panel in panels[-1]:
            panel.set_xlabel("dimension d")
        handles, labels = panels[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4)
        save_png(figure, path)


def _found_most(name: str, rows: list[dict[str, Any]]) -> str:
    """Say which test of ours and which other finds most, in the dimension in which they differ most."""
    others = [test for test in STYLES if test.endswith(")")]
    ours = [test for test in STYLES if test not in others]

    def best(row: dict[str, Any]) -> list[str]:
        two = [max(tests, key=lambda test: row[test]) for tests in (ours, others)]
        return sorted(two, key=lambda test: -row[test])

    def lead(row: dict[str, Any]) -> float:
        first, second = best(row)
        return float(row[first] - row[second])

    row = max(rows, key=lead)
    first, second = best(row)
    found = [
        f"{test.split(' (')[0].removesuffix(' by coordinate')} {100 * row[test]:.0f} %"
        for test in (first, second)
    ]
    return f"{name}, found in d = {row['d']}:\n{found[0]}, {found[1]}"


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
    of_shape = torch.tensor(kinds)
    others = distances + torch.eye(len(sets)) * distances.max()
    own = int((of_shape[others.argmin(dim=1)] == of_shape).sum())
    kept = float(plane.square().sum() / vectors.square().sum())
    with in_style():
        figure = blank(PAGE_WIDTH, 3.8)
        left, right = figure.subplots(1, 2, width_ratios=(1.2, 1))
        image = left.imshow(distances)
        middles = [4.5, 14.5, 24.5, 34.5]
        left.set(xticks=middles, yticks=middles, xticklabels=names, yticklabels=names)
        left.tick_params(length=0)
        left.set_title(f"{own} of {len(sets)} sets are nearest\nto a set of their own shape")
        figure.colorbar(image, ax=left, shrink=0.8, label="SW₂")
        for k, (name, color, mark) in enumerate(zip(names, (BLUE, ORANGE, GREEN, PINK), "osD^", strict=True)):  # fmt: skip
            right.scatter(*plane[of_shape == k].T, s=24, color=color, marker=mark, label=name)
        right.set(xticks=[], yticks=[], xlabel="first principal axis", ylabel="second", aspect="equal", adjustable="datalim")  # fmt: skip
        right.set_title(f"Two axes of their embeddings\nkeep {100 * kept:.0f} % of the variance")
        figure.legend(*right.get_legend_handles_labels(), loc="outside lower right", ncols=4, columnspacing=1, handletextpad=0.2)  # fmt: skip
        save_png(figure, path)


def draw_means(path: Path) -> None:
    """Draw barycenters of three shapes over a triangle of weights."""
    names = ("ring", "cross", "heart")
    corners = [shape(name, 400, seed=k) for k, name in enumerate(names)]
    places = torch.tensor([[0.0, 0.0], [12.0, 0.0], [6.0, 10.4]], dtype=torch.float64)
    palette = torch.tensor([[0, 0.45, 0.7], [0.84, 0.37, 0], [0, 0.62, 0.45]]).double()
    steps, nearer, means = 4, 0, 0

    def cost(points: torch.Tensor, weights: torch.Tensor) -> float:
        values = [
            sw.sliced_wasserstein(points, corner, n_slices=500, objective="power", generator=1)
            for corner in corners
        ]
        return float(weights @ torch.stack(values))

    with in_style():
        figure = blank(PAGE_WIDTH, 6.2)
        panel = figure.subplots()
        for i in range(steps + 1):
            for j in range(steps + 1 - i):
                weights = torch.tensor([i, j, steps - i - j], dtype=torch.float64) / steps
                at = weights @ places
                if float(weights.max()) == 1:
                    k = int(weights.argmax())
                    found = corners[k]
                    beside = (1.5, 0.0) if names[k] == "heart" else (0.0, -1.7)
                    panel.text(float(at[0]) + beside[0], float(at[1]) + beside[1], names[k], ha="left" if beside[0] else "center", weight="bold", fontsize=11)  # fmt: skip
                else:
                    found = sw.barycenter(corners, weights, generator=0).samples
                    means += 1
                    nearer += cost(found, weights) < min(cost(x, weights) for x in corners)
                color = (weights @ palette).clip(0, 1).tolist()
                x, y = (found + at).T
                panel.scatter(x, y, s=2, color=tuple(color), lw=0)
        panel.set(xticks=[], yticks=[], aspect="equal")
        panel.set_axis_off()
        panel.set_title(f"{'All' if nearer == means else f'{nearer} of'} {means} barycenters are nearer to the three shapes than any of the three is")  # fmt: skip
        save_png(figure, path)


def draw_drift(path: Path) -> None:
    """Print and draw what `slicewise drift` says of a table whose incomes are half again as high from row 3,500 on."""
    import tempfile

    import pyarrow as pa
    from pyarrow import parquet

    from slicewise.lab.cli import main

    with tempfile.TemporaryDirectory() as folder:
        names = [str(Path(folder) / name) for name in ("january.parquet", "february.parquet")]
        for seed, (name, n) in enumerate(zip(names, (8000, 6000), strict=True)):
            g = np.random.default_rng(seed)
            minutes = 5 * np.arange(n).astype("timedelta64[m]")
            raised = np.where((seed == 1) & (np.arange(n) >= 3500), 1.5, 1.0)
            columns = {
                "when": (np.datetime64(f"2026-0{seed + 1}-01") + minutes).astype("datetime64[s]"),
                "id": [f"user {seed} {k}" for k in range(n)],
                "age": g.normal(40, 9, n),
                "income": g.lognormal(10, 0.5, n) * raised,
                "city": g.choice(["Bonn", "Kiel", "Trier"], n),
                "clicks": g.poisson(3, n),
                "score": g.normal(size=n),
            }
            parquet.write_table(pa.table(columns), name)
        main(["drift", *names, "--time", "when", "--windows", "12", "-o", str(path), "--force"])


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    record = Path(__file__).parent.parent / "results" / "stats-power-2026-11-18.json"
    draw_power(json.loads(record.read_text())["found"], folder / "power.png")
    draw_alike(folder / "alike.png")
    draw_means(folder / "means.png")
    draw_drift(folder / "drift.png")
