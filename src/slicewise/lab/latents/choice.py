"""Which latents a study is about: their path, labels and held-out rows."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from slicewise.lab.latents.layouts import load
from slicewise.lab.latents.sets import Latents
from slicewise.lab.names import ADULT, CHILD


@dataclass(frozen=True)
class LatentChoice:
    """The arguments of `load` as one hashable value; it can be sent to other processes, which read the rows themselves."""

    path: str | None = None
    labels: str | None = None
    held_out: int | None = None
    adult: float = ADULT
    child: float = CHILD
    more: int = 0

    def load(self) -> Latents:
        """Return the latents; they are read once per process."""
        return load(**dataclasses.asdict(self))

    @property
    def given(self) -> dict[str, Any]:
        """The part of the choice that identifies a run: ages other than the default. All else is in the digest of the latents.

        Different ages may select the same rows, as 18 and 18.5 do for whole years; they still are different runs.
        """
        if (self.adult, self.child) == (ADULT, CHILD):
            return {}
        return {"ages": {"adult": float(self.adult), "child": float(self.child)}}
