"""What comes first: the step computed, against the best of all searched rates, against the paper."""

from __future__ import annotations

from slicewise.lab.experiments.flows import ELEVEN
from slicewise.lab.report.best import Best, number, spread, steps_of
from slicewise.lab.report.flows import TITLES, left, paper_says
from slicewise.lab.report.layout import Card, Section, Table
from slicewise.lab.report.rows import Flows


def section(every: list[Flows]) -> Section | None:
    """For each experiment a table and its largest numbers; None if there is nothing to compare."""
    tables = [table for flows in every if (table := _table(flows)) is not None]
    if not tables:
        return None
    words = [
        "No rate is searched: each step is computed from the slices it draws. Here is what that leaves, beside the best "
        "of all searched rates, and beside what the paper prints."
    ]
    cards = [card for flows in every for card in _cards(flows)]
    return Section("The right step, computed or searched", words, tables, cards)


def _cards(flows: Flows) -> list[Card]:
    """The worst of all places for "sw", and in how many cases of all variants nothing better was found."""
    name = TITLES[flows.experiment].lower()
    computed = _each(flows, "sw", None)
    if not computed:
        return []
    worst = max(best.mean for best in computed.values())
    of = _worst_of(computed)
    steps = steps_of(Best(None, 0.0, 0.0, [run for best in computed.values() for run in best.runs]))
    cards = [Card(number(worst), f"{name}: W₂ left by the computed step in {steps} steps (sw{of})")]  # fmt: skip
    for objective in ("root", "power"):
        searched = _each(flows, "sw", objective)
        if searched:
            most = number(max(best.mean for best in searched.values()))
            tried = sum(len(flows.some(place, "sw", objective)) for place in searched)
            cards.append(Card(most, f"{name}: left by the best rate on the {objective}, found by {tried:,} runs (sw{_worst_of(searched)})"))  # fmt: skip
    return cards + _counts(flows, name)


def _counts(flows: Flows, name: str) -> list[Card]:
    """Of all variants on all settings: how often nothing searched on the root, the paper's objective, is closer."""
    both = []
    for case in ((place, variant) for place in flows.places for variant in ELEVEN):
        computed, rated = flows.best(*case, None), flows.best(*case, "root")
        if computed is not None and rated is not None:
            both.append(computed.mean <= rated.mean)
    words = f"{name}: variants on settings where the computed step ends no farther than the best rate on the root"
    return [Card(f"{sum(both)} of {len(both)}", words)] if both else []


def _worst_of(found: dict[str, Best]) -> str:
    return f", the worst of {len(found)} settings" if len(found) > 1 else ""


def _each(flows: Flows, variant: str, objective: str | None) -> dict[str, Best]:
    found = {place: flows.best(place, variant, objective) for place in flows.places}
    return {place: best for place, best in found.items() if best is not None}


def _table(flows: Flows) -> Table | None:
    """For "sw", in every place."""
    lines = []
    for place in flows.places:
        computed = flows.best(place, "sw", None)
        searched = [flows.best(place, "sw", objective) for objective in ("root", "power")]
        if computed is None and not any(searched):
            continue
        shown = [place, left(flows, place, "sw", None) if computed is None else spread(computed)]
        shown.append("–" if computed is None else steps_of(computed))
        shown += [left(flows, place, "sw", objective) for objective in ("root", "power")]
        lines.append([*shown, paper_says(flows, "sw", place)])
    if not lines:
        return None
    header = [
        "sw on",
        "step computed: W₂ left",
        "steps",
        "best rate, root",
        "best rate, power",
        "the paper",
    ]
    title = TITLES[flows.experiment]
    return Table(f"{flows.experiment}-verdict", title, header, lines, _sizes(flows))


def _sizes(flows: Flows) -> str:
    """What numbers beside each other were made from."""
    sizes = sorted({row["given"]["task"]["n"] for row in flows.rows})
    steps = sorted({row["given"]["steps"] for row in flows.rows if row["lr"] is not None})
    published = {
        "gradient-flow": "n = 300, 10,000 steps",
        "image-flow": "n = 50, 200,000 steps; it prints times and pictures, no distances",
        "color": "n = 3,000, 50,000 steps, other photographs; colours from 0 to 255",
    }[flows.experiment]
    ours = f"n = {', '.join(map(str, sizes))}"
    ours += f", {', '.join(f'{count:,}' for count in steps)} steps of each rate" if steps else ""
    return f"Ours: {ours}. The paper's: {published}."
