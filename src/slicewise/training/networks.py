"""Networks to train: a generator, a translator that starts as the identity, and stacks of equal networks."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from slicewise.sampling import one_generator
from slicewise.support import check_choice, check_count, renamed_arguments

_ACTIVATIONS = {"relu": torch.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid}
_OUTPUTS = {"sigmoid": torch.sigmoid, "tanh": torch.tanh}
_NORMS = ("batch",)
# As in torch.nn.BatchNorm1d.
_EPSILON, _MOMENTUM = 1e-5, 0.1
_renamed = renamed_arguments(seed="generator", bend="activation")


class BatchNorm(nn.Module):
    """Batch normalization of one network's hidden layer, or of R networks' at once, each by its own statistics.

    It computes what `torch.nn.BatchNorm1d` computes, by operations that every mode of differentiation and CUDA graphs
    support: the mean and the variance of the batch in training mode, running averages of them in evaluation mode. A
    pass in forward mode (`torch.func.jvp`, `torch.autograd.forward_ad`) does not update the running averages: it
    differentiates a step whose ordinary pass already did.

    Args:
        width: Number of coordinates.
        runs: R, for samples (R, B, width); None for samples (..., width) of one network.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, width: int, runs: int | None = None) -> None:
        super().__init__()
        shape = (width,) if runs is None else (runs, 1, width)
        self._stacked = runs is not None
        self.weight, self.bias = nn.Parameter(torch.ones(shape)), nn.Parameter(torch.zeros(shape))
        self.register_buffer("running_mean", torch.zeros(shape))
        self.register_buffer("running_var", torch.ones(shape))

    def forward(self, x: Tensor) -> Tensor:
        """Normalize x, of any precision; the result has that of the weights."""
        x = x.to(self.weight.dtype)  # statistics are not computed in half precision
        if not self.training:
            centered, variance = x - self.running_mean, self.running_var
        else:
            # A stack's first dimension counts its networks; every other before the last counts samples.
            rows = (-2,) if self._stacked else tuple(range(x.dim() - 1))
            n = math.prod(x.shape[i] for i in rows)
            if n < 2:
                raise ValueError(
                    f"batch normalization of samples {tuple(x.shape)} in training mode: give at least two per network, "
                    f"or call eval() first"
                )
            mean = x.mean(dim=rows, keepdim=self._stacked)
            centered = x - mean
            variance = centered.square().mean(dim=rows, keepdim=self._stacked)
            if forward_ad.unpack_dual(variance).tangent is None:
                with torch.no_grad():
                    self.running_mean.lerp_(mean.detach(), _MOMENTUM)
                    self.running_var.lerp_(variance.detach() * (n / (n - 1)), _MOMENTUM)
        return centered * (torch.rsqrt(variance + _EPSILON) * self.weight) + self.bias

    def tensors(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Weight, bias, running mean and running variance."""
        return self.weight, self.bias, self.running_mean, self.running_var

    def extra_repr(self) -> str:
        """The shape of the weights, for `repr`."""
        return " × ".join(map(str, self.weight.shape))


@_renamed
class Layers(nn.Module):
    """A multilayer perceptron.

    `Generator` and `Translator` are the two kinds that `train` needs most; use this class for other shapes.

    Args:
        sizes: Widths of the input, of each hidden layer, and of the output; at least two of them.
        residual: Add the input to the output, which then must have the same width.
        activation: "relu", "tanh" or "sigmoid", between layers.
        output: "sigmoid" or "tanh", after the last layer; None for a linear output, the only one that a residual network
            has.
        norm: "batch" for batch normalization before each hidden activation, as by `torch.nn.BatchNorm1d`: by the
            statistics of the batch in training mode, by their running averages after `eval()`. None for none.
        generator: Draws the initial weights: an int (a seed), a `torch.Generator` on the CPU, or None for torch's
            global generator. The law is that of `torch.nn.Linear`.

    Raises:
        ValueError: If a size is not a positive integer, an activation or the normalization is unknown, or a residual
            network is given an output activation.

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
        output: str | None = None,
        norm: str | None = None,
        generator: int | torch.Generator | None = None,
    ) -> None:
        super().__init__()
        check_choice("activation", activation, _ACTIVATIONS)
        if output is not None:
            check_choice("output", output, _OUTPUTS)
            if residual:
                raise ValueError(
                    f"output = {output!r} of a residual network, whose output is its input and a change: leave output=None"
                )
        if norm is not None:
            check_choice("norm", norm, _NORMS)
        for size in sizes:
            check_count("size of a layer", size)
        self.sizes, self.residual, self.activation = tuple(sizes), residual, activation
        self.output, self.norm = output, norm
        pairs = zip(self.sizes, self.sizes[1:], strict=False)
        self.layers = nn.ModuleList(nn.Linear(n_in, n_out) for n_in, n_out in pairs)
        # Absent without normalization: the printed network, by which checkpoints know it, is as it was.
        self.norms = None if norm is None else nn.ModuleList(map(BatchNorm, self.sizes[1:-1]))
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
        for i, layer in enumerate(self.layers[:-1]):
            hidden = layer(hidden)
            if self.norms is not None:
                hidden = self.norms[i](hidden)
            hidden = _ACTIVATIONS[self.activation](hidden)
        out: Tensor = self.layers[-1](hidden)
        if self.output is not None:
            out = _OUTPUTS[self.output](out)
        return x + out if self.residual else out

    def extra_repr(self) -> str:
        """The sizes, the activations and the normalization, for `repr`."""
        parts = [" → ".join(map(str, self.sizes)), self.activation]
        if self.residual:
            parts.append("residual")
        if self.output is not None:
            parts.append(f"{self.output} output")
        if self.norm is not None:
            parts.append(f"{self.norm} norm")
        return ", ".join(parts)


