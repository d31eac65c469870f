"""What a batch of cases counts."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Tally:
    """Cases of one batch: how many, how many of them were kills, and what failed, in words."""

    tried: int = 0
    kills: int = 0
    failures: list[str] = field(default_factory=list)

    def case(self, failure: str | None, kills: int = 0) -> None:
        """Count a case; a failure is described in words by which it can be made again."""
        self.tried += 1
        self.kills += kills
        if failure is not None:
            self.failures.append(failure)
