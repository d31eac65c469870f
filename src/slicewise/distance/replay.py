"""Whole evaluations as CUDA graphs: what a training loop asks for again and again becomes one launch.

Launching takes longer than computing for all but large problems. A call that has been made a few times with
the same shapes and settings is captured; from then on its samples are copied in, the graph draws fresh slices
from torch's global generator and leaves the value, the gradient and the slices.
"""

from __future__ import annotations

import dataclasses
import math
import threading
from collections import OrderedDict
from typing import Any

import torch
from torch import Tensor

from slicewise.distance.objective import Objective, weigh
from slicewise.distance.pricing import priced
from slicewise.distance.request import draw
from slicewise.problem import Problem, SlicerPart, declared
from slicewise.sampling import Randomness
from slicewise.support import CapturedGraph, full_precision, kernels_for, side_stream
from slicewise.variants import Recipe

# Beyond so many numbers, of samples or on lines, launching is the smaller part; and no more than this many on
# lines in all the graphs that are kept, which hold their memory.
_LARGEST = 2**25
_KEPT_LINES = 2**26
_LAUNCH_BOUND = 2**18
_CALLS_BEFORE = 2
_USUAL_SLICES = 64  # of a slicer that does not say how many it gives
_KEPT = 16


class _Graph:
    """One evaluation, captured."""

    @torch.inference_mode(False)  # its buffers outlive the mode they are made in
    def __init__(self, recipe: Recipe, problem: Problem, objective: Objective) -> None:
        self.lines = _lines(recipe, problem)
        self._x, self._y = problem.x.detach().clone(), problem.y.detach().clone()
        static = dataclasses.replace(problem, x=self._x, y=self._y)
        self._how = (recipe, static, objective)
        with torch.random.fork_rng(devices=[problem.x.device]), side_stream():
            _evaluated(*self._how)  # once for nothing; it must not cost a draw
        self._graph = CapturedGraph(self._capture)

    def _capture(self) -> None:
        found = _evaluated(*self._how)
        self._shapes = [t.shape for t in found]
        # One copy out instead of three, where copies cost their launch and not their size.
        alike = all(t.dtype == found[0].dtype for t in found)
        small = alike and sum(t.numel() for t in found) <= _LAUNCH_BOUND
        self._found = [torch.cat([t.flatten() for t in found])] if small else found

    def __call__(self, x: Tensor, y: Tensor) -> list[Tensor]:
        with torch.no_grad():  # the buffers are no part of anyone's graph of gradients
            self._x.copy_(x)
            self._y.copy_(y)
            self._graph.replay()
            kept = [t.clone() for t in self._found]  # the next replay overwrites
            if len(kept) == 1:
                kept = list(kept[0].split([math.prod(shape) for shape in self._shapes]))
            return [part.view(shape) for part, shape in zip(kept, self._shapes, strict=True)]


def _evaluated(recipe: Recipe, problem: Problem, objective: Objective) -> list[Tensor]:
    """The value (*batch,), its gradient in x and the slices it drew."""
    with torch.no_grad(), full_precision(problem.x.device.type):
        rng = Randomness(None, problem.x.device, problem.batch)
        _, slices, _ = draw(recipe, problem, rng, None)
        value, gradient = priced(recipe, problem, slices, objective)
        return [value, gradient.sum_to_size(problem.x.shape), slices]


class _Kept(threading.local):
    """The graphs of a thread, the least recently used going first; and how often others were asked for."""

    def __init__(self) -> None:
        self.graphs: OrderedDict[Any, _Graph] = OrderedDict()
        self.asked: OrderedDict[Any, int] = OrderedDict()


_kept = _Kept()


def replayed(recipe: Recipe, problem: Problem, objective: Objective) -> list[Tensor] | None:
    """Value, gradient and slices by a graph; None where there is none, or not yet.

    Draws are those of torch's global generator, as without a graph.
    """
    if not _suits(recipe, problem):
        return None
    x, y = problem.x, problem.y
    shapes = (x.shape, y.shape, x.dtype, x.device, torch.cuda.current_stream(x.device))
    how = (problem.p, problem.convention, problem.progress, problem.matcher, *arithmetic())
    key = (recipe, objective, shapes, how)
    with torch.cuda.device(x.device):
        graph = _kept.graphs.get(key)
        if graph is None:
            times = _kept.asked.get(key, 0)
            _kept.asked[key] = times + 1
            _trim(_kept.asked, 16 * _KEPT)
            if times < _CALLS_BEFORE:
                return None
            graph = _Graph(recipe, problem, objective)
            while sum(g.lines for g in _kept.graphs.values()) + graph.lines > _KEPT_LINES:
                _kept.graphs.popitem(last=False)
            _kept.graphs[key] = graph
            _trim(_kept.graphs, _KEPT)
        _kept.graphs.move_to_end(key)
        return graph(x, y)


def arithmetic() -> tuple[object, ...]:
    """Settings of torch that a captured product would not follow."""
    precision = torch.get_float32_matmul_precision()
    return precision, torch.are_deterministic_algorithms_enabled()


def replayed_value(recipe: Recipe, problem: Problem, objective: Objective) -> Tensor | None:
    """The value (*batch,) by a graph, differentiable in x; None where there is none, or not yet."""
    tracked = torch.is_grad_enabled()
    if tracked and problem.y.requires_grad:
        return None
    if tracked and problem.x.requires_grad and problem.x.shape[:-2] != problem.batch:
        # A gradient summed over the batch cannot be multiplied element by element any more.
        return None
    found = replayed(recipe, problem, objective)
    if found is None:
        return None
    value, gradient, slices = found
    if not (tracked and problem.x.requires_grad):
        return value
    known = (gradient, slices)
    return _Replayed.apply(problem.x, problem.y, value, *known, recipe, problem, objective)


def _suits(recipe: Recipe, problem: Problem) -> bool:
    x, y = problem.x, problem.y
    if not x.is_cuda or problem.y_sorted is not None:
        return False
    if problem.x_weights is not None or problem.y_weights is not None:
        return False
    if torch.cuda.is_current_stream_capturing() or kernels_for(x.detach(), y.detach()) is None:
        return False
    return max(_lines(recipe, problem), x.numel(), y.numel()) <= _LARGEST and recipe.graph_safe


def _lines(recipe: Recipe, problem: Problem) -> int:
    """How many numbers lie on the lines, about."""
    n_slices = declared(recipe.slicer, SlicerPart).n_slices(problem.d) or _USUAL_SLICES
    each = problem.x.shape[-2] + problem.y.shape[-2]
    return math.prod(problem.batch) * n_slices * each


def _trim(kept: OrderedDict[Any, Any], most: int) -> None:
    while len(kept) > most:
        kept.popitem(last=False)


class _Replayed(torch.autograd.Function):
    """A value whose gradient is known already."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, value: Tensor, *rest: Any) -> Tensor:
        gradient, slices, ctx.recipe, ctx.problem, ctx.objective = rest
        ctx.save_for_backward(x, y, gradient, slices)
        return value

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (upstream,) = grads
        x, y, gradient, slices = ctx.saved_tensors
        if torch.is_grad_enabled():
            # A backward pass that is itself recorded: state the value anew, as a function of x.
            problem = dataclasses.replace(ctx.problem, x=x, y=y)
            value = weigh(ctx.recipe, problem, slices, ctx.objective)[0]
            (gradient,) = torch.autograd.grad(value, x, upstream, create_graph=True)
        else:
            gradient = gradient * upstream.reshape(
                upstream.shape + (1,) * (x.dim() - upstream.dim())
            )
        return gradient, *(None,) * 7
