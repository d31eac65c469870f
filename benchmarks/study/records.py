"""The kept records of the study, asked by setting and variant."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slicewise.lab.experiments import published_objective, published_rate
from slicewise.lab.names import COLOR, ESTIMATORS, GRADIENT_FLOW, THEORY
from slicewise.lab.study import kept_means, kept_runs

ROOT = Path(__file__).parent.parent.parent
Line = dict[str, str]
# Steps that a searched rate gets in the paper; lines of shorter runs are other records.
STEPS = {GRADIENT_FLOW: 10_000, COLOR: 50_000, "generate": 10_000, "translate": 10_000, "image-flow": 200_000}  # fmt: skip


@dataclass(frozen=True)
class Records:
    """Means over seeds and single runs in a folder."""

    folder: Path = ROOT / "results"

    @functools.cached_property
    def _lines(self) -> dict[str, dict[tuple[str, str, str], list[Line]]]:
        found: dict[str, dict[tuple[str, str, str], list[Line]]] = {}
        for experiment in STEPS:
            here = found.setdefault(experiment, {})
            for line in kept_means(self.folder, experiment):
                here.setdefault((line["setting"], line["variant"], line["objective"]), []).append(
                    line
                )
        return found

    def lines(self, experiment: str, setting: str, variant: str, objective: str) -> list[Line]:
        """Return all means of one batch."""
        return self._lines[experiment].get((setting, variant, objective), [])

    def settings(self, experiment: str) -> list[str]:
        """Return the settings of an experiment."""
        return sorted({setting for setting, _, _ in self._lines[experiment]})

    def searched(
        self,
        experiment: str,
        setting: str,
        variant: str,
        objective: str,
        *,
        convention: str = "mean",
        steps: int | None = None,
    ) -> list[Line]:
        """Return a line for each rate, from the least; the one with more seeds if there are two.

        Args:
            experiment: by its name.
            setting: as stored.
            variant: by its name.
            objective: as stored.
            convention: of the loss.
            steps: that were allowed; those of the paper if None.
        """
        best: dict[float, Line] = {}
        for line in self.lines(experiment, setting, variant, objective):
            allowed = int(line["limit"]) == (steps or STEPS[experiment])
            if line["lr"] and allowed and line["convention"] == convention:
                rate = float(line["lr"])
                if rate not in best or int(best[rate]["seeds"]) < int(line["seeds"]):
                    best[rate] = line
        return [best[rate] for rate in sorted(best)]

    def best(self, experiment: str, setting: str, variant: str, objective: str) -> Line | None:
        """Return the rate with the least mean distance; None if none was run."""
        found = self.searched(experiment, setting, variant, objective)
        return min(found, key=lambda line: float(line["w2_mean"] or "inf"), default=None)

    def computed(self, setting: str, variant: str, experiment: str = GRADIENT_FLOW) -> Line:
        """Return the line of computed steps."""
        found = [x for x in self.lines(experiment, setting, variant, "power") if not x["lr"]]
        return max(found, key=lambda line: int(line["seeds"]))

    def colors(
        self, setting: str, variant: str, objective: str | None = None, steps: int | None = None
    ) -> dict[float, Line]:
        """Return a line for each rate of the paper, on its scale; none if there are no runs of 50,000 (or so many) steps."""
        name = objective or published_objective(variant)
        lines = self.searched(COLOR, setting, variant, name, steps=steps)
        return {published_rate(float(x["lr"]), name, 3000): x for x in lines}

    def timed(self, experiment: str, setting: str, variant: str) -> Line:
        """Return the line of the timed runs with most steps."""
        found = self.lines(experiment, f"runtime, {setting}", variant, "root")
        return max(found, key=lambda line: int(line["limit"]))

    @functools.cached_property
    def theory(self) -> dict[str, list[dict[str, Any]]]:
        """Runs of the checks of theory by name."""
        return self._checks(THEORY)

    @functools.cached_property
    def estimators(self) -> dict[str, list[dict[str, Any]]]:
        """Runs of the comparisons of estimators by name."""
        return self._checks(ESTIMATORS)

    def _checks(self, experiment: str) -> dict[str, list[dict[str, Any]]]:
        found: dict[str, list[dict[str, Any]]] = {}
        for row in kept_runs(self.folder, experiment):
            found.setdefault(row["setting"], []).append(row)
        return found
