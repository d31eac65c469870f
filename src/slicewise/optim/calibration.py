"""Let the outputs of a network start at the mean and the spread of what they are compared with.

Steps are shares of the weights, so that outputs which begin a thousand times too large or too small would take hundreds
of them to come near the data. The last layer alone can do it at once: its weights are multiplied by one number, and its
biases moved. Which layer that is, is read off the graph of operations that autograd keeps, and how outputs follow it (a
sigmoid may lie between) off its derivatives, by Newton's method.

What other terms of a loss ask of outputs, such as a reconstruction, is not known. How far the layer that makes them has to
grow or shrink is, where the loss is a parabola in its weights' scale: `reach`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

# At most so many steps of Newton's method are made.
_MOST = 16
# Spreads that differ by less than this factor are left alone, and near which Newton's method stops.
_CLOSE = math.log(1.1)
# A step of Newton's method changes the logarithm of a spread by at most this.
_LONGEST = math.log(1e6)
# Outputs have been brought to the target if the logarithm of their spread is as near as this.
_REACHED = 0.5
# Outputs whose spread hardly follows the weights, as those that are mostly the input itself, are left alone: a network that
# begins as the identity learns the shift by what it has, which keeps its units alive.
_LEAST_RESPONSE = 0.5
_TINY = 1e-30
# A loss is a parabola if it is off by no more than this share.
_PARABOLA = 0.02
# By how much outputs are changed to see how a loss curves, until it does by this share of itself.
_CHANGES, _SEEN = (1.0, 1e2, 1e4, 1e6), 0.01
# Outputs are scaled down if it is to less than this.
_FAR_TOO_LARGE = 0.5
# How far before a bias the matrix is looked for; operations that scale, by a parameter that is no layer's.
_BEFORE_A_BIAS, _SCALING = 2, ("Mul", "Div")
# Operations that show a tensor in another shape or precision.
_VIEWS = (
    "T",
    "Transpose",
    "Permute",
    "View",
    "UnsafeView",
    "ReshapeAlias",
    "Expand",
    "Unsqueeze",
    "Squeeze",
    "ToCopy",
)


class Compared(NamedTuple):
    """Outputs of a network, with the graph they came by, and the samples that they are compared with."""

    outputs: Tensor  # (*runs, n, d)
    target: Tensor  # (*runs, m, d)


class _Layer(NamedTuple):
    """The parameters of the layer that makes some outputs."""

    weights: list[Tensor]
    biases: list[Tensor]


class _Moments(NamedTuple):
    """How outputs and target differ, for each run."""

    shift: Tensor  # of the mean, (R, 1, d)
    noise: Tensor  # how much of the squared shift two draws of the same law would have, (R,)
    squared_shift: Tensor  # (R,)
    spread: Tensor  # mean variance of outputs, (R,)
    wanted: Tensor  # of the target, (R,)

    @property
    def mismatch(self) -> Tensor:
        """How far apart they are, (R,): 0 if mean and spread agree but for noise."""
        off = (self.squared_shift - self.noise).clamp(min=0) / self.wanted.clamp(min=_TINY)
        return off + self.log_ratio.square()

    @property
    def log_ratio(self) -> Tensor:
        """By how much to change the logarithm of the standard deviation, (R,)."""
        # Outputs that are all alike are as far off as can be.
        spread = self.spread.clamp(min=_TINY)
        return torch.where(self.wanted > 0, 0.5 * (self.wanted / spread).log(), 0)


def calibrate(
    evaluate: Callable[[], Sequence[Compared]],
    parameters: Sequence[Tensor],
    *,
    stacked: bool = False,
    mean: Callable[[Tensor], Tensor] = lambda numbers: numbers,
) -> dict[int, Tensor]:
    """Move the layers that make outputs, so that these have the mean and the spread of what they are compared with.

    Nothing moves that agrees already, but for the noise of the samples.

    Args:
        evaluate: Computes outputs, and what they are compared with, at the weights as they are, with gradients enabled;
            the same samples each time.
        parameters: Those that may be moved; in a stack each has R networks in its first dimension.
        stacked: Whether outputs and parameters have that dimension.
        mean: Averages numbers over ranks.

    Returns:
        The spread of what was compared, for the parameters of these layers, by their place: (R,) or ().
    """
    place = {id(p): i for i, p in enumerate(parameters)}
    scales: dict[int, Tensor] = {}
    with torch.enable_grad():
        first = list(evaluate())
    for k in range(len(first)):
        layer = _last_layer(first[k].outputs, parameters, stacked=stacked)
        if layer is None or any(place[id(p)] in scales for p in (*layer.weights, *layer.biases)):
            continue

        def outputs(k: int = k) -> Compared:
            with torch.enable_grad():
                return evaluate()[k]

        scale = _match(outputs, layer, stacked=stacked, mean=mean).sqrt()
        scale = scale if stacked else scale.squeeze(0)
        scales |= {place[id(p)]: scale for p in (*layer.weights, *layer.biases)}
    return scales


def reach(
    evaluate: Callable[[], Tensor],
    parameters: Sequence[Tensor],
    known: Collection[int] = (),
    *,
    mean: Callable[[Tensor], Tensor] = lambda numbers: numbers,
) -> dict[int, Tensor]:
    """Find how large the layers that make outputs have to become, where the loss tells, and shrink those far too large.

    Let the outputs of a layer be multiplied by 1 + a. Where the loss L is a parabola in a, as a squared error is for
    linear outputs, √(2 L / L″) at its minimum is the size of what these outputs do not explain, in units of their own. A
    layer whose outputs explain nothing, and are larger than that, is scaled down to it.

    Args:
        evaluate: Computes the loss at the weights as they are, with gradients enabled; the same each time.
        parameters: Those that may be moved.
        known: Those whose scale is known already, by their place.
        mean: Averages numbers over ranks.

    Returns:
        Factors above 1, by which the parameters of these layers have to grow, by their place.
    """
    place = {id(p): i for i, p in enumerate(parameters)}
    with torch.enable_grad():
        loss = evaluate()
    factors: dict[int, Tensor] = {}
    for layer in _outer_layers(loss, parameters):
        both = [*layer.weights, *layer.biases]
        places = [place[id(p)] for p in both]
        if len(layer.weights) == 1 and not any(i in known or i in factors for i in places):
            factor = _reach_of(evaluate, both, mean)
            factors |= dict.fromkeys(places, factor) if bool(factor > 1) else {}
    return factors


@torch.no_grad()
def _reach_of(
    evaluate: Callable[[], Tensor], both: Sequence[Tensor], mean: Callable[[Tensor], Tensor]
) -> Tensor:
    """How much the parameters of one layer have to grow; they are smaller afterwards if they were far too large."""
    start = [p.clone() for p in both]

    def at(change: Tensor | float) -> Tensor:
        for p, kept in zip(both, start, strict=True):
            p.copy_(kept * (1 + change))
        with torch.enable_grad():  # a closure may differentiate something itself
            return mean(evaluate().detach().double())

    try:
        here, slope, curvature = at(0.0), *(torch.zeros((), dtype=torch.double),) * 2
        for change in _CHANGES:  # until it is seen beside the rounding of the loss
            above, below = at(change), at(-change)
            slope = (above - below) / (2 * change)
            curvature = (above + below - 2 * here) / change**2
            if bool(curvature * change**2 > _SEEN * here):
                break
        least = here - slope.square() / (2 * curvature)
        size = (2 * least / curvature).sqrt()
        scale = torch.maximum(1 - slope / curvature, size).clamp(max=1)
        # Where the outer points of a parabola are known, is the loss on it there, too?
        far = torch.where(size > 1, size, scale - 1)
        expected = here + far * slope + far.square() * curvature / 2
        fine = bool((at(far) - expected).abs() <= _PARABOLA * expected.abs())
        fine = fine and bool((curvature > 0) & (least > 0) & size.isfinite())
        shrinks = fine and bool(scale < _FAR_TOO_LARGE)
        _set(both, [kept * scale.to(kept) for kept in start] if shrinks else start)
        return size / scale if shrinks else size if fine else torch.ones_like(size)
    except BaseException:
        _set(both, start)
        raise


def _match(
    outputs: Callable[[], Compared],
    layer: _Layer,
    *,
    stacked: bool,
    mean: Callable[[Tensor], Tensor],
) -> Tensor:
    """Match the moments of one layer's outputs; return the variance of the target, (R,)."""
    both = (*layer.weights, *layer.biases)
    start = [p.detach().clone() for p in both]
    best = [p.clone() for p in start]

    def measured() -> tuple[Tensor, _Moments]:
        made, target = outputs()
        return made, _moments(made, target, stacked=stacked, mean=mean)

    try:
        found = measured()
        first = least = found[1].mismatch
        off = found[1].log_ratio.abs()
        damping = torch.ones_like(least)
        for _ in range(_MOST):
            factor = torch.where(least > _CLOSE**2, damping, 0)
            if bool(factor.any()) and layer.weights:
                factor = _scale(*found, layer.weights, factor, stacked=stacked, mean=mean)
                found = measured()  # means move with the scale, often by more than they are off
            if not bool(factor.any()):
                break
            for bias in layer.biases:
                _shift(*found, bias, factor, stacked=stacked, mean=mean)
            found = measured()
            better = found[1].mismatch < least  # False for NaN as well
            least = torch.where(better, found[1].mismatch, least)
            off = torch.where(better, found[1].log_ratio.abs(), off)
            damping = torch.where(better, damping, damping / 4)
            for p, kept in zip(both, best, strict=True):
                kept.copy_(torch.where(_like(better, p, stacked=stacked), p.detach(), kept))
            if not bool(better.all()):
                _set(both, best)  # on from where it was better, by less
                found = measured()
    except BaseException:
        _set(both, start)
        raise
    # Bounded outputs may not reach the target: what has only come nearer may be saturated.
    reached = (off < _REACHED) & (least < first)
    for p, kept, old in zip(both, best, start, strict=True):
        kept.copy_(torch.where(_like(reached, p, stacked=stacked), kept, old))
    _set(both, best)
    return found[1].wanted


