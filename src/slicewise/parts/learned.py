"""Parts that learn: a map that makes slices, and a layer that augments samples.

`PushForward` is the learned map of distributional sliced Wasserstein. `Augment` is the learned layer of augmented
sliced Wasserstein. Both use one linear layer for each element of the batch (`cold_layer`) and Adam (`climb_by_adam`).
`Activation` is the type of the names of the activations: "linear" or "leaky_relu".
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
    """Initialize a linear layer d → d, and Adam's moments for it, for each element of the batch.

    Use it as `cold` in a part of your own that learns a linear layer. Weights and biases are uniform on [−1/√d, 1/√d],
    the usual initialization of a linear layer. This law and Adam treat coordinates one by one, so parts with such a
    layer are rotation invariant only up to that; the effect is smaller than hundreds of draws can show.

    Args:
        problem: The problem, whose batch, dimension d, dtype and device the layer gets.
        rng: The source of random numbers.

    Returns:
        A dict of tensors: "weight" (*batch, d, d), "bias" (*batch, d); Adam's moments, which are zero, as
        "first_weight", "first_bias", "second_weight" and "second_bias", of the same shapes; and "step" (*batch,),
        int64, which is zero.

    Example:
        >>> import torch
        >>> from slicewise.parts import cold_layer
        >>> from slicewise.problem import Problem
        >>> from slicewise.sampling import Randomness
        >>> problem = Problem(torch.zeros(4, 3), torch.ones(4, 3))
        >>> state = cold_layer(problem, Randomness(0, torch.device("cpu")))
        >>> state["weight"].shape, state["bias"].shape
        (torch.Size([3, 3]), torch.Size([3]))
    """
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
    """Take one step of Adam that increases an objective, and store the result in `state`.

    Use it in `learn` of a part of your own. It replaces the tensors in the dict `state` by new ones. It reads
    `state["step"]`, the number of this step, which the caller increases first: the first step is number 1.

    Args:
        state: A dict with the parameter `name`, its moments `first_{name}` and `second_{name}`, and "step" (*batch,),
            as `cold_layer` makes it.
        name: The parameter to change.
        gradient: The gradient of the objective, of the same shape as the parameter, (*batch, ...).
        lr: The learning rate.
        betas: The decay rates of the first and second moments.

    Example:
        >>> import torch
        >>> from slicewise.parts import climb_by_adam
        >>> state = {name: torch.zeros(2) for name in ("a", "first_a", "second_a")}
        >>> state["step"] = torch.tensor(1)
        >>> climb_by_adam(state, "a", torch.tensor([3.0, -3.0]), lr=0.5, betas=(0.5, 0.999))
        >>> state["a"]
        tensor([ 0.5000, -0.5000])
    """
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
    """Slices made by a learned map ε ↦ unit(Aε + b) of uniform directions ε, one map for each batch element.

    Use it where a few trained slices should separate the samples better than random ones; it is the slicer of
    distributional sliced Wasserstein. Each call trains the map by `n_steps` steps of Adam, with the samples held
    constant, to maximize

        (mean cost)^(1/p) − penalty · mean |θ·θ′|

    The penalty keeps the slices apart. `learn` continues from a given state. A plain call starts from a new layer each
    time.

    Args:
        n: The number of slices.
        n_steps: The number of Adam steps in a call.
        penalty: The factor of mean |θ·θ′| over all pairs of slices (default 1.0).
        lr: The learning rate of Adam (default 5e-4).
        betas: The decay rates of Adam's moments (default (0.5, 0.999)).
        redraw: Whether to draw new directions ε for each step (default False: one draw for a call).

    Returns:
        When called with a problem and random numbers: slices (*batch, n, d) of unit length. `learn` returns these and
        the new state.

    Example:
        >>> import torch
        >>> from slicewise.parts import PushForward
        >>> from slicewise.problem import Problem
        >>> from slicewise.sampling import Randomness
        >>> problem = Problem(torch.zeros(4, 3), torch.ones(4, 3))
        >>> PushForward(n=5, n_steps=2)(problem, Randomness(0, torch.device("cpu"))).shape
        torch.Size([5, 3])

    Reference:
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
        """Take one step of Adam that increases the objective, with its gradient computed in closed form."""
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
        """The gradient of the objective in the vectors before they are normalized, (*batch, n, d)."""
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
    """Replace each sample x by (x, h(x)), where h(x) = σ(Wx + b) is a learned layer d → d.

    Use it to slice along curved surfaces that adapt to the samples; it is the lift of augmented sliced Wasserstein. The
    map x ↦ (x, h(x)) is injective: different samples stay different. There is one layer for each batch element. Each
    call trains it by `n_steps` steps of Adam, with the samples held constant, to maximize

        (mean cost)^(1/p) − penalty · (mean ‖(x, h(x))‖ + mean ‖(y, h(y))‖)

    over `n` slices that are drawn anew for each step. Without the penalty h would grow without bound. `learn` continues
    from a given state. A plain call starts from a new layer each time.

    Args:
        n: The number of slices in each training step.
        n_steps: The number of Adam steps in a call.
        penalty: The factor of the mean norms (default 0.5).
        lr: The learning rate of Adam (default 1e-3).
        betas: The decay rates of Adam's moments (default (0.5, 0.999)).
        activation: σ, "linear" (default, as in the published code) or "leaky_relu" (slope 0.01 below zero).

    Returns:
        When called with a problem and random numbers: the problem with x (*batch, n, 2d) and y (*batch, m, 2d), for n
        and m samples. `learn` returns this problem and the new state.

    Example:
        >>> import torch
        >>> from slicewise.parts import Augment
        >>> from slicewise.problem import Problem
        >>> from slicewise.sampling import Randomness
        >>> problem = Problem(torch.zeros(4, 3), torch.ones(4, 3))
        >>> Augment(n=5, n_steps=2)(problem, Randomness(0, torch.device("cpu"))).x.shape
        torch.Size([4, 6])

    Reference:
        X. Chen, Y. Yang, Y. Li, Augmented sliced Wasserstein distances, 2022.
    """

    n: int
    n_steps: int
    penalty: float = 0.5
    lr: float = 1e-3
    betas: tuple[float, float] = (0.5, 0.999)
    activation: Activation = "linear"
    graph_safe = False  # gradients are autograd's
    needs_target_samples = True

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
        """Take one step of Adam that increases the objective, with its gradient computed in closed form."""
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
