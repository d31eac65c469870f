"""Arguments that have a new name: a call with the old name raises an error that says the new one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

Target = TypeVar("Target", bound=Callable[..., Any])


def renamed_arguments(**instead: str) -> Callable[[Target], Target]:
    """Decorate a function or class so that old argument names raise a `TypeError` naming the new ones.

    Args:
        instead: for each old name, what to write instead.

    Returns:
        The decorator. The signature of what it decorates stays as it is.

    >>> @renamed_arguments(seed="generator=")
    ... def draw(*, generator=0): return generator
    >>> draw(seed=1)
    Traceback (most recent call last):
    TypeError: draw() has no argument 'seed': write generator= instead
    """

    def decorate(target: Target) -> Target:
        is_class = isinstance(target, type)
        wrapped = target.__init__ if is_class else target  # type: ignore[misc]

        @functools.wraps(wrapped)
        def checked(*args: Any, **kwargs: Any) -> Any:
            for old, new in instead.items():
                if old in kwargs:
                    name = getattr(target, "__name__", "call")
                    raise TypeError(f"{name}() has no argument {old!r}: write {new} instead")
            return wrapped(*args, **kwargs)

        if is_class:
            target.__init__ = checked  # type: ignore[misc]
            return target
        return checked  # type: ignore[return-value]

    return decorate
