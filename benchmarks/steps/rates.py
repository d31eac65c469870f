"""Learning rates of trained networks: the best of each setting, and the cost of one rate for all."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

# Rows of setting, optimiser, scale, rate, w2 and sw2, spelled as in the records of benchmarks/results.
Rows = list[dict[str, Any]]


def spread(rows: Rows, judge: str = "w2") -> Rows:
    """For each optimizer and scale: best rates over the settings, and the regret of the best common one.

    `factor` is the largest best rate over the smallest. `common` is the one rate whose worst W_2, relative
    to the best of each setting, is least; `regret` that worst ratio. `within` is how many settings are
    within 15 % of their best at the common rate.
    """
    groups: dict[tuple[str, str], dict[str, dict[float, float]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for row in rows:
        groups[row["optimiser"], row["scale"]][row["setting"]][row["rate"]] = row[judge]
    found = []
    for (optimizer, scale), settings in groups.items():
        best = {name: min(at, key=at.__getitem__) for name, at in settings.items()}
        rates = sorted(set.intersection(*(set(at) for at in settings.values())))
        regrets = {
            rate: [at[rate] / at[best[name]] for name, at in settings.items()] for rate in rates
        }
        common = min(rates, key=lambda rate: max(regrets[rate]))
        edges = sum(best[name] in (min(at), max(at)) for name, at in settings.items())
        found.append(
            {
                "optimiser": optimizer,
                "scale": scale,
                "settings": len(settings),
                "lowest": min(best.values()),
                "highest": max(best.values()),
                "factor": max(best.values()) / min(best.values()),
                "common": common,
                "regret": max(regrets[common]),
                "mean_regret": sum(regrets[common]) / len(settings),
                "within": sum(ratio <= 1.15 for ratio in regrets[common]),
                "at_the_edge": edges,
            }
        )
    return found


def curves(rows: Rows) -> Rows:
    """Return a curve over rates for each setting, optimizer and scale, as records store them."""
    groups: dict[tuple[str, str, str], Rows] = defaultdict(list)
    for row in rows:
        groups[row["setting"], row["optimiser"], row["scale"]].append(row)
    return [
        {
            "setting": setting,
            "optimiser": optimizer,
            "scale": scale,
            "rates": [row["rate"] for row in some],
            # Strict JSON knows no infinity: a network that diverged is null.
            **{
                judge: [round(row[judge], 4) if math.isfinite(row[judge]) else None for row in some]
                for judge in ("w2", "sw2")
            },
        }
        for (setting, optimizer, scale), some in groups.items()
    ]


def rows_of(kept: Rows) -> Rows:
    """Return the rows of curves, to four digits."""
    return [
        {
            "setting": curve["setting"],
            "optimiser": curve["optimiser"],
            "scale": curve["scale"],
            "rate": rate,
            **{judge: math.inf if (w := curve[judge][i]) is None else w for judge in ("w2", "sw2")},
        }
        for curve in kept
        for i, rate in enumerate(curve["rates"])
    ]


def table(found: Rows) -> str:
    """Return the spread as a Markdown table."""
    lines = [
        "| optimizer | scale | best rates | factor | one rate for all | worst / best there | mean | within 15 % |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in found:
        worst = f"{row['regret']:.2f}" if math.isfinite(row["regret"]) else "diverges"
        edge = f" ({row['at_the_edge']} at the grid's edge)" if row["at_the_edge"] else ""
        lines.append(
            f"| {row['optimiser']} | {row['scale']} | {row['lowest']:.3g} to {row['highest']:.3g}{edge} | "
            f"{row['factor']:.0f} | {row['common']:.3g} | {worst} | {row['mean_regret']:.2f} | {row['within']} of {row['settings']} |"
        )
    return "\n".join(lines)
