"""Old argument names are refused by an error that says the new one; signatures stay readable."""

from __future__ import annotations

import inspect
import pickle
from dataclasses import dataclass

import pytest

from slicewise.support import renamed_arguments


@renamed_arguments(seed="generator")
def draw(n, *, generator=0, **options):
    return n, generator, options


@renamed_arguments(seed="generator")
@dataclass(frozen=True)
class Draws:
    n: int
    generator: int = 0


@pytest.mark.parametrize("call", [draw, Draws])
def test_an_old_word_names_the_new_one(call):
    with pytest.raises(
        TypeError, match=rf"{call.__name__}\(\) .*'seed': it is called 'generator' now"
    ):
        call(3, seed=1)
    assert "generator" in inspect.signature(call).parameters


def test_calls_with_new_words_pass():
    assert draw(3, generator=2, other=1) == (3, 2, {"other": 1})
    assert pickle.loads(pickle.dumps(Draws(3, generator=2))) == Draws(3, 2)
