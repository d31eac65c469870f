"""Trained networks beside the paper's: who wins by which judge, and every rate it prints."""

from __future__ import annotations

import math
from collections.abc import Sequence

from slicewise.lab.experiments.flows import ELEVEN
from slicewise.lab.published import Published, find, published
from slicewise.lab.report.best import Row
from slicewise.lab.report.pieces import Table, file_name
from slicewise.lab.report.trainings import Place, mean, objectives, value


def told(number: float, measure: str = "") -> str:
    """A measure in as many digits as it is good for."""
    if math.isnan(number):
        return "–"
    if math.isinf(number):
        return "∞"
    if measure in ("energy", "sw2"):
        return f"{number:.4f}"
    return f"{number:.2f}" if abs(number) < 100 else f"{number:.0f}"


def orders(experiment: str, place: Place) -> list[Table]:
    """Places by W_2, as the paper ranks, by SW_2 and by energy."""
    if not place.paper_name or "root" not in objectives(place):
        return []
    theirs = {v: find("generative_best", v, place.paper_name, "W2") for v in ELEVEN}
    known = {v: one for v, one in theirs.items() if one is not None}
    paper = {v: i for i, v in enumerate(sorted(known, key=lambda v: known[v].mean), 1)}
    ours = {name: place.order(name) for name in ("w2", "sw2", "energy")}
    lines = []
    for variant in sorted(ELEVEN, key=lambda v: paper.get(v, 99)):
        by_w2 = place.best(variant, "root", "w2")
        shown = ["–", "–", "–"]
        if by_w2 is not None:
            kept = mean(by_w2.runs, "variance_ratio")
            shown = [f"{by_w2.mean:.3f}", f"{by_w2.rate:g}", f"{kept:.2f}"]
        places_ = [str(ours[name].get(variant, "–")) for name in ours]
        lines.append([variant, _paper(known.get(variant)), str(paper.get(variant, "–")), *shown, *places_])  # fmt: skip
    header = ["", "the paper: W₂", "place", "ours: best W₂", "at rate", "variance there", "place by W₂", "by SW₂", "by energy"]  # fmt: skip
    note = (
        "The paper ranks by W₂. Ours by W₂ are at the rate that is best by W₂, whatever became of the variance; by SW₂ and energy at "
        "their own best rates, where a run with less than 0.8 of the variance cannot win and has no place if all its rates do."
    )
    name = f"{experiment}-{file_name(place.words)}-orders"
    return [Table(name, f"{place.words}: who wins depends on the judge", header, lines, note)]


def _paper(one: Published | None) -> str:
    if one is None or math.isnan(one.mean):
        return "–" if one is None else "NaN"
    rate = "" if one.lr is None else f" at {one.lr:g}"
    return f"{one.mean:.2f} ± {one.std:.2f}{rate}"


def every_rate(experiment: str, place: Place) -> list[Table]:
    """All rates; of translations beside what the paper prints for each."""
    if "root" not in objectives(place):
        return []
    printed = {
        (one.variant, one.lr): one
        for one in published()
        if (one.table, one.setting) == ("translation_full", place.paper_name)
    }
    lines = []
    for variant in ELEVEN:
        for one in place.at_rates(variant, "root", "w2"):
            rate = float(one.rate or 0)
            shown = [told(_all(one.runs, name), name) for name in ("w2", "sw2", "energy", "variance_ratio")]  # fmt: skip
            theirs = printed.get((variant, rate))
            paper = "–" if theirs is None else "NaN" if math.isnan(theirs.mean) else f"{theirs.mean:.2f}"  # fmt: skip
            lines.append([variant, f"{rate:g}", *shown, *([paper] if printed else [])])
    header = ["variant", "rate", "W₂", "SW₂", "energy", "variance"] + ["the paper: W₂"] * bool(printed)  # fmt: skip
    note = "Means over seeds, on the root, means over samples; ∞ where a seed diverged."
    name = f"{experiment}-{file_name(place.words)}-rates"
    return [Table(name, f"{place.words}: every rate", header, lines, note, folded=True)]


def _all(runs: Sequence[Row], measure: str) -> float:
    return sum(value(row, measure) for row in runs) / len(runs)
