"""The verdict: ours over the best of Adam's rates, setting by setting and summed up."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.networks.settings import GRID_SEED, Setting
from benchmarks.networks.store import Key, Row

# Promised: ours over the best of Adam's rates, in the median and in this share of settings; no divergence.
MEDIAN, WITHIN, SHARE = 1.10, 1.25, 0.95
_BANDS = ((1e-3, 1e-1), (1e-1, 1e1), (1e1, 1e3))


def compare(kept: dict[Key, Row]) -> list[Row]:
    """Return a row for each setting of which Adam and ours are both finished, and each number of steps."""
    rows = []
    for (number, side), adam in sorted(kept.items()):
        ours = kept.get((number, "computed"))
        if side != "adam" or ours is None:
            continue
        displaced, decayed = (kept.get((number, side)) for side in ("displacement", "decayed"))
        for steps in _steps(adam, ours):
            searched = adam["results"][steps]  # a distance for each rate and seed
            curve = [statistics.fmean(seeds) for seeds in searched]
            best = min(curve)
            place = curve.index(best)
            found = ours["results"][steps]
            other = displaced and displaced["results"].get(steps)
            shrunk = decayed and decayed["results"].get(steps)
            rows.append(
                {
                    **adam["setting"],
                    "name": Setting(**adam["setting"]).name,
                    "steps": int(steps),
                    "ours": statistics.fmean(found),
                    "best": best,
                    "ratio": _ratio(statistics.fmean(found), best),
                    "rate": adam["rates"][place],
                    "at the edge": place in (0, len(curve) - 1),
                    "diverged": sum(not math.isfinite(one) for one in found),
                    "of seeds": [_ratio(one, best) for one in found],
                    "rates": [_ratio(one, best) for one in curve],
                    "other seeds": _ratio(chosen_by_other_seeds(searched), best),
                    "next rate": _ratio(
                        min(curve[max(place - 1, 0) : place] + curve[place + 1 : place + 2]), best
                    ),
                    "displacement": _ratio(statistics.fmean(other), best) if other else None,
                    "decayed": min(map(statistics.fmean, shrunk)) / best if shrunk else None,
                    "start": statistics.fmean(adam["results"]["start"]),
                    "floor": adam["results"].get("floor"),
                }
            )
    return rows


def chosen_by_other_seeds(searched: Sequence[Sequence[float]]) -> float:
    """What a search gives a training that it has not seen: the rate is the best for all seeds but one, which judges it.

    Args:
        searched: A distance for each rate and each seed; at least two seeds.

    Returns:
        The mean over the seeds that are left out in turn.

    >>> chosen_by_other_seeds([[1.0, 3.0], [2.0, 2.0]])  # seed 0 chooses the first rate, seed 1 the second
    2.5
    """
    judged = []
    for left_out in range(len(searched[0])):
        others = [
            statistics.fmean(one for seed, one in enumerate(seeds) if seed != left_out)
            for seeds in searched
        ]
        judged.append(searched[others.index(min(others))][left_out])
    return statistics.fmean(judged)


def sums(rows: Sequence[Row], rates: Sequence[float]) -> list[Row]:
    """Return a row for each number of steps: medians, shares and the worst, of ours and of fixed rates."""
    found = []
    for steps in sorted({row["steps"] for row in rows}):
        some = [row for row in rows if row["steps"] == steps]
        curves = list(zip(*(row["rates"] for row in some), strict=True))
        common = min(range(len(curves)), key=lambda i: _typical(curves[i]))
        displaced = [row["displacement"] for row in some if row["displacement"] is not None]
        found += [
            {"steps": steps, "rule": "ours", **spread([row["ratio"] for row in some])},
            {
                "steps": steps,
                "rule": f"Adam, {rates[common]:.2g} for all",
                "rate": rates[common],
                **spread(curves[common]),
            },
        ]
        # How much of the best rate is luck of its seeds, and how near a rate has to be to it.
        for rule, kind in (
            ("Adam, rate chosen by the other seeds", "other seeds"),
            ("Adam, half a decade beside the best rate", "next rate"),
        ):
            found.append({"steps": steps, "rule": rule, **spread([row[kind] for row in some])})
        if displaced:
            rule = "SGD 0.1 on displacement (generators)"
            found.append({"steps": steps, "rule": rule, **spread(displaced)})
        decayed = [row["decayed"] for row in some if row["decayed"] is not None]
        if decayed:
            rule = "Adam, best rate of each, shrinking as ours"
            found.append({"steps": steps, "rule": rule, **spread(decayed)})
    return found


def spread(ratios: Sequence[float]) -> Row:
    """Sum up ratios to the best of Adam's rates; a training that diverged has an infinite one."""
    n = len(ratios)
    return {
        "settings": n,
        "median": statistics.median(ratios),
        "within 10 %": sum(ratio <= 1.10 for ratio in ratios) / n,
        "within 25 %": sum(ratio <= 1.25 for ratio in ratios) / n,
        "better": sum(ratio < 1 for ratio in ratios) / n,
        "worst": max(ratios),
        "diverged": sum(not math.isfinite(ratio) for ratio in ratios),
    }


