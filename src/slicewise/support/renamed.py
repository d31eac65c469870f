"""What has another name now.

Modules: their old paths work for one version, with a `DeprecationWarning`. Arguments: an error says the new name.
"""

from __future__ import annotations

import functools
import importlib
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, TypeVar

Renamed = TypeVar("Renamed", bound=Callable[..., Any])

# Old module -> where its names are now. Pickled recipes name these modules, too.
MOVED = {
    "slicewise.slicers": "slicewise.parts.slicers",
    "slicewise.moves": "slicewise.parts.moves",
    "slicewise.weighting": "slicewise.parts.weightings",
    "slicewise.lifts": "slicewise.parts.lifts",
    "slicewise.learned": "slicewise.parts.learned",
    "slicewise.augmented": "slicewise.parts.learned",
    "slicewise.control": "slicewise.parts.control_variates",
    "slicewise.moments": "slicewise.parts.moments",
    "slicewise.energies": "slicewise.parts",
    "slicewise.searching": "slicewise.parts",
    "slicewise.legacy": "slicewise.parts.legacy",
    "slicewise.recipe": "slicewise.variants.registry",
    "slicewise.registry": "slicewise.variants.registry",
    "slicewise.schedules": "slicewise.problem.schedules",
    "slicewise.learn": "slicewise",
    "slicewise.learn.flow": "slicewise.flows",
    "slicewise.learn.record": "slicewise.flows",
    "slicewise.learn.color": "slicewise.color",
    "slicewise.learn.latent": "slicewise.training and slicewise.judging",
    "slicewise.learn.latent.networks": "slicewise.training",
    "slicewise.learn.latent.training": "slicewise.training",
    "slicewise.learn.latent.judging": "slicewise.judging",
    "slicewise.learn.latent.baselines": "slicewise.judging",
    "slicewise.learn.latent.translating": "slicewise.judging",
}


# Names of 0.1 that have another name in their new place.
_OTHER_NAMES = {
    "Judgement": "Scores",
    "Moved": "TranslationScores",
    "floor": "real_scores",
    "judge_moves": "judge_translation",
    "ranked": "rank",
    "winner": "best",
}


class _Moved:
    """Finds the modules of `MOVED`: each is a module of its own whose names are those of the new place.

    A finder and a loader by its methods: their base classes take longer to import than all else that `import slicewise`
    does.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Answer for old paths only."""
        if name not in MOVED:
            return None
        inner = any(old.startswith(f"{name}.") for old in MOVED)
        return ModuleSpec(name, self, is_package=inner)  # type: ignore[arg-type]  # a loader by its methods

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Leave it to Python to make the module."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Fill the module with the names of its new place, and say where that is."""
        if module.__name__ == "slicewise.learn":  # a folder; what was in it says so, each by itself
            return
        new = MOVED[module.__name__]
        warnings.warn(
            f"{module.__name__} has moved to {new}: import it from there; the old path goes with the next version",
            DeprecationWarning,
            stacklevel=2,
        )
        for place in new.split(" and "):
            there = vars(importlib.import_module(place))
            found = {name: value for name, value in there.items() if not name.startswith("__")}
            found |= {old: there[now] for old, now in _OTHER_NAMES.items() if now in there}
            vars(module).update(found)


def renamed_arguments(**new: str) -> Callable[[Renamed], Renamed]:
    """Decorate a function or class so that old names of its arguments raise a `TypeError` that says the new ones.

    Args:
        new: For each old name, the new one.

    Returns:
        The decorator. The signature of what it decorates stays as it is.

    Example:
        >>> @renamed_arguments(seed="generator")
        ... def draw(*, generator=0): return generator
        >>> draw(seed=1)
        Traceback (most recent call last):
        TypeError: draw() has no argument 'seed': it is called 'generator' now
    """

    def decorate(target: Renamed) -> Renamed:
        is_class = isinstance(target, type)
        wrapped: Callable[..., Any] = vars(target)["__init__"] if is_class else target

        @functools.wraps(wrapped)
        def called(*args: Any, **kwargs: Any) -> Any:
            for old in kwargs.keys() & new.keys():
                name = getattr(target, "__name__", "call")
                raise TypeError(f"{name}() has no argument {old!r}: it is called {new[old]!r} now")
            return wrapped(*args, **kwargs)

        if is_class:
            setattr(target, "__init__", called)  # noqa: B010 (mypy refuses an assignment)
            return target
        return called  # type: ignore[return-value]

    return decorate


def keep_old_paths() -> None:
    """Let the old paths be imported."""
    if not any(isinstance(finder, _Moved) for finder in sys.meta_path):
        sys.meta_path.append(_Moved())
