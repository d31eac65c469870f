"""Follow a direction of the weights by lengths that are computed: for one network, or for each of a stack."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from slicewise.optim.ranks import Shards, is_sharded, local
from slicewise.steps import StepLength
from slicewise.support import check_choice

if TYPE_CHECKING:
    from slicewise.optim.trial import Measured

DIRECTIONS = ("adam", "momentum", "gradient")
_BETA1, _BETA2 = 0.9, 0.999
# The average of the weights covers about the last ninth of the steps.
_AVERAGE_POWER = 8
# Adam's ε, as a share of the root mean square of a gradient's entries: it sets no scale of its own, and weights whose
# gradients are rounding errors (a bias before batch normalization) stay where they are.
_EPSILON = 1e-5


class Walker:
    """Moves weights along a direction made from their gradients, by computed lengths.

    Directions are measured in the size of each tensor of weights, the root mean square of its entries before the first
    step: a step of length 0.03 along Adam's direction changes entries by up to 3 % of that. Tensors that begin as zeros
    take the size that torch would draw them in (matrices), or that of the tensor before them (biases).

    Args:
        weights: What moves: the parameters of one network, or one tensor (R, P) with the weights of R networks.
        direction: "adam", "momentum" or "gradient".
        shapes: Of the parameters that a tensor (R, P) holds, without R; None if `weights` are parameters themselves.
        bounded: Whether the number of steps is known, so that lengths shrink to the end. If not, the weights are
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
    version = 7

    def __init__(
        self,
        weights: Sequence[Tensor],
        direction: str = "adam",
        *,
        shapes: Sequence[Sequence[int]] | None = None,
        bounded: bool = True,
        largest: float = float("inf"),
    ) -> None:
        check_choice("direction", direction, DIRECTIONS)
        self.direction, self.stacked = direction, shapes is not None
        self._given = list(weights)
        self.weights = [local(w.detach()) for w in weights]
        self._shards = Shards(weights) if any(is_sharded(w) for w in weights) else None
        device = self.weights[0].device
        runs = (len(self.weights[0]),) if self.stacked else ()
        self._shapes = [tuple(w.shape) for w in weights] if shapes is None else list(shapes)
        self._numels = [math.prod(shape) for shape in self._shapes]
        self.alive = torch.ones(runs, dtype=torch.bool, device=device)
        self._largest = largest
        self._lengths = StepLength(runs, device)
        # Weights of one kind are followed as one long vector: a step is then a few operations.
        alike = len({(w.dtype, w.device) for w in self.weights}) == 1
        self._joined = alike and not self.stacked and self._shards is None
        names = {"adam": ("first", "second", "along"), "momentum": ("first", "along")}
        self.state: dict[str, list[Tensor]] = {
            name: [torch.zeros_like(w) for w in self._vectors(self.weights)]
            for name in names.get(direction, ("along",))
        }
        if not bounded:
            self.state["average"] = [w.clone() for w in self._vectors(self.weights)]
        # Of each parameter, 0 before the first step; and how many gradients were taken in.
        wide = torch.promote_types(self.weights[0].dtype, torch.float32)
        sizes = torch.zeros(len(self._shapes), *runs, dtype=wide, device=device)
        self.state["sizes"] = [sizes]
        self.state["count"] = [torch.zeros((), dtype=torch.float64, device=device)]
        self._scales: list[Tensor] | None = None  # sizes, in a form to multiply directions by

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
        """What the lengths depend on, (6, *runs): saved with a training."""
        return self._lengths.numbers

    @property
    def length(self) -> Tensor:
        """The length of the last step, in sizes of the weights, (*runs,)."""
        return self._lengths.state.length

    @property
    def limit(self) -> Tensor:
        """The length that no step exceeds, as computed last, (*runs,): min(1, 2 ρ) t*."""
        return self._lengths.limit()

    @property
    def signal(self) -> Tensor:
        """The part of the slope that is not noise, as estimated, (*runs,)."""
        return self._lengths.signal()

    @classmethod
    def measures_at(cls, step: int) -> bool:
        """Whether the curvature is measured at this step."""
        return 0 <= step < cls.MEASURED_FIRST or (step > 0 and step % cls.MEASURED_EVERY == 0)

    @torch.no_grad()
    def begin(
        self,
        scales: Mapping[int, Tensor] | None = None,
        factors: Mapping[int, Tensor] | None = None,
    ) -> None:
        """Take the sizes of the weights as they are now, before the first step.

        Args:
            scales: Of outputs, (*runs,), for the parameters of the layer that makes them, by their place: what they
                grow to if they begin as zeros.
            factors: How much larger parameters have to become than they are, by their place.
        """
        scales = scales or {}
        if not self.stacked:
            self.weights = [local(w.detach()) for w in self._given]  # they may have been replaced
        sizes = list(self._norms(self.weights).unbind(0))
        outer = None  # of the matrix that makes outputs
        for i, (shape, numel) in enumerate(zip(self._shapes, self._numels, strict=True)):
            sizes[i] = sizes[i] / max(numel, 1) ** 0.5
            if self._is_matrix(i):
                # torch draws entries of a matrix uniformly up to 1/√(number of inputs).
                inputs = shape[-2] if self.stacked else numel // max(shape[0], 1)
                scale = scales.get(i, torch.ones_like(sizes[i])).to(sizes[i])
                drawn = scale / (3 * max(inputs, 1)) ** 0.5
                sizes[i] = torch.where(sizes[i] > 0, sizes[i], drawn)
                outer = sizes[i] if i in scales else outer
        for i in range(len(sizes)):
            if not self._is_matrix(i):
                before = sizes[i - 1] if i else torch.ones_like(sizes[i])
                before = outer if outer is not None and i in scales else before
                sizes[i] = torch.where(sizes[i] > 0, sizes[i], before)
        for i, larger in (factors or {}).items():
            sizes[i] = sizes[i] * larger.to(sizes[i])
        self.state["sizes"][0].copy_(torch.stack(sizes))
        self._scales = None

    def _is_matrix(self, i: int) -> bool:
        shape = self._shapes[i]
        return len(shape) > 1 and not (self.stacked and shape[0] == 1)

    def _sized(self) -> list[Tensor]:
        """The size of each weight, to multiply vectors by."""
        if self._scales is None:
            sizes = self.state["sizes"][0]
            each = list(sizes.to(self.weights[0].dtype).unbind(0))
            if self.stacked:
                spread = [
                    s.unsqueeze(1).expand(-1, k) for s, k in zip(each, self._numels, strict=True)
                ]
                self._scales = [torch.cat(spread, dim=1)]
            elif self._joined:
                spread = [s.expand(k) for s, k in zip(each, self._numels, strict=True)]
                self._scales = [torch.cat(spread)]
            else:
                self._scales = [s.to(w) for s, w in zip(each, self.weights, strict=True)]
        return self._scales

    @torch.no_grad()
    def turn(
        self,
        gradients: Sequence[Tensor],
        step: int,
        *,
        factors: Sequence[float] | None = None,
        steepness: Tensor | float = 1.0,
    ) -> None:
        """Make the direction of this step from new gradients, and take in its slope where it is needed.

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
        if step == 0 and self._scales is None and not bool(self.state["sizes"][0].any()):
            self.begin()
        gradients = self._vectors([local(g) for g in gradients])
        along, count = self.state["along"], self.state["count"][0]
        count.add_(1)
        if self.measures_at(step - 1):
            self._lengths.look_back(-self.inner(gradients, along) * steepness)
        unit = self._scaled(gradients, _inverse(self._norm(gradients)))
        if self.direction == "gradient":
            torch._foreach_copy_(along, unit)
        else:
            torch._foreach_lerp_(self.state["first"], unit, 1 - _BETA1)
            torch._foreach_copy_(along, self.state["first"])
        if self.direction == "adam":
            second = self.state["second"]
            torch._foreach_mul_(second, _BETA2)
            torch._foreach_addcmul_(second, unit, unit, 1 - _BETA2)
            # Both averages begin at zero.
            first_kept, second_kept = 1 - _BETA1**count, (1 - _BETA2**count).sqrt()
            sizes = list(torch._foreach_sqrt(second))
            torch._foreach_add_(sizes, _EPSILON / sum(self._numels) ** 0.5)
            torch._foreach_div_(along, sizes)
            self._scale(along, -(second_kept / first_kept).float())
        else:
            self._normalize(along)
        torch._foreach_mul_(along, self._sized())
        for i, factor in enumerate(factors or ()):
            if factor != 1:
                self.along[i].mul_(factor)
        if self.measures_at(step):
            self._lengths.observe(-self.inner(gradients, along) * steepness)

    def _normalize(self, along: list[Tensor]) -> None:
        """Let the entries of each parameter's direction have a root mean square of one, and turn it downhill."""
        pieces = self.pieces(along)
        norms = self._norms(pieces)
        numels = torch.tensor(self._numels, dtype=norms.dtype).sqrt().to(norms.device)
        factors = -_inverse(norms) * numels.reshape(-1, *(1,) * (norms.dim() - 1))
        if self.stacked:
            blocks = along[0].split(self._numels, dim=1)
            for block, factor in zip(blocks, factors, strict=True):
                block.mul_(factor.unsqueeze(1).to(block.dtype))
            return
        for piece, factor in zip(pieces, factors, strict=True):
            piece.mul_(factor.to(piece))

    @torch.no_grad()
    def trial(self, shrink: float | Tensor = 1.0) -> Tensor:
        """The length at which the curvature is to be measured, (*runs,)."""
        return self._lengths.trial(shrink)

    def slope(self) -> Tensor:
        """The rate at which the loss of this batch falls along the direction, at first, (*runs,)."""
        return self._lengths.state.slope

    @torch.no_grad()
    def measure(self, measured: Measured, trial: Tensor) -> None:
        """Take in what was measured at this step."""
        self._lengths.measure(measured.curvature, trial, measured.expected)

    @torch.no_grad()
    def load(self, numbers: Tensor) -> None:
        """Take up the numbers of another one, once its `state` has been copied."""
        self._lengths.numbers.copy_(numbers)
        self._scales = None

    @torch.no_grad()
    def move(self, step: int, shrink: float | Tensor = 1.0) -> None:
        """Move the weights by the computed length."""
        length = self._lengths.length(shrink)
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

    def _norms(self, tensors: Sequence[Tensor]) -> Tensor:
        """The norm of each parameter, or of what is like it, over all ranks that share it, (n_parameters, *runs)."""
        if self.stacked:
            blocks = tensors[0].split(self._numels, dim=1)
            return torch.stack([torch.linalg.vector_norm(block, dim=1) for block in blocks])
        device = self.weights[0].device
        wide = self.state["sizes"][0].dtype
        norms = [one.to(device, wide) for one in torch._foreach_norm([_wide(t) for t in tensors])]
        if self._shards is not None:
            return self._shards.each(torch.stack(norms).square()).sqrt()
        return torch.stack(norms)

    def _scaled(self, tensors: Sequence[Tensor], factor: Tensor) -> list[Tensor]:
        """Tensors times a number, or in a stack one for each network."""
        factor = factor.to(tensors[0].dtype)
        if self.stacked:
            return [tensors[0] * factor.unsqueeze(1)]
        return list(torch._foreach_mul(list(tensors), factor))

    def _scale(self, tensors: list[Tensor], factor: Tensor) -> None:
        torch._foreach_mul_(tensors, factor.to(tensors[0].dtype))


def _inverse(norm: Tensor) -> Tensor:
    """The inverse of norms, and 0 of 0."""
    return torch.where(norm > torch.finfo(norm.dtype).tiny, norm.reciprocal(), 0)


def _wide(tensor: Tensor) -> Tensor:
    """A flat tensor whose products do not overflow."""
    flat = tensor.reshape(-1)
    return flat.float() if flat.dtype in (torch.float16, torch.bfloat16) else flat
