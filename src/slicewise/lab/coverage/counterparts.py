"""Which of the paper's numbers have a counterpart in the kept records, at the paper's settings or at reduced ones."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from slicewise.lab.experiments import (
    GENERATION,
    PUBLISHED_RATES,
    TIMED_PREFIX,
    published_objective,
    published_rate,
)
from slicewise.lab.names import COLOR, GENERATE, GRADIENT_FLOW, IMAGE_FLOW, TRANSLATE
from slicewise.lab.published import Published, published
from slicewise.lab.study import kept_means

Status = Literal["paper", "reduced", "none"]
STATUSES: tuple[Status, ...] = ("paper", "reduced", "none")
Line = dict[str, str]


@dataclass(frozen=True)
class Counterpart:
    """Our number beside one of the paper's.

    Args:
        number: the paper's.
        status: "paper" if n, L, steps, rates and objective are the paper's; "reduced" if one is not; "none" if there is no run.
        ours: the distance left, or seconds, scaled to the paper's steps if fewer were timed; NaN if there is none.
        rate: at which ours was found, on the paper's scale; None for times.
        seeds: how many runs ours is the mean of.
        why: what is reduced.
    """

    number: Published
    status: Status
    ours: float = math.nan
    rate: float | None = None
    seeds: int = 0
    why: str = ""


def latent_objective(variant: str) -> str:
    """Return the loss of a column in the tables of networks.

    The paper writes it as the mean of W_2 over slices. That is taken for "sw"; the other columns are taken to descend the root of
    the mean of W_2², as the implementations do which their authors published.
    """
    return "mean_root" if variant == "sw" else "root"


@dataclass(frozen=True)
class _Wanted:
    """The settings of the paper for one table of distances."""

    experiment: str
    setting: Callable[[str], str]
    objective: Callable[[str], str]
    steps: int
    n: int | None  # None: batches of networks, the same in all records
    rates: Sequence[float]
    scale: Callable[[float, str], float] = lambda rate, objective: rate  # ours to the paper's


def _latent_setting(name: str) -> str:
    return GENERATION if name == "unconditional" else name.replace("_", " ")


def _color_scale(rate: float, objective: str) -> float:
    return published_rate(rate, objective, 3000)


def _root(variant: str) -> str:
    return "root"


def _distances(one: Published) -> _Wanted:
    if one.table == "gradient_flow_best":
        return _Wanted(GRADIENT_FLOW, str, _root, 10_000, 300, PUBLISHED_RATES[GRADIENT_FLOW])
    if one.table.startswith("color"):
        return _Wanted(
            COLOR, str, published_objective, 50_000, 3000, PUBLISHED_RATES[COLOR], _color_scale
        )
    experiment = GENERATE if one.setting == "unconditional" else TRANSLATE
    return _Wanted(
        experiment, _latent_setting, latent_objective, 10_000, None, PUBLISHED_RATES[TRANSLATE]
    )


# Table and setting of the paper's times: experiment, our setting, steps.
_TIMES = {
    ("gradient_flow_best", "all"): (GRADIENT_FLOW, "swiss d=50", 10_000),
    ("image_flow_runtime", "mnist"): (IMAGE_FLOW, "mnist", 200_000),
    ("image_flow_runtime", "celeba"): (IMAGE_FLOW, "faces", 200_000),
    ("color_transfer_best", "all"): (COLOR, "set1", 50_000),
    ("generative_best", "unconditional"): (GENERATE, GENERATION, 10_000),
    ("generative_best", "male_to_female"): (TRANSLATE, "male to female", 10_000),
    ("generative_best", "adult_to_child"): (TRANSLATE, "adult to child", 10_000),
}


def coverage(folder: Path) -> list[Counterpart]:
    """Return the counterpart of every published number in the records of a folder, in the order of the paper's tables.

    Raises:
        UserError: the folder has no records.
    """
    names = (GRADIENT_FLOW, IMAGE_FLOW, COLOR, GENERATE, TRANSLATE)
    # By setting and variant: thousands of lines are looked up for each number otherwise.
    lines: dict[tuple[str, str, str], list[Line]] = {}
    for name in names:
        for line in kept_means(folder, name):
            lines.setdefault((name, line["setting"], line["variant"]), []).append(line)
    return [
        _time(one, lines) if one.metric == "runtime_s" else _distance(one, lines)
        for one in published()
    ]


def _time(one: Published, lines: dict[tuple[str, str, str], list[Line]]) -> Counterpart:
    experiment, setting, steps = _TIMES[one.table, one.setting]
    found = lines.get((experiment, TIMED_PREFIX + setting, one.variant), [])
    if not found:
        return Counterpart(one, "none")
    most = max(found, key=lambda line: int(line["limit"]))
    made = int(most["limit"])
    whole = float(most["seconds"]) * steps / made
    why = "" if made >= steps else f"{made:,} of {steps:,} steps timed"
    return Counterpart(one, "reduced" if why else "paper", whole, None, int(most["seeds"]), why)


def _distance(one: Published, lines: dict[tuple[str, str, str], list[Line]]) -> Counterpart:
    wanted = _distances(one)
    setting = wanted.setting(one.setting)
    found = [
        line
        for line in lines.get((wanted.experiment, setting, one.variant), [])
        if line["lr"]
        and line["objective"] in ("root", "power", "mean_root")
        and line["convention"] == "mean"
    ]
    objective = wanted.objective(one.variant)
    whole = int(wanted.steps)
    # At the paper's settings first; then with fewer steps; then on another objective.
    for here, short in ((objective, False), (objective, True), (None, False), (None, True)):
        some = [
            line
            for line in found
            if (here is None or line["objective"] == here)
            and (short or int(line["limit"]) >= whole)
            and (wanted.n is None or int(line["n"]) == wanted.n)
        ]
        counterpart = _at_rates(one, wanted, some, objective)
        if counterpart is not None:
            return counterpart
    return Counterpart(one, "none")


def _at_rates(
    one: Published, wanted: _Wanted, lines: list[Line], objective: str
) -> Counterpart | None:
    """Return our number at the paper's rate, or the best of its rates; None if no line has one."""
    by_rate: dict[float, Line] = {}
    for line in lines:
        rate = wanted.scale(float(line["lr"]), line["objective"])
        grid = min(wanted.rates, key=lambda known: abs(math.log(known / rate)))
        if math.isclose(grid, rate, rel_tol=1e-6) and (one.lr is None or not _full(one) or math.isclose(grid, one.lr, rel_tol=1e-6)):  # fmt: skip
            # Of two lines at one rate the longer, then that with more seeds.
            kept = by_rate.get(grid)
            if kept is None or _weight(line) > _weight(kept):
                by_rate[grid] = line
    if not by_rate:
        return None
    rate, line = min(by_rate.items(), key=lambda item: float(item[1]["w2_mean"] or "inf"))
    why = []
    if not _full(one) and len(by_rate) < len(wanted.rates):
        why.append(f"{len(by_rate)} of {len(wanted.rates)} rates")
    made = min(int(some["limit"]) for some in by_rate.values())
    if made < wanted.steps:
        why.append(f"{made:,} of {wanted.steps:,} steps")
    if any(some["objective"] != objective for some in by_rate.values()):
        why.append(f"on the {line['objective']} instead of the {objective}")
    seeds = min(int(some["seeds"]) for some in by_rate.values())
    left = float(line["w2_mean"] or "inf")
    return Counterpart(one, "reduced" if why else "paper", left, rate, seeds, ", ".join(why))


