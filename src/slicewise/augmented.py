"""Augmented sliced Wasserstein: samples beside a learned function of themselves."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from slicewise import sphere
from slicewise.learned import State, climb_by_adam, cold_layer
from slicewise.pool import SideName, shares_of
from slicewise.printing import Part
from slicewise.problem import Problem
from slicewise.randomness import Randomness
from slicewise.roots import root_slope
from slicewise.transport import Needs

Activation = Literal["linear", "leaky_relu"]
_LEAK = 0.01


@dataclass(frozen=True, repr=False)
class Augment(Part):
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
    replayable = False  # gradients are autograd's

    def __call__(self, problem: Problem, rng: Randomness) -> Problem:
        return self.learn(problem, rng, self.cold(problem, rng))[0]

    def cold(self, problem: Problem, rng: Randomness) -> State:
        return cold_layer(problem, rng)

    def learn(self, problem: Problem, rng: Randomness, state: State) -> tuple[Problem, State]:
        still = problem.detached()
        with torch.no_grad():
            state = {name: problem.pool.agreed(tensor) for name, tensor in state.items()}
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
        slices = problem.pool.agreed(slices)
        equal = slices.new_full((*wide.batch, self.n), 1 / self.n)
        costs, gradients = wide.pull(slices, equal, Needs(x=True, y=True))
        n = problem.n_points() if problem.convention == "reference" else 1
        outer = root_slope((costs * n).mean(dim=-1, keepdim=True), problem.p) * n
        turns = []
        found: tuple[tuple[SideName, Tensor | None], ...] = (("x", gradients.x), ("y", gradients.y))
        for name, gradient in found:
            assert gradient is not None
            samples, weights, pool, side = wide.side(name)
            share = shares_of(weights, pool.count(side, samples), slices.dtype, pool)
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
        weight = problem.pool.total(one.mT @ x + other.mT @ y)
        bias = problem.pool.total(one.sum(dim=-2) + other.sum(dim=-2))
        climb_by_adam(state, "weight", weight, self.lr, self.betas)
        climb_by_adam(state, "bias", bias, self.lr, self.betas)
