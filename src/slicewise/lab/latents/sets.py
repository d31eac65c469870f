"""A set of latents: its training and held-out rows, its domains and tasks."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slicewise.lab.data import Array
from slicewise.lab.errors import UserError
from slicewise.support import check_choice

# Of a domain without a given split a third is held out, at most this many rows.
_DOMAIN_HELD = 1_024
MOST_JUDGED = 2_048
# Fewer rows cannot be split into training and held-out ones.
LEAST_ROWS = 10

Decoder = Callable[[Tensor], Array]


@dataclass(frozen=True)
class Task:
    """A task on latents: generation, or translation from one domain to another."""

    name: str
    source: str | None = None
    target: str | None = None


@dataclass(frozen=True, eq=False)
class Latents:
    """Latents (N, d) in float32 with their split, labels and domains.

    `held` marks rows that are never trained on. With `fixed_split` domains are split by `held` too; otherwise the last third
    of each domain is held out, up to 1,024 rows, because `held` may leave few rows of a small domain on one side.
    """

    name: str
    rows: Tensor
    held: Array  # (N,), bool
    labels: Mapping[str, Array] = field(default_factory=dict)  # as given, (N,) each
    domains: Mapping[str, Array] = field(default_factory=dict)  # (N,), bool each
    pairs: tuple[tuple[str, str], ...] = ()  # domains to translate between
    notes: tuple[str, ...] = ()  # to be printed with results
    fixed_split: bool = True
    decoder: Decoder | None = None
    undecoded: str = "there is no decoder"  # why there is no decoder
    # What determines latents of a network that was trained here: the latents themselves differ by rounding between machines.
    made_of: str | None = None

    @property
    def d(self) -> int:
        """The dimension."""
        return int(self.rows.shape[1])

    @functools.cached_property
    def train(self) -> Tensor:
        """The training rows, (N, d)."""
        return self.rows[torch.from_numpy(~self.held)]

    @functools.cached_property
    def held_out(self) -> Tensor:
        """The held-out rows, (N, d)."""
        return self.rows[torch.from_numpy(self.held)]

    @property
    def judged(self) -> Tensor:
        """The held-out rows that generators are judged on: at most 2,048, because exact distances take time n³."""
        return self.held_out[:MOST_JUDGED]

    def domain(self, name: str, split: int = 0) -> tuple[Tensor, Tensor]:
        """Return the training and the held-out rows of a domain.

        Args:
            name: of the domain.
            split: a seed; other than 0, as many random rows are held out instead, to see how much depends on the split.
        """
        rows, held = self.split(name, split)
        if held.sum() < 2 or (~held).sum() < 2:
            raise UserError(
                f"{self.name}: domain {name!r} has {(~held).sum()} rows to train on and {held.sum()} held out: give "
                f"latents with at least two of each"
            )
        return self.rows[rows[~held]], self.rows[rows[held]]

    def split(self, name: str, split: int = 0) -> tuple[Array, Array]:
        """Return the row indices of a domain, (n,), and which of these are held out, (n,) bool."""
        rows = np.flatnonzero(self._mask(name))
        held = self.held[rows]
        if not self.fixed_split:
            held = np.arange(len(rows)) >= len(rows) - min(_DOMAIN_HELD, len(rows) // 3)
        return rows, np.random.default_rng(split).permutation(held) if split else held

    def decode(self, latents: Tensor) -> Array:
        """Decode latents (n, d) to pictures in uint8, (n, height, width) or (n, height, width, 3)."""
        if self.decoder is None:
            raise UserError(f"{self.name} has no pictures: {self.undecoded}")
        return self.decoder(latents.detach().float().cpu())

    @functools.cached_property
    def digest(self) -> str:
        """A hash of the latents, their split and their domains, by which runs on them are stored."""
        found = hashlib.sha256(repr(tuple(self.rows.shape)).encode())
        if self.made_of is None:
            found.update(np.ascontiguousarray(self.rows.numpy()).tobytes())
        else:
            found.update(self.made_of.encode())
        found.update(np.packbits(self.held).tobytes() + bytes([self.fixed_split]))
        for name in sorted(self.domains):
            found.update(name.encode() + np.packbits(self.domains[name]).tobytes())
        return found.hexdigest()[:16]

    def _mask(self, name: str) -> Array:
        if not self.domains:
            raise UserError(
                f"{self.name} has no labels: give some to speak of a domain {name!r}, e.g. gender.npy beside latents.npy"
            )
        try:
            check_choice("domain", name, self.domains)
        except ValueError as unknown:
            raise UserError(f"{self.name}: {unknown}") from None
        return self.domains[name]


def tasks(latents: Latents) -> list[Task]:
    """Return the tasks of these latents: generation, and translations between their pairs of domains."""
    return [
        Task("generation"),
        *(Task(f"{source} to {target}", source, target) for source, target in latents.pairs),
    ]


def task_of(latents: Latents, name: str) -> Task:
    """Return a task by name: one of `tasks`, or a translation between any two domains, such as "female to male"."""
    known = {task.name: task for task in tasks(latents)}
    if name in known:
        return known[name]
    source, between, target = name.partition(" to ")
    if between and source in latents.domains and target in latents.domains and source != target:
        return Task(name, source, target)
    try:
        check_choice("task", name, known)
    except ValueError as unknown:
        domains = ", ".join(latents.domains)
        more = f"; or any two domains, as 'A to B', of {domains}" if domains else ""
        raise UserError(f"{latents.name}: {unknown}{more}") from None
    raise AssertionError(name)


def subset_sizes(latents: Latents) -> list[dict[str, Any]]:
    """Return the numbers of training and held-out rows, of all latents and of each domain."""
    found = [{"set": "all", "train": len(latents.train), "held out": len(latents.held_out)}]
    for name in latents.domains:
        _, held = latents.split(name)
        found.append({"set": name, "train": int((~held).sum()), "held out": int(held.sum())})
    return found
