"""The first screen of the page: one sentence, three numbers, and flows that can be scrubbed, all of them from the store."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slicewise.lab.data import TOYS, Array
from slicewise.lab.experiments import ELEVEN, FlowCell, ToyTask
from slicewise.lab.report.best import Best, Row, by_rate
from slicewise.lab.report.flow_runs import Flows
from slicewise.lab.report.reasons import SIZES, other_sizes
from slicewise.lab.report.story.endings import Ending, computed, n_searched, searched, span, times
from slicewise.lab.report.training_runs import Group, objectives, without_a_rate

# Films show at most this many steps: searched rates may go on for 10,000, of which little would be seen.
_FILM_STEPS, _FILM_FRAMES = 150, 40
_GRID = 65_535  # coordinates are stored as whole numbers up to this


@dataclass(frozen=True)
class Number:
    """One of the plain numbers of the first screen, and what it counts."""

    number: str
    words: str


@dataclass(frozen=True)
class Take:
    """One of the flows that are shown beside each other."""

    title: str
    words: str  # how it ends
    role: str  # "computed", "best" or "larger"
    w2: Sequence[float | None]  # the exact distance in each frame; None where it is not finite
    frames: str  # x and y of every particle in every frame, as base64 of unsigned 16-bit numbers


@dataclass(frozen=True)
class Film:
    """Flows to one target: a computed step, the best searched rate and a larger one."""

    title: str
    note: str
    n: int
    steps: Sequence[int]  # of each frame
    start: float
    target: str  # as the frames of a take
    takes: Sequence[Take]


def badge(every: Sequence[Flows], trained: Sequence[Group]) -> str:
    """Return "small demo" with its size if the runs are smaller than the paper's; nothing if they are not."""
    sizes = {flows.experiment: _small(flows) for flows in every if flows.rows}
    batches = [group.given["task"]["batch"] for group in trained if "batch" in group.given.get("task", {})]  # fmt: skip
    if batches:
        small = min(batches) < PAPER_BATCH
        sizes["trainings"] = f"batches of {min(batches):,}" if small else ""
    found = {name: size for name, size in sizes.items() if size}
    if not found:
        return ""
    if len(found) == len(sizes):
        return f"small demo, {next(iter(found.values()))}"
    return f"in part a small demo: {', '.join(found)}"


def _small(flows: Flows) -> str:
    """Return the number of particles if the runs of an experiment are smaller than the paper's."""
    rows = [row for row in flows.rows if row["lr"] is not None] or flows.rows
    small = [row for row in rows if _is_small(flows.experiment, row)]
    return f"n = {small[0]['given']['task']['n']:,}" if small else ""


# The paper's batch size in generation and translation, and its number of particles and steps for images.
PAPER_BATCH, _IMAGES = 2048, (50, 200_000)


def _is_small(experiment: str, row: Row) -> bool:
    given = row["given"]
    if experiment in SIZES:
        if row["lr"] is not None:
            return bool(other_sizes(experiment, given))
        return bool(given["task"]["n"] < SIZES[experiment].n)
    n, steps = _IMAGES
    return bool(given["task"]["n"] < n or (row["lr"] is not None and given["steps"] < steps))


def sentence(every: Sequence[Flows], trained: Sequence[Group], claims: str) -> str:
    """Return what was found, in one sentence that is true of the runs at hand."""
    ours = [one for one in computed(every) if one.variant == "sw"]
    if ours:
        there = sum(one.reached for one in ours)
        which = f"all {len(ours)} flows" if there == len(ours) > 1 else f"{there} of {len(ours)} flows"  # fmt: skip
        words = f"With computed steps in place of a learning rate, plain sliced Wasserstein reaches its target in {which}"
        rivals = _rivals(every)
        if rivals:
            words += f"; with the best searched rate, in {sum(rival.reached for _, rival in rivals)} of {len(rivals)}"
        return words
    counts = [count for group in trained if (count := _no_worse(group))]
    if counts:
        good, total = (sum(part) for part in zip(*counts, strict=True))
        return f"Trained without a learning rate, {good} of {total} variants do no worse than at the best searched rate"
    best = [
        one
        for flows in every
        for group in flows.groups
        for variant in ELEVEN
        if (one := searched(flows, group, variant)) is not None
    ]
    if best:
        there = sum(one.reached for one in best)
        return f"Each at the best of its searched learning rates, {there} of {len(best)} flows of sliced Wasserstein and its variants reach their target"
    return claims


