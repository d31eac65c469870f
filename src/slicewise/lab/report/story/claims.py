"""The paper's statements, and what the runs of a store say about each: it holds, in part, it does not, or it was not tested.

Every verdict is computed from measurements. A statement that a store has no runs for is not tested.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from slicewise.lab.experiments import CHECKS, ELEVEN, TIMED_PREFIX, Check, Measured, column
from slicewise.lab.report.best import Best, Row
from slicewise.lab.report.flow_runs import Flows
from slicewise.lab.report.layout import Figure
from slicewise.lab.report.reasons import AGREES, ALIKE, OTHER_SIZES, column_objective, reason
from slicewise.lab.report.story.endings import REACHED
from slicewise.lab.report.theory import of_one_preset
from slicewise.lab.report.training_runs import Group
from slicewise.lab.study import Store


class Verdict(Enum):
    """What measurements say about a statement."""

    HOLDS = "✓"
    PARTLY = "~"
    FAILS = "✗"
    MEASURED = "•"  # there is no rule by which the measurements are judged
    UNTESTED = "–"

    @property
    def words(self) -> str:
        """The verdict in words."""
        return {
            "✓": "holds", "~": "holds in part", "✗": "does not hold", "•": "measured, not judged", "–": "not tested here",
        }[self.value]  # fmt: skip


@dataclass(frozen=True)
class Claim:
    """A statement of the paper with its verdict.

    Attributes:
        statement: what is claimed.
        where: in the paper.
        verdict: what the runs say.
        found: in a few words.
        detail: in full; empty if `found` says all.
        evidence: a figure of the measurements.
    """

    statement: str
    where: str
    verdict: Verdict
    found: str = ""
    detail: str = ""
    evidence: Figure | None = None


def claims(
    store: Store,
    every: Sequence[Flows],
    trained: Sequence[Group],
    timed: Sequence[Row],
    figures: Mapping[str, Figure],
) -> list[Claim]:
    """Return every statement with its verdict: of the experiments first, then of the theory.

    Args:
        store: of the runs.
        every: the flows of its experiments.
        trained: its trainings.
        timed: trainings that were timed.
        figures: of the measurements, by their names.
    """
    of = {flows.experiment: flows for flows in every}
    found = [
        _competitive(of.get("gradient-flow"), "toy flows", "Section 4.2"),
        _printed(of.get("gradient-flow")),
        _competitive(of.get("color"), "color transfer", "Section 4.3"),
        _trained_well(trained),
        _cheap(every, timed),
    ]
    rows = store.rows(experiment="theory")
    for name, check in CHECKS["theory"].items():
        measured = of_one_preset(check, [row for row in rows if row["setting"] == name])
        found.append(_theorem(check, measured, figures.get(f"theory-{name}")))
    return found


def counted(found: Sequence[Claim]) -> str:
    """Return how many statements hold, as a sentence without its full stop."""
    judged = [c for c in found if c.verdict in (Verdict.HOLDS, Verdict.PARTLY, Verdict.FAILS)]
    if not judged:
        return "None of the paper's statements was tested by these runs"
    if len(judged) == 1:
        return f"The one statement of the paper that was tested {judged[0].verdict.words}"
    count = {v: sum(c.verdict is v for c in judged) for v in Verdict}
    words = (
        f"Of {len(judged)} statements of the paper that were tested, {count[Verdict.HOLDS]} hold"
    )
    if count[Verdict.PARTLY]:
        words += f", {count[Verdict.PARTLY]} in part"
    return f"{words}, {count[Verdict.FAILS]} do not"


# The experiments.

_OFTEN, _SOMETIMES = (
    0.75,
    0.25,
)  # from these shares of comparisons on a claim holds, or holds in part


def _by_share(share: float) -> Verdict:
    return Verdict.HOLDS if share >= _OFTEN else Verdict.PARTLY if share >= _SOMETIMES else Verdict.FAILS  # fmt: skip


def _competitive(flows: Flows | None, task: str, where: str) -> Claim:
    """Judge whether "sw" at its best rate matches or surpasses the others at theirs, on the losses of the paper's columns."""
    statement = (
        f"With the right learning rate, plain SW often matches or surpasses its variants ({task})."
    )
    if flows is None:
        return Claim(statement, where, Verdict.UNTESTED)
    pairs = []
    for group in flows.groups:
        best = {v: flows.best(group, v, column_objective(flows.experiment, v)) for v in ELEVEN}
        there = {v: one for v, one in best.items() if one is not None}
        noise = REACHED * flows.starts.get(group, 1.0)
        if "sw" in there:
            pairs += [_matches(there["sw"], one, noise) for v, one in there.items() if v != "sw"]
    if not pairs:
        return Claim(statement, where, Verdict.UNTESTED)
    found = (
        f"Plain sw ends at most {ALIKE:g} times as far as a variant in {sum(pairs)} of {len(pairs)} comparisons, each at its best "
        f"searched rate."
    )
    return Claim(statement, where, _by_share(sum(pairs) / len(pairs)), found)


