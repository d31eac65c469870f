"""The page as a story: what was found, in one screen and four chapters, every word of it computed from the store."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from slicewise.lab.experiments import ELEVEN
from slicewise.lab.report import latents
from slicewise.lab.report.best import by_rate
from slicewise.lab.report.flow_runs import Flows
from slicewise.lab.report.flows import TITLES, edges, finite, how_made
from slicewise.lab.report.layout import Block, Figure, Table
from slicewise.lab.report.story.claims import Claim, claims, counted
from slicewise.lab.report.story.endings import (
    Ending,
    computed,
    distance,
    percent,
    searched,
    span,
    times,
)
from slicewise.lab.report.story.heat_map import HeatMap, heat_map
from slicewise.lab.report.story.opening import Film, Number, badge, films, numbers, sentence
from slicewise.lab.report.story.panels import Point, basin
from slicewise.lab.report.story.pictures import Pair, all_pairs
from slicewise.lab.report.training_runs import Group, NoRate, groups, objectives, without_a_rate
from slicewise.lab.study import Store

GLOSSARY = {
    "w2": "W₂, the exact Wasserstein distance between all particles and the target, computed in double precision",
    "sw": "Plain sliced Wasserstein: samples are compared along random directions, called slices, where optimal transport is a sort",
    "variant": "A variant of sliced Wasserstein: other slices, or slices that count differently. The paper compares eleven",
    "rate": "The learning rate: the number that a gradient is multiplied by to make a step. It is usually found by trying several",
    "computed": "The step that minimizes the loss on the slices just drawn, with matchings held fixed: a division, no search",
    "root": "The loss SW₂, as in the paper's scripts. With a constant rate it oscillates about its target",
    "power": "The loss SW₂², a mean over particles and slices",
    "reached": "At most one millionth of the initial distance W₂ is left",
    "sw2": "SW₂ on fixed slices, between samples of the network and held-out data",
    "flow": "Particles that move along the gradient of a distance, until they lie on the target",
    "setting": "A target in some number of dimensions, or a pair of image sets",
}  # fmt: skip


@dataclass(frozen=True)
class Idea:
    """The first chapter: what is left over the rate, a chart for each setting."""

    title: str
    objective: str
    charts: Sequence[tuple[str, str]]  # titles and SVGs
    variants: Sequence[str]
    note: str


@dataclass(frozen=True)
class Dot:
    """A variant on a strip, at a place from 0 to 100."""

    variant: str
    place: float
    tip: str


@dataclass(frozen=True)
class Strip:
    """Variants along an axis."""

    title: str
    dots: Sequence[Dot]


@dataclass(frozen=True)
class Limits:
    """The third chapter: flows that stop short of their target, trainings behind the best rate, runs that failed."""

    title: str
    flows: Sequence[Strip]
    trainings: Sequence[Strip]
    failures: Sequence[str]
    variants: Sequence[str]
    note: str = ""


@dataclass(frozen=True)
class Story:
    """All that the page shows."""

    badge: str
    sentence: str
    numbers: Sequence[Number]
    films: Sequence[Film]
    still: Figure | None  # in place of the films, for readers without scripts
    idea: Idea | None
    works: HeatMap | None
    works_title: str
    pairs: Sequence[Pair]
    limits: Limits | None
    claims: Sequence[Claim]
    claims_title: str
    how_made: Sequence[str]
    folds: Sequence[tuple[str, Sequence[Block]]] = field(default_factory=list)


def tell(store: Store, every: Sequence[Flows], blocks: dict[str, list[Block]]) -> Story:
    """Return the story of a store.

    Args:
        store: of the runs.
        every: the flows of its experiments.
        blocks: figures and tables, by the titles of experiments.
    """
    trainings = {name: groups(store, name) for name in latents.TITLES}
    trained = [group for some, _ in trainings.values() for group in some]
    timed = [row for _, some in trainings.values() for row in some]
    figures = {b.name: b for some in blocks.values() for b in some if isinstance(b, Figure)}
    statements = claims(store, every, trained, timed, figures)
    total = counted(statements)
    toys = next((flows for flows in every if flows.experiment == "gradient-flow"), None)
    folds = [(title, [b for b in some if isinstance(b, Table) and not b.apart]) for title, some in blocks.items()]  # fmt: skip
    return Story(
        badge(every, trained),
        sentence(every, trained, total),
        numbers(every, trained),
        [] if toys is None else films(toys),
        figures.get("gradient-flow-ways"),
        _idea(every),
        heat_map(every),
        _works_title(every),
        all_pairs(store, every, trained),
        _limits(every, trained),
        statements,
        total,
        [*_how_flows(every), *(latents.how_made(trained) if trained else [])],
        [(title, tables) for title, tables in folds if tables],
    )


def _how_flows(every: Sequence[Flows]) -> Iterator[str]:
    for flows in every:
        yield from (f"{TITLES[flows.experiment]}. {words}" for words in how_made(flows))


# The idea.


def _idea(every: Sequence[Flows]) -> Idea | None:
    """Return the charts of the first experiment with searched rates, on the loss that more variants were searched on."""
    for flows in every:
        lines = {o: {g: finite(flows, g, o) for g in flows.groups} for o in ("power", "root")}
        objective = max(lines, key=lambda o: sum(map(len, lines[o].values())))
        groups_ = [group for group, variants in lines[objective].items() if variants]
        if groups_:
            return _idea_of(flows, objective, groups_)
    return None


def _idea_of(flows: Flows, objective: str, groups_: Sequence[str]) -> Idea:
    charts, variants, apart = [], set(), []
    for group in groups_:
        start = flows.starts.get(group, 1.0)
        lines = {
            v: [Point(one.rate, one.mean / start) for one in some if one.rate and one.rate > 0]
            for v in ELEVEN
            if (some := by_rate(flows.some(group, v, objective)))
        }
        lines = {v: points for v, points in lines.items() if points}
        ours = flows.best(group, "sw", None)
        left = None if ours is None or ours.mean == math.inf else ours.mean / start
        title = f"{group}: what is left of the initial distance over the learning rate, {objective} loss"
        told = percent if group in flows.starts else distance
        svg = basin(lines, left, edges(flows, group).get(objective), title, told)
        charts.append((group, svg))
        variants |= set(lines)
        best = [one.rate for v in lines if (one := flows.best(group, v, objective)) is not None
                and one.mean < math.inf and one.rate]  # fmt: skip
        if len(best) > 1:
            apart.append((max(best) / min(best), group, len(best)))
    measure = "What is left of the initial distance (exact W₂)" if all(g in flows.starts for g in groups_) else "The exact W₂ that is left"  # fmt: skip
    note = f"{measure} at each rate that was tried, after the same number of steps. Point at a line, or at a name, to see whose it is."
    return Idea(
        _idea_title(apart, flows, objective, groups_),
        objective,
        charts,
        [v for v in ELEVEN if v in variants],
        note,
    )


def _idea_title(
    apart: Sequence[tuple[float, str, int]], flows: Flows, objective: str, groups_: Sequence[str]
) -> str:
    if apart and max(apart)[0] > 1:
        factor, group, count = max(apart)
        return f"One learning rate does not serve all variants: on {group} the best ones of {count} lie {times(factor)} times apart"
    if apart:
        return "The same learning rate is best for all variants that were tried"
    variant = next(v for v in ELEVEN if flows.some(groups_[0], v, objective))
    rates = by_rate(flows.some(groups_[0], variant, objective))
    bad = sum(one.mean == math.inf for one in rates)
    return f"A learning rate has to be found: {bad} of {len(rates)} that were tried for {variant} on {groups_[0]} diverge"


# It works.


def _works_title(every: Sequence[Flows]) -> str:
    found = computed(every)
    if not found:
        return ""
    there = [one for one in found if one.reached]
    ours = [one for one in there if one.variant == "sw" and one.steps]
    words = f"With computed steps {len(there)} of {len(found)} flows reach their target"
    if len(found) == len(there) and len(found) > 1:
        words = f"With computed steps all {len(found)} flows reach their target"
    if ours:
        words += f"; plain sw needs {span(one.steps or 0 for one in ours)} steps"
    return words


# Where it does not.

_LOWEST, _HIGHEST = 1e-6, 1.0  # the axis of what is left
_RATIOS = 4.0  # ratios are drawn up to this factor either way


def _limits(every: Sequence[Flows], trained: Sequence[Group]) -> Limits | None:
    endings = computed(every)
    compared = {group.words: without_a_rate(group, "sw2", objectives(group)) for group in trained}
    compared = {words: found for words, found in compared.items() if found}
    failures = [line for flows in every for line in _failures(flows)]
    if not endings and not compared and not failures:
        return None
    short = [one for one in endings if not one.reached]
    strips = [
        Strip(group, [_end_dot(one) for one in endings if (one.flows, one.group) == (flows, group)])
        for flows, group in dict.fromkeys((one.flows, one.group) for one in short)
    ]
    ratios = [Strip(words, [_ratio_dot(one) for one in found if math.isfinite(one.ratio)]) for words, found in compared.items()]  # fmt: skip
    every_ratio = [one for found in compared.values() for one in found]
    shown = {dot.variant for strip in (*strips, *ratios) for dot in strip.dots}
    return Limits(
        _limits_title(endings, short, every_ratio, failures),
        strips,
        ratios,
        failures,
        [v for v in ELEVEN if v in shown],
        _beaten(short),
    )


def _limits_title(
    endings: Sequence[Ending], short: Sequence[Ending], ratios: Sequence[NoRate], failures: Sequence[str]
) -> str:  # fmt: skip
    words = []
    if short:
        groups_ = [one.group for one in short]
        most = max(dict.fromkeys(groups_), key=groups_.count)
        where = f", {groups_.count(most)} of them on {most}" if len(set(groups_)) > 1 else f", on {most}"  # fmt: skip
        words.append(f"{len(short)} of {len(endings)} flows stop short of their target{where}")
    behind = [one for one in ratios if not one.no_worse]
    if behind:
        words.append(f"{len(behind)} of {len(ratios)} trainings end behind the best searched rate")
    if failures:
        words.append(f"{len(failures)} cell{'s' * (len(failures) > 1)} of the study failed or {'are' if len(failures) > 1 else 'is'} missing")  # fmt: skip
    if words:
        return "; ".join(words)
    nothing = [f"all {len(endings)} flows reach their target"] if endings else []
    nothing += [f"none of {len(ratios)} trainings ends behind the best searched rate"] if ratios else []  # fmt: skip
    return f"Nothing of that kind in these runs: {', and '.join(nothing)}"


def _beaten(short: Sequence[Ending]) -> str:
    """Say where a searched rate ends closer than computed steps that stop short."""
    if not short:
        return ""
    both = [(one, rival) for one in short if (rival := searched(one.flows, one.group, one.variant)) is not None]  # fmt: skip
    if not both:
        return "For none of the flows that stop short were rates searched, so no rate is known that does better."
    closer = [(one, rival) for one, rival in both if rival.best.mean < one.best.mean]
    words = f"For {len(both)} of the flows that stop short rates were searched, too; the best rate ends closer in {len(closer)}"
    if not closer:
        return f"{words}."
    one, rival = max(closer, key=lambda pair: pair[0].left / max(pair[1].left, _LOWEST))
    return (
        f"{words}, most so for {one.variant} on {one.group}: computed steps leave {one.told_left}, the rate {rival.best.rate:g} "
        f"leaves {rival.told_left}."
    )


def _end_dot(one: Ending) -> Dot:
    left = min(max(one.left, _LOWEST), _HIGHEST)
    place = 100 * math.log(left / _LOWEST) / math.log(_HIGHEST / _LOWEST)
    return Dot(one.variant, place, f"{one.variant}: {one.words}")


def _ratio_dot(one: NoRate) -> Dot:
    ratio = min(max(one.ratio, 1 / _RATIOS), _RATIOS)
    place = 50 + 50 * math.log(ratio) / math.log(_RATIOS)
    return Dot(one.variant, place, f"{one.variant}: {one.ratio:.2f} times the SW₂ of the best rate")


def _failures(flows: Flows) -> Iterator[str]:
    name = TITLES[flows.experiment].lower()
    for setting, why in flows.missing_settings().items():
        yield f"{name}, {setting}: {why}"
    for group in flows.groups:
        for variant in ELEVEN:
            for objective in (None, *flows.objectives(group)):
                if flows.best(group, variant, objective) is None:
                    why = flows.why_missing(group, variant, objective)
                    how = "computed step" if objective is None else f"{objective} loss"
                    if why.startswith(("failed", "not made")):
                        yield f"{name}, {group}, {variant}, {how}: {why}"
