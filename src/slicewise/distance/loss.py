"""The distance as a loss to train with.

What a loss is multiplied by, so that the dimension its samples are embedded in does not matter.

What a part has learned, kept in the buffers of a module.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, get_args

import torch
from torch import Tensor, nn

from slicewise.distance.displacement import check_displaceable, displaced
from slicewise.distance.evaluation import by_graph, may_be_captured, weigh
from slicewise.distance.prepare import fixed_slices, prepare
from slicewise.distance.request import BACKENDS, problem_for, recipe_for
from slicewise.parts import Circles, Gaussian, Networks, State, Summary
from slicewise.problem import Problem, Target, basis_of, gaussian_constant
from slicewise.sampling import Generators
from slicewise.support import (
    check_choice,
    check_count,
    check_generator,
    check_order,
    check_value,
    full_precision,
    values_readable,
)
from slicewise.variants import Recipe, Variant

Scale = Literal["classic", "gaussian", "subspace", "displacement"]


def check_scale(scale: Scale, recipe: Recipe, *, power: bool) -> None:
    """Scales that mean something for this recipe."""
    check_choice("scale", scale, get_args(Scale))
    if scale == "displacement":
        recipe.check_linear("scale='displacement'")
        if not power:
            raise ValueError(
                "scale='displacement' with the root: moves have the right length for the power alone; "
                "give power=True, or another scale"
            )
    if scale in ("gaussian", "subspace") and isinstance(recipe.lift, Circles | Networks):
        raise ValueError(
            f"scale={scale!r} with {recipe.lift!r}: how its costs depend on the dimension is not known; use "
            f"scale='classic', or function='poly'"
        )


def measured(problem: Problem) -> Problem:
    """The problem whose dimension counts: that of the samples, where a lift made single points of them."""
    whole = problem.whole if isinstance(problem, Summary) else None
    return problem if whole is None else whole


def scale_factor(recipe: Recipe, d: int, k: int | None, *, p: float) -> float:
    """What makes W_p^p along slices of R^d independent of d (k = None), or that of slices of R^k."""

    def length(d: int) -> float:
        # Normal slices are as long as they are: for these E‖θ‖^p is in the value already.
        return d ** (p / 2) if isinstance(recipe.slicer, Gaussian) else gaussian_constant(d, p=p)

    if k is not None and not 1 <= k <= d:
        raise ValueError(f"k = {k} and d = {d}: a subspace of R^d has 1 <= k <= d")
    return length(d) if k is None else length(d) / length(k)


_STATE = "slicer_"  # begins the names of the buffers that hold what was learned; a lift's as well as a slicer's


class KeepsLearner(nn.Module):
    """A module whose buffers hold what a slicer or a lift has learned: moved and saved with it."""

    def _forget(self) -> None:
        for name in self._state():
            delattr(self, _STATE + name)

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


if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

    from slicewise.distributed import Exchange, Terms

_log = logging.getLogger("slicewise")


def _check_not_forgotten(averaged: bool) -> None:
    """dist.group.WORLD is None until the processes have met: a loss made before would be one for each of them."""
    ranks = os.environ.get("WORLD_SIZE", "1")
    if averaged and ranks.isdecimal() and int(ranks) > 1:
        raise ValueError(
            f"averaged=True and group=None, though there are {ranks} processes (WORLD_SIZE): call "
            f"torch.distributed.init_process_group first, then make the loss with group=dist.group.WORLD"
        )


class SlicedWasserstein(KeepsLearner):
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
        group: a process group of `torch.distributed`, e.g. `torch.distributed.group.WORLD`: x and y are then this
            rank's shares, of any sizes, and the loss is that of all samples. Every rank gets the one value, and
            `backward()` the gradient of it in its own samples. Slices are drawn by rank 0, from its generator.
            Sample weights sum to one over all ranks. See docs/distributed.md.
        samples: "sharded", or "replicated" where every rank of the group has all samples.
        exchange: what the ranks send each other: "projections", "samples", or "auto", by size. `exchanged` says
            what it was in the last call, why, and the bytes sent.
        averaged: gradients will be averaged over ranks, as DDP and FSDP do: multiply them by the number of
            ranks, so that the average is the gradient of the one loss. The value stays as it is.

    What learns ("dsw", "asw") lives in the module's buffers: one network for each element of the batch,
    moved and saved with the module, `reset()` to forget.

    >>> import torch
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
        group: ProcessGroup | None = None,
        samples: Literal["sharded", "replicated"] = "sharded",
        exchange: Literal["auto", "projections", "samples"] = "auto",
        averaged: bool = False,
        **options: Any,
    ) -> None:
        super().__init__()
        check_order(p)
        check_choice("reduction", reduction, ("mean", "sum", "none"))
        check_choice("backend", backend, BACKENDS)
        check_count("subspace_dim", subspace_dim)
        self.recipe = recipe_for(variant, n_slices, options)
        self.p, self.scale = p, scale
        self.power = self.recipe.convention == "mean" if power is None else power
        check_scale(scale, self.recipe, power=self.power)
        self.subspace_dim = self._given_dim = subspace_dim
        self.reduction, self.backend = reduction, backend
        self.exchanged: Exchange | None = None
        self.terms: Terms | None = None
        check_choice("samples", samples, ("sharded", "replicated"))
        check_choice("exchange", exchange, ("auto", "projections", "samples"))
        if group is None:
            _check_not_forgotten(averaged)
        else:
            from slicewise.distributed import terms_for

            self.terms = terms_for(group, samples, exchange, averaged)

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

        def own() -> Problem:
            share = self.terms is not None and self.terms.samples == "sharded"
            what = (x, y, self.p, x_weights, y_weights, self.recipe.convention, progress)
            return problem_for(*what, self.backend, share=share)

        if self.terms is not None:
            return self._over_ranks(own, y, slices, generator)
        problem = own()
        # What a part learns is kept from call to call: no graph for that.
        plain = self.scale == "classic" and self.recipe.learner is None
        if plain and may_be_captured(x, slices, generator):
            value = by_graph(self.recipe, problem, power=self.power)
            if value is not None:
                return self._reduced(value)
        return self._value(problem, fixed_slices(y, slices), generator)

    def _value(self, problem: Problem, given: Tensor | None, generator: Generators) -> Tensor:
        with full_precision(problem.x.device.type):
            learns = given is None or self.recipe.lift is not None
            state = self._state_for(problem) if learns else None
            ready = prepare(self.recipe, problem, generator, given, state=state)
            if ready.state is not None:
                self._keep(ready.state if self.terms is None else self.terms.agreed(ready.state))
            if self.scale == "displacement":
                value = displaced(self.recipe, problem, ready.slices)
            else:
                sliced, slices, size, _ = ready
                value = weigh(self.recipe, sliced, slices, size, power=self.power).value
            if self.scale in ("gaussian", "subspace"):
                value = value * self._factor(ready.problem) ** (1 if self.power else 1 / self.p)
        check_value(value, problem)
        return self._reduced(value)

    def _over_ranks(
        self,
        own: Callable[[], Problem],
        y: Tensor | Target,
        slices: Tensor | None,
        generator: Generators,
    ) -> Tensor:
        """The same for the samples of all ranks; what can be wrong here is found before they meet."""
        from slicewise.distributed import meet

        assert self.terms is not None
        ranks = self.terms.ranks
        before = ranks.sent

        def mine() -> tuple[Problem, Tensor | None]:
            check_generator(generator)
            problem = own()
            if self.scale == "displacement":
                check_displaceable(problem)
            return problem, fixed_slices(y, slices)

        words = f"{self._words()}, reduction={self.reduction!r}"
        curved = self.scale == "displacement" and self.p != 2
        problem, given, found = meet(self.terms, self.recipe, words, mine, whole_plans=curved)
        value = self.terms.corrected(self._value(problem, given, generator))
        self.exchanged = dataclasses.replace(found, sent=ranks.sent - before)
        return value

    def _reduced(self, value: Tensor) -> Tensor:
        if self.reduction == "none" or value.dim() == 0:
            return value
        return value.mean() if self.reduction == "mean" else value.sum()

    def reset(self) -> None:
        """Forget what was learned, and a subspace dimension that was estimated."""
        self._forget()
        self.subspace_dim = self._given_dim

    def extra_repr(self) -> str:
        """The recipe, and what is done with its value."""
        words = f"{self.recipe!r}, {self._words()}"
        return words if self.terms is None else f"{words}, {self.terms}"

    def _words(self) -> str:
        words = f"p={self.p}, power={self.power}, scale={self.scale!r}"
        return words if self.subspace_dim is None else f"{words}, subspace_dim={self.subspace_dim}"

    def _factor(self, problem: Problem) -> float:
        problem = measured(problem)
        if self.scale == "gaussian":
            return scale_factor(self.recipe, problem.d, None, p=self.p)
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
        return scale_factor(self.recipe, problem.d, self.subspace_dim, p=self.p)

    def get_extra_state(self) -> dict[str, Any]:
        """What is saved beside the buffers: a dimension once estimated holds after a restart."""
        return {"subspace_dim": self.subspace_dim}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Take up what `get_extra_state` saved."""
        self.subspace_dim = state["subspace_dim"]
