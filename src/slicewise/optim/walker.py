"""Follow a direction of the weights by lengths that are computed: for one network, or for each of a stack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from slicewise.optim.ranks import Shards, is_sharded, local
from slicewise.steps import BOUNDED, UNBOUNDED, StepLength
from slicewise.support import check_choice

if TYPE_CHECKING:
    from slicewise.optim.trial import Measured

DIRECTIONS = ("adam", "momentum", "gradient")
_BETA1, _BETA2 = 0.9, 0.999
# The first trial changes the weights by this much of their norm.
_FIRST_TRIAL = 1e-3
# No step changes the weights by more than this much of their norm.
_LARGEST_CHANGE = 0.2
# The average of the weights covers about the last ninth of the steps.
_AVERAGE_POWER = 8
# Adam's ε, as a share of the root mean square of a gradient's entries: it sets no scale of its own, and weights whose
# gradients are rounding errors (a bias before batch normalization) stay where they are.
_EPSILON = 1e-5


def half_decay(progress: float) -> float:
    """The factor of lengths in a training of known length: 1 in the first half, then down to a hundredth; 0 at its end.

    It falls by the same factor in each step: which scale of the lengths removes the noise is not known, so that as many
    steps are made at one as at another.
    """
    if progress >= 1:
        return 0.0
    return min(1.0, 10.0 ** (2 - 4 * progress))


class Walker:
    """Moves weights along a direction made from their gradients, by computed lengths.

    Args:
        weights: What moves: the parameters of one network, or one tensor (R, P) with the weights of R networks.
        direction: "adam", "momentum" or "gradient".
        stacked: Whether the first dimension of the weights counts networks, each with a length of its own.
        bounded: Whether the number of steps is known, so that lengths shrink at the end. If not, the weights are
            averaged.
        largest: In a stack, a network with a weight beyond this has diverged: it stays as it was, and its entry of
            `alive` becomes False.

    Raises:
        ValueError: For an unknown direction.
    """

    # The curvature is measured in each of the first steps, then in every sixteenth: it changes slowly. `LATER` is a step
    # after the first ones that measures, where CUDA graphs begin.
    MEASURED_FIRST, MEASURED_EVERY, LATER = 33, 16, 48

    # Of the rule and of what it keeps between steps. Raise it when either changes: states that another version saved are
    # refused, and stored runs of it are made anew.
    version = 6

    def __init__(
        self,
        weights: Sequence[Tensor],
        direction: str = "adam",
        *,
        stacked: bool = False,
        bounded: bool = True,
        largest: float = float("inf"),
    ) -> None:
        check_choice("direction", direction, DIRECTIONS)
        self.direction, self.stacked = direction, stacked
        self._given = list(weights)
        self.weights = [local(w.detach()) for w in weights]
        self._shards = Shards(weights) if any(is_sharded(w) for w in weights) else None
        device = self.weights[0].device
        runs = (len(self.weights[0]),) if stacked else ()
        self._n_weights = sum(w[0].numel() if stacked else w.numel() for w in weights)
        self.alive = torch.ones(runs, dtype=torch.bool, device=device)
        self._largest = largest
        self._size: Tensor | None = (
            None  # a step that changes the weights by their norm, if it was asked for
        )
        self._lengths = StepLength(runs, device, BOUNDED if bounded else UNBOUNDED)
        # Weights of one kind are followed as one long vector: a step is then a few operations.
        alike = len({(w.dtype, w.device) for w in self.weights}) == 1
        self._joined = alike and not stacked and self._shards is None
        names = {"adam": ("first", "second", "along"), "momentum": ("first", "along")}
        self.state: dict[str, list[Tensor]] = {
            name: [torch.zeros_like(w) for w in self._vectors(self.weights)]
            for name in names.get(direction, ("along",))
        }
        if not bounded:
            self.state["average"] = [w.clone() for w in self._vectors(self.weights)]

    def _vectors(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Tensors like the weights, as they are kept here: all in one vector if they are joined."""
        if not self._joined:
            return list(tensors)
        return [torch.cat([tensor.reshape(-1) for tensor in tensors])]

    def pieces(self, vectors: Sequence[Tensor]) -> list[Tensor]:
        """The opposite: views of what is kept here in the shapes of the weights."""
        if not self._joined:
            return list(vectors)
        pieces = vectors[0].split([w.numel() for w in self.weights])
        return [piece.view_as(w) for piece, w in zip(pieces, self.weights, strict=True)]

    @property
    def along(self) -> list[Tensor]:
        """The direction of the present step, in the shapes of the weights."""
        return self.pieces(self.state["along"])

    @property
    def numbers(self) -> Tensor:
        """What the lengths depend on, (13, *runs): saved with a training."""
        return self._lengths.numbers

    @property
    def length(self) -> Tensor:
        """The length of the last step, (*runs,)."""
        return self._lengths.state.length

    @property
    def signal(self) -> Tensor:
        """The part of the slope that is not noise, as estimated, (*runs,)."""
        return self._lengths.signal()

    @classmethod
    def measures_at(cls, step: int) -> bool:
        """Whether the curvature is measured at this step."""
        return 0 <= step < cls.MEASURED_FIRST or (step > 0 and step % cls.MEASURED_EVERY == 0)

    @torch.no_grad()
    def turn(
        self,
        gradients: Sequence[Tensor],
        step: int,
        *,
        factors: Sequence[float] | None = None,
        steepness: Tensor | float = 1.0,
    ) -> None:
        """Make the direction of this step from new gradients, and take in their slopes where they are needed.

        Gradients enter the direction at unit length: one that was a hundred times longer some steps ago, as at the start
        of a training, would lead the way for long.

        Args:
            gradients: Of the loss, one for each of the weights.
            step: Which step of the training it is.
            factors: How much further to move each of the weights than the others; None is 1 for all.
            steepness: By how much the gradient of the loss is longer than these, if they were clipped.
        """
        if not self.stacked:
            self.weights = [local(w.detach()) for w in self._given]  # they may have been replaced
        gradients = self._vectors([local(g) for g in gradients])
        along = self.state["along"]
        if self.measures_at(step - 1):
            self._lengths.look_back(-self.inner(gradients, along) * steepness)
        size = self._norm(gradients)
        unit = self._scaled(gradients, _inverse(size))
        if self.direction == "gradient":
            torch._foreach_copy_(along, unit)
        else:
            torch._foreach_lerp_(self.state["first"], unit, 1 - _BETA1)
            torch._foreach_copy_(along, self.state["first"])
        if self.direction == "adam":
            second = self.state["second"]
            torch._foreach_mul_(second, _BETA2)
            torch._foreach_addcmul_(second, unit, unit, 1 - _BETA2)
            sizes = list(torch._foreach_sqrt(second))
            torch._foreach_add_(sizes, _EPSILON / self._n_weights**0.5)
            torch._foreach_div_(along, sizes)
        for i, factor in enumerate(factors or ()):
            if factor != 1:
                self.along[i].mul_(factor)
        # Of unit length, so that slopes and curvatures of several steps can be averaged. For the same reason Adam's
        # moments need no correction for their first steps: it would change the length alone.
        self._scale(along, -_inverse(self._norm(along)))
        if self.measures_at(step):
            own = -self.inner(gradients, along) * steepness
            self._lengths.observe(own, size * steepness)

    @torch.no_grad()
    def trial(self) -> Tensor:
        """The length at which the curvature is to be measured, (*runs,)."""
        self._size = self._whole()
        return self._lengths.trial(_FIRST_TRIAL * self._size)

    def _whole(self) -> Tensor:
        """The length of a step that changes the weights by their norm, (*runs,): directions are of unit length."""
        size = self._norm(self.weights).float()
        return torch.where(size > 0, size, 1)

    def slope(self) -> Tensor:
        """The rate at which the loss of this batch falls along the direction, at first, (*runs,)."""
        return self._lengths.state.own

    @torch.no_grad()
    def measure(self, measured: Measured, trial: Tensor) -> None:
        """Take in what was measured at this step."""
        self._lengths.measure(
            measured.curvature,
            trial,
            bend=measured.bend,
            expected=measured.expected,
            largest=None if self._size is None else _LARGEST_CHANGE * self._size,
        )

    def load(self, numbers: Tensor) -> None:
        """Take up the numbers of another one."""
        self._lengths.load(numbers)

    @torch.no_grad()
    def move(self, step: int, shrink: float | Tensor = 1.0) -> None:
        """Move the weights by the computed length, times `shrink`."""
        length = self._lengths.length(shrink, anew=self.measures_at(step))
        if self.stacked:
            (weights,), (along,) = self.weights, self.along
            new = torch.addcmul(weights, along, length.to(weights.dtype).unsqueeze(1))
            norms = torch.linalg.vector_norm(new, ord=torch.inf, dim=1)
            self.alive &= norms < self._largest  # False for NaN as well
            torch.where(self.alive.unsqueeze(1), new, weights, out=weights)
        else:
            self.shift(self.weights, length)
        if "average" in self.state:
            share = min(1.0, (_AVERAGE_POWER + 1) / (_AVERAGE_POWER + step + 1))
            torch._foreach_lerp_(self.state["average"], self._vectors(self.weights), share)

    @torch.no_grad()
    def shift(self, weights: Sequence[Tensor], length: Tensor) -> None:
        """Move weights along the direction by a length, (*runs,)."""
        if self.stacked:
            weights[0].addcmul_(self.along[0], length.to(weights[0].dtype).unsqueeze(1))
            return
        torch._foreach_add_(list(weights), self.pieces(self._scaled(self.state["along"], length)))

    def inner(self, some: Sequence[Tensor], others: Sequence[Tensor]) -> Tensor:
        """The inner product of two sets of tensors like the weights, over all ranks that share them, (*runs,)."""
        if self.stacked:
            return (some[0] * others[0]).sum(dim=1)
        pairs = [(_wide(a), _wide(b)) for a, b in zip(some, others, strict=True)]
        if pairs[0][0].is_cuda:  # as for stacks, in kernels that a CUDA graph is known to hold
            each = [(a * b).sum().float() for a, b in pairs]
        else:
            each = [torch.dot(a, b).float() for a, b in pairs]
        if self._shards is not None:
            return self._shards.sum(torch.stack(each))
        return each[0] if len(each) == 1 else torch.stack(each).sum()

    def _norm(self, tensors: Sequence[Tensor]) -> Tensor:
        """The norm of a set of tensors like the weights, over all ranks that share them, (*runs,)."""
        if self.stacked:
            return torch.linalg.vector_norm(tensors[0], dim=1)
        wide = [_wide(one) for one in tensors]
        if self._shards is not None:
            squares = torch.stack(torch._foreach_norm(wide)).float().square()
            return self._shards.sum(squares).sqrt()
        if len(wide) == 1:
            return torch.linalg.vector_norm(wide[0])
        return torch.linalg.vector_norm(torch.stack(torch._foreach_norm(wide)))

    def _scaled(self, tensors: Sequence[Tensor], factor: Tensor) -> list[Tensor]:
        """Tensors times a number, or in a stack one for each network."""
        factor = factor.to(tensors[0].dtype)
        if self.stacked:
            return [tensors[0] * factor.unsqueeze(1)]
        return list(torch._foreach_mul(list(tensors), factor))

    def _scale(self, tensors: list[Tensor], factor: Tensor) -> None:
        factor = factor.to(tensors[0].dtype)
        if self.stacked:
            tensors[0].mul_(factor.unsqueeze(1))
        else:
            torch._foreach_mul_(tensors, factor)


def _inverse(norm: Tensor) -> Tensor:
    """The inverse of norms, and 0 of 0."""
    return torch.where(norm > torch.finfo(norm.dtype).tiny, norm.reciprocal(), 0)


def _wide(tensor: Tensor) -> Tensor:
    """A flat tensor whose products do not overflow."""
    flat = tensor.reshape(-1)
    return flat.float() if flat.dtype in (torch.float16, torch.bfloat16) else flat
