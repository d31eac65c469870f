"""What a film of a flow shows: the plane it is seen in, which frames, and the axes of each frame.

`choose_frames` spaces frames evenly by progress, `film` places them in the plane and finds axes that follow the
particles; `animation` draws the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from slicewise.problem import effective_subspace

# More points cannot be told apart, and files grow with them.
SHOWN = 2_000
# At either end of an axis, these shares of target and particles may lie outside the view, if they are far from all
# others. Of a target even small clusters are seen; of particles, on their way, fewer.
_TRIMMED, _TRIMMED_ON_THE_WAY = 0.02, 0.05
# The view never grows beyond this many times the extent of start and target: a diverging run leaves it.
_WIDEST = 3.0
_MARGIN = 1.1
# Positions beyond this many units are clamped there: they are outside any view, and only their direction is drawn.
_FAR = 1e5
# A move of the view is averaged over this many frames to either side.
_SMOOTHED = 2
# What is left of the way counts down to this length, about a pixel; the unit is the extent of the target.
_PIXEL = 1 / 400
# The share of the frames that is spent on the path itself, whatever is left: it shows runs that do not settle.
_PATH_SHARE = 0.2


@dataclass(frozen=True, eq=False)
class Plane:
    """A plane in which samples are seen: a map from samples (..., n, d) to points (..., n, 2)."""

    d: int
    basis: Tensor | None  # (d, 2); None in one and two dimensions
    words: str  # what is seen, if it is not the samples themselves
    axes: tuple[str, str]

    def of(self, samples: Tensor) -> Tensor:
        """Return samples (..., n, d) as points of the plane, (..., n, 2)."""
        if self.d == 1:
            return _ranked(samples)
        return samples if self.basis is None else samples @ self.basis


@dataclass(frozen=True, eq=False)
class Film:
    """Particles after chosen steps and their target, as points in units of the target's extent."""

    steps: list[float]  # (F,); fractions are between two steps, on the straight line
    labels: list[str]  # (F,)
    particles: Tensor  # (F, n, 2)
    target: Tensor  # (m, 2)
    views: Tensor  # (F, 2, 2): lower left and upper right corner of what is seen
    corner: Tensor  # (2,), the sample coordinates of the point (0, 0)
    extent: Tensor  # (2,), and of the unit
    base: tuple[float, float]  # what is subtracted from the numbers at the axes
    axes: tuple[str, str]
    w2: list[float] | None  # (F,), the exact distance that is left
    curve: tuple[str, list[tuple[float, float]]] | None  # a distance by step: its name, the points
    names: tuple[str, str]  # of particles and target
    words: str  # a caption
    colors: tuple[Tensor, Tensor] | None = None  # (F, n, 3) and (m, 3), each point's own

    @property
    def whole_steps(self) -> list[int]:
        """The steps after which particles are shown, without the frames between steps."""
        return sorted({int(step) for step in self.steps if step == int(step)})


def seen_in(particles: Tensor, target: Tensor) -> Plane:
    """Return the plane in which samples are shown.

    In one dimension the vertical axis is the share of samples below each value. In three dimensions and more, it is the
    plane of the first two principal directions of particles and target; far outliers do not turn it.

    Args:
        particles: where they start, (n, d).
        target: (m, d).
    """
    d = target.shape[-1]
    if d == 1:
        words = "one dimension: upwards, the share of samples below"
        return Plane(1, None, words, ("value", "share below"))
    if d == 2:
        return Plane(2, None, "", ("", ""))
    bulk = [_without_outliers(samples.double().cpu()) for samples in (particles, target)]
    span = effective_subspace(bulk[0], bulk[1])
    total = span.spectrum.square().sum().clamp(min=1e-300)
    seen = float(span.spectrum[:2].square().sum() / total)
    words = f"the plane of the first two principal directions of {d} ({seen:.0%} of the variance)"
    basis = torch.nn.functional.pad(span.basis[:, :2], (0, max(0, 2 - span.k)))
    return Plane(d, basis, words, ("first principal direction", "second principal direction"))


def _ranked(values: Tensor) -> Tensor:
    """Return values (..., n, 1) with the share of the others below them, (..., n, 2)."""
    n = values.shape[-2]
    ranks = values.argsort(dim=-2, stable=True).argsort(dim=-2)
    return torch.cat([values, (ranks.double() + 0.5) / n], dim=-1)


