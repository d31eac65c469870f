"""The result of a flow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from slicewise.flows.history import History
from slicewise.flows.stopping import Outcome, Stopping, is_one_to_one
from slicewise.laws import Law
from slicewise.problem import Problem
from slicewise.support import Result, Status
from slicewise.transport import matched_distance, wasserstein

_WORDS = {
    Outcome.NOT_ENDED: Status.OUT_OF_STEPS,
    Outcome.ARRIVED: Status.ARRIVED,
    Outcome.DIVERGED: Status.DIVERGED,
    Outcome.ASSIGNED: Status.ARRIVED,
    Outcome.MINIMUM: Status.MINIMUM_REACHED,
    Outcome.STALLED: Status.STALLED,
}
_FAILED = (Status.OUT_OF_STEPS, Status.STALLED, Status.DIVERGED)
_BY = {Outcome.ARRIVED: "flow", Outcome.ASSIGNED: "assignment"}
# Up to so many particles the W_2 that is left is bounded by a matching; beyond, only the sliced distance is told.
_MATCHED = 20_000


@dataclass(eq=False)
class Flow(Result):
    """The result of `flow`: where the particles ended, and how they got there.

    Attributes:
        particles: Final particles, (*batch, n, d).
        target: The target samples as given, (*batch, m, d), or the law.
        history: What was recorded on the way, a `History`: `.loss`, `.step`, `.seconds`, and `.w2` and `.particles`
            where a `Recording` asked for them.
        n_steps: Number of steps each run made, (*batch,).
        dimensions: The dimension each run was worked in, (*batch,): d, or fewer after an exact reduction.
        seeds: The seed of each run, (*batch,).
        state: Everything needed to continue: `flow(..., resume=result.state)`.
        status: How each run ended: "arrived"; "minimum reached" (n ≠ m or weights: the loss in general cannot be zero, and
            no longer falls); "out of steps"; "stalled" (at rest away from the target); or "diverged". A string for one
            run, a nested list in the shape of the batch for several.
        by: What arrived runs arrived by: "flow" (sliced steps alone) or "assignment" (sliced steps, then a matching);
            None for others. Shaped like `status`. `n_steps` counts sliced steps.
        jump: How far the assignment moved particles at the end (*batch,), root mean square: an upper bound of the W_2 that
            sliced steps had left. 0 for runs without one.
        converged, assigned, diverged: The runs that arrived, that arrived by assignment, and that diverged, as masks,
            (*batch,).
        w2: The exact W_2 that is left, (*batch,).

    Example:
        >>> import slicewise as sw
        >>> x, y = torch.randn(2, 30, 2, dtype=torch.float64)
        >>> result = sw.flow(x, y, seeds=0)
        >>> result.status
        'arrived'
        >>> sw.flow(x, y, lr=torch.tensor([1.0, 1e9]), seeds=0, max_steps=20).status
        ['out of steps', 'diverged']
    """

    renamed = {"trace": "history", "steps": "n_steps", "ranks": "dimensions"}  # noqa: RUF012

    particles: Tensor
    target: Tensor | Law
    history: History
    n_steps: Tensor
    dimensions: Tensor
    seeds: Tensor
    state: dict[str, Any]
    outcome: Tensor = field(repr=False)  # (*batch,), codes of `Outcome`
    jump: Tensor
    stopping: Stopping  # with "auto" resolved
    x_weights: Tensor | None = None
    y_weights: Tensor | None = None

    @property
    def status(self) -> Any:
        """How each run ended, in words: a str for one run, a nested list of str for a batch."""
        return _worded(self.outcome.tolist(), lambda code: _WORDS[code].value)

    @property
    def by(self) -> Any:
        """What arrived runs arrived by, "flow" or "assignment": a str for one run, a nested list for a batch."""
        return _worded(self.outcome.tolist(), _BY.get)

    @property
    def converged(self) -> Tensor:
        """Runs that arrived, (*batch,), by sliced steps alone or by an assignment."""
        return (self.outcome == Outcome.ARRIVED) | self.assigned

    @property
    def assigned(self) -> Tensor:
        """Runs that an assignment ended, (*batch,)."""
        return self.outcome == Outcome.ASSIGNED

    @property
    def diverged(self) -> Tensor:
        """Runs that were stopped on their way to infinity, (*batch,); they keep their last finite particles."""
        return self.outcome == Outcome.DIVERGED

    @cached_property
    def w2(self) -> Tensor:
        """The exact W_2 that is left, (*batch,), float64 (extra `exact`); infinite for diverged runs."""
        if isinstance(self.target, Law):
            raise ValueError(
                f"the exact W_2 to {self.target!r} is not known: compare with samples of it, "
                f"sw.wasserstein(particles, target.sample(n))"
            )
        x, y = self.particles.double(), self.target.double()
        left = wasserstein(x, y, x_weights=self.x_weights, y_weights=self.y_weights)
        return torch.where(self.diverged, torch.inf, left)

    def __repr__(self) -> str:
        n, d = self.particles.shape[-2:]
        runs = self.outcome.numel()
        worked = sorted(set(self.dimensions.flatten().tolist()) - {d})
        reduced = f" (worked in {' and '.join(map(str, worked))})" if worked else ""
        what = f"{n} particle{'s' * (n != 1)} in {d} dimension{'s' * (d != 1)}{reduced}"
        return f"Flow: {f'{runs} runs of {what}: ' if runs != 1 else f'{what}, '}{self._ends()}"

    def not_arrived(self) -> str | None:
        """What to say of runs that neither arrived nor reached a minimum, and what to do; None if there are none."""
        failed = [code for code in self._codes() if _WORDS[code] in _FAILED]
        if not failed:
            return None
        runs = self.outcome.numel()
        who = "the flow" if runs == 1 else f"{len(failed)} of {runs} runs"
        more = 2 * max(1, int(self.n_steps.max()))
        advice = f"Continue with resume=found.state and max_steps={more}"
        if Outcome.NOT_ENDED not in failed:
            advice = "Start it again with other seeds"
        if Outcome.DIVERGED in failed:
            advice = "Leave out step_factor and step_rule, or give samples of a smaller range"
        elif self._one_to_one and not self.stopping.assign:
            advice += ", or start again with stopping=sw.Stopping(assign=True)"
        meant = "arrive" if self._one_to_one else "reach a minimum"
        return f"{who} did not {meant}: {self._ends()}. {advice}"

    def _ends(self) -> str:
        """How the runs ended, with what is left of the one that ended furthest away."""
        codes, steps = self._codes(), self.n_steps.flatten().tolist()
        words = []
        for status in Status:
            rows = [row for row, code in enumerate(codes) if _WORDS[code] == status]
            if not rows:
                continue
            least, most = min(steps[row] for row in rows), max(steps[row] for row in rows)
            after = f"after {most}" if least == most else f"after {least} to {most}"
            after += "" if status == Status.OUT_OF_STEPS else " step" if most == 1 else " steps"
            by = Counter(_BY[codes[row]] for row in rows if codes[row] in _BY)
            how = ""
            if len(codes) == 1 and by:
                how = f" by {next(iter(by))}"
            elif by["assignment"]:
                how = f" ({by['assignment']} by assignment)"
            count = f"{len(rows)} " if len(codes) > 1 else ""
            before = ""
            if by["assignment"] and not self.jump.isnan().any():
                before = f" (W_2 at most {float(self.jump.max()):.2g} before it)"
            words.append(f"{count}{status}{how} {after}{before}")
        return ", ".join(words) + self._left

    def _codes(self) -> list[Outcome]:
        return [Outcome(code) for code in self.outcome.flatten().tolist()]

    @property
    def _one_to_one(self) -> bool:
        """Whether W_2 can be zero."""
        a, b = self.x_weights, self.y_weights
        if isinstance(self.target, Law):
            return False
        return is_one_to_one(Problem(self.particles, self.target, x_weights=a, y_weights=b))

    @cached_property
    def _left(self) -> str:
        """What is left in the run, of those that did not end, whose last loss is the largest."""
        open_ones = [Outcome.NOT_ENDED, Outcome.STALLED]
        rows = [row for row, code in enumerate(self._codes()) if code in open_ones]
        if not rows:
            return ""
        losses = self.history.loss.flatten(1) if self.history.batch else self.history.loss[:, None]
        # Of the last step that was made; 0 if none was.
        last = [float(loss[loss == loss][-1:].sum()) for loss in losses.T]
        worst = max(rows, key=last.__getitem__)
        which = " in the furthest" if len(self.outcome.flatten()) > 1 else ""
        if not self._one_to_one or self.particles.shape[-2] > _MATCHED:
            return f"; loss {last[worst]:.2g}{which}"
        n, d = self.particles.shape[-2:]
        assert isinstance(self.target, Tensor)  # samples can be matched one to one
        target = self.target.expand(*self.outcome.shape, n, d)
        x, y = self.particles.reshape(-1, n, d)[worst], target.reshape(-1, n, d)[worst]
        return f"; W_2 at most {matched_distance(x, y):.2g} left{which}"


def _worded(codes: Any, word: Callable[[Outcome], str | None]) -> Any:
    if isinstance(codes, list):
        return [_worded(code, word) for code in codes]
    return word(Outcome(codes))
