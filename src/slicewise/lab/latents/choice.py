"""Which latents a study is about: where they lie, how they are labeled and what of them is held out."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from slicewise.lab.latents.domains import ADULT, CHILD
from slicewise.lab.latents.layouts import load
from slicewise.lab.latents.sets import Latents


@dataclass(frozen=True)
class LatentChoice:
    """All that `load` takes, as one value that is compared, hashed and sent to other processes; rows are read there."""

    path: str | None = None
    labels: str | None = None
    held_out: int | None = None
    adult: float = ADULT
    child: float = CHILD
    more: int = 0

    def load(self) -> Latents:
        """The latents themselves, read once in a process."""
        return load(**dataclasses.asdict(self))

    @property
    def given(self) -> dict[str, Any]:
        """What of the choice counts as such: ages that are not the usual ones. All else shows in the digest of the latents.

        Other ages may name the same rows, as 18 and 18.5 do for whole years: a reader is still told what was asked for.
        """
        if (self.adult, self.child) == (ADULT, CHILD):
            return {}
        return {"ages": {"adult": float(self.adult), "child": float(self.child)}}
