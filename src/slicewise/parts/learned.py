"""Augmented sliced Wasserstein: samples beside a learned function of themselves.

Parts that learn: the network behind the slices of distributional sliced Wasserstein, and what they share.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from slicewise.problem import (
    BuiltIn,
    Learner,
    LiftPart,
    Problem,
    SideName,
    SlicerPart,
    State,
    shares_of,
)
from slicewise.sampling import Randomness, sphere
from slicewise.support import kernels_for
from slicewise.transport import Needs, root_slope


def cold_layer(problem: Problem, rng: Randomness) -> State:
    """A linear layer d → d for each element of the batch at its usual first weights, and Adam's memory of it."""
    batch, d = problem.batch, problem.d
    # The usual first weights of a linear layer: uniform up to 1/sqrt(d). That law, and Adam, treat coordinates one by
    # one; parts with such a layer are rotation invariant up to that, which is less than hundreds of draws can show.
    bound = 1 / math.sqrt(d)
    draws = {"weight": rng.uniform(*batch, d, d), "bias": rng.uniform(*batch, d)}
    state = {k: ((2 * u - 1) * bound).to(problem.x.dtype) for k, u in draws.items()}
    for moment in ("first", "second"):
        state |= {f"{moment}_{name}": torch.zeros_like(state[name]) for name in draws}
    state["step"] = torch.zeros(batch, dtype=torch.int64, device=problem.x.device)
    return state


def climb_by_adam(
    state: State, name: str, gradient: Tensor, lr: float, betas: tuple[float, float]
) -> None:
    """One step of Adam up a gradient, in place of what `state` holds under this name."""
    kernels = kernels_for(gradient)
    if kernels is not None:
        old = (state[name], state[f"first_{name}"], state[f"second_{name}"])
        new = kernels.adam(*old, gradient, state["step"], rate=lr, betas=betas)
        state[name], state[f"first_{name}"], state[f"second_{name}"] = new
        return
    early, late = betas
    first = state[f"first_{name}"].lerp(gradient, 1 - early)
    second = state[f"second_{name}"].lerp(gradient.square(), 1 - late)
    step = state["step"].to(gradient.dtype)
    step = step.reshape(step.shape + (1,) * (gradient.dim() - step.dim()))
    direction = first / (1 - early**step)
    size = (second / (1 - late**step)).sqrt() + 1e-8
    state[name] = state[name] + lr * direction / size  # + : this climbs
    state[f"first_{name}"], state[f"second_{name}"] = first, second


@dataclass(frozen=True, repr=False)
class PushForward(BuiltIn, SlicerPart, Learner):
    """n uniform directions pushed through a learned map ε ↦ unit(Aε + b), one map a batch element.

    The map maximises (mean cost)^(1/p) − penalty · mean |θ·θ′| by `n_steps` steps of Adam a call, on
    samples held constant; the penalty keeps its slices apart. Called as a plain slicer it starts cold.

    K. Nguyen et al., Distributional sliced-Wasserstein and applications to generative modeling, 2021.
    """

    n: int
    n_steps: int
    penalty: float = 1.0
    lr: float = 5e-4
    betas: tuple[float, float] = (0.5, 0.999)
    redraw: bool = False

    def __call__(self, problem: Problem, rng: Randomness) -> Tensor:
        return self.learn(problem, rng, self.cold(problem, rng))[0]

    def group_size(self, d: int) -> int:
        return self.n  # one map made them all

    def n_slices(self, d: int) -> int:
        return self.n

    def cold(self, problem: Problem, rng: Randomness) -> State:
        return cold_layer(problem, rng)

    def learn(self, problem: Problem, rng: Randomness, state: State) -> tuple[Tensor, State]:
        problem, state = problem.detached(), dict(state)
        shape = (*problem.batch, self.n, problem.d)
        seeds = sphere.uniform(shape, rng, problem.x.dtype)
        for step in range(self.n_steps):
            if self.redraw and step > 0:
                seeds = sphere.uniform(shape, rng, problem.x.dtype)
            self._improve(problem, seeds, state)
        return _push_with_length(seeds, state)[0], state

    def _improve(self, problem: Problem, seeds: Tensor, state: State) -> None:
        """One step of Adam up the objective, whose gradient is written out."""
        slices, length = _push_with_length(seeds, state)
        costs, ascent = problem.costs_and_ascent(slices)
        closeness = (slices @ slices.mT).sign() @ slices
        state["step"] = state["step"] + 1
        turn = self._turn(problem, slices, length, costs, ascent, closeness)
        climb_by_adam(state, "weight", turn.mT @ seeds, self.lr, self.betas)
        climb_by_adam(state, "bias", turn.sum(dim=-2), self.lr, self.betas)

    def _turn(
        self,
        problem: Problem,
        slices: Tensor,
        length: Tensor,
        costs: Tensor,
        ascent: Tensor,
        closeness: Tensor,
    ) -> Tensor:
        """How the vectors behind the slices should turn, (*batch, n, d)."""
        n = problem.cost_factor()
        kernels = kernels_for(slices)
        if kernels is not None and isinstance(n, int):
            return kernels.map_gradient(
                slices,
                ascent,
                closeness,
                length,
                costs.mean(dim=-1),
                p=problem.p,
                points=n,
                penalty=self.penalty,
            )
        mean = (costs * n).mean(dim=-1, keepdim=True)  # (*batch, 1)
        separation = (root_slope(mean, problem.p) * n).unsqueeze(-1) * ascent / self.n
        by_slice = separation - self.penalty * 2 * closeness / self.n**2  # (*batch, n, d)
        # Through the division by the length: only what is orthogonal to a slice can turn it.
        return (by_slice - (by_slice * slices).sum(dim=-1, keepdim=True) * slices) / length


