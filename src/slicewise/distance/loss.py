"""The distance as a loss to train with: its scales, and what a learned part keeps in the module's buffers."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import logging
import math
import os
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, get_args

import torch
from torch import Tensor, nn

from slicewise.distance.compiled import compiled_law_value, compiled_value, number_of
from slicewise.distance.displacement import check_displaceable, displaced
from slicewise.distance.evaluation import nearness, problem_dtype
from slicewise.distance.holding import Before, Call, Tape, held_for, tape_in_use
from slicewise.distance.in_range import in_range
from slicewise.distance.objective import Objective, check_objective, weigh
from slicewise.distance.plan import planned_value
from slicewise.distance.request import (
    BACKENDS,
    Ask,
    OutOfRange,
    ask_for,
    check_value,
    fixed_slices,
    is_tracked,
    may_be_planned,
    prepare,
    problem_for,
    recipe_for,
)
from slicewise.laws import Law
from slicewise.problem import LiftPart, Problem, SlicerPart, State, Target, basis_of, declared
from slicewise.sampling import Generators, as_generators
from slicewise.support import (
    check_choice,
    check_count,
    check_generator,
    check_order,
    full_precision,
    values_readable,
)
from slicewise.variants import Recipe, Variant

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

    from slicewise.distributed import Exchange, Terms

_log = logging.getLogger("slicewise")
Scale = Literal["classic", "gaussian", "subspace", "displacement"]


def check_scale(scale: Scale, recipe: Recipe, objective: Objective) -> None:
    """Scales that mean something for this recipe."""
    check_choice("scale", scale, get_args(Scale))
    if scale == "displacement":
        recipe.check_linear("scale='displacement'")
        if objective != "power":
            raise ValueError(
                f"scale='displacement' with objective={objective!r}: moves have the right length for the power alone; "
                f"give objective='power', or another scale"
            )
    straight = recipe.lift is None or declared(recipe.lift, LiftPart).linear_slices
    if scale in ("gaussian", "subspace") and not straight:
        raise ValueError(
            f"scale={scale!r} with {recipe.lift!r}: how its costs depend on the dimension is not known; use "
            f"scale='classic', or function='poly'"
        )


def scale_factor(recipe: Recipe, d: int, k: int | None, *, p: float) -> float:
    """What makes W_p^p along slices of R^d independent of d (k = None), or that of slices of R^k."""
    slicer = declared(recipe.slicer, SlicerPart)
    if k is not None and not 1 <= k <= d:
        raise ValueError(f"k = {k} and d = {d}: a subspace of R^d has 1 <= k <= d")
    factor = slicer.dimension_factor(d, p)
    return factor if k is None else factor / slicer.dimension_factor(k, p)


_STATE = "slicer_"  # begins the names of the buffers that hold what was learned; a lift's as well as a slicer's


class _KeepsLearner(nn.Module):
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


def _check_not_forgotten(averaged: bool) -> None:
    """dist.group.WORLD is None until the processes have met: a loss made before would be one for each of them."""
    ranks = os.environ.get("WORLD_SIZE", "1")
    if averaged and ranks.isdecimal() and int(ranks) > 1:
        raise ValueError(
            f"averaged=True and group=None, though there are {ranks} processes (WORLD_SIZE): call "
            f"torch.distributed.init_process_group first, then make the loss with group=dist.group.WORLD"
        )


class SlicedWasserstein(_KeepsLearner):
    """The sliced-Wasserstein distance as a loss module: SW_p^p by default, averaged over the batch.

    Every leading dimension is a batch dimension, of images too: a batch (B, C, H, W) has to be flattened to (B, C·H·W),
    `images.flatten(1)`, to be B samples.

    A learned part ("dsw", "asw") keeps its state in the module's buffers: one network for each element of the batch,
    moved and saved with the module; `reset()` forgets it.

    Args:
        variant, p, n_slices, backend, options: as in `sliced_wasserstein`.
        objective: "power" (SW_p^p, which the theory of step sizes is about), "root" or "mean_root". None is the power,
            except under `convention="reference"`, whose published loss is the root.
        scale: what the value or its gradient is multiplied by.
            "classic": nothing; the distance as defined.
            "gaussian": SW_p^p times C_d, so that the value does not depend on the dimension the data are embedded in.
            "subspace": SW_p^p times C_d / C_k, the value in the data's own k dimensions; k is `subspace_dim`, or the
            rank of the first batch, kept in `subspace_dim` from then on.
            "displacement": the value is as it is; the gradient at sample i is −w_i · displacement_i, with w_i its sample
            weight and the displacement of `sw.displacement`. Slice weights are constants, gradients go to samples
            alone, and the objective must be the power. A rate of 0.1 for plain SGD is a good start.
        subspace_dim: k of the scale "subspace".
        reduction: over batch dimensions only: "mean", "sum" or "none".
        generator: where slices come from if a call gives none: an int seeds a stream of its own, which continues from
            call to call; None is torch's global generator.
        group: a process group of `torch.distributed`, e.g. `torch.distributed.group.WORLD`. x and y are then this rank's
            shares, of any sizes, and the loss is that of all samples: every rank gets the one value, and `backward()`
            its gradient in the rank's own samples. Slices are drawn by rank 0. Sample weights sum to one over all ranks.
        samples: "sharded", or "replicated" where every rank of the group has all samples.
        exchange: what ranks send each other: "projections", "samples", or "auto", by size. `exchanged` says what it was
            in the last call, why, and the bytes sent.
        averaged: multiply gradients by the number of ranks, for gradients that are averaged over ranks afterwards, as
            DDP and FSDP do. The value stays as it is.

    Raises:
        ValueError: for arguments that do not fit together.

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
        objective: Objective | None = None,
        scale: Scale = "classic",
        subspace_dim: int | None = None,
        reduction: Literal["mean", "sum", "none"] = "mean",
        generator: Generators = None,
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
        usual: Objective = "power" if self.recipe.convention == "mean" else "root"
        self.objective: Objective = usual if objective is None else objective
        check_objective(self.objective, self.recipe)
        check_scale(scale, self.recipe, self.objective)
        check_generator(generator)
        self.generator = as_generators(generator)
        self._warned = False
        self._asked: tuple[tuple[Any, ...], Ask | None, bool] | None = None
        self.subspace_dim = self._given_dim = subspace_dim
        self.reduction, self.backend = reduction, backend
        self.exchanged: Exchange | None = None
        self.terms: Terms | None = None
        self._as_operation = self._operation()
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
        y: Tensor | Target | Law,
        *,
        x_weights: Tensor | None = None,
        y_weights: Tensor | None = None,
        slices: Tensor | None = None,
        generator: Generators = None,
        progress: float = 0.0,
    ) -> Tensor:
        """Compute the loss between x (*batch, n, d) and y (*batch, m, d).

        Args:
            x_weights, y_weights, slices, progress: as in `sliced_wasserstein`.
            generator: as in `sliced_wasserstein`; None is the module's own.

        Returns:
            A scalar, or (*batch,) with `reduction="none"`.
        """
        given: dict[str, Any] = {
            "x": x,
            "y": y,
            "x_weights": x_weights,
            "y_weights": y_weights,
            "slices": slices,
        }
        same: dict[str, Any] = {"generator": generator, "progress": progress}
        try:
            return self._forward(**given, **same)
        except OutOfRange:
            generator = self.generator if generator is None else generator
            how = {"generator": generator, "progress": progress, "backend": self.backend}

            def call(own: Recipe, _unit: Tensor, **wide: Any) -> Tensor:
                if own is self.recipe:
                    return self._forward(**wide, **same)
                other = copy.copy(self)  # with energies in another unit
                other.recipe = own
                return other._forward(**wide, **same)

            what = (self.recipe, self.p, self.objective)
            return in_range(
                call,
                nearness(self.recipe, how),
                *what,
                given,
                value_of=lambda value: value,
                back=lambda value, unit, scale: (value * scale).to(problem_dtype(x)),
            )

    def _forward(
        self,
        x: Tensor,
        y: Tensor | Target | Law,
        *,
        x_weights: Tensor | None,
        y_weights: Tensor | None,
        slices: Tensor | None,
        generator: Generators,
        progress: float,
    ) -> Tensor:
        if not self._warned and _looks_like_images(x):
            self._warned = True
            warnings.warn(
                f"x has shape {tuple(x.shape)}, which looks like images (B, C, H, W): it is taken for {x.shape[0]} × "
                f"{x.shape[1]} sets of {x.shape[2]} samples in {x.shape[3]} dimensions; to compare images as samples, give "
                f"x.flatten(1) and y.flatten(1)",
                stacklevel=3,
            )
        generator = self.generator if generator is None else generator
        tape, call = tape_in_use(), None
        if tape is not None:
            if tape.rehearsing and not self._is_weighted(y, x_weights, y_weights):
                tape.compared.append((x, y.y if isinstance(y, Target) else y))
            if tape.playing:
                call = tape.next(self)
                if tape.can_be_held:
                    return self._held(tape, call, x)
                slices = None if isinstance(y, Target) else call.slices
        elif torch.compiler.is_compiling():
            value = self._compiled(x, y, x_weights, y_weights, slices, generator, progress)
            if value is not None:
                return self._reduced(self._scaled(value, x.shape[-1]))
        elif may_be_planned(x, slices) and self.terms is None:
            found = self._planned(x, y, x_weights, y_weights, generator, progress)
            if found is not None:
                return self._reduced(self._scaled(found, x.shape[-1]))

        def own() -> Problem:
            share = self.terms is not None and self.terms.samples == "sharded"
            what = (x, y, self.p, x_weights, y_weights, self.recipe.convention, progress)
            whole = self.terms is not None or is_tracked(slices)
            return problem_for(*what, self.backend, share=share, whole_frame=whole)

        if self.terms is not None:
            return self._over_ranks(own, y, slices, generator, call)
        return self._value(own(), fixed_slices(y, slices), generator, call)

    def _planned(
        self,
        x: Tensor,
        y: Tensor | Target | Law,
        x_weights: Tensor | None,
        y_weights: Tensor | None,
        generator: Generators,
        progress: float,
    ) -> Tensor | None:
        """The value by a plan; None where something has to be found out in this call first."""
        settings = (self.recipe, self.objective, self.p, self.backend, self.scale, progress)
        if self._asked is None or self._asked[0] != settings:
            displaced = self.scale == "displacement"
            ask = ask_for(*settings[:4], progress, displaced=displaced)
            self._asked = (settings, ask, self.recipe.learner is not None)
        _, ask, learns = self._asked
        if self.scale == "subspace" and self.subspace_dim is None:
            return None
        state = self._state() if learns else None
        if state is not None and not _fits(state, x, y, x_weights, y_weights):
            return None  # it begins, or begins anew
        found = planned_value(ask, x, y, x_weights, y_weights, generator, state)
        if found is None:
            return None
        if found[1] is not None:
            self._keep(found[1])
        return found[0]

    def _operation(self) -> tuple[Any, ...]:
        """The number of its operation in compiled code, if it has one, and the settings that it stands for."""
        settings = (self.objective, self.p, self.backend)
        ask = None
        if self.recipe.learner is None:
            ask = ask_for(self.recipe, *settings, displaced=self.scale == "displacement")
        return (ask, number_of(ask), self.recipe, *settings, self.scale)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._as_operation = self._operation()  # numbers are those of a process

    def _compiled(
        self,
        x: Tensor,
        y: Tensor | Target | Law,
        x_weights: Tensor | None,
        y_weights: Tensor | None,
        slices: Tensor | None,
        generator: Generators,
        progress: float,
    ) -> Tensor | None:
        """The value as one operation in compiled code, where the settings are those the module was made with."""
        _, number, recipe, *settings = self._as_operation
        drawn = slices is None and generator is None and progress == 0 and self.terms is None
        if number is None or not drawn or not isinstance(x, Tensor):
            return None
        now = [self.objective, self.p, self.backend, self.scale]
        estimates = self.scale == "subspace" and self.subspace_dim is None
        if recipe is not self.recipe or settings != now or estimates:
            return None
        if isinstance(y, Law):
            return None if y_weights is not None else compiled_law_value(number, x, y, x_weights)
        if not isinstance(y, Tensor):
            return None
        return compiled_value(number, x, y, x_weights, y_weights)

    def _value(
        self,
        problem: Problem,
        given: Tensor | None,
        generator: Generators,
        call: Call | None = None,
    ) -> Tensor:
        """The value; with a call that is made once more, from what that began with, and without learning again."""
        with full_precision(problem.x.device.type):
            learns = given is None or self.recipe.lift is not None
            state = self._state_for(problem) if learns else None
            tape = tape_in_use()
            before = None if tape is None else Before.of(state, generator)
            again = call.before if call is not None else None
            if tape is not None and tape.rehearsing:
                again = before
            with contextlib.ExitStack() as same:
                if again is not None:
                    state = same.enter_context(again.again())
                ready = prepare(self.recipe, problem, generator, given, state=state)
            noted = None
            if tape is not None and before is not None and call is None:
                can_be_held = self._can_be_held(problem)
                noted = tape.note(self, problem, ready.slices, before, can_be_held=can_be_held)
            if ready.state is not None and again is None:
                self._keep(ready.state if self.terms is None else self.terms.agreed(ready.state))
            if self.scale == "displacement":
                value = displaced(self.recipe, problem, ready.slices)
            else:
                value = weigh(self.recipe, ready.problem, ready.slices, self.objective)[0]
            if self.scale == "subspace" and self.subspace_dim is None:
                self.subspace_dim = self._estimated(ready.problem.original)
            value = self._scaled(value, ready.problem.original.d)
        may_repeat = tape is None and self.terms is None and self.scale != "displacement"
        check_value(value, problem, self.objective if may_repeat else None)
        value = self._reduced(value)
        if noted is not None and value.requires_grad:
            value.register_hook(lambda gradient: noted.upstream.append(gradient.detach()))
        return value

    @staticmethod
    def _is_weighted(y: Tensor | Target | Law, *weights: Tensor | None) -> bool:
        """Whether samples count differently, so that their plain moments say little."""
        own = y.y_weights if isinstance(y, Target) else None
        return any(some is not None for some in (own, *weights))

    def _can_be_held(self, problem: Problem) -> bool:
        """Whether the loss with plans held is known, and is all that changes if x does."""
        others = (problem.y, problem.x_weights, problem.y_weights)
        known = self.recipe.lift is None and self.recipe.convention == "mean" and self.terms is None
        return known and not any(t is not None and t.requires_grad for t in others)

    def _held(self, tape: Tape, call: Call, x: Tensor) -> Tensor:
        """The loss at samples x with the plans of an earlier call; the tape learns how it curves."""
        held = held_for(
            self.recipe,
            call.problem,
            call.slices,
            self.objective,
            displaced=self.scale == "displacement",
        )

        def of_loss(one_each: Tensor) -> Tensor:
            return self._reduced(self._scaled(one_each, x.shape[-1]))

        value, curvature, expected = held.ahead(x)
        fresh = None if expected is None else of_loss(expected)
        tape.add_curvatures(call, of_loss(curvature), fresh)
        return of_loss(value)

    def _over_ranks(
        self,
        own: Callable[[], Problem],
        y: Tensor | Target | Law,
        slices: Tensor | None,
        generator: Generators,
        call: Call | None,
    ) -> Tensor:
        """The same for the samples of all ranks; what can be wrong here is found before they meet."""
        from slicewise.distributed import meet

        assert self.terms is not None
        ranks = self.terms.ranks
        before = ranks.sent

        def mine() -> tuple[Problem, Tensor | None]:
            check_generator(generator)
            problem = own()
            many = generator if isinstance(generator, list | tuple) else [None]
            if len(many) not in (1, math.prod(problem.batch)):
                raise ValueError(
                    f"generator holds {len(many)} generators for {math.prod(problem.batch)} elements of the batch: give one "
                    f"for each, or one"
                )
            if self.scale == "displacement":
                check_displaceable(problem)
            return problem, fixed_slices(y, slices)

        words = f"{self._words()}, reduction={self.reduction!r}"
        words += f", y={y!r}" if isinstance(y, Law) else ""
        curved = self.scale == "displacement" and self.p != 2
        problem, given, found = meet(self.terms, self.recipe, words, mine, whole_plans=curved)
        value = self.terms.corrected(self._value(problem, given, generator, call))
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
        words = f"p={self.p}, objective={self.objective!r}, scale={self.scale!r}"
        return words if self.subspace_dim is None else f"{words}, subspace_dim={self.subspace_dim}"

    def _scaled(self, value: Tensor, d: int) -> Tensor:
        """The value of samples in d dimensions, in the scale that was asked for."""
        if self.scale not in ("gaussian", "subspace"):
            return value
        k = None if self.scale == "gaussian" else self.subspace_dim
        factor = scale_factor(self.recipe, d, k, p=self.p)
        return value * factor ** (1 if self.objective == "power" else 1 / self.p)

    def _estimated(self, problem: Problem) -> int:
        """The dimension of the subspace that a first batch spans."""
        if not values_readable(problem.x):
            raise ValueError(
                "scale='subspace' cannot estimate the dimension while it is compiled or "
                "transformed: give subspace_dim, or call the loss once before"
            )
        k = basis_of(problem).shape[-1]
        _log.warning(
            "subspace_dim = %d, estimated from the first batch and kept; give subspace_dim to choose",
            k,
        )
        return k

    def get_extra_state(self) -> dict[str, Any]:
        """What is saved beside the buffers: a dimension once estimated holds after a restart."""
        states = [one.get_state() for one in self._generators]
        return {"subspace_dim": self.subspace_dim} | ({"generators": states} if states else {})

    @property
    def _generators(self) -> list[torch.Generator]:
        one = self.generator
        return [] if one is None else [one] if isinstance(one, torch.Generator) else one

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Take up what `get_extra_state` saved."""
        self.subspace_dim = state["subspace_dim"]
        for one, saved in zip(self._generators, state.get("generators", ()), strict=False):
            one.set_state(saved.cpu())


def _fits(state: State, x: Tensor, y: Tensor | Target | Law, *weights: Tensor | None) -> bool:
    """Was this state learned for samples like these: of their batch, dimension, precision and device?"""
    tensors = (x, y, *(w for w in weights if w is not None))
    if not state or not all(isinstance(t, Tensor) for t in tensors) or x.dim() < 2:
        return False
    bias, batch = state["bias"], x.shape[:-2]
    others = [t.shape[: -2 if t is y else -1] for t in tensors[1:] if isinstance(t, Tensor)]
    if bias.shape != (*batch, x.shape[-1]) or any(len(o) and o != batch for o in others):
        return False
    dtypes = {t.dtype for t in (bias, x, y) if isinstance(t, Tensor)}
    return len(dtypes) == 1 and bias.device == x.device


def _looks_like_images(x: object) -> bool:
    """(B, 1 or 3 or 4, H, W), with sides of at least 8 pixels, neither more than twice the other."""
    if not isinstance(x, Tensor) or x.dim() != 4 or x.shape[1] not in (1, 3, 4):
        return False
    low, high = sorted(x.shape[2:])
    return low >= 8 and high <= 2 * low
