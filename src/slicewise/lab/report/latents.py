"""Figures and tables of generation and translation: rankings of the variants, distances over rates, samples and times.

Numbers stand beside the paper's where it prints any.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from slicewise.judging import MIN_VARIANCE_RATIO
from slicewise.lab.experiments import COMPUTED, DISPLACEMENT, ELEVEN, TIMED_PREFIX
from slicewise.lab.images import gallery
from slicewise.lab.published import Published, find, published
from slicewise.lab.report import drawings
from slicewise.lab.report.best import Best, Row
from slicewise.lab.report.layout import Block, Figure, Table, as_figure, file_name
from slicewise.lab.report.training_runs import (
    NAMES,
    PAPER_NAMES,
    Group,
    Samples,
    count_no_worse,
    is_eligible,
    mean,
    objectives,
    samples,
    value,
    without_a_rate,
)
from slicewise.lab.study import Store, as_json

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
# Trainings whose rate was not searched for, by the names that they have in tables and charts.
_UNSEARCHED = {"no rate": COMPUTED, f"{DISPLACEMENT} 0.1": DISPLACEMENT}
_COLLAPSED = f" (variance < {MIN_VARIANCE_RATIO:g})"
# The paper's dimension of latents and batch size.
_PAPER_SIZES = (512, 2048)


def blocks(
    store: Store, experiment: str, found: Sequence[Group], timed: Sequence[Row]
) -> list[Block]:
    """Return the figures and tables of one of the two experiments."""
    made: list[Block] = []
    for group in found:
        made += [*_basins(experiment, group), *no_rate(experiment, group)]
        made += [
            _ranked(experiment, group, o)
            for o in (*objectives(group), DISPLACEMENT, COMPUTED)
            if _has(group, o) or (o == DISPLACEMENT and group.untrained())
        ]
        made += [*orders(experiment, group), *every_rate(experiment, group)]
        made += _pictures(store, experiment, group)
    return [*made, *times(experiment, timed)]


def how_made(found: Sequence[Group]) -> list[str]:
    """Describe how the runs were made, and how they may be compared."""
    words = [
        "The latents are not the paper's, and neither are the networks, which it does not describe: compare the order of "
        "the methods, where basins lie and how wide they are, and ratios of times; not distances.",
        "Rates are chosen, and methods ranked, by SW₂ on fixed slices of held-out data; energy is beside. A run with less than "
        "0.8 of the variance cannot win: always to answer the mean has nearly the W₂ of real data.",
    ]
    for group in found:
        given = group.given
        task = given["task"]
        how = f"{group.words}: {given.get('source', '')}, network {' → '.join(map(str, task['network']))}"
        how += f", batches of {task['batch']:,}, {given['steps']:,} steps in {given.get('precision', 'float32')}, {given.get('judged', 0):,} samples judged"
        words.append(f"{how}; {'; '.join(given.get('notes', [])) or 'nothing further'}.")
    return words


def _basins(experiment: str, group: Group) -> list[Figure]:
    made = []
    for measure, words in (("sw2", "SW₂ on held-out data"), ("w2", "exact W₂ on held-out data")):
        searched = {
            NAMES.get(objective, objective): found
            for objective in objectives(group)
            if (
                found := {
                    v: some
                    for v in ELEVEN
                    if _drawable(some := group.at_rates(v, objective, measure))
                }
            )
        }
        if not searched:
            continue
        beside = {
            name: marks
            for name, objective in _UNSEARCHED.items()
            if (marks := _marks(group, objective, measure))
        }
        left = f" Left of the line: {' and '.join(beside)}, for all." if beside else ""
        caption = (
            f"{group.words}. {words} over the learning rate.{left} A line ends where runs diverge."
        )
        drawn = drawings.basins(searched, beside, {}, measure=words)
        name = f"{experiment}-{file_name(group.words)}-basin-{measure}"
        made.append(as_figure(drawn, name, caption, caption))
    return made


def _has(group: Group, objective: str) -> bool:
    return any(row["objective"] == objective for row in group.rows)


def _marks(group: Group, objective: str, measure: str) -> dict[str, Best]:
    """Return the finite results of trainings that were not searched for, by variant."""
    every = {v: group.at_rates(v, objective, measure) for v in ELEVEN}
    return {v: some[0] for v, some in every.items() if some and some[0].mean < math.inf}


def no_rate(experiment: str, group: Group) -> list[Table]:
    """Return a table of trainings without a rate beside the best of all searched rates, by SW_2 and by energy."""
    searched = objectives(group)
    found = {
        measure: {one.variant: one for one in without_a_rate(group, measure, searched)}
        for measure in ("sw2", "energy")
    }
    if not found["sw2"]:
        return []
    lines = []
    for variant in (v for v in ELEVEN if any(v in some for some in found.values())):
        line = [variant]
        for measure, some in found.items():
            one = some.get(variant)
            if one is None:
                line += ["–"] * 4
                continue
            way = f"{NAMES.get(one.objective, one.objective)} {one.best.rate:g}"
            ratio = format_measure(one.ratio)
            line += [_spread(one.ours, measure), _spread(one.best, measure), way, ratio]
        lines.append(line)
    header = [""]
    for measure in found:
        words = _SHOWN[measure]
        header += [f"{words}, no rate", f"{words}, best rate", f"at, by {words}", f"ratio of {words}"]  # fmt: skip
    note = "Means over seeds, ± the standard deviation over them. The best rate is chosen by the measure itself on the samples that are judged. "
    for objective in (None, *searched) if len(searched) > 1 else (None,):
        of = searched if objective is None else [objective]
        said = [
            f"by {_SHOWN[measure]} for {count_no_worse(without_a_rate(group, measure, of))}"
            for measure in found
        ]
        rates = "all searched rates" if objective is None else NAMES.get(objective, objective)
        note += f"Of {rates}: no rate is no worse than the best {', '.join(said)}. "
    name = f"{experiment}-{file_name(group.words)}-no-rate"
    title = f"{group.words}: no rate beside the best searched one"
    return [Table(name, title, header, lines, note.strip())]


def _spread(one: Best, measure: str) -> str:
    std = f" ± {format_measure(one.std, measure)}" if len(one.runs) > 1 and one.std else ""
    return format_measure(one.mean, measure) + std + ("" if is_eligible(one) else _COLLAPSED)


def _drawable(some: Sequence[Best]) -> bool:
    return any(one.mean < math.inf and 0 < (one.rate or 0) < math.inf for one in some)


def _ranked(experiment: str, group: Group, objective: str) -> Table:
    """Return a table of the variants at their best rates, from best to worst, then those that cannot win and the baselines."""
    measures, searched = _measures(group), objective not in _UNSEARCHED.values()
    also = {name: o for name, o in _UNSEARCHED.items() if o == DISPLACEMENT or _has(group, o)}

    def beside(variant: str, one: Best | None) -> list[str]:
        return [w for o in also.values() for w in _beside(group, variant, one, o)] if searched else []  # fmt: skip

    def line(variant: str, one: Best, rate: str) -> list[str]:
        shown = [format_measure(mean(one.runs, name), name) for name in measures]
        return [variant, rate, _over_floor(group, one.mean), *shown, *beside(variant, one)]

    best = {v: group.best(v, objective) for v in ELEVEN}
    there = {v: one for v, one in best.items() if one is not None}
    lines = [line(v, there[v], _rate(there[v])) for v in sorted(there, key=lambda v: there[v].mean)]  # fmt: skip
    for variant in [v for v in ELEVEN if v not in there]:
        least = group.least(variant, objective)
        if least is not None:
            lines.append(line(variant, least, f"{_rate(least)}, cannot win"))
        elif group.some(variant, objective):
            lines.append([variant, "diverged", *["–"] * (len(measures) + 1), *beside(variant, None)])  # fmt: skip
    for row in group.untrained():
        shown = [format_measure(mean([row], name), name) for name in measures]
        over = _over_floor(group, value(row, "sw2"))
        lines.append(
            [row["variant"], "no training", over, *shown, *["–"] * (2 * len(also) * searched)]
        )
    header = ["", "rate", "SW₂ / floor", *measures.values()]
    words = NAMES.get(objective, objective)
    note = f"Each variant at the rate that is best by SW₂ on {words}, means over seeds. "
    if objective == COMPUTED:
        note = (
            "Each variant with its step lengths computed along Adam's direction, means over seeds. "
        )
    if searched:
        header += [w for name in also for w in (f"SW₂, {name}", f"{name} / best")]
        note += f"Last: {' and '.join(also)}, not searched for, and their SW₂ over that of the best rate."
    title = f"{group.words}: ranked by SW₂, {words}"
    name = f"{experiment}-{file_name(group.words)}-{objective}"
    return Table(name, title, header, lines, note)


def _rate(one: Best) -> str:
    return "computed" if one.rate is None else f"{one.rate:g}"


def _measures(group: Group) -> dict[str, str]:
    moves = any("w2_removed" in row["measures"] for row in group.rows)
    return {**{k: w for k, w in _SHOWN.items() if not (moves and k == "self_w2")},
            **(_OF_MOVES if moves else {})}  # fmt: skip


def _over_floor(group: Group, number: float) -> str:
    floor = group.floor
    if floor is None or not math.isfinite(number):
        return "–"
    return f"{number / value(floor, 'sw2'):.2f}"


def _beside(group: Group, variant: str, best: Best | None, objective: str) -> list[str]:
    """Return SW₂ of trainings that were not searched for, and its ratio to the best."""
    some = group.some(variant, objective)
    if not some:
        return ["not run", "–"]
    ours = sum(value(row, "sw2") for row in some) / len(some)
    words = format_measure(ours, "sw2")
    if any(value(row, "variance_ratio") < MIN_VARIANCE_RATIO for row in some):
        words += _COLLAPSED
    ratio = "–" if best is None or not math.isfinite(ours) else f"{ours / best.mean:.2f}"
    return [words, ratio]


def orders(experiment: str, group: Group) -> list[Table]:
    """Return a table of the ranks by W_2, as in the paper, by SW_2 and by energy."""
    if not group.paper_name or "root" not in objectives(group):
        return []
    theirs = {v: find("generative_best", v, group.paper_name, "W2") for v in ELEVEN}
    known = {v: one for v, one in theirs.items() if one is not None}
    paper = {v: i for i, v in enumerate(sorted(known, key=lambda v: known[v].mean), 1)}
    ours = {name: group.ranks(name) for name in ("w2", "sw2", "energy")}
    lines = []
    run = [v for v in ELEVEN if group.some(v, "root")]
    for variant in sorted(run, key=lambda v: paper.get(v, 99)):
        by_w2 = group.best(variant, "root", "w2")
        shown = ["–", "–", "–"]
        if by_w2 is not None:
            kept = mean(by_w2.runs, "variance_ratio")
            shown = [f"{by_w2.mean:.3f}", f"{by_w2.rate:g}", f"{kept:.2f}"]
        places_ = [str(ours[name].get(variant, "–")) for name in ours]
        lines.append([variant, _paper(known.get(variant)), str(paper.get(variant, "–")), *shown, *places_])  # fmt: skip
    header = ["", "the paper: W₂", "rank", "ours: best W₂", "at rate", "variance there", "rank by W₂", "by SW₂", "by energy"]  # fmt: skip
    note = (
        "The paper ranks by W₂. Ours by W₂ are at the rate that is best by W₂, whatever became of the variance; by SW₂ and energy at "
        "their own best rates, where a run with less than 0.8 of the variance cannot win; a variant has no rank if that holds at all its rates."
    )
    name = f"{experiment}-{file_name(group.words)}-orders"
    return [Table(name, f"{group.words}: the ranking depends on the measure", header, lines, note)]


def _paper(one: Published | None) -> str:
    if one is None or math.isnan(one.mean):
        return "–" if one is None else "NaN"
    rate = "" if one.lr is None else f" at {one.lr:g}"
    return f"{one.mean:.2f} ± {one.std:.2f}{rate}"


def every_rate(experiment: str, group: Group) -> list[Table]:
    """Return a table of all rates; of translations with the paper's number for each."""
    if "root" not in objectives(group):
        return []
    printed = {
        (one.variant, one.lr): one
        for one in published()
        if (one.table, one.setting) == ("translation_full", group.paper_name)
    }
    lines = []
    for variant in ELEVEN:
        for one in group.at_rates(variant, "root", "w2"):
            rate = float(one.rate or 0)
            shown = [format_measure(_all(one.runs, name), name) for name in ("w2", "sw2", "energy", "variance_ratio")]  # fmt: skip
            theirs = printed.get((variant, rate))
            paper = "–" if theirs is None else "NaN" if math.isnan(theirs.mean) else f"{theirs.mean:.2f}"  # fmt: skip
            lines.append([variant, f"{rate:g}", *shown, *([paper] if printed else [])])
    header = ["variant", "rate", "W₂", "SW₂", "energy", "variance"] + ["the paper: W₂"] * bool(printed)  # fmt: skip
    note = "Means over seeds, on the root, means over samples; ∞ where a seed diverged."
    name = f"{experiment}-{file_name(group.words)}-rates"
    return [Table(name, f"{group.words}: every rate", header, lines, note, apart=True)]


