"""Hostile arguments over all faces: each is taken, or refused by an error of the library's own."""

from __future__ import annotations

import contextlib
import fractions
import io
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import slicewise as sw
from benchmarks.torture.tally import Tally

X, Y = (torch.randn(6, 3, generator=torch.Generator().manual_seed(i)) for i in (0, 1))
WEIGHTS = torch.full((6,), 1 / 6)


def _hostile(rng: np.random.Generator) -> Any:
    """Something that hardly fits anywhere."""
    made: list[Callable[[], Any]] = [
        lambda: None,
        lambda: fractions.Fraction(1, 2),
        lambda: X.to_sparse(),
        lambda: torch.nested.nested_tensor([X[:2], X[:3]], layout=torch.jagged),
        lambda: X[:0],
        lambda: X[:, :0],
        lambda: torch.zeros(0, 6, 3),
        lambda: X + 0j,
        lambda: X.long(),
        lambda: X.bool(),
        lambda: X.to("meta"),
        lambda: torch.full_like(X, math.nan),
        lambda: torch.full_like(X, math.inf),
        lambda: X.double(),
        lambda: X.half(),
        lambda: X.tolist(),
        lambda: X.numpy().astype(object),
        lambda: np.array(["a", "b"]),
        lambda: "sw",
        lambda: "",
        lambda: "\x1b[2J",
        lambda: b"bytes",
        lambda: 10**30,
        lambda: -1,
        lambda: 0,
        lambda: True,
        lambda: 2.5,
        lambda: math.nan,
        lambda: math.inf,
        lambda: 1e308,
        lambda: 1j,
        lambda: [],
        lambda: {},
        lambda: {1, 2},
        lambda: [[1.0], [2.0, 3.0]],
        lambda: object(),
        lambda: int,
        lambda: len,
        lambda: range(3),
        lambda: iter([1, 2]),
        lambda: torch.Generator(),
        lambda: torch.tensor(3.0),
        lambda: torch.tensor([]),
        lambda: X.requires_grad_(False).expand(2, 6, 3),
        lambda: np.float32(2),
        lambda: np.int64(2),
        lambda: [None, None],
    ]
    return made[int(rng.integers(len(made)))]()


def _faces() -> dict[str, tuple[Callable[..., Any], dict[str, Any], tuple[str, ...]]]:
    """By name: what is called, arguments that fit, and further arguments that may be given."""
    more = (
        "variant",
        "p",
        "n_slices",
        "x_weights",
        "y_weights",
        "objective",
        "slices",
        "generator",
        "backend",
        "progress",
    )
    quiet = sw.Recording(progress_bar=False)
    flow = {"x": X, "y": Y, "max_steps": 2, "recording": quiet}
    return {
        "sliced_wasserstein": (sw.sliced_wasserstein, {"x": X, "y": Y}, (*more, "rtol", "atol")),
        "evaluate": (sw.evaluate, {"x": X, "y": Y}, (*more, "rtol", "atol")),
        "value_and_grad": (sw.value_and_grad, {"x": X, "y": Y}, more),
        "displacement": (sw.displacement, {"x": X, "y": Y}, ("variant", "p", "n_slices", "x_weights", "slices", "generator", "step_rule")),
        "wasserstein": (sw.wasserstein, {"x": X, "y": Y}, ("p", "x_weights", "y_weights")),
        "SlicedWasserstein": (
            lambda x, y, **how: sw.SlicedWasserstein(**how)(x, y),
            {"x": X, "y": Y},
            ("variant", "p", "n_slices", "objective", "scale", "reduction", "generator", "backend", "subspace_dim"),
        ),
        "flow": (sw.flow, flow, ("variant", "lr", "objective", "p", "n_slices", "x_weights", "seeds", "generator", "reduce", "step_rule", "stopping", "resume", "backend", "max_steps", "recording")),
        "sliced_plan": (sw.sliced_plan, {"x": X, "y": Y}, ("kind", "p", "norm", "beta", "x_weights", "generator", "n_slices")),
        "two_sample_test": (
            sw.two_sample_test,
            {"x": X, "y": Y, "permutations": 9},
            ("permutations", "generator", "n_slices", "variant", "p"),
        ),
    }  # fmt: skip


_FACES = _faces()


def arguments(seed: int, folder: str) -> Tally:
    """Return the tally of one batch of 150 calls."""
    rng = np.random.default_rng(seed)
    tally = Tally()
    for _ in range(150):
        name = str(rng.choice(list(_FACES)))
        call, fits, further = _FACES[name]
        given = dict(fits)
        if rng.random() < 0.3:
            given["x" if rng.random() < 0.5 else "y"] = _hostile(rng)
        for _ in range(int(rng.integers(1, 3))):
            given[str(rng.choice([*fits, *further]))] = _hostile(rng)
        if callable(given.get("step_rule")):
            del given["step_rule"]  # a rule of the caller's own, whose errors are its own
        tally.case(_outcome(name, call, given, seed))
    return tally


def _outcome(name: str, call: Callable[..., Any], given: dict[str, Any], seed: int) -> str | None:
    words = ", ".join(f"{k}={_short(v)}" for k, v in given.items())
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            call(**given)
    except (ValueError, ImportError):
        return None
    except TypeError as error:
        # Python's own, for arguments that a function does not have.
        return (
            None
            if "argument" in str(error)
            else f"seed {seed}: {name}({words}): TypeError: {error}"
        )
    except Exception as error:
        return f"seed {seed}: {name}({words}): {type(error).__name__}: {str(error)[:200]}"
    return None


def _short(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{value.layout} {value.dtype} {tuple(value.shape) if not value.is_nested else 'nested'}"
    return repr(value)[:60]