def _n_trimmed(n: int, share: float = _TRIMMED) -> int:
    """How many of n values at either end may be outliers: none of a few."""
    return math.ceil(share * n) if n >= 10 else 0


def _without_outliers(samples: Tensor) -> Tensor:
    """Return those of the samples (n, d) that are not much farther from the median than nearly all others."""
    n = len(samples)
    radii = (samples - samples.median(dim=0).values).norm(dim=-1)
    limit = 3 * radii.sort().values[n - 1 - 2 * _n_trimmed(n)]
    return samples[radii <= limit]


def _bulk(points: Tensor, share: float = _TRIMMED) -> Tensor:
    """Return the box of points (..., n, 2) without far outliers: its lower and upper corner, (..., 2, 2)."""
    n = points.shape[-2]
    k = _n_trimmed(n, share)
    ordered = points.sort(dim=-2).values
    low, high = ordered[..., k : k + 1, :], ordered[..., n - 1 - k : n - k, :]
    # Up to k points at either end are left out, where they are far from all others.
    room = high - low
    near = (ordered >= low - room) & (ordered <= high + room)
    low = ordered.where(near, math.inf).amin(dim=-2)
    return torch.stack([low, ordered.where(near, -math.inf).amax(dim=-2)], dim=-2)


def _union(a: Tensor, b: Tensor) -> Tensor:
    """Return the smallest boxes that hold the boxes a and b, (..., 2, 2)."""
    low = torch.minimum(a[..., 0, :], b[..., 0, :])
    return torch.stack([low, torch.maximum(a[..., 1, :], b[..., 1, :])], dim=-2)


def _widened(boxes: Tensor, *, alike: bool, least: float = 0.0) -> Tensor:
    """Return boxes (..., 2, 2) with a margin; with sides of at least a length, of equal length if `alike`."""
    center, extent = boxes.mean(dim=-2), boxes[..., 1, :] - boxes[..., 0, :]
    extent = extent.clamp(min=least / _MARGIN)
    if alike:
        extent = extent.amax(dim=-1, keepdim=True).expand_as(extent)
    half = _MARGIN * extent / 2
    return torch.stack([center - half, center + half], dim=-2)


def _limits(start: Tensor, target: Tensor, *, alike: bool) -> tuple[Tensor, Tensor]:
    """Return the corners, (2,), of the widest view, from the boxes of start and target, (2, 2)."""
    home = _union(start, target)
    half = (home[1] - home[0]) / 2
    half = (half.amax().expand(2) if alike else half).clamp(min=1e-9)
    center = home.mean(dim=0)
    return center - _WIDEST * half, center + _WIDEST * half


def _unit(start: Tensor, there: Tensor, *, alike: bool) -> tuple[Tensor, Tensor]:
    """Return corner and extent, (2,), of the box that the target fills, in the plane."""
    target = _bulk(there)
    home = _union(_bulk(start), target)
    extent = home[1] - home[0]
    if alike:
        extent = extent.amax().expand(2)
    extent = torch.where(extent > 0, extent, 1.0)
    # A target that is much smaller than its distance from the start would be one point for most of the film.
    center, half = target.mean(dim=0), (target[1] - target[0]) / 2
    half = torch.maximum(half, extent / 2_000)
    box = _widened(torch.stack([center - half, center + half]), alike=alike)
    return box[0], box[1] - box[0]


def _placed(points: Tensor, corner: Tensor, extent: Tensor) -> Tensor:
    """Return points of the plane in units of the target's extent, far ones clamped."""
    return ((points - corner) / extent).clamp(-_FAR, _FAR)