@_renamed
class Generator(Layers):
    """A network that makes samples (B, d) of noise (B, noise).

    Args:
        d: Dimension of the samples.
        noise: Dimension of the standard normal noise.
        hidden: Widths of the hidden layers.
        activation: "relu", "tanh" or "sigmoid", between layers.
        output: Activation of the last layer; see `Layers`.
        norm: Normalization of the hidden layers; see `Layers`.
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
        output: str | None = None,
        norm: str | None = None,
        generator: int | torch.Generator | None = None,
    ) -> None:
        super().__init__(
            (noise, *hidden, d),
            activation=activation,
            output=output,
            norm=norm,
            generator=generator,
        )

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
        activation: "relu", "tanh" or "sigmoid", between layers.
        norm: Normalization of the hidden layers; see `Layers`.
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
        norm: str | None = None,
        generator: int | torch.Generator | None = None,
    ) -> None:
        sizes = (d, *hidden, d)
        super().__init__(
            sizes, residual=True, activation=activation, norm=norm, generator=generator
        )
        nn.init.zeros_(self.layers[-1].weight)  # type: ignore[arg-type]
        nn.init.zeros_(self.layers[-1].bias)  # type: ignore[arg-type]


class Stack(nn.Module):
    """R networks of one shape as one module: weights and samples have a leading dimension R.

    Use it to train with several seeds, learning rates or optimizers at once: a step of many small networks takes about
    as long as a step of one. The networks do not influence each other.

    Args:
        networks: At least one; equal in sizes, activations, normalization and residual connection. Statistics of
            batch normalization are those of each network alone.

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
            if _shape_of(one) != _shape_of(first):
                raise ValueError(
                    f"network {i} is {one.extra_repr()}, the first {first.extra_repr()}: stack networks of one shape"
                )
        # What `one` copies. In a tuple: as an attribute it would be a submodule, whose weights count as the stack's.
        self._template = (copy.deepcopy(first),)
        self.sizes, self.residual, self.activation = first.sizes, first.residual, first.activation
        self.output, self.norm = first.output, first.norm
        self.runs = len(networks)
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for i in range(len(first.layers)):
            layers = [one.layers[i] for one in networks]
            weights = [layer.weight.detach().mT for layer in layers]  # type: ignore[operator]
            self.weights.append(nn.Parameter(torch.stack(weights)))  # (R, in, out)
            biases = [layer.bias.detach().unsqueeze(0) for layer in layers]  # type: ignore[operator]
            self.biases.append(nn.Parameter(torch.stack(biases)))  # (R, 1, out)
        self.norms = (
            None if first.norms is None else nn.ModuleList(map(_stacked, *map(_norms_of, networks)))
        )

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
                if self.norms is not None:
                    hidden = self.norms[i](hidden)
                hidden = _ACTIVATIONS[self.activation](hidden)
        if self.output is not None:
            hidden = _OUTPUTS[self.output](hidden)
        return x + hidden if self.residual else hidden

    @torch.no_grad()
    def one(self, index: int) -> Layers:
        """Return a copy of one network, of the class it had, in the mode (training or evaluation) of the stack."""
        network = copy.deepcopy(self._template[0]).to(self.weights[0])
        for layer, weight, bias in zip(network.layers, self.weights, self.biases, strict=True):
            assert isinstance(layer, nn.Linear)
            layer.weight.copy_(weight[index].mT)
            layer.bias.copy_(bias[index, 0])
        for alone, norm in zip(_norms_of(network), _norms_of(self), strict=True):
            for tensor, of_all in zip(alone.tensors(), norm.tensors(), strict=True):
                tensor.copy_(of_all[index, 0])
        return network.train(self.training)

    def extra_repr(self) -> str:
        """How many networks, their sizes and activation, for `repr`."""
        return f"{self.runs} of {self._template[0].extra_repr()}"


def _shape_of(network: Layers) -> tuple[object, ...]:
    """What networks of one stack have in common."""
    return (network.sizes, network.residual, network.activation, network.output, network.norm)


def _norms_of(network: Layers | Stack) -> list[BatchNorm]:
    """The normalizations of a network, none if it has none."""
    found = [] if network.norms is None else list(network.norms)
    assert all(isinstance(norm, BatchNorm) for norm in found)
    return found  # type: ignore[return-value]


@torch.no_grad()
def _stacked(*norms: BatchNorm) -> BatchNorm:
    """The normalizations of one layer of R networks as one."""
    weight = norms[0].weight
    stacked = BatchNorm(len(weight), len(norms)).to(weight)
    for tensor, each in zip(
        stacked.tensors(), zip(*(n.tensors() for n in norms), strict=True), strict=True
    ):
        tensor.copy_(torch.stack(each).unsqueeze(1))
    return stacked