def _no_worse(group: Group) -> tuple[int, int] | None:
    found = without_a_rate(group, "sw2", objectives(group))
    return (sum(one.no_worse for one in found), len(found)) if found else None


def numbers(every: Sequence[Flows], trained: Sequence[Group]) -> list[Number]:
    """Return at most three numbers of the runs at hand."""
    found = [*_of_steps(every), *_of_searches(every), *_of_variants(every), *_of_trainings(trained)]
    return found[:3]


def _rivals(every: Sequence[Flows]) -> list[tuple[Ending, Ending]]:
    """Return computed steps of "sw" and its best searched rate, in all groups that have both."""
    return [
        (one, rival)
        for one in computed(every)
        if one.variant == "sw" and (rival := searched(one.flows, one.group, "sw")) is not None
    ]


def _of_steps(every: Sequence[Flows]) -> list[Number]:
    there = [one for one in computed(every) if one.variant == "sw" and one.reached and one.steps]
    if not there:
        return []
    words = (
        "computed steps take plain sw to its target: at most a millionth of the distance is left"
    )
    return [Number(span(one.steps or 0 for one in there), words)]


def _of_searches(every: Sequence[Flows]) -> list[Number]:
    """Say what the search for the rates of "sw" took."""
    rivals = _rivals(every)
    if not rivals:
        return []
    tried = sum(n_searched(one.flows, one.group, "sw") for one, _ in rivals)
    steps = {int(row["given"]["steps"]) for _, rival in rivals for row in rival.best.runs}
    some = f"{len(rivals)} settings" if len(rivals) > 1 else "one setting"
    words = f"searched rates that were tried for plain sw in {some}, {span(steps)} steps each"
    return [Number(f"{tried:,}", words)]


def _of_variants(every: Sequence[Flows]) -> list[Number]:
    found = computed(every)
    variants = {one.variant for one in found}
    if len(variants) < 2:
        return []
    there = sum(one.reached for one in found)
    words = f"flows of all {len(variants)} variants that reach their target with computed steps"
    return [Number(f"{there} of {len(found)}", words)]


def _of_trainings(trained: Sequence[Group]) -> list[Number]:
    counts = [count for group in trained if (count := _no_worse(group))]
    if not counts:
        return []
    good, total = (sum(part) for part in zip(*counts, strict=True))
    words = (
        "networks trained without a rate that are no worse than at the best searched rate (by SW₂)"
    )
    return [Number(f"{good} of {total}", words)]