def choose_frames(
    steps: Sequence[int], particles: Sequence[Tensor], target: Tensor, plane: Plane, most: int
) -> list[tuple[float, Tensor]]:
    """Choose frames that are evenly spaced by progress.

    Progress is mainly how much nearer the particles are to where they end, on a logarithmic scale down to a pixel: the
    first step of a flow is often half of the way, and the last hundred cannot be seen. Where one step is more than a
    frame's share, frames in between show the particles on the straight line they move along. Frames that would look
    like the one before are left out.

    Args:
        steps: numbers of recorded steps, in order, (M,); the last is the end. It may repeat the number before: a final
            jump.
        particles: after each of them, (M, n, d).
        target: (m, d).
        plane: in which they are seen.
        most: the largest number of frames.

    Returns:
        For each frame the step and the particles (n, d). Between two steps, the step is a fraction; in a final jump, it
        is above the last.
    """
    there = plane.of(target.double().cpu())
    first = plane.of(particles[0].double().cpu())
    corner, extent = _unit(first, there, alike=plane.d > 1)
    some = _thinned(len(first))
    at = torch.stack([_placed(plane.of(x.double().cpu()), corner, extent)[some] for x in particles])
    # A run that diverges leaves the view, and is followed as long as it is inside.
    limits = _limits(_bulk(at[0]), _bulk(_placed(there, corner, extent)), alike=plane.d > 1)
    times = _paced(steps, _progress(at.clamp(*limits), *limits), most)
    seen = [_between(at, time).clamp(*limits) for time in times]
    times = [times[i] for i in _alive(seen)]
    return [(_step_at(steps, time), _between(particles, time)) for time in times]


