"""A smooth field of displacements over the color cube, fitted to the displacements of some colors."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import grid_sample

from slicewise.color.spaces import into_gamut, to_cielab

SIDE = 33  # nodes along an edge of the color cube: 8 levels of 255 apart
# Weights of the regularization beside the mean squared error: of first differences, so that colors without data
# follow their neighbors, and of second differences, so that the map bends little.
_SLOPE, _BEND = 1.5e-3, 1.5e-4
# Added to the eigenvalues of the preconditioner: the regularization is zero for constant fields.
_FLOOR = 1e-7
_ITERATIONS, _PRECISION = 150, 1e-6


def lattice(side: int = SIDE) -> Tensor:
    """Return the colors (S, S, S, 3), float64, at the nodes of a field."""
    levels = torch.linspace(0, 1, side, dtype=torch.float64)
    return torch.cartesian_prod(levels, levels, levels).reshape(side, side, side, 3)


def look_up(field: Tensor, colors: Tensor) -> Tensor:
    """Interpolate a field (S, S, S, 3) linearly at colors (..., 3) in [0, 1]."""
    volume = field.permute(3, 2, 1, 0).unsqueeze(0).to(colors)  # (1, 3, blue, green, red)
    points = 2 * colors.reshape(1, -1, 1, 1, 3) - 1
    found = grid_sample(volume, points, padding_mode="border", align_corners=True)
    return found.reshape(3, -1).T.reshape(colors.shape)


def keep_lightness(field: Tensor) -> Tensor:
    """Return a field (S, S, S, 3) that moves hue and chroma as this one does, and leaves lightness as it is."""
    nodes = lattice(len(field)).to(field)
    lightness = to_cielab(nodes)[..., :1]
    moved = to_cielab((nodes + field).clamp(0, 1))
    return into_gamut(torch.cat([lightness, moved[..., 1:]], -1)) - nodes


def fit_field(
    colors: Tensor, moves: Tensor, weights: Tensor, *, smoothness: float, start: Tensor
) -> Tensor:
    """Fit a smooth field by least squares to the moves of some colors, with preconditioned conjugate gradients.

    The regularization is a sum of the same matrix along each of the three axes, so that one small eigenbasis inverts
    it: that is the preconditioner.

    Args:
        colors: (n, 3), in [0, 1].
        moves: Their displacements, (n, 3).
        weights: Of the colors, (n,), summing to 1.
        smoothness: Factor of the regularization.
        start: The field (S, S, S, 3) to start from.

    Returns:
        The field (S, S, S, 3).
    """
    side = start.shape[0]
    nodes, interpolation = _corners(colors, side)
    rough = smoothness * _roughness(side).to(colors)
    values, basis = torch.linalg.eigh(rough)
    values = values.clamp(min=0)
    sums = values[:, None, None] + values[:, None] + values  # (S, S, S)
    inverse = 1 / (sums + _FLOOR).unsqueeze(-1)

    def scatter(at_colors: Tensor) -> Tensor:
        spread = (
            interpolation.unsqueeze(-1) * (weights[:, None] * at_colors).unsqueeze(1)
        ).reshape(-1, 3)
        return spread.new_zeros(side**3, 3).index_add(0, nodes.reshape(-1), spread)

    def apply(field: Tensor) -> Tensor:
        at_colors = (interpolation.unsqueeze(-1) * field[nodes]).sum(1)  # (n, 3)
        cube = field.reshape(side, side, side, 3)
        smoothed = sum(_along(rough, cube, axis) for axis in range(3))
        assert isinstance(smoothed, Tensor)
        # The last term makes the system definite; it is too small to change the field where there are colors.
        return scatter(at_colors) + smoothed.reshape(-1, 3) + _FLOOR * 1e-3 * field

    def precondition(residual: Tensor) -> Tensor:
        cube = residual.reshape(side, side, side, 3)
        for axis in range(3):
            cube = _along(basis.T, cube, axis)
        cube = cube * inverse
        for axis in range(3):
            cube = _along(basis, cube, axis)
        return cube.reshape(-1, 3)

    field = start.reshape(-1, 3).to(colors)
    wanted = scatter(moves)
    residual = wanted - apply(field)
    size = _products(wanted, precondition(wanted))  # (3,), the scale of the stopping criterion
    direction = scaled = precondition(residual)
    left = _products(residual, scaled)
    for _ in range(_ITERATIONS):
        if bool((left <= _PRECISION**2 * size).all()):
            break
        applied = apply(direction)
        step = _ratio(left, _products(direction, applied))
        field, residual = field + step * direction, residual - step * applied
        scaled = precondition(residual)
        left, before = _products(residual, scaled), left
        direction = scaled + _ratio(left, before) * direction
    return field.reshape(side, side, side, 3)


def _corners(colors: Tensor, side: int) -> tuple[Tensor, Tensor]:
    """The eight nodes around each color, (n, 8), and their interpolation weights."""
    place = colors.clamp(0, 1) * (side - 1)
    low = place.long().clamp(max=side - 2)
    part = (place - low).unsqueeze(1)  # (n, 1, 3)
    bits = torch.cartesian_prod(*[torch.arange(2, device=colors.device)] * 3)  # (8, 3)
    interpolation = torch.where(bits.bool(), part, 1 - part).prod(-1)
    places = low.unsqueeze(1) + bits
    return (places[..., 0] * side + places[..., 1]) * side + places[..., 2], interpolation


def _roughness(side: int) -> Tensor:
    """The quadratic form (S, S) of first and second differences along one axis, averaged over the cube."""
    first = torch.eye(side, dtype=torch.float64).diff(dim=0) * (side - 1)
    second = first.diff(dim=0) * (side - 1)
    return (_SLOPE * first.T @ first + _BEND * second.T @ second) / side**3


def _along(matrix: Tensor, cube: Tensor, axis: int) -> Tensor:
    return torch.movedim(torch.tensordot(matrix, cube, dims=([1], [axis])), 0, axis)


def _products(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(0)


def _ratio(a: Tensor, b: Tensor) -> Tensor:
    """a / b, and 0 where b is 0: a channel that has converged exactly."""
    return torch.where(b > 0, a / b.clamp(min=torch.finfo(b.dtype).tiny), 0)
