"""Sections on generation and translation: who is best by what, over which rates, in what time, beside the paper."""

from __future__ import annotations

import math
from collections.abc import Sequence

from slicewise.lab.experiments.flows import ELEVEN
from slicewise.lab.experiments.latent.cells import DISPLACEMENT
from slicewise.lab.report import charts, drawings
from slicewise.lab.report.best import Best
from slicewise.lab.report.latent_beside import every_rate, orders, told
from slicewise.lab.report.latent_times import times
from slicewise.lab.report.pieces import (
    Chart,
    Charts,
    Figure,
    Heading,
    Piece,
    Section,
    Table,
    file_name,
    pictured,
)
from slicewise.lab.report.samples import samples
from slicewise.lab.report.trainings import Place, mean, objectives, places, value
from slicewise.lab.study.store import Store

TITLES = {"generate": "Generation in a latent space", "translate": "Translation in a latent space"}
_SHOWN = {
    "sw2": "SW₂",
    "energy": "energy",
    "w2": "W₂",
    "frechet": "Fréchet",
    "variance_ratio": "variance",
    "self_w2": "W₂ of two sets",
}
_OF_MOVES = {
    "w2_removed": "W₂ excess removed",
    "frechet_removed": "Fréchet excess removed",
    "probe": "taken for the target",
    "move": "move / mean shift",
    "own_nearest": "own source nearest",
}
_BESIDE = f"{DISPLACEMENT} 0.1"


def section(store: Store, experiment: str) -> Section | None:
    """All there is of one of the two experiments; None if there is nothing."""
    found, lone = places(store, experiment)
    if not found and not lone:
        return None
    pieces: list[Piece] = []
    for place in found:
        pieces += [Heading(place.words), *_basins(experiment, place)]
        pieces += [_ranked(experiment, place, o) for o in (*objectives(place), DISPLACEMENT)]
        pieces += [*orders(experiment, place), *every_rate(experiment, place)]
        pieces += _pictures(store, experiment, place)
    timed = times(experiment, lone)
    pieces += [Heading("Time"), *timed] if timed else []
    return Section(TITLES[experiment], _words(found), pieces, chosen=True)


def _words(found: Sequence[Place]) -> list[str]:
    words = [
        "The latents are not the paper's, and neither are the networks, which it does not describe: compare the order of "
        "the methods, where basins lie and how wide they are, and ratios of times; not distances.",
        "Rates are chosen, and methods ranked, by SW₂ on fixed slices of held-out data; energy is beside. A run with less than "
        "0.8 of the variance cannot win: always to answer the mean has nearly the W₂ of real data.",
    ]
    for place in found:
        given = place.given
        task = given["task"]
        how = f"{place.words}: {given.get('source', '')}, network {' → '.join(map(str, task['network']))}"
        how += f", batches of {task['batch']:,}, {given['steps']:,} steps in {given.get('precision', 'float32')}, {given.get('judged', 0):,} samples judged"
        words.append(f"{how}; {'; '.join(given.get('notes', [])) or 'nothing further'}.")
    return words


def _measures(place: Place) -> dict[str, str]:
    moves = any("w2_removed" in row["measures"] for row in place.rows)
    return {**{k: w for k, w in _SHOWN.items() if not (moves and k == "self_w2")},
            **(_OF_MOVES if moves else {})}  # fmt: skip


def _over_floor(place: Place, number: float) -> str:
    floor = place.floor
    if floor is None or not math.isfinite(number):
        return "–"
    return f"{number / value(floor, 'sw2'):.2f}"