def _progress(at: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Return a measure of progress, rising from 0 to 1, at each of the recorded positions, (M,).

    Args:
        at: positions within the widest view, (M, n, 2).
        low, high: its corners, (2,).
    """
    # A single particle counts at most for the extent of start and target.
    most = float((high - low).amax()) / _WIDEST
    moves = (at[1:] - at[:-1]).norm(dim=-1).clamp(max=most).mean(dim=-1)
    path = torch.cat([moves.new_zeros(1), moves.cumsum(dim=0)])
    left = (at - at[-1]).norm(dim=-1).clamp(max=most).mean(dim=-1)
    nearer = -torch.log(left.cummin(dim=0).values + _PIXEL)
    nearer = nearer - nearer[0]
    path, nearer = (part / part[-1] if part[-1] > 0 else part for part in (path, nearer))
    gone = ((at[-1] <= low) | (at[-1] >= high)).any(dim=-1).double().mean() > 0.5
    share = 1.0 if bool(gone) else _PATH_SHARE
    return share * path + (1 - share) * nearer


def _paced(steps: Sequence[int], progress: Tensor, most: int) -> list[float]:
    """Return at most `most` places among the recorded steps, at equal distances of progress.

    A place between two numbers is between two recorded steps. Recorded steps are preferred: each frame takes the one
    nearest to its share of the progress, and a place in between only if there is none.
    """
    last = len(progress) - 1
    if last == 0 or float(progress[-1]) == 0:
        return [0.0] if last == 0 else [0.0, float(last)]
    progress = progress / progress[-1]
    half = 0.5 / (most - 1)
    times = {0.0, float(last)}
    for k in range(1, most - 1):
        wanted = k / (most - 1)
        after = min(last, int(torch.searchsorted(progress, wanted, right=True)))
        low, high = float(progress[after - 1]), float(progress[after])
        if min(wanted - low, high - wanted) <= half:
            times.add(float(after if high - wanted < wanted - low else after - 1))
        elif steps[after] - steps[after - 1] <= 1:
            times.add(after - 1 + (wanted - low) / (high - low))
    return sorted(times)


def _alive(frames: Sequence[Tensor]) -> list[int]:
    """Return which frames, (n, 2) each, do not look like the one before; the last stands for those that look like it."""
    kept = [0]
    for i in range(1, len(frames)):
        if _differ(frames[kept[-1]], frames[i]):
            kept.append(i)
    last = len(frames) - 1
    if kept[-1] != last:
        kept[max(1, len(kept) - 1) :] = [last]
    return kept


def _differ(before: Tensor, after: Tensor) -> bool:
    """Whether two frames can be told apart: particles moved by a third of a pixel on average, or one by two."""
    moves = (after - before).norm(dim=-1)
    return float(moves.mean()) > _PIXEL / 3 or float(moves.max()) > 2 * _PIXEL


def _between(particles: Sequence[Tensor] | Tensor, time: float) -> Tensor:
    """Return the particles at a place among the recorded steps, on the straight line between two."""
    before = int(time)
    if time == before:
        return particles[before]
    return particles[before].lerp(particles[before + 1], time - before)


def _step_at(steps: Sequence[int], time: float) -> float:
    before = int(time)
    return steps[before] + (time - before)


def film(
    steps: Sequence[float],
    particles: Tensor,
    target: Tensor,
    *,
    names: tuple[str, str],
    w2: Sequence[float] | None = None,
    curve: tuple[str, Sequence[tuple[float, float]]] | None = None,
    colors: bool = False,
    plane: Plane | None = None,
) -> Film:
    """Return an animation of particles, before it is drawn.

    The axes of each frame hold nearly all of its particles and of the target; a few that are far away are marked at the
    border, and do not squeeze the others.

    Args:
        steps: the steps after which particles are shown, (F,); the last is the end.
        particles: (F, n, d).
        target: (m, d).
        names: of particles and target.
        w2: the exact remaining distance in each frame, (F,).
        curve: a distance by step, drawn below: its name, and steps with values. By default it is that of `w2`.
        colors: whether samples are colors in [0, 1], so that points show their own color.
        plane: in which they are seen, by default `seen_in` the first frame and the target.

    Returns:
        The film; at most 2,000 points of either side are kept.
    """
    particles, target = particles.double().cpu(), target.double().cpu()
    plane = seen_in(particles[0], target) if plane is None else plane
    alike = plane.d > 1
    at, there = plane.of(particles), plane.of(target)
    corner, extent = _unit(at[0], there, alike=alike)
    at, there = _placed(at, corner, extent), _placed(there, corner, extent)
    views = _follow(at, there, alike=alike)
    base = (_base(corner[0], extent[0]), _base(corner[1], extent[1]))
    axes = (_less(plane.axes[0] or "x", base[0]), _less(plane.axes[1] or "y", base[1]))
    words = [plane.words]
    some = _thinned(particles.shape[-2])
    few = _thinned_target(at[-1], there, some)
    if len(some) < particles.shape[-2] or len(few) < len(target):
        words.insert(0, f"{len(some)} particles and {len(few)} of the target are shown")
    own = None
    if colors:
        words.insert(0, "each point in its own color")
        own = (particles[:, some].clamp(0, 1), target[few].clamp(0, 1))
    if w2 is not None and curve is None:
        last = steps[-1]
        curve = ("W₂", [(min(step, last), w) for step, w in zip(steps, w2, strict=True)])
    if curve is not None:
        curve = (curve[0], [(step, v) for step, v in curve[1] if 0 <= v < math.inf])
    return Film(
        steps=list(steps),
        labels=_labels(steps),
        particles=at[:, some],
        target=there[few],
        views=views,
        corner=corner,
        extent=extent,
        base=base,
        axes=axes,
        w2=None if w2 is None else list(w2),
        curve=None if curve is None or not curve[1] else (curve[0], list(curve[1])),
        names=names,
        words="; ".join(filter(None, words)),
        colors=own,
    )


def _base(corner: Tensor, extent: Tensor) -> float:
    """Return a round number to subtract from coordinates that have too many digits in common; 0 where they have few."""
    if not 1e4 < float(corner.abs() / extent) < 1e12:
        return 0.0
    unit = 10.0 ** math.ceil(math.log10(float(extent)))
    return unit * round(float(corner) / unit)


def _less(name: str, base: float) -> str:
    return f"{name} − {base:.15g}" if base else name


def _follow(at: Tensor, there: Tensor, *, alike: bool) -> Tensor:
    """Return the box of the plane that each frame shows, (F, 2, 2), from particles (F, n, 2) and target (m, 2)."""
    target = _bulk(there)
    particles = _bulk(at, _TRIMMED_ON_THE_WAY)
    particles = particles.clamp(*_limits(particles[0], target, alike=alike))
    # The unit is the extent of the target: less is seen of no frame.
    boxes = _widened(_union(particles, target), alike=alike, least=1.0)
    return torch.stack([_eased(boxes[:, 0], torch.amin), _eased(boxes[:, 1], torch.amax)], dim=1)


def _eased(side: Tensor, outermost: Callable[..., Tensor]) -> Tensor:
    """Smooth the corners (F, 2) of the views over time, outwards: what was inside stays inside."""
    w = _SMOOTHED
    padded = torch.cat([side[:1].expand(2 * w, 2), side, side[-1:].expand(2 * w, 2)])
    # The mean over a window of extremes over the same window is at least as far out as the middle one.
    extremes = outermost(padded.unfold(0, 2 * w + 1, 1), dim=-1)
    return extremes.unfold(0, 2 * w + 1, 1).mean(dim=-1)


def _labels(steps: Sequence[float]) -> list[str]:
    """Return what is written above each frame."""
    end = int(steps[-1])
    labels = []
    for step in steps[:-1]:
        whole = step == int(step)
        label = f"step {int(step)}" if whole else f"step {int(step)} → {int(step) + 1}"
        labels.append(f"step {end} → end" if step > end else label)
    return [*labels, f"end, step {end}" if labels else f"step {end}"]


def _thinned(n: int) -> Tensor:
    return torch.linspace(0, n - 1, min(n, SHOWN), dtype=torch.float64).round().long()


def _thinned_target(end: Tensor, there: Tensor, some: Tensor) -> Tensor:
    """Choose the samples of the target to show: where particles (n, 2) have arrived one by one, those of the shown."""
    few = _thinned(len(there))
    if len(few) < len(there) == len(end):
        from scipy.spatial import cKDTree

        away, own = cKDTree(there.numpy()).query(end[some].numpy())
        chosen = np.unique(own)
        # Otherwise parts of the target that no particle has reached would be missing.
        if (away <= _PIXEL).mean() > 0.95 and len(chosen) > 0.95 * len(few):
            return torch.from_numpy(chosen)
    return few


def ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Return about four round numbers between two, and how they are written.

    >>> ticks(-0.3, 1.2)
    [(0.0, '0'), (0.5, '0.5'), (1.0, '1')]
    """
    extent = high - low
    if not 0 < extent < math.inf:
        return []
    power = 10.0 ** math.floor(math.log10(extent / 4))
    step = min((power * m for m in (1, 2, 5, 10)), key=lambda s: abs(extent / s - 3.5))
    values = [i * step for i in range(math.ceil(low / step), math.floor(high / step) + 1)]
    # As many digits as tell neighbors apart.
    digits = max(5, 1 + math.ceil(math.log10(max(abs(low), abs(high)) / step)))
    return [(v, f"{v:.{digits}g}") for v in values]


def log_ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Return a few round numbers between two positive ones for a logarithmic axis, and how they are written.

    >>> [text for _, text in log_ticks(0.2, 3)], [text for _, text in log_ticks(2e-5, 3)]
    (['0.2', '0.5', '1', '2'], ['0.0001', '0.01', '1'])
    """
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    decades = math.log10(high / low)
    if decades < 2:
        values = [m * 10.0**k for k in range(first, last + 1) for m in (1, 2, 5)]
    else:
        every = math.ceil(decades / 3.5)
        values = [10.0**k for k in range(first, last + 1) if k % every == 0]
    return [(v, f"{v:g}") for v in values if low <= v <= high]


def log_spaced(last: int, most: int) -> list[int]:
    """Return at most `most` steps from 0 to `last`, about evenly spaced in their logarithm.

    The first steps of a flow change the most.

    >>> log_spaced(100, 6)
    [0, 1, 3, 10, 32, 100]
    """
    steps = [0]
    while steps[-1] < last:
        now, missing = steps[-1], most - len(steps)
        ahead = now * (last / now) ** (1 / missing) if now else 1
        # Where the next step of equal ratio is less than one away, the ratio is computed again from there.
        steps.append(last if missing <= 1 else max(now + 1, round(ahead)))
    return steps


def steps_to_record(last: int, most: int) -> list[int]:
    """Return at most `most` steps from 0 to `last` from which frames can be chosen when the flow has ended.

    Half of them are log-spaced, for flows that end early, and half evenly spaced, for those that go on to the last.

    >>> steps_to_record(100, 12)
    [0, 1, 3, 10, 20, 32, 40, 60, 80, 100]
    """
    if last < most:
        return list(range(last + 1))
    even = [round(last * i / (most // 2 - 1)) for i in range(most // 2)] if most >= 4 else []
    return sorted({*log_spaced(last, max(2, most // 2)), *even})