def _push_with_length(seeds: Tensor, state: State) -> tuple[Tensor, Tensor]:
    raw = seeds @ state["weight"].mT + state["bias"].unsqueeze(-2)
    kernels = kernels_for(raw)
    if kernels is not None:
        return kernels.unit_and_length(raw)
    length = torch.linalg.vector_norm(raw, dim=-1, keepdim=True)
    return sphere.normalize(raw), torch.where(length > 0, length, 1)


Activation = Literal["linear", "leaky_relu"]
_LEAK = 0.01


@dataclass(frozen=True, repr=False)
class Augment(BuiltIn, LiftPart, Learner):
    """Samples x as (x, h(x)), which no two of them share, h(x) = σ(Wx + b) a learned layer d → d.

    It maximises (mean cost)^(1/p) − penalty · (mean ‖(x, h(x))‖ + mean ‖(y, h(y))‖) over `n` fresh slices a
    step, by `n_steps` steps of Adam a call, on samples held constant; without the penalty h would only grow.
    One layer a batch element. Called as a plain lift it starts cold. σ = "linear" is the published code's.

    X. Chen, Y. Yang, Y. Li, Augmented sliced Wasserstein distances, 2022.
    """

    n: int
    n_steps: int
    penalty: float = 0.5
    lr: float = 1e-3
    betas: tuple[float, float] = (0.5, 0.999)
    activation: Activation = "linear"
    graph_safe = False  # gradients are autograd's

    def __call__(self, problem: Problem, rng: Randomness) -> Problem:
        return self.learn(problem, rng, self.cold(problem, rng))[0]

    def cold(self, problem: Problem, rng: Randomness) -> State:
        return cold_layer(problem, rng)

    def learn(self, problem: Problem, rng: Randomness, state: State) -> tuple[Problem, State]:
        still = problem.detached()
        with torch.no_grad():
            state = {name: problem.agreed(tensor) for name, tensor in state.items()}
            for _ in range(self.n_steps):
                self._improve(still, rng, state)
        return self._lifted(problem, state), state

    def _lifted(self, problem: Problem, state: State) -> Problem:
        x, y = (torch.cat([t, self._layer(t, state)], dim=-1) for t in self._broadcast(problem))
        return dataclasses.replace(problem, x=x, y=y)

    def _broadcast(self, problem: Problem) -> tuple[Tensor, Tensor]:
        x, y = (t.expand(*problem.batch, *t.shape[-2:]) for t in (problem.x, problem.y))
        return x, y

    def _layer(self, samples: Tensor, state: State) -> Tensor:
        out = samples @ state["weight"].mT + state["bias"].unsqueeze(-2)
        return out if self.activation == "linear" else torch.nn.functional.leaky_relu(out, _LEAK)

    def _improve(self, problem: Problem, rng: Randomness, state: State) -> None:
        """One step of Adam up the objective, whose gradient is written out."""
        wide = self._lifted(problem, state)
        slices = sphere.uniform((*wide.batch, self.n, wide.d), rng, wide.x.dtype)
        slices = problem.agreed(slices)
        equal = slices.new_full((*wide.batch, self.n), 1 / self.n)
        costs, gradients = wide.pull(slices, equal, Needs(x=True, y=True))
        n = problem.cost_factor()
        outer = root_slope((costs * n).mean(dim=-1, keepdim=True), problem.p) * n
        turns = []
        found: tuple[tuple[SideName, Tensor | None], ...] = (("x", gradients.x), ("y", gradients.y))
        for name, gradient in found:
            assert gradient is not None
            samples, weights, population, side = wide.side(name)
            share = shares_of(weights, population.count(side, samples), slices.dtype, population)
            if isinstance(share, Tensor):
                share = share.unsqueeze(-1)
                samples = torch.where(share > 0, samples, 0)  # absent ones may lie anywhere
            # The gradient of a norm is the unit vector, and counts for nothing at the origin.
            length = torch.linalg.vector_norm(samples, dim=-1, keepdim=True)
            unit = samples / torch.where(length > 0, length, 1)
            up = outer.unsqueeze(-1) * gradient - self.penalty * share * unit
            up, made = up[..., problem.d :], samples[..., problem.d :]
            if self.activation == "leaky_relu":
                up = torch.where(made > 0, up, _LEAK * up)
            turns.append((up, samples[..., : problem.d]))
        state["step"] = state["step"] + 1
        (one, x), (other, y) = turns
        weight = problem.population.total(one.mT @ x + other.mT @ y)
        bias = problem.population.total(one.sum(dim=-2) + other.sum(dim=-2))
        climb_by_adam(state, "weight", weight, self.lr, self.betas)
        climb_by_adam(state, "bias", bias, self.lr, self.betas)
