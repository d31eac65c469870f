"""What a check of the theory is: tasks to measure, numbers that come out, a figure of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import SubFigure

# What determines a measurement: plain numbers and words, such as {"d": 100, "k": 2, "n_slices": 50, "runs": 1000}.
Task = Mapping[str, Any]
Measures = Mapping[str, float]


@dataclass(frozen=True)
class Measured:
    """A task and what came out."""

    task: Task
    measures: Measures


@dataclass(frozen=True)
class Check:
    """One statement, of the paper or about estimators, asked of numbers.

    `tasks(preset)` lists what is measured, `measure(task)` measures one of them (a pure function: the task's
    own seed is all its randomness), `draw(figure, all)` draws what came out with the closed form through
    it, and `verdict(all)` says in a sentence what holds.
    """

    name: str
    title: str
    statement: str
    tasks: Callable[[str], list[Task]]
    measure: Callable[[Task], Measures]
    draw: Callable[[SubFigure, list[Measured]], None]
    verdict: Callable[[list[Measured]], str]
    timed: bool = False  # do its measures depend on the machine?
