"""A part of an experiment: which of its cells are made, and with which seeds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from slicewise.lab.errors import UserError
from slicewise.lab.experiments.flows import FlowCell
from slicewise.lab.experiments.latent.cells import BaselineCell, TrainingCell
from slicewise.lab.study import Cell


@dataclass(frozen=True)
class Selection:
    """What is wanted of an experiment; an empty entry selects everything.

    Args:
        parts: of flows, some of `slicewise.lab.names.FLOW_PARTS`; those of trainings are chosen where they are listed.
        variants: names of variants.
        settings: names of settings, as a store has them; that of a timed cell begins with "runtime, ".
        objectives: "power", "root", "mean_root"; of trainings also "displacement", "adam", "computed".
        rates: some of those of the preset; cells without rates have none of them.
        seeds: instead of those of the preset; of timed cells, which have one seed each, those among them.
        max_steps: the most steps of a run, instead of the preset's; timed cells keep theirs.
        dtype: of the samples of flows, instead of the preset's.
        recipes: published options of variants for flows, one of `slicewise.variants.PRESETS`, instead of the preset's; settings
            then end in its name.
    """

    parts: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    objectives: tuple[str, ...] = ()
    rates: tuple[float, ...] = ()
    seeds: tuple[int, ...] = ()
    max_steps: int | None = None
    dtype: str | None = None
    recipes: str | None = None

    def of(self, cells: Sequence[Cell]) -> list[Cell]:
        """Return the cells that are wanted.

        Raises:
            UserError: a name that no cell has, or nothing is left.
        """
        for option, wanted, there in (
            ("--variant", self.variants, _names(cells, "variant")),
            ("--setting", self.settings, _names(cells, "setting")),
            ("--objective", self.objectives, _names(cells, "objective")),
        ):
            for name in wanted:
                if name not in there:
                    raise UserError(
                        f"{option} {name}: there is none here; give one of {', '.join(sorted(there))}"
                    )
        found = [made for cell in cells if (made := self._chosen(cell)) is not None]
        if cells and not found:
            raise UserError(
                "nothing is left of the experiment: leave out some of the options that select"
            )
        return found

    def _chosen(self, cell: Cell) -> Cell | None:
        if isinstance(cell, BaselineCell):
            return cell if not self.settings or cell.task.name in self.settings else None
        if not isinstance(cell, FlowCell | TrainingCell):
            return cell
        wanted = (
            (self.variants, cell.variant),
            (self.settings, cell.setting),
            (self.objectives, cell.objective),
        )
        if any(some and name not in some for some, name in wanted):
            return None
        if isinstance(cell, FlowCell) and self.parts and cell.part not in self.parts:
            return None
        if cell.alone:
            timed = not self.seeds or set(cell.seeds) <= set(self.seeds)
            return cell if timed and not self.rates and self.recipes is None else None
        if self.rates:
            some = tuple(rate for rate in cell.rates or () if rate in self.rates)
            if not some:
                return None
            cell = replace(cell, rates=some)
        chosen: FlowCell | TrainingCell = replace(
            cell, seeds=self.seeds or cell.seeds, steps=self.max_steps or cell.steps
        )
        if isinstance(chosen, FlowCell):
            chosen = replace(chosen, dtype=self.dtype or chosen.dtype)
            if self.recipes is not None:
                suffix = f"{chosen.suffix}, {self.recipes}"
                chosen = replace(chosen, defaults=self.recipes, suffix=suffix)
        return chosen


def _names(cells: Iterable[Cell], what: str) -> set[str]:
    return {str(getattr(cell, what)) for cell in cells if hasattr(cell, what)}