def verdicts(rows: Sequence[Row]) -> list[Row]:
    """What was promised, and whether it is so."""
    found = []
    for steps in sorted({row["steps"] for row in rows}):
        some = [row for row in rows if row["steps"] == steps]
        of_all = spread([row["ratio"] for row in some])
        found += [
            _verdict(f"median after {steps} steps", of_all["median"], MEDIAN, upper=True),
            _verdict(f"share within 25 % after {steps}", of_all["within 25 %"], SHARE, upper=False),
            _verdict(
                f"seeds diverged within {steps}",
                sum(row["diverged"] for row in some),
                0,
                upper=True,
            ),
        ]
    return found


def page(
    rows: Sequence[Row], rates: Sequence[float], where: dict[str, Any], seed: int, *, quick: bool
) -> str:
    """Return the record as Markdown."""
    seeds = len(rows[0]["of seeds"])
    drawn = "before any of its results was seen" if seed == GRID_SEED else "a grid to develop on"
    lines = [
        "# Networks without a learning rate" + (" (quick: nothing is concluded)" if quick else ""),
        "",
        f"{len({row['number'] for row in rows})} settings, drawn with seed {seed}, {drawn}; {seeds} "
        f"seeds each. Ours: the defaults, no rate given. Best: the best mean over seeds of {len(rates)} constant "
        f"Adam rates from {rates[0]:.2g} to {rates[-1]:.2g}, chosen for each setting and number of steps by "
        "the very distance that is reported. Judged by held-out SW_2 on fixed slices (autoencoders: the root of the held-out "
        "loss), in evaluation mode. A ratio is ours / best, so 1.1 is 10 % worse than the best rate. "
        f"Device: {where.get('device', 'cpu')}.",
        "",
        *_table(
            [
                {k: v if k != "met" else ("yes" if v else "**no**") for k, v in row.items()}
                for row in verdicts(rows)
            ]
        ),
        "",
        "## All settings",
        "",
        *_table(sums(rows, rates)),
        "",
    ]
    kinds: dict[str, Callable[[Row], str]] = {
        "task": lambda row: row["task"],
        "variant": lambda row: row["variant"],
        "data scale": lambda row: next(
            f"{low:g} to {high:g}" for low, high in _BANDS if row["scale"] <= high
        ),
        "normalization": lambda row: row["norm"] or "none",
        "output": lambda row: row["output"] or "linear",
        "depth": lambda row: "2 to 3" if row["depth"] <= 3 else "4 to 8",
        "batch": lambda row: "32 to 128" if row["batch"] <= 128 else "256 to 4096",
    }
    for kind, of in kinds.items():
        groups = []
        for steps in sorted({row["steps"] for row in rows}):
            for value in sorted({of(row) for row in rows}):
                some = [r["ratio"] for r in rows if r["steps"] == steps and of(r) == value]
                if some:
                    groups.append({kind: value, "steps": steps, **spread(some)})
        lines += [f"## By {kind}", "", *_table(groups), ""]
    lines += ["## The best rate of Adam", "", *_table(_rates(rows, rates)), ""]
    columns = (
        "name",
        "steps",
        "ratio",
        "ours",
        "best",
        "rate",
        "displacement",
        "decayed",
        "start",
        "floor",
    )
    ordered = sorted(rows, key=lambda row: (row["steps"], -row["ratio"]))
    lines += [
        "## Setting by setting, the worst first",
        "",
        *_table([{column: row[column] for column in columns} for row in ordered]),
        "",
    ]
    return "\n".join(lines)


def _rates(rows: Sequence[Row], rates: Sequence[float]) -> list[Row]:
    """How often each rate is the best, and what it would give everywhere."""
    found = []
    for steps in sorted({row["steps"] for row in rows}):
        some = [row for row in rows if row["steps"] == steps]
        for i, rate in enumerate(rates):
            of_all = spread([row["rates"][i] for row in some])
            best = sum(row["rate"] == rate for row in some)
            found.append({"steps": steps, "rate": rate, "best in": best, **of_all})
    return found


def settings_of(rows: Sequence[Setting]) -> list[Row]:
    """Settings as records store them."""
    return [asdict(row) for row in rows]


def _steps(*sides: Row) -> list[str]:
    common = set.intersection(
        *({key for key in side["results"] if key.isdigit()} for side in sides)
    )
    return sorted(common, key=int)


def _typical(ratios: Sequence[float]) -> float:
    """A mean of logarithms, to which a divergence adds as much as a ratio of 100."""
    return statistics.fmean(math.log(min(ratio, 100)) for ratio in ratios)


def _ratio(one: float, best: float) -> float:
    return one / best if math.isfinite(one) else math.inf


def _verdict(what: str, found: float, bound: float, *, upper: bool) -> Row:
    met = found <= bound if upper else found >= bound
    return {
        "what": what,
        "found": found,
        "promised": f"{'≤' if upper else '≥'} {bound:g}",
        "met": met,
    }


def _table(rows: Sequence[Row]) -> list[str]:
    keys = list(dict.fromkeys(key for row in rows for key in row))
    lines = ["| " + " | ".join(keys) + " |", "|" + "---|" * len(keys)]
    return lines + ["| " + " | ".join(_cell(row.get(key)) for key in keys) + " |" for row in rows]


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.3g}" if math.isfinite(value) else "diverged"
    return str(value)