def _ranked(experiment: str, place: Place, objective: str) -> Table:
    """Each variant at its best rate, from best to worst; then those that cannot win, and what needs no training."""
    measures, searched = _measures(place), objective != DISPLACEMENT

    def line(variant: str, one: Best, rate: str) -> list[str]:
        shown = [told(mean(one.runs, name), name) for name in measures]
        beside = _beside(place, variant, one) if searched else []
        return [variant, rate, _over_floor(place, one.mean), *shown, *beside]

    best = {v: place.best(v, objective) for v in ELEVEN}
    there = {v: one for v, one in best.items() if one is not None}
    lines = [line(v, there[v], f"{there[v].rate:g}") for v in sorted(there, key=lambda v: there[v].mean)]  # fmt: skip
    for variant in [v for v in ELEVEN if v not in there]:
        least = place.least(variant, objective)
        if least is not None:
            lines.append(line(variant, least, f"{least.rate:g}, cannot win"))
        else:
            why = "diverged" if place.some(variant, objective) else "not run"
            beside = _beside(place, variant, None) if searched else []
            lines.append([variant, why, *["–"] * (len(measures) + 1), *beside])
    for row in place.untrained():
        shown = [told(mean([row], name), name) for name in measures]
        over = _over_floor(place, value(row, "sw2"))
        lines.append([row["variant"], "no training", over, *shown, *["–", "–"] * searched])
    header = ["", "rate", "SW₂ / floor", *measures.values()]
    note = f"Each variant at the rate that is best by SW₂ on {objective}, means over seeds. "
    if searched:
        header += [f"SW₂ at {_BESIDE}", "over the best"]
        note += (
            f"Last: {_BESIDE}, which nobody searched for, and its SW₂ over that of the best rate."
        )
    title = f"{place.words}: ranked by SW₂, {objective}"
    name = f"{experiment}-{file_name(place.words)}-{objective}"
    return Table(name, title, header, lines, note)


def _beside(place: Place, variant: str, best: Best | None) -> list[str]:
    """The one rate that was not searched for, and what it costs."""
    some = place.some(variant, DISPLACEMENT)
    if not some:
        return ["not run", "–"]
    ours = sum(value(row, "sw2") for row in some) / len(some)
    words = told(ours, "sw2")
    if any(value(row, "variance_ratio") < 0.8 for row in some):
        words += " (variance < 0.8)"
    ratio = "–" if best is None or not math.isfinite(ours) else f"{ours / best.mean:.2f}"
    return [words, ratio]


def _basins(experiment: str, place: Place) -> list[Charts]:
    made = []
    for measure, words in (("sw2", "SW₂ on held-out data"), ("w2", "exact W₂ on held-out data")):
        searched = {
            objective: found
            for objective in objectives(place)
            if (
                found := {
                    v: some
                    for v in ELEVEN
                    if _drawable(some := place.at_rates(v, objective, measure))
                }
            )
        }
        if not searched:
            continue
        every = {v: place.at_rates(v, DISPLACEMENT, measure) for v in ELEVEN}
        beside = {v: some[0] for v, some in every.items() if some and some[0].mean < math.inf}
        caption = f"{words} over the learning rate. Left of the line: {_BESIDE}, for all. A line ends where runs diverge."
        some_charts = [
            Chart(
                f"{words}, {o} objective",
                charts.basin(lines, beside, None, measure=words, beside=_BESIDE),
            )
            for o, lines in searched.items()
        ]
        drawn = drawings.basins(searched, beside, {}, measure=words, beside=_BESIDE)
        name = f"{experiment}-{file_name(place.words)}-basin-{measure}"
        still = pictured(drawn, name, f"{place.words}: {caption}", f"{place.words}. {caption}")
        made.append(Charts(some_charts, caption, still))
    return made


def _pictures(store: Store, experiment: str, place: Place) -> list[Figure]:
    """What each variant makes at its best rate, or what translations make of the same sources."""
    found = samples(store, place, "pictures")
    if not found:
        return []
    lines = [(one.label, one.made) for one in found]
    real = None if place.floor is None else store.array(place.floor["key"], "pictures")
    if found[0].source is not None:
        lines.insert(0, ("source", found[0].source))
    elif real is not None:
        lines.insert(0, ("held out", real))
    caption = f"{place.words}: samples of each variant at its best rate by SW₂, none chosen."
    name = f"{experiment}-{file_name(place.words)}-pictures"
    return [pictured(drawings.gallery(lines), name, caption, caption, photographs=True)]


def _drawable(some: Sequence[Best]) -> bool:
    return any(one.mean < math.inf and 0 < (one.rate or 0) < math.inf for one in some)
