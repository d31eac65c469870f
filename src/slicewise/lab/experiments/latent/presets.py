"""The trainings of a study: a small part for two cores, or everything as published."""

from __future__ import annotations

from collections.abc import Iterator

from slicewise.lab.errors import NothingToDo
from slicewise.lab.experiments.flows import ELEVEN
from slicewise.lab.experiments.latent.cells import DISPLACEMENT, BaselineCell, TrainingCell
from slicewise.lab.experiments.latent.tasks import GENERATION, LatentTask
from slicewise.lab.latents import LatentChoice, tasks
from slicewise.lab.names import GENERATE
from slicewise.lab.study import Cell
from slicewise.training import Precision

# {1, 3, 5, 8} · 10^{−6 … −1} and 1, as the paper lists them.
RATES = (*(float(f"{digit}e{power}") for power in range(-6, 0) for digit in (1, 3, 5, 8)), 1.0)
# In the order they are made: a few in the range of the paper's best ones, then those between, then the others.
FIRST_RATES = tuple(rate for rate in RATES if rate >= 1e-3 and f"{rate:e}"[0] in "13")
NEXT_RATES = tuple(rate for rate in RATES if rate >= 5e-4 and rate not in FIRST_RATES)
LAST_RATES = tuple(rate for rate in RATES if rate not in (*FIRST_RATES, *NEXT_RATES))
QUICK_RATES = (0.1, 0.3, 1.0)
_QUICK_STEPS = 200
_QUICK_SEARCHED = ("sw", "maxsw", "ebsw", "rpsw")
# A rate for every variant that is trained by displacements.
ONE_RATE = 0.1
# Networks are trained in bfloat16, which takes a third less time with the same results, and timed in the usual precision.
_PRECISION: Precision = "bf16"
_TIMED: Precision = "tf32"


def cells(
    experiment: str, preset: str, data: LatentChoice = LatentChoice(), machine: str = "here"
) -> list[Cell]:
    """Return the cells of one of the two experiments, the most important ones first.

    Raises:
        NothingToDo: translations are asked for, but the latents have no two domains.
    """
    quick = preset == "quick"
    known = data.load()
    names = [task.name for task in tasks(known)]
    wanted = [name for name in names if (name == GENERATION) == (experiment == GENERATE)]
    if not wanted:
        raise NothingToDo(
            f"{known.name} has no two domains to translate between: give latents with labels, such as a folder with "
            f"latents.npy, gender.npy and age.npy, or --labels FILE (`slicewise latents PATH` says what is there)"
        )
    if quick:
        wanted = wanted[:1]
        some = [LatentTask(name, data, hidden=64, batch=128) for name in wanted]
        return [cell for task in some for cell in _quick(experiment, task, machine)]
    some = [LatentTask(name, data, hidden=512, batch=2048) for name in wanted[:2]]
    return list(_paper(experiment, some, machine))


def _quick(experiment: str, task: LatentTask, machine: str) -> Iterator[Cell]:
    yield BaselineCell(experiment, task)
    for variant in ELEVEN:
        yield TrainingCell(experiment, task, variant, DISPLACEMENT, (ONE_RATE,), (0,), _QUICK_STEPS)
    for variant in _QUICK_SEARCHED:
        yield TrainingCell(experiment, task, variant, "root", QUICK_RATES, (0,), _QUICK_STEPS)
    for variant in ELEVEN:
        yield TrainingCell(experiment, task, variant, "root", (1e-3,), (0,), 20, timed_on=machine)


def _paper(experiment: str, some: list[LatentTask], machine: str) -> Iterator[Cell]:
    seeds, steps = (0, 1, 2), 10_000

    def cell(task: LatentTask, variant: str, objective: str, rates: tuple[float, ...]) -> Cell:
        return TrainingCell(
            experiment, task, variant, objective, rates, seeds, steps, precision=_PRECISION
        )

    for task in some:
        yield BaselineCell(experiment, task)
    for task in some:
        for variant in ELEVEN:
            yield cell(task, variant, DISPLACEMENT, (ONE_RATE,))
    for rates in (FIRST_RATES, NEXT_RATES, LAST_RATES):
        for task in some:
            for variant in ELEVEN:
                yield cell(task, variant, "root", rates)
    for task in some:
        for variant in ELEVEN:
            timed = (experiment, task, variant, "root", (1e-3,), (0,), 2000)
            yield TrainingCell(*timed, precision=_TIMED, timed_on=machine)