def _all(runs: Sequence[Row], measure: str) -> float:
    return sum(value(row, measure) for row in runs) / len(runs)


def _pictures(store: Store, experiment: str, group: Group) -> list[Figure]:
    """Return figures of what each variant makes: at its best rate and without a rate, of translations from the same sources."""
    name = f"{experiment}-{file_name(group.words)}-pictures"
    rated = samples(store, group, "pictures", (*objectives(group), DISPLACEMENT))
    without = samples(store, group, "pictures", (COMPUTED,))
    words = f"{group.words}: samples of each variant"
    return [
        *_gallery(store, group, rated, name, f"{words} at its best rate by SW₂, none chosen."),
        *_gallery(store, group, without, f"{name}-no-rate", f"{words} without a rate, none chosen."),
    ]  # fmt: skip


def _gallery(
    store: Store, group: Group, found: Sequence[Samples], name: str, caption: str
) -> list[Figure]:
    """Return a figure of samples, a line for each variant, below real ones or sources."""
    if not found:
        return []
    lines = [(one.label, one.made) for one in found]
    real = None if group.floor is None else store.array(group.floor["key"], "pictures")
    if found[0].source is not None:
        lines.insert(0, ("source", found[0].source))
    elif real is not None:
        lines.insert(0, ("held out", real))
    return [as_figure(gallery(lines), name, caption, caption, photographs=True)]