@torch.no_grad()
def _set(parameters: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    for parameter, value in zip(parameters, values, strict=True):
        parameter.copy_(value)


def _scale(
    made: Tensor,
    moments: _Moments,
    weights: Sequence[Tensor],
    factor: Tensor,
    *,
    stacked: bool,
    mean: Callable[[Tensor], Tensor],
) -> Tensor:
    """One step of Newton's method for the spread, of which a share is made; return that share, 0 where nothing follows."""
    x = _sets(made, stacked=stacked)
    centered = (x - x.mean(dim=-2, keepdim=True)).detach()
    pull = centered / (x[0].numel() * moments.spread.clamp(min=_TINY)[:, None, None])
    slopes = torch.autograd.grad(x, list(weights), pull)
    with torch.no_grad():
        pairs = zip(slopes, weights, strict=True)
        response = mean(
            torch.stack([_runs_of(g * w, stacked=stacked) for g, w in pairs]).sum(dim=0)
        )
        follows = response > _LEAST_RESPONSE
        factor = torch.where(follows, factor, 0)
        change = moments.log_ratio / torch.where(follows, response, 1)
        change = (change.clamp(-_LONGEST, _LONGEST) * factor).exp()
        for weight in weights:
            weight.mul_(_like(change, weight, stacked=stacked).to(weight))
    return factor


def _shift(
    made: Tensor,
    moments: _Moments,
    bias: Tensor,
    factor: Tensor,
    *,
    stacked: bool,
    mean: Callable[[Tensor], Tensor],
) -> None:
    """One step of Newton's method for the mean, of which a share is made."""
    x = _sets(made, stacked=stacked)
    even = torch.full_like(x, 1 / x.shape[-2])
    (follows,) = torch.autograd.grad(x, [bias], even, retain_graph=True)
    (wanted,) = torch.autograd.grad(x, [bias], even * moments.shift.to(even))
    with torch.no_grad():
        follows, wanted = mean(follows), mean(wanted)
        # James and Stein's: a shift that is hardly more than noise is hardly made.
        squared = moments.squared_shift.clamp(min=_TINY)
        sure = (1 - moments.noise / squared).clamp(min=0) * factor
        # One bias may move several coordinates alike, as that of a convolution does.
        shared = x.shape[-1] * len(x) / bias.numel()
        known = follows.abs() > _TINY**0.5
        step = torch.where(known, shared * wanted / torch.where(known, follows, 1).square(), 0)
        bias.add_(step.to(bias) * _like(sure, bias, stacked=stacked).to(bias))


@torch.no_grad()
def _moments(
    made: Tensor, target: Tensor, *, stacked: bool, mean: Callable[[Tensor], Tensor]
) -> _Moments:
    wide = torch.promote_types(made.dtype, torch.float32)
    x, y = (_sets(t.detach(), stacked=stacked).to(wide) for t in (made, target))
    y = y.expand(len(x), *y.shape[-2:])
    (x_mean, x_square), (y_mean, y_square) = (
        (mean(t.mean(dim=-2)), mean(_squares(t, mean))) for t in (x, y)
    )
    shift = y_mean - x_mean
    # Single samples have no spread, and their means are noise; on one rank is enough.
    single = min(x.shape[-2], y.shape[-2]) < 2
    if bool(mean(torch.full_like(x_square, float(single))).any()):
        return _Moments(
            torch.zeros_like(shift).unsqueeze(-2),
            *(torch.zeros_like(x_square),) * 2,
            y_square,
            y_square,
        )
    return _Moments(
        shift.unsqueeze(-2),
        x_square / x.shape[-2] + y_square / y.shape[-2],
        shift.square().mean(dim=-1),
        x_square,
        y_square,
    )


def _squares(t: Tensor, mean: Callable[[Tensor], Tensor]) -> Tensor:
    """The mean variance of coordinates, (R,)."""
    center = mean(t.mean(dim=-2)).unsqueeze(-2)
    return (t - center).square().mean(dim=(-2, -1))


def _sets(t: Tensor, *, stacked: bool) -> Tensor:
    """Samples as (R, n, d): all sets of one network together."""
    return t.reshape(len(t), -1, t.shape[-1]) if stacked else t.reshape(1, -1, t.shape[-1])


def _like(numbers: Tensor, parameter: Tensor, *, stacked: bool) -> Tensor:
    """Numbers (R,) in a shape that goes with a parameter."""
    if not stacked:
        return numbers.squeeze(0)
    return numbers.reshape(-1, *(1,) * (parameter.dim() - 1))


def _runs_of(products: Tensor, *, stacked: bool) -> Tensor:
    """Sums of entries for each run, (R,)."""
    return products.flatten(1).sum(dim=1) if stacked else products.sum().reshape(1)


def _last_layer(outputs: Tensor, parameters: Sequence[Tensor], *, stacked: bool) -> _Layer | None:
    """The parameters of the layer that makes outputs: a matrix, and a bias if it has one; None if it is no such layer.

    They are those of the first operations that have any, from the outputs back. Where that is a bias alone, the matrix is
    looked for right before it.
    """
    mine = {id(p): p for p in parameters}
    level: Sequence[torch.autograd.graph.Node | None] = [outputs.grad_fn]
    seen: set[torch.autograd.graph.Node] = set()
    biases: dict[int, Tensor] = {}
    more = _BEFORE_A_BIAS
    while any(level) and more:
        matrices: dict[int, Tensor] = {}
        below = []
        for node in level:
            for child, _ in () if node is None else node.next_functions:
                if node is None or child is None or child in seen:
                    continue
                seen.add(child)
                leaf = _leaf(child)
                if leaf is None:
                    below.append(child)
                elif id(leaf) not in mine or node.name().startswith(_SCALING):
                    return None  # of somebody else, or no layer
                elif _is_matrix(leaf, stacked=stacked):
                    matrices[id(leaf)] = leaf
                else:
                    biases[id(leaf)] = leaf
        if len(matrices) > 1 or len(biases) > 1:
            return None
        if matrices:
            return _Layer([*matrices.values()], [*biases.values()])
        more -= bool(biases)
        level = below
    return None


def _outer_layers(loss: Tensor, parameters: Sequence[Tensor]) -> list[_Layer]:
    """The parameters of the first operations that have any, along every path from a loss back.

    Parameters that enter the loss by themselves, as in a penalty on weights, are no layer.
    """
    mine = {id(p): p for p in parameters}
    open_, seen = [loss.grad_fn], set()
    layers = []
    while open_:
        node = open_.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        children = [child for child, _ in node.next_functions]
        leaves = [None if child is None else _leaf(child) for child in children]
        found = [leaf for leaf in leaves if leaf is not None]
        if not found:
            open_ += children
        elif len(found) < len(leaves):  # something else goes in, if only data
            both = [p for p in found if id(p) in mine]
            weights = [p for p in both if p.dim() > 1]
            layers.append(_Layer(weights, [p for p in both if p.dim() <= 1]))
    return layers


def _is_matrix(parameter: Tensor, *, stacked: bool) -> bool:
    """Whether a parameter has inputs and outputs; in a stack, biases are (R, 1, d)."""
    return parameter.dim() > 1 and not (stacked and parameter.shape[1] == 1)


def _leaf(node: torch.autograd.graph.Node) -> Tensor | None:
    """The parameter that a node of the graph stands for, alone or seen through a view or a cast."""
    for _ in range(4):
        variable = getattr(node, "variable", None)
        if variable is not None:
            return variable
        if len(node.next_functions) != 1 or node.next_functions[0][0] is None:
            return None
        if node.name().partition("Backward")[0] not in _VIEWS:
            return None
        node = node.next_functions[0][0]
    return None
