"""The trainings of a study: a small part for two cores, or everything as published."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slicewise.lab.errors import NothingToDo
from slicewise.lab.experiments.flows import ELEVEN
from slicewise.lab.experiments.latent.cells import (
    ADAM,
    COMPUTED,
    DISPLACEMENT,
    BaselineCell,
    TrainingCell,
)
from slicewise.lab.experiments.latent.tasks import GENERATION, LatentTask
from slicewise.lab.latents import LatentChoice, tasks
from slicewise.lab.names import (
    ADAM_SEARCH,
    FIRST_SEARCH,
    GENERATE,
    MEAN_ROOT_SEARCH,
    NO_RATE,
    ONE_RATE_PART,
    OTHER_SEARCH,
    TIMES,
)
from slicewise.lab.study import Cell
from slicewise.training import Precision

# {1, 3, 5, 8} · 10^{−6 … −1} and 1, as the paper lists them.
RATES = (*(float(f"{digit}e{power}") for power in range(-6, 0) for digit in (1, 3, 5, 8)), 1.0)
# In the order they are made: a few in the range of the paper's best ones, then the others.
FIRST_RATES = tuple(rate for rate in RATES if rate >= 1e-3 and f"{rate:e}"[0] in "13")
OTHER_RATES = tuple(rate for rate in RATES if rate not in FIRST_RATES)
# Of Adam, on the power and with linear decay, because computed steps follow its direction and shrink towards the end, too.
ADAM_RATES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
# The paper writes its loss here as the mean of W_2 over slices. It is another one than the root for variants with several
# slices, and is not defined for those that weigh slices by their costs.
MEAN_ROOT = tuple(name for name in ELEVEN if name not in ("maxsw", "ebsw", "ebrpsw"))
QUICK_RATES = (0.1, 0.3, 1.0)
_QUICK_STEPS = 200
_QUICK_SEARCHED = ("sw", "maxsw", "ebsw", "rpsw")
# A rate for every variant that is trained by displacements.
ONE_RATE = 0.1
# Networks are trained in bfloat16, which takes a third less time with the same results, and timed in the usual precision.
_PRECISION: Precision = "bf16"
_TIMED: Precision = "tf32"


def cells(
    experiment: str,
    preset: str,
    data: LatentChoice = LatentChoice(),
    machine: str = "here",
    parts: Sequence[str] = (),
) -> list[Cell]:
    """Return the cells of one of the two experiments, the most important ones first.

    Args:
        experiment: "generate" or "translate".
        preset: "quick" or "paper".
        data: the latents.
        machine: that cells are timed on.
        parts: some of `slicewise.lab.names.LATENT_PARTS`; none means all. Baselines are always there.

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
        some = [LatentTask(name, data, hidden=64, batch=128) for name in wanted[:1]]
        trained = _quick(experiment, some[0], machine)
    else:
        some = [LatentTask(name, data, hidden=512, batch=2048) for name in wanted[:2]]
        trained = _paper(experiment, some, machine)
    chosen = [cell for part, cell in trained if not parts or part in parts]
    return [*(BaselineCell(experiment, task) for task in some), *chosen]


_Part = tuple[str, TrainingCell]


def _quick(experiment: str, task: LatentTask, machine: str) -> Iterator[_Part]:
    def cell(variant: str, objective: str, rates: tuple[float, ...] | None) -> TrainingCell:
        by = "adam" if rates is None else "sgd"
        return TrainingCell(
            experiment, task, variant, objective, rates, (0,), _QUICK_STEPS, optimizer=by
        )

    for variant in ELEVEN:
        yield NO_RATE, cell(variant, COMPUTED, None)
    for variant in ELEVEN:
        yield ONE_RATE_PART, cell(variant, DISPLACEMENT, (ONE_RATE,))
    for variant in _QUICK_SEARCHED:
        yield FIRST_SEARCH, cell(variant, "root", QUICK_RATES)
    for variant in ELEVEN:
        timed = (experiment, task, variant, "root", (1e-3,), (0,), 20)
        yield TIMES, TrainingCell(*timed, timed_on=machine)


def _paper(experiment: str, some: list[LatentTask], machine: str) -> Iterator[_Part]:
    seeds, steps = (0, 1, 2), 10_000
    # In the order of what matters most, where the time of a GPU may not last.
    order: tuple[tuple[str, str, tuple[float, ...] | None, str, str | None], ...] = (
        (NO_RATE, COMPUTED, None, "adam", None),
        (ONE_RATE_PART, DISPLACEMENT, (ONE_RATE,), "sgd", None),
        (FIRST_SEARCH, "root", FIRST_RATES, "sgd", None),
        (ADAM_SEARCH, ADAM, ADAM_RATES, "adam", "linear"),
        (OTHER_SEARCH, "root", OTHER_RATES, "sgd", None),
    )
    for part, objective, rates, optimizer, decay in order:
        for task in some:
            for variant in ELEVEN:
                how = (experiment, task, variant, objective, rates, seeds, steps)
                yield part, TrainingCell(*how, _PRECISION, optimizer, decay)
    for task in some:
        for variant in MEAN_ROOT:
            loss = (experiment, task, variant, "mean_root", RATES, seeds, steps)
            yield MEAN_ROOT_SEARCH, TrainingCell(*loss, _PRECISION)
    for task in some:
        for variant in ELEVEN:
            timed = (experiment, task, variant, "root", (1e-3,), (0,), 2000)
            yield TIMES, TrainingCell(*timed, precision=_TIMED, timed_on=machine)
