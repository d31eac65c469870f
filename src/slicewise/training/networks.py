"""Networks to train: a generator, a translator that begins as the identity, and many of one kind as one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor, nn

from slicewise.support import check_choice, check_count

_BENDS = {"relu": torch.relu, "tanh": torch.tanh}


class Layers(nn.Module):
    """Linear layers with a bend between them; `residual` adds the input to what comes out."""

    def __init__(
        self,
        sizes: Sequence[int],
        *,
        residual: bool = False,
        bend: str = "relu",
        seed: int | None = None,
    ) -> None:
        super().__init__()
        check_choice("bend", bend, _BENDS)
        for size in sizes:
            check_count("size of a layer", size)
        self.sizes, self.residual, self.bend = tuple(sizes), residual, bend
        pairs = zip(self.sizes, self.sizes[1:], strict=False)
        self.layers = nn.ModuleList(nn.Linear(n_in, n_out) for n_in, n_out in pairs)
        if seed is not None:
            generator = torch.Generator().manual_seed(seed)
            with torch.no_grad():
                for layer in self.layers:
                    assert isinstance(layer, nn.Linear)
                    bound = 1 / math.sqrt(layer.in_features)  # as torch itself begins
                    for parameter in (layer.weight, layer.bias):
                        parameter.uniform_(-bound, bound, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        """Samples (..., d_out) of x (..., d_in)."""
        hidden = x
        for layer in self.layers[:-1]:
            hidden = _BENDS[self.bend](layer(hidden))
        out: Tensor = self.layers[-1](hidden)
        return x + out if self.residual else out

    def extra_repr(self) -> str:
        """What it is made of."""
        return f"{' → '.join(map(str, self.sizes))}, {self.bend}" + ", residual" * self.residual


class Generator(Layers):
    """Samples (B, d) from noise (B, noise).

    >>> Generator(512, seed=0).sample(5, seed=1).shape
    torch.Size([5, 512])
    """

    def __init__(
        self,
        d: int,
        *,
        noise: int = 8,
        hidden: Sequence[int] = (512, 512, 512),
        bend: str = "relu",
        seed: int | None = None,
    ) -> None:
        super().__init__((noise, *hidden, d), bend=bend, seed=seed)

    @torch.no_grad()
    def sample(self, n: int, *, seed: int = 0) -> Tensor:
        """n samples (n, d), the same for the same seed."""
        generator = torch.Generator().manual_seed(seed)
        noise = torch.randn(n, self.sizes[0], generator=generator)
        weight = self.layers[0].weight
        assert isinstance(weight, Tensor)
        return self(noise.to(weight))


class Translator(Layers):
    """Samples (B, d) of one kind from samples (B, d) of another: x + R(x), where R begins as 0.

    >>> x = torch.randn(3, 16)
    >>> Translator(16)(x).equal(x)
    True
    """

    def __init__(
        self,
        d: int,
        *,
        hidden: Sequence[int] = (512, 512),
        bend: str = "relu",
        seed: int | None = None,
    ) -> None:
        super().__init__((d, *hidden, d), residual=True, bend=bend, seed=seed)
        nn.init.zeros_(self.layers[-1].weight)  # type: ignore[arg-type]
        nn.init.zeros_(self.layers[-1].bias)  # type: ignore[arg-type]


class Stack(nn.Module):
    """R networks of one shape as one: weights have a leading dimension, and so have samples (R, B, d).

    A step of many small networks takes about as long as a step of one, and none knows of the others.

    >>> some = [Generator(4, hidden=(8,), seed=seed) for seed in range(3)]
    >>> Stack(some)(torch.randn(3, 10, 8)).shape
    torch.Size([3, 10, 4])
    """

    def __init__(self, networks: Sequence[Layers]) -> None:
        super().__init__()
        if not networks:
            raise ValueError("a stack of no networks: give at least one")
        first = networks[0]
        for i, one in enumerate(networks):
            same = (one.sizes, one.residual, one.bend) == (first.sizes, first.residual, first.bend)
            if not same:
                raise ValueError(
                    f"network {i} is {one.extra_repr()}, the first {first.extra_repr()}: stack networks of one shape"
                )
        self._kind, self.sizes = type(first), first.sizes
        self.residual, self.bend, self.runs = first.residual, first.bend, len(networks)
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for i in range(len(first.layers)):
            layers = [one.layers[i] for one in networks]
            weights = [layer.weight.detach().mT for layer in layers]  # type: ignore[operator]
            self.weights.append(nn.Parameter(torch.stack(weights)))  # (R, in, out)
            biases = [layer.bias.detach().unsqueeze(0) for layer in layers]  # type: ignore[operator]
            self.biases.append(nn.Parameter(torch.stack(biases)))  # (R, 1, out)

    @classmethod
    def of(cls, network: Layers, runs: int) -> Self:
        """So many copies of one network."""
        return cls([network] * runs)

    def forward(self, x: Tensor) -> Tensor:
        """Samples (R, B, d_out) of x (R, B, d_in), or of one x (B, d_in) for all."""
        x = x.expand(self.runs, *x.shape[-2:])
        hidden = x
        last = len(self.weights) - 1
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            hidden = torch.baddbmm(bias, hidden, weight)
            if i < last:
                hidden = _BENDS[self.bend](hidden)
        return x + hidden if self.residual else hidden

    @torch.no_grad()
    def one(self, index: int) -> Layers:
        """A copy of one of the networks, by itself."""
        network = Layers(self.sizes, residual=self.residual, bend=self.bend)
        network.__class__ = self._kind
        network.to(self.weights[0])
        for layer, weight, bias in zip(network.layers, self.weights, self.biases, strict=True):
            assert isinstance(layer, nn.Linear)
            layer.weight.copy_(weight[index].mT)
            layer.bias.copy_(bias[index, 0])
        return network

    def extra_repr(self) -> str:
        """How many of what."""
        return f"{self.runs} of {' → '.join(map(str, self.sizes))}, {self.bend}" + (
            ", residual" * self.residual
        )