def _matches(ours: Best, theirs: Best, noise: float) -> bool:
    return ours.mean < math.inf and ours.mean <= max(ALIKE * theirs.mean, noise)


def _printed(flows: Flows | None) -> Claim:
    """Judge whether our numbers are the printed ones, where sizes are equal."""
    statement = "The distances printed for toy flows can be reproduced."
    where = "Table of toy flows"
    if flows is None:
        return Claim(statement, where, Verdict.UNTESTED)
    told = [
        reason(flows, group, variant)
        for group in flows.groups
        for variant in ELEVEN
        if flows.published(variant, group) and flows.best(group, variant, "root")
    ]
    same = [one for one in told if not one.startswith(OTHER_SIZES)]
    if not same:
        why = "These runs are smaller than the paper's." if told else ""
        return Claim(statement, where, Verdict.UNTESTED, why)
    good = sum(one.startswith(AGREES) for one in same)
    found = f"{good} of {len(same)} agree within a factor of {ALIKE:g}."
    return Claim(statement, where, _by_share(good / len(same)), found)


_COMPETITIVE = 1.1


def _trained_well(trained: Sequence[Group]) -> Claim:
    """Judge whether "sw" at its best rate is at most a tenth above the best variant, by W_2 on the root, as in the paper."""
    statement = "In generation and translation, plain SW is competitive with its variants."
    ratios = {}
    for group in trained:
        best = {v: group.best(v, "root", "w2") for v in ELEVEN}
        left = {v: one.mean for v, one in best.items() if one is not None}
        if "sw" in left and len(left) > 1:
            ratios[group.words] = left["sw"] / max(min(left.values()), 1e-12)
    if not ratios:
        return Claim(statement, "Section 4.4", Verdict.UNTESTED)
    good = sum(ratio <= _COMPETITIVE for ratio in ratios.values())
    verdict = Verdict.HOLDS if good == len(ratios) else Verdict.PARTLY if good else Verdict.FAILS
    said = ", ".join(f"{ratio:.2f} times in {words}" for words, ratio in ratios.items())
    found = f"W₂ of sw over that of the best variant, each at its best rate: {said}. Up to {_COMPETITIVE:g} counts as competitive."
    return Claim(statement, "Section 4.4", verdict, found)


_AS_FAST = 1.2


def _cheap(every: Sequence[Flows], timed: Sequence[Row]) -> Claim:
    """Judge whether a step of "sw" takes no longer than one of any variant, on the machine of the timed runs."""
    statement = "Plain SW has no additional cost over its variants: its steps are the fastest."
    where = "Tables of runtimes"
    by_place: dict[tuple[str, str], dict[str, float]] = {}
    for row in [*(row for flows in every for row in flows.timed), *timed]:
        steps = row["measures"].get("steps", 0)
        if steps:
            place = (row["setting"], row["given"].get("machine", ""))
            by_place.setdefault(place, {})[row["variant"]] = row["seconds"] / steps
    places = {at: some for at, some in by_place.items() if "sw" in some and len(some) > 1}
    if not places:
        return Claim(statement, where, Verdict.UNTESTED)
    ratios = {at: some["sw"] / max(min(some.values()), 1e-12) for at, some in places.items()}
    good = sum(ratio <= _AS_FAST for ratio in ratios.values())
    worst = max(ratios, key=ratios.__getitem__)
    found = (
        f"In {good} of {len(places)} timed tasks no variant is more than {_AS_FAST:g} times as fast"
    )
    if ratios[worst] > _AS_FAST:
        fastest = min(places[worst], key=places[worst].__getitem__)
        found += f"; in {worst[0].removeprefix(TIMED_PREFIX)} {fastest} is {ratios[worst]:.1f} times as fast"  # fmt: skip
    return Claim(statement, where, _by_share(good / len(places)), f"{found}.")


# The theory.

_CLOSE = 0.1  # relative: measurements this near to a closed form confirm it
_SURE = 4.0  # standard errors


def _theorem(check: Check, measured: list[Measured], evidence: Figure | None) -> Claim:
    where = check.title
    if not measured:
        return Claim(check.statement, where, Verdict.UNTESTED)
    rule = _RULES.get(check.name)
    verdict, found = (Verdict.MEASURED, "") if rule is None else rule(measured)
    detail = check.verdict(measured)
    return Claim(check.statement, where, verdict, found, detail, evidence)