def films(flows: Flows) -> list[Film]:
    """Return films of "sw", one for each toy target: runs of the store, made again to record their particles.

    Of several dimensions the middle one is taken.
    """
    found = []
    for toy in TOYS:
        groups = [g for g in flows.groups if _task(flows, g).get("toy") == toy and _takes(flows, g)]
        if groups:
            found.append(_film(flows, groups[len(groups) // 2]))
    return found


def _task(flows: Flows, group: str) -> dict[str, Any]:
    return next((row["given"]["task"] for row in flows.rows if row["group"] == group), {})


def _takes(flows: Flows, group: str) -> list[tuple[str, Row]]:
    """Return the runs that are filmed by their roles; none unless there are computed steps and the task can be made again."""
    task = _task(flows, group)
    ours = flows.best(group, "sw", None)
    if ours is None or set(task) != {"toy", "d", "n"} or ours.mean == math.inf:
        return []
    found = [("computed", _first(ours))]
    rival = searched(flows, group, "sw")
    if rival is not None and rival.best.mean < math.inf:
        found.append(("best", _first(rival.best)))
        larger = _larger(by_rate(flows.some(group, "sw", rival.objective)), rival.best)
        found += [("larger", _first(larger))] if larger is not None else []
    return found if all(_cell_of(row) is not None for _, row in found) else []


def _first(best: Best) -> Row:
    return min(best.runs, key=lambda row: row["seed"])


def _larger(found: Sequence[Best], best: Best) -> Best | None:
    """Return the least rate above the best one at which runs diverge; else that which ends farthest."""
    above = [one for one in found if (one.rate or 0) > (best.rate or 0) and one.mean > best.mean]
    return max(above, key=lambda one: (one.mean, -(one.rate or 0)), default=None)


def _film(flows: Flows, group: str) -> Film:
    runs = _takes(flows, group)
    limit = min(_FILM_STEPS, max(int(row["measures"]["steps"]) for _, row in runs))
    steps = _frame_steps(limit)
    paths = [_path(cell, row, steps) for _, row in runs if (cell := _cell_of(row)) is not None]
    target = paths[0][0][0]
    extent = 1.5 * float(np.abs(target).max())
    best_rate = next((row["lr"] for role, row in runs if role == "best"), None)
    takes = []
    for (role, row), (points, w2) in zip(runs, paths, strict=True):
        told = [value if value is not None and math.isfinite(value) else None for value in w2]
        end = _end(flows, group, role, row)
        takes.append(Take(_title(role, row, best_rate), end, role, told, _packed(points[1:], extent)))  # fmt: skip
    task = _task(flows, group)
    return Film(
        group,
        _dimensions(flows, group, runs),
        task["n"],
        steps,
        float(takes[0].w2[0] or 1.0),
        _packed(target[None], extent),
        takes,
    )


def _frame_steps(last: int) -> list[int]:
    """Return the steps of the frames: every step at first, then fewer."""
    dense = range(min(last, 16))
    rest = np.unique(np.geomspace(16, last, _FILM_FRAMES - 16).round().astype(int)) if last > 16 else [last]  # fmt: skip
    return sorted({*dense, *(int(step) for step in rest), last})


def _path(cell: FlowCell, row: Row, steps: Sequence[int]) -> tuple[Array, list[float | None]]:
    """Make a run again; return target and particles in the plane of the data, (1 + frames, n, 2), and distances.

    A run that ended before the last frame stays where it ended.
    """
    made = int(row["measures"]["steps"])
    there = sorted({*(step for step in steps if step < made), min(made, steps[-1])})
    path = cell.path(cell.runs[0], there, there)
    missing = len(steps) - len(there)
    pictures = np.concatenate([path.pictures, np.repeat(path.pictures[-1:], missing, axis=0)])
    return pictures, [*path.w2, *[path.w2[-1]] * missing]


def _cell_of(row: Row) -> FlowCell | None:
    """Return the cell that makes a stored run again; None if today's code would make another one, by its key."""
    given = row["given"]
    if "steps" not in row["measures"]:
        return None
    cell = FlowCell(
        "gradient-flow", ToyTask(given["task"]["toy"], given["task"]["d"], given["task"]["n"]), row["variant"],
        row["objective"], None if row["lr"] is None else (row["lr"],), (row["seed"],), given["steps"],
        given["convention"], given["dtype"], given["reduce"],
        None if given["defaults"] == "slicewise" else given["defaults"],
    )  # fmt: skip
    return cell if cell.runs[0].key == row["key"] else None


def _packed(points: Array, extent: float) -> str:
    """Return points (S, n, 2) as base64; those outside ±2 extents are put on the border."""
    clipped = np.clip(np.nan_to_num(points / extent, nan=2.0), -2, 2)
    whole = np.round((clipped + 2) / 4 * _GRID).astype("<u2")
    return base64.b64encode(whole.tobytes()).decode()


def packed_film(way: Array) -> str:
    """Return a stored path (1 + S, n, 2), target first, as base64."""
    return _packed(way, 1.5 * float(np.abs(way[0]).max()))


def _title(role: str, row: Row, best: float | None) -> str:
    if role == "computed":
        return "Computed step"
    if role == "best":
        return f"Best searched rate, {row['lr']:g}"
    return f"Too large: {times(row['lr'] / best)} × that rate" if best else "A larger rate"


def _end(flows: Flows, group: str, role: str, row: Row) -> str:
    objective = None if row["lr"] is None else row["objective"]
    ending = Ending(flows, group, "sw", objective, Best(row["lr"], _left(row), 0.0, [row]))
    if role == "best":
        return f"End: {ending.words}; best of {n_searched(flows, group, 'sw')} rates tried"
    return f"End: {ending.words}"


def _left(row: Row) -> float:
    return math.inf if row["w2"] is None else float(row["w2"])


def _dimensions(flows: Flows, group: str, runs: Sequence[tuple[str, Row]]) -> str:
    """Say in how many dimensions steps were computed, if in fewer than the searched rates."""
    task = _task(flows, group)
    ranks = [int(row["measures"]["rank"]) for _, row in runs if "rank" in row["measures"]]
    words = f"{task['n']} particles in {task['d']} dimensions, seen in the plane of the data."
    if len(ranks) > 1 and ranks[0] != ranks[1]:
        words += f" Steps are computed in the {ranks[0]} dimensions that the data fill; searched rates work in all {ranks[1]}, as published."
    return words
