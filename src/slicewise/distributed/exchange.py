"""What processes exchange, chosen by size: projections, samples, slices or nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from slicewise.distributed.handshake import Header
from slicewise.support import broadcast
from slicewise.variants import Recipe

What = Literal["projections", "samples", "slices", "nothing"]

# Problems of no more numbers than this, samples or projections on the usual 50 slices, are gathered: there a
# collective costs more than what it carries, and an exchange of projections takes two for each pricing. (Two
# processes by gloo: at 100,000 numbers gathering took 7 ms and projections 10, at 200,000 12 and 8.)
SMALL = 2**17
_USUAL_SLICES = 50


@dataclass(frozen=True)
class Exchange:
    """What the processes of a loss exchanged in its last call, why, and the bytes this one sent to others."""

    what: What
    why: str
    n_ranks: int
    sent: int = 0

    def __str__(self) -> str:
        sent = f"{self.sent:,} bytes sent by this rank"
        return f"{self.what} between {self.n_ranks} ranks, {self.why}; {sent}"


def route_for(
    exchange: str, samples: str, recipe: Recipe, headers: list[Header], *, whole_plans: bool
) -> tuple[What, str]:
    """What to exchange, and why; every rank comes to the same answer.

    `whole_plans` says that the loss looks at plans between all samples, not at costs and slopes alone.
    """
    first = headers[0]
    batch = math.prod(broadcast(tuple(first.x_batch), tuple(first.y_batch)))
    if samples == "replicated":
        numbers = batch * (first.n + first.m) * max(first.d, _USUAL_SLICES)
        if numbers <= SMALL:
            return (
                "nothing",
                f"for {numbers:,} numbers, which each rank matches sooner than they are shared",
            )
        return "slices", f"for {numbers:,} numbers on every rank"
    numbers = batch * sum(h.n + h.m for h in headers) * max(first.d, _USUAL_SLICES)
    if whole_plans or recipe.needs_all_samples:
        reason = (
            "as scale='displacement' needs for p other than 2"
            if whole_plans
            else "as the recipe has parts that look at all samples"
        )
        if exchange == "projections":
            raise ValueError(
                f"exchange='projections' cannot be: samples have to be gathered, {reason}; use 'auto'"
            )
        return "samples", reason
    if exchange != "auto":
        return ("samples" if exchange == "samples" else "projections"), "as asked"
    if numbers <= SMALL:
        return "samples", f"for {numbers:,} numbers in all, no more than {SMALL:,}"
    return "projections", f"for {numbers:,} numbers in all, more than {SMALL:,}"