def _full(one: Published) -> bool:
    """Whether the table has a number for every rate."""
    return one.table.endswith("_full")


def _weight(line: Line) -> tuple[int, int]:
    return int(line["limit"]), int(line["seeds"])


def counts(found: Iterable[Counterpart]) -> dict[Status, int]:
    """Return how many numbers have each status."""
    some = list(found)
    return {status: sum(one.status == status for one in some) for status in STATUSES}


def coverage_table(found: Sequence[Counterpart]) -> list[list[str]]:
    """Return a row for each table and kind of number: how many, by status, seeds of those at the paper's settings, what is reduced."""
    groups: dict[tuple[str, str], list[Counterpart]] = {}
    for one in found:
        groups.setdefault((one.number.table, one.number.metric), []).append(one)
    rows = [_row(f"{table}, {metric}", some) for (table, metric), some in groups.items()]
    return [*rows, _row("all", list(found))]


def _row(name: str, some: list[Counterpart]) -> list[str]:
    number = counts(some)
    seeds = sorted({one.seeds for one in some if one.status == "paper"})
    why = list(dict.fromkeys(one.why for one in some if one.why)) if name != "all" else []
    shown = str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}" if seeds else ""
    return [
        name,
        str(len(some)),
        *(str(number[status]) for status in STATUSES),
        shown,
        "; ".join(why),
    ]


def coverage_csv(found: Sequence[Counterpart]) -> str:
    """Return every number of the paper with ours beside it, as CSV."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        ("table", "setting", "variant", "rate", "metric", "paper", "ours", "our_rate", "seeds", "status", "reduced")
    )  # fmt: skip
    for one in found:
        n = one.number
        writer.writerow(
            (n.table, n.setting, n.variant, n.lr, n.metric, n.mean, f"{one.ours:.6g}", one.rate, one.seeds, one.status, one.why)
        )  # fmt: skip
    return out.getvalue()