Judged = tuple[Verdict, str]


def _ratios(every: list[Measured], *pairs: tuple[str, str, str]) -> Judged:
    """Judge measurements by closed forms: each within a tenth, or within four standard errors."""
    near, ratios = True, []
    for measured, expected, error in pairs:
        ours, exact = column(every, measured), column(every, expected)
        allowed = np.maximum(_CLOSE * np.abs(exact), _SURE * column(every, error))
        near = near and bool((np.abs(ours - exact) <= allowed).all())
        ratios += list(ours / exact)
    found = f"Measured over closed form: {min(ratios):.2f} to {max(ratios):.2f}, in {len(every)} settings."
    return _or_fails(near), found


def _or_fails(holds: bool) -> Verdict:
    return Verdict.HOLDS if holds else Verdict.FAILS


def _broken(broken: Sequence[bool] | np.ndarray) -> Judged:
    """Judge a bound by the points at which it is broken."""
    count = sum(map(bool, broken))
    return _or_fails(not count), f"Broken at {count} of {len(broken)} points."


def _values(every: list[Measured]) -> Judged:
    """The tail bound may hold where that of its proof does not."""
    tail = column(every, "paper_bound") >= column(every, "quantile")
    proof = float(column(every, "proof_broken").mean())
    verdict = Verdict.FAILS if not tail.all() else Verdict.PARTLY if proof else Verdict.HOLDS
    return verdict, (
        f"The probability bound holds at {int(tail.sum())} of {len(every)} points; the bound K|B_L| of its proof is broken in "
        f"{100 * proof:.0f} % of the runs."
    )


def _orthogonality(every: list[Measured]) -> Judged:
    upper = column(every, "measured") + _SURE * column(every, "stderr")
    return _broken(upper < column(every, "paper_bound"))


def _gaussian(every: list[Measured]) -> Judged:
    off = np.abs(column(every, "measured") - column(every, "paper")) / column(every, "stderr")
    round_, uneven = (off[(column(every, "ratio") == 1) == same] for same in (True, False))
    words = [f"up to {some.max():,.0f} standard errors off for {name}" for name, some in
             (("Σ = cI", round_), ("other Σ", uneven)) if len(some)]  # fmt: skip
    return _or_fails(bool((off <= _SURE).all())), f"Second moments are {' and '.join(words)}."


def _one_step(every: list[Measured]) -> Judged:
    """On the most slices the printed rate, and the printed update, should leave nothing."""
    most = max(one.task["n_slices"] for one in every)
    printed = [one for one in every if one.task["n_slices"] == most and one.task["update"] != "right"]  # fmt: skip
    there = [one.measures["measured"] <= _CLOSE for one in printed]
    verdict = Verdict.HOLDS if all(there) else Verdict.PARTLY if any(there) else Verdict.FAILS
    left = {one.task["update"]: f"{100 * one.measures['measured']:.0f} %" for one in printed}
    said = ", ".join(f"{words} with the {name}" for name, words in left.items())
    return verdict, f"One step leaves, of the distance: {said}, as printed."


def _edge(every: list[Measured]) -> Judged:
    """A guarantee fails with one case in which distances grow."""
    printed = [one for one in every if one.task["multiple"] == one.measures["paper_multiple"]]
    said = ", ".join(
        f"{one.measures['measured']:.2f} for k = d = {one.task['d']}, L = {one.task['n_slices']}"
        for one in printed
    )
    grows = [one for one in printed if one.measures["measured"] >= 1]
    return _or_fails(not grows), f"At that rate a step multiplies the squared error by {said}."


def _evaluation(every: list[Measured]) -> Judged:
    below = column(every, "paper") <= column(every, "measured")
    verdict = Verdict.HOLDS if not below.any() else Verdict.FAILS if below.all() else Verdict.PARTLY
    return verdict, (
        f"{int(below.sum())} of {len(every)} distances printed for sw are not above what an evaluation in single precision "
        f"measures between equal samples; how they were evaluated is not known."
    )


_RULES: dict[str, Callable[[list[Measured]], Judged]] = {
    "scaling": lambda every: _ratios(every, ("measured", "expected", "stderr")),
    "essf": lambda every: _ratios(
        every, ("measured", "expected", "stderr"), ("std", "expected_std", "std_stderr")
    ),
    "epsilon": _values,
    "gradient": lambda every: _broken([one.measures["kept"] < one.measures["promised"] for one in every]),
    "orthogonality": _orthogonality,
    "gaussian": _gaussian,
    "minibatch": lambda every: _broken(column(every, "rank") > column(every, "bound")),
    "one-step": _one_step,
    "edge": _edge,
    "evaluation": _evaluation,
}  # fmt: skip
