"""A smooth field of displacements over all colours, fitted to those of a few."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import grid_sample

SIDE = 33  # nodes along an edge of the colour cube: 8 levels of 255 apart
# How much roughness costs beside a mean squared misfit: first differences, so that colours nobody has follow their
# neighbours; second differences, so that the map bends no more than it has to.
_SLOPE, _BEND = 1.5e-3, 1.5e-4
# What the regulariser leaves free (multilinear fields) needs a little weight to be inverted.
_FLOOR = 1e-7
_ITERATIONS, _PRECISION = 150, 1e-6


def look_up(field: Tensor, colours: Tensor) -> Tensor:
    """The displacements (..., 3) at colours (..., 3) in [0, 1], linear between the nodes (S, S, S, 3)."""
    volume = field.permute(3, 2, 1, 0).unsqueeze(0).to(colours)  # (1, 3, blue, green, red)
    points = 2 * colours.reshape(1, -1, 1, 1, 3) - 1
    found = grid_sample(volume, points, padding_mode="border", align_corners=True)
    return found.reshape(3, -1).T.reshape(colours.shape)


def fit_field(
    colours: Tensor, moves: Tensor, weights: Tensor, *, smoothness: float, start: Tensor
) -> Tensor:
    """The field (S, S, S, 3) that is nearest to the moves (n, 3) of colours (n, 3), and smooth.

    Least squares, by conjugate gradients. The roughness is a sum of the same matrix along each of the three
    axes, so one small eigenbasis inverts it: that is the preconditioner.
    """
    side = start.shape[0]
    nodes, shares = _corners(colours, side)
    rough = smoothness * _roughness(side).to(colours)
    values, basis = torch.linalg.eigh(rough)
    values = values.clamp(min=0)
    sums = values[:, None, None] + values[:, None] + values  # (S, S, S)
    inverse = 1 / (sums + _FLOOR).unsqueeze(-1)

    def scatter(at_colours: Tensor) -> Tensor:
        spread = (shares.unsqueeze(-1) * (weights[:, None] * at_colours).unsqueeze(1)).reshape(
            -1, 3
        )
        return spread.new_zeros(side**3, 3).index_add(0, nodes.reshape(-1), spread)

    def apply(field: Tensor) -> Tensor:
        at_colours = (shares.unsqueeze(-1) * field[nodes]).sum(1)  # (n, 3)
        cube = field.reshape(side, side, side, 3)
        bent = sum(_along(rough, cube, axis) for axis in range(3))
        assert isinstance(bent, Tensor)
        # A thousandth of the floor makes the sum definite, and pulls no field that colours have a say in.
        return scatter(at_colours) + bent.reshape(-1, 3) + _FLOOR * 1e-3 * field

    def precondition(residual: Tensor) -> Tensor:
        cube = residual.reshape(side, side, side, 3)
        for axis in range(3):
            cube = _along(basis.T, cube, axis)
        cube = cube * inverse
        for axis in range(3):
            cube = _along(basis, cube, axis)
        return cube.reshape(-1, 3)

    field = start.reshape(-1, 3).to(colours)
    wanted = scatter(moves)
    residual = wanted - apply(field)
    size = _products(wanted, precondition(wanted))  # (3,), what is small beside it is nothing
    way = turned = precondition(residual)
    left = _products(residual, turned)
    for _ in range(_ITERATIONS):
        if bool((left <= _PRECISION**2 * size).all()):
            break
        bent_way = apply(way)
        step = _ratio(left, _products(way, bent_way))
        field, residual = field + step * way, residual - step * bent_way
        turned = precondition(residual)
        left, before = _products(residual, turned), left
        way = turned + _ratio(left, before) * way
    return field.reshape(side, side, side, 3)


def _corners(colours: Tensor, side: int) -> tuple[Tensor, Tensor]:
    """The eight nodes around each colour, (n, 8), and their shares of it."""
    place = colours.clamp(0, 1) * (side - 1)
    low = place.long().clamp(max=side - 2)
    part = (place - low).unsqueeze(1)  # (n, 1, 3)
    bits = torch.cartesian_prod(*[torch.arange(2, device=colours.device)] * 3)  # (8, 3)
    shares = torch.where(bits.bool(), part, 1 - part).prod(-1)
    places = low.unsqueeze(1) + bits
    return (places[..., 0] * side + places[..., 1]) * side + places[..., 2], shares


def _roughness(side: int) -> Tensor:
    """The quadratic form of first and second differences along one axis, a mean over the cube."""
    first = torch.eye(side, dtype=torch.float64).diff(dim=0) * (side - 1)
    second = first.diff(dim=0) * (side - 1)
    return (_SLOPE * first.T @ first + _BEND * second.T @ second) / side**3


def _along(matrix: Tensor, cube: Tensor, axis: int) -> Tensor:
    return torch.movedim(torch.tensordot(matrix, cube, dims=([1], [axis])), 0, axis)


def _products(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(0)


def _ratio(a: Tensor, b: Tensor) -> Tensor:
    """A channel that is done has nothing left to divide by."""
    return torch.where(b > 0, a / b.clamp(min=torch.finfo(b.dtype).tiny), 0)
