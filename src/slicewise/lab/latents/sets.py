"""A set of latents: what may be trained on, what is held out, which domains there are."""

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

# Of a domain without a split of its own, a third is held out, and no more than this.
_DOMAIN_HELD = 1_024
MOST_JUDGED = 2_048
# Less than this cannot be split into something to learn and something to judge by.
LEAST_ROWS = 10

Decoder = Callable[[Tensor], Array]


@dataclass(frozen=True)
class Task:
    """What can be asked of latents: to generate all of them, or to carry one domain to another."""

    name: str
    source: str | None = None
    target: str | None = None


@dataclass(frozen=True, eq=False)
class Latents:
    """Rows (N, d), float32, and what is known of them.

    `held` says which are never trained on. Domains are split as `held` says where the data come with a split
    (`fixed_split`); else the last third of each is held out, up to 1,024 rows, since small domains would be left with
    few by a cut through all rows.
    """

    name: str
    rows: Tensor
    held: Array  # (N,), bool
    labels: Mapping[str, Array] = field(default_factory=dict)  # as they were given, (N,) each
    domains: Mapping[str, Array] = field(default_factory=dict)  # (N,), bool each
    pairs: tuple[tuple[str, str], ...] = ()  # domains worth carrying to each other
    notes: tuple[str, ...] = ()  # what a reader of results must know
    fixed_split: bool = True
    decoder: Decoder | None = None
    undecoded: str = "there is no decoder"  # what is to be said where there is none
    # Latents of a network trained here differ by rounding from machine to machine; what they are made of does not.
    made_of: str | None = None

    @property
    def d(self) -> int:
        """How many coordinates."""
        return int(self.rows.shape[1])

    @functools.cached_property
    def train(self) -> Tensor:
        """What may be trained on, (N, d)."""
        return self.rows[torch.from_numpy(~self.held)]

    @functools.cached_property
    def held_out(self) -> Tensor:
        """What is only for judging, (N, d)."""
        return self.rows[torch.from_numpy(self.held)]

    @property
    def judged(self) -> Tensor:
        """The held-out rows that generators are compared with: the first of them, as exact distances grow as n³."""
        return self.held_out[:MOST_JUDGED]

    def domain(self, name: str, split: int = 0) -> tuple[Tensor, Tensor]:
        """The rows of a domain: those to train on, those held out.

        With `split` not 0 the held-out rows are random ones instead, as many: how much depends on the split?
        """
        rows, held = self.split(name, split)
        if held.sum() < 2 or (~held).sum() < 2:
            raise UserError(
                f"{self.name}: domain {name!r} has {(~held).sum()} rows to train on and {held.sum()} held out: give "
                f"latents with at least two of each"
            )
        return self.rows[rows[~held]], self.rows[rows[held]]

    def split(self, name: str, split: int = 0) -> tuple[Array, Array]:
        """Which rows a domain has, (n,), and which of these are held out, (n,) bool."""
        rows = np.flatnonzero(self._mask(name))
        held = self.held[rows]
        if not self.fixed_split:
            held = np.arange(len(rows)) >= len(rows) - min(_DOMAIN_HELD, len(rows) // 3)
        return rows, np.random.default_rng(split).permutation(held) if split else held

    def decode(self, latents: Tensor) -> Array:
        """Pictures of latents (n, d): uint8, (n, height, width) or (n, height, width, 3)."""
        if self.decoder is None:
            raise UserError(f"{self.name} has no pictures: {self.undecoded}")
        return self.decoder(latents.detach().float().cpu())

    @functools.cached_property
    def digest(self) -> str:
        """What tells these latents, their split and their domains from others."""
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
    """What can be asked of these latents: generation, and translations between their pairs of domains."""
    return [
        Task("generation"),
        *(Task(f"{source} to {target}", source, target) for source, target in latents.pairs),
    ]


def task_of(latents: Latents, name: str) -> Task:
    """A task by name: one of `tasks`, or any two domains, as "female to male"."""
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
    """How many rows there are to train on and held out, of all and of each domain."""
    found = [{"set": "all", "train": len(latents.train), "held out": len(latents.held_out)}]
    for name in latents.domains:
        _, held = latents.split(name)
        found.append({"set": name, "train": int((~held).sum()), "held out": int(held.sum())})
    return found
