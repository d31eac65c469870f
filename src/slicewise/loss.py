"""The distance as a loss to train with."""

from __future__ import annotations

import logging
import warnings
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from slicewise.checks import (
    check_choice,
    check_count,
    check_order,
    check_value,
    values_readable,
)
from slicewise.displacement import carried
from slicewise.distance import by_graph, may_be_captured, weigh
from slicewise.learned import State
from slicewise.precision import full_precision
from slicewise.preparation import fixed_slices, prepare
from slicewise.problem import Problem
from slicewise.randomness import Generators
from slicewise.recipe import Recipe, Variant
from slicewise.request import BACKENDS, problem_for, recipe_for
from slicewise.rules import moved, pull_of
from slicewise.subspace import basis_of, essf, gaussian_constant
from slicewise.target import Target
from slicewise.weighting import weights_for

Scale = Literal["classic", "gaussian", "subspace", "displacement"]

_log = logging.getLogger("slicewise")
_STATE = "slicer_"  # begins the names of the buffers that hold a learned slicer


class SlicedWasserstein(nn.Module):
    """Sliced Wasserstein as a loss: SW_p^p by default, averaged over the batch.

    Args:
        variant, n_slices, options: as in `sliced_wasserstein`.
        power: SW_p^p, which the theory of step sizes is about, or with False its root. None is the
            power, except under `convention="reference"`, whose published loss is the root.
        scale: "classic" is the distance as defined. "gaussian" multiplies SW_p^p by C_d, so that the
            value no longer depends on the dimension the data are embedded in. "subspace" multiplies by
            C_d / C_k, which makes it the value in the data's own k dimensions: k is `subspace_dim`, or
            the rank of the first batch, kept in `subspace_dim` from then on. "displacement" leaves the
            value as it is and makes the gradient at each sample minus its weight times the move that the
            slices suggest (`sw.displacement`): one learning rate then serves every dimension, batch size,
            slice count and variant. About 0.1 is a good one for plain SGD. Slice weights are constants
            there, gradients go to samples alone, and the root is refused.
        reduction: over batch dimensions only: "mean", "sum" or "none".

    What learns ("dsw", "asw") lives in the module's buffers: one network for each element of the batch,
    moved and saved with the module, `reset()` to forget.

    >>> loss = SlicedWasserstein("sw", n_slices=20)
    >>> x = torch.randn(64, 8, requires_grad=True)
    >>> loss(x, torch.randn(64, 8)).backward()
    >>> x.grad.isfinite().all().item()
    True
    """

    def __init__(
        self,
        variant: str | Variant | Recipe = "sw",
        *,
        p: float = 2,
        n_slices: int | None = None,
        power: bool | None = None,
        scale: Scale = "classic",
        subspace_dim: int | None = None,
        reduction: Literal["mean", "sum", "none"] = "mean",
        backend: str = "auto",
        **options: Any,
    ) -> None:
        super().__init__()
        check_order(p)
        check_choice("scale", scale, get_args(Scale))
        check_choice("reduction", reduction, ("mean", "sum", "none"))
        check_choice("backend", backend, BACKENDS)
        check_count("subspace_dim", subspace_dim)
        self.recipe = recipe_for(variant, n_slices, options)
        self.p, self.scale = p, scale
        self.power = self.recipe.convention == "mean" if power is None else power
        if scale == "displacement":
            self.recipe.check_linear("scale='displacement'")
        if scale == "displacement" and not self.power:
            raise ValueError(
                "scale='displacement' with the root: moves have the right length for the power alone; "
                "give power=True, or another scale"
            )
        self.subspace_dim = self._given_dim = subspace_dim
        self.reduction, self.backend = reduction, backend

    def forward(
        self,
        x: Tensor,
        y: Tensor | Target,
        *,
        x_weights: Tensor | None = None,
        y_weights: Tensor | None = None,
        slices: Tensor | None = None,
        generator: Generators = None,
        progress: float = 0.0,
    ) -> Tensor:
        """The loss between x (*batch, n, d) and y (*batch, m, d): a scalar, or (*batch,) unreduced."""
        problem = problem_for(
            x, y, self.p, x_weights, y_weights, self.recipe.convention, progress, self.backend
        )
        # What a part learns is kept from call to call: no graph for that.
        plain = self.scale == "classic" and self.recipe.learner is None
        if plain and may_be_captured(x, slices, generator):
            value = by_graph(self.recipe, problem, power=self.power)
            if value is not None:
                return self._reduced(value)
        with full_precision(problem.x.device.type):
            given = fixed_slices(y, slices)
            learns = given is None or self.recipe.lift is not None
            state = self._state_for(problem) if learns else None
            ready = prepare(self.recipe, problem, generator, given, state=state)
            if ready.state is not None:
                self._keep(ready.state)
            if self.scale == "displacement":
                value = self._displaced(problem, ready.slices)
            else:
                sliced, slices, size, _ = ready
                value = weigh(self.recipe, sliced, slices, size, power=self.power).value
            if self.scale in ("gaussian", "subspace"):
                value = value * self._factor(ready.problem) ** (1 if self.power else 1 / self.p)
        check_value(value, problem)
        return self._reduced(value)

    def _reduced(self, value: Tensor) -> Tensor:
        if self.reduction == "none" or value.dim() == 0:
            return value
        return value.mean() if self.reduction == "mean" else value.sum()

    def reset(self) -> None:
        """Forget what a learned slicer has learned, and a subspace dimension that was estimated."""
        for name in self._state():
            delattr(self, _STATE + name)
        self.subspace_dim = self._given_dim

    def extra_repr(self) -> str:
        """The recipe, and what is done with its value."""
        words = f"{self.recipe!r}, p={self.p}, power={self.power}, scale={self.scale!r}"
        return words if self.subspace_dim is None else f"{words}, subspace_dim={self.subspace_dim}"

    def _displaced(self, problem: Problem, slices: Tensor) -> Tensor:
        """The value, whose gradients are the suggested moves with their signs turned."""
        for name in ("x_weights", "y_weights"):
            weights = getattr(problem, name)
            if weights is not None and weights.requires_grad:
                raise ValueError(
                    f"{name} asks for a gradient, which scale='displacement' has for samples only: "
                    f"detach them, or use another scale"
                )
        still, slices = problem.detached(), slices.detach()
        weighting = self.recipe.weighting
        with torch.no_grad():
            pull = pull_of(still, slices, weights_for(weighting, slices, still, hold=True))
            value = (pull.weights * pull.costs).sum(dim=-1)
            if problem.convention == "reference":  # a sum over points, times their number
                n = problem.n_points()
                value = value * (n if isinstance(n, int) else n.squeeze(-1)) ** 2
        if problem.x.requires_grad:
            value = carried(value, problem.x, moved(pull), problem.x_weights)
        if problem.y.requires_grad:
            with torch.no_grad():
                back = pull_of(still.swapped(), slices, pull.weights)
            value = carried(value, problem.y, moved(back), problem.y_weights)
        return value

    def _factor(self, problem: Problem) -> float:
        if self.scale == "gaussian":
            return gaussian_constant(problem.d, p=self.p)
        if self.subspace_dim is None:
            if not values_readable(problem.x):
                raise ValueError(
                    "scale='subspace' cannot estimate the dimension while it is compiled or "
                    "transformed: give subspace_dim, or call the loss once before"
                )
            self.subspace_dim = basis_of(problem).shape[-1]
            _log.warning(
                "subspace_dim = %d, estimated from the first batch and kept; give subspace_dim to choose",
                self.subspace_dim,
            )
        return 1 / essf(problem.d, self.subspace_dim, p=self.p)

    def get_extra_state(self) -> dict[str, Any]:
        """What is saved beside the buffers: a dimension once estimated holds after a restart."""
        return {"subspace_dim": self.subspace_dim}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Take up what `get_extra_state` saved."""
        self.subspace_dim = state["subspace_dim"]

    def _state(self) -> State:
        buffers = self.named_buffers(recurse=False)
        return {k.removeprefix(_STATE): b for k, b in buffers if k.startswith(_STATE)}

    def _state_for(self, problem: Problem) -> State | None:
        """What was learned, if it fits these samples."""
        state = self._state()
        if not state:
            return None
        learned, wanted = tuple(state["bias"].shape), (*problem.batch, problem.d)
        if learned != wanted:
            warnings.warn(
                f"what was learned was for (*batch, d) = {learned}, these samples have {wanted}: it "
                f"starts anew; keep one module for each shape to keep what they learn",
                stacklevel=3,
            )
            return None
        return {k: t.to(problem.x) if t.is_floating_point() else t for k, t in state.items()}

    def _keep(self, state: State) -> None:
        for name, tensor in state.items():
            self.register_buffer(_STATE + name, tensor.detach())

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *rest: Any, **more: Any
    ) -> None:
        # The buffers take their shapes from the data, so a fresh module has none to load into.
        for key, tensor in state_dict.items():
            if key.startswith(prefix + _STATE):
                self.register_buffer(key.removeprefix(prefix), torch.empty_like(tensor))
        super()._load_from_state_dict(state_dict, prefix, *rest, **more)