def times(experiment: str, timed: Sequence[Row]) -> list[Table]:
    """Return tables of the times of single runs beside the paper's, for each task and machine."""
    by_place: dict[tuple[str, ...], dict[str, Row]] = {}
    for row in timed:
        given = row["given"]
        how = as_json([given["task"], given["steps"], given["precision"]])
        where = (row["setting"].removeprefix(TIMED_PREFIX), given["machine"], how)
        by_place.setdefault(where, {})[row["variant"]] = row
    tables: list[Table] = []
    for (setting, machine, _), rows in by_place.items():
        seconds = {v: 1e4 * r["seconds"] / max(r["measures"]["steps"], 1) for v, r in rows.items()}
        lines = []
        one = next(iter(rows.values()))
        task, steps = one["given"]["task"], one["given"]["steps"]
        # Times of small networks cannot be compared with the paper's.
        alike = (task["network"][-1], task["batch"]) == _PAPER_SIZES
        for variant in ELEVEN:
            if variant not in seconds:
                continue
            group = PAPER_NAMES.get(setting, "") if alike else ""
            paper = find("generative_best", variant, group, "runtime_s")
            theirs = "–" if paper is None else f"{paper.mean:.2f} ± {paper.std:.2f}"
            ratio = "–" if paper is None else f"{paper.mean / seconds[variant]:.1f}×"
            to_sw = f"{seconds[variant] / seconds['sw']:.2f}" if "sw" in seconds else "–"
            lines.append([variant, f"{seconds[variant]:.2f}", theirs, ratio, to_sw, _to_sw(paper, group)])  # fmt: skip
        note = (
            f"Ours: {machine}, network {' → '.join(map(str, task['network']))}, batches of {task['batch']:,}, "
            f"{one['given']['precision']}, from {steps:,} steps. "
        )
        note += (
            "The paper's: an RTX A6000, its network not said."
            if alike
            else "Too small to be set beside the paper's times."
        )
        header = ["", "ours", "the paper", "ratio", "ours / sw", "the paper / its sw"]
        name = f"{experiment}-{file_name(setting)}-{file_name(machine)}-time"
        name += f"-{len(tables) + 1}" if any(table.name == name for table in tables) else ""
        title = f"{setting}: seconds of a single run of 10,000 steps"
        tables.append(Table(name, title, header, lines, note))
    return tables


def _to_sw(paper: Published | None, group: str) -> str:
    sw = find("generative_best", "sw", group, "runtime_s")
    return "–" if paper is None or sw is None else f"{paper.mean / sw.mean:.2f}"


def format_measure(number: float, measure: str = "") -> str:
    """Return a measure as text, in the digits that are meaningful."""
    if math.isnan(number):
        return "–"
    if math.isinf(number):
        return "∞"
    if measure in ("energy", "sw2"):
        return f"{number:.4f}"
    return f"{number:.2f}" if abs(number) < 100 else f"{number:.0f}"
