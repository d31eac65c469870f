"""Networks to train: a generator, a translator that starts as the identity, and stacks of equal networks."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor, nn

from slicewise.sampling import one_generator
from slicewise.support import check_choice, check_count, renamed_arguments

_ACTIVATIONS = {"relu": torch.relu, "tanh": torch.tanh}
_renamed = renamed_arguments(seed="generator", bend="activation")


@_renamed
class Layers(nn.Module):
    """A multilayer perceptron.

    `Generator` and `Translator` are the two kinds that `train` needs most; use this class for other shapes.

    Args:
        sizes: Widths of the input, of each hidden layer, and of the output; at least two of them.
        residual: Add the input to the output, which then must have the same width.
        activation: "relu" or "tanh", between layers.
        generator: Draws the initial weights: an int (a seed), a `torch.Generator` on the CPU, or None for torch's
            global generator. The law is that of `torch.nn.Linear`.

    Raises:
        ValueError: If a size is not a positive integer, or the activation is unknown.

    Example:
        >>> Layers((3, 16, 2), generator=0)(torch.zeros(5, 3)).shape
        torch.Size([5, 2])
    """

    # `train` may capture steps of this very class as a CUDA graph without being asked. A subclass may compute
    # something that a graph cannot hold, so it does not inherit the promise: it declares `capturable` itself.
    capturable = True

    def __init__(
        self,
        sizes: Sequence[int],
        *,
        residual: bool = False,
        activation: str = "relu",
        generator: int | torch.Generator | None = None,
    ) -> None:
        super().__init__()
        check_choice("activation", activation, _ACTIVATIONS)
        for size in sizes:
            check_count("size of a layer", size)
        self.sizes, self.residual, self.activation = tuple(sizes), residual, activation
        pairs = zip(self.sizes, self.sizes[1:], strict=False)
        self.layers = nn.ModuleList(nn.Linear(n_in, n_out) for n_in, n_out in pairs)
        source = one_generator(generator)
        if source is not None:
            with torch.no_grad():
                for layer in self.layers:
                    assert isinstance(layer, nn.Linear)
                    bound = 1 / math.sqrt(layer.in_features)  # as torch initializes
                    for parameter in (layer.weight, layer.bias):
                        parameter.uniform_(-bound, bound, generator=source)

    def forward(self, x: Tensor) -> Tensor:
        """Map x (..., d_in) to (..., d_out)."""
        hidden = x
        for layer in self.layers[:-1]:
            hidden = _ACTIVATIONS[self.activation](layer(hidden))
        out: Tensor = self.layers[-1](hidden)
        return x + out if self.residual else out

    def extra_repr(self) -> str:
        """The sizes and the activation, for `repr`."""
        sizes = " → ".join(map(str, self.sizes))
        return f"{sizes}, {self.activation}" + ", residual" * self.residual


@_renamed
class Generator(Layers):
    """A network that makes samples (B, d) of noise (B, noise).

    Args:
        d: Dimension of the samples.
        noise: Dimension of the standard normal noise.
        hidden: Widths of the hidden layers.
        activation: "relu" or "tanh", between layers.
        generator: Draws the initial weights; see `Layers`.

    Example:
        >>> Generator(512, generator=0).sample(5, generator=1).shape
        torch.Size([5, 512])
    """

    capturable = True

    def __init__(
        self,
        d: int,
        *,
        noise: int = 8,
        hidden: Sequence[int] = (512, 512, 512),
        activation: str = "relu",
        generator: int | torch.Generator | None = None,
    ) -> None:
        super().__init__((noise, *hidden, d), activation=activation, generator=generator)

    @renamed_arguments(seed="generator")
    @torch.no_grad()
    def sample(self, n: int, *, generator: int | torch.Generator | None = 0) -> Tensor:
        """Draw samples from the network.

        Args:
            n: How many.
            generator: Draws the noise: an int (a seed; the same samples each time), a `torch.Generator`, or None for
                torch's global generator.

        Returns:
            Samples (n, d), where the weights are and as precise, without gradients.
        """
        source = one_generator(generator)
        device = None if source is None else source.device
        noise = torch.randn(n, self.sizes[0], generator=source, device=device)
        weight = self.layers[0].weight
        assert isinstance(weight, Tensor)
        return self(noise.to(weight))


@_renamed
class Translator(Layers):
    """A network x ↦ x + R(x) that maps samples (B, d) of one set to samples of another; R starts as zero.

    Args:
        d: Dimension of the samples.
        hidden: Widths of the hidden layers of R.
        activation: "relu" or "tanh", between layers.
        generator: Draws the initial weights; see `Layers`.

    Example:
        >>> x = torch.randn(3, 16)
        >>> Translator(16)(x).equal(x)
        True
    """

    capturable = True

    def __init__(
        self,
        d: int,
        *,
        hidden: Sequence[int] = (512, 512),
        activation: str = "relu",
        generator: int | torch.Generator | None = None,
    ) -> None:
        sizes = (d, *hidden, d)
        super().__init__(sizes, residual=True, activation=activation, generator=generator)
        nn.init.zeros_(self.layers[-1].weight)  # type: ignore[arg-type]
        nn.init.zeros_(self.layers[-1].bias)  # type: ignore[arg-type]


class Stack(nn.Module):
    """R networks of one shape as one module: weights and samples have a leading dimension R.

    Use it to train with several seeds, learning rates or optimizers at once: a step of many small networks takes about
    as long as a step of one. The networks do not influence each other.

    Args:
        networks: At least one; equal in sizes, activation and residual connection.

    Raises:
        ValueError: If there are none, or their shapes differ.

    Example:
        >>> networks = [Generator(4, hidden=(8,), generator=seed) for seed in range(3)]
        >>> Stack(networks)(torch.randn(3, 10, 8)).shape
        torch.Size([3, 10, 4])
    """

    capturable = True

    def __init__(self, networks: Sequence[Layers]) -> None:
        super().__init__()
        if not networks:
            raise ValueError("a stack of no networks: give at least one")
        first = networks[0]
        for i, one in enumerate(networks):
            shapes = [(net.sizes, net.residual, net.activation) for net in (one, first)]
            if shapes[0] != shapes[1]:
                raise ValueError(
                    f"network {i} is {one.extra_repr()}, the first {first.extra_repr()}: stack networks of one shape"
                )
        # What `one` copies. In a tuple: as an attribute it would be a submodule, whose weights count as the stack's.
        self._template = (copy.deepcopy(first),)
        self.sizes, self.residual, self.activation = first.sizes, first.residual, first.activation
        self.runs = len(networks)
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for i in range(len(first.layers)):
            layers = [one.layers[i] for one in networks]
            weights = [layer.weight.detach().mT for layer in layers]  # type: ignore[operator]
            self.weights.append(nn.Parameter(torch.stack(weights)))  # (R, in, out)
            biases = [layer.bias.detach().unsqueeze(0) for layer in layers]  # type: ignore[operator]
            self.biases.append(nn.Parameter(torch.stack(biases)))  # (R, 1, out)

    @classmethod
    def of(cls, network: Layers, runs: int) -> Self:
        """Stack `runs` copies of one network."""
        return cls([network] * runs)

    def forward(self, x: Tensor) -> Tensor:
        """Map x (R, B, d_in), or one x (B, d_in) for all networks, to (R, B, d_out)."""
        x = x.expand(self.runs, *x.shape[-2:])
        hidden = x
        last = len(self.weights) - 1
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            hidden = torch.baddbmm(bias, hidden, weight)
            if i < last:
                hidden = _ACTIVATIONS[self.activation](hidden)
        return x + hidden if self.residual else hidden

    @torch.no_grad()
    def one(self, index: int) -> Layers:
        """Return a copy of one network, of the class it had."""
        network = copy.deepcopy(self._template[0]).to(self.weights[0])
        for layer, weight, bias in zip(network.layers, self.weights, self.biases, strict=True):
            assert isinstance(layer, nn.Linear)
            layer.weight.copy_(weight[index].mT)
            layer.bias.copy_(bias[index, 0])
        return network

    def extra_repr(self) -> str:
        """How many networks, their sizes and activation, for `repr`."""
        return f"{self.runs} of {self._template[0].extra_repr()}"
