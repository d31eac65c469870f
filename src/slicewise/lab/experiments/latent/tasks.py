"""What networks are asked for in a latent space, what they learn it from, and how they are judged."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from slicewise.judging import Judge, Moved, TranslationJudge, baselines
from slicewise.lab.latents import LatentChoice, Latents, task_of
from slicewise.training import Generator, Layers, Stack, Translator

GENERATION = "generation"
# Of samples to judge, and of a second set of the same generator.
_SEEDS = (10_001, 10_002)
_KEPT = 8  # samples that are kept to be looked at

Measures = dict[str, float]


@dataclass(frozen=True)
class LatentTask:
    """One task on one set of latents, with a network of a certain size and batches of a certain size."""

    name: str  # "generation", or "male to female"
    data: LatentChoice
    hidden: int
    batch: int
    noise: int = 8

    @property
    def latents(self) -> Latents:
        return self.data.load()

    @property
    def _domains(self) -> tuple[Tensor, ...]:
        """Source and target to train on, then those held out."""
        return _domains_of(self.data, self.name)

    @property
    def _judged(self) -> Tensor:
        """What generators are compared with: not more than an exact distance can be asked of, nor than there are to learn from."""
        latents = self.latents
        return latents.judged[: len(latents.train)]

    @property
    def generates(self) -> bool:
        return self.name == GENERATION

    @property
    def target(self) -> Tensor:
        """What is learned from, (N, d)."""
        return self.latents.train if self.generates else self._domains[1]

    @property
    def source(self) -> Tensor | int:
        """What is started from."""
        return self.noise if self.generates else self._domains[0]

    @property
    def given(self) -> Mapping[str, Any]:
        """All that determines it, but for the seed."""
        sizes = self.network(0).sizes
        return {
            "latents": self.latents.digest,
            "task": self.name,
            "network": list(sizes),
            "batch": self.batch,
            **self.data.given,
        }

    @property
    def noted(self) -> Mapping[str, Any]:
        """What else is to be told of it."""
        rows = {"target": self.target, "source": self.source}
        few = [
            f"{name} of {len(some)} rows drawn with replacement"
            for name, some in rows.items()
            if isinstance(some, Tensor) and len(some) < self.batch
        ]
        held = len(self._judged) if self.generates else self._translation("cpu").n
        return {
            "source": self.latents.name,
            "notes": [*self.latents.notes, *few],
            "d": self.latents.d,
            "judged": held,
        }

    def network(self, seed: int) -> Layers:
        """A network as it begins."""
        d = self.latents.d
        if self.generates:
            return Generator(d, noise=self.noise, hidden=(self.hidden,) * 3, seed=seed)
        return Translator(d, hidden=(self.hidden,) * 2, seed=seed)

    def make(self, stack: Stack, *, again: bool = False) -> Tensor:
        """Samples of every network (R, n, d): of noise, or of held-out samples of the source."""
        device = stack.weights[0].device
        given: Tensor
        if self.generates:
            draw = torch.Generator().manual_seed(_SEEDS[again])
            given = torch.randn(len(self._judged), self.noise, generator=draw).to(device)
        else:
            given = self._translation(str(device)).source
        with torch.no_grad():
            return stack(given)

    def judge(self, stack: Stack, *, exact: bool) -> list[Measures]:
        """What comes of every network, on held-out data."""
        made, device = self.make(stack), str(stack.weights[0].device)
        if self.generates:
            found = self._judge(device).all(made, exact=exact)
            return [dataclasses.asdict(one) for one in found]
        return [_flat(one) for one in self._translation(device).all(made, exact=exact)]

    def self_distance(self, stack: Stack, which: Sequence[int]) -> dict[int, float]:
        """The exact W_2 between two sets of some of the generators."""
        if not self.generates or not which:
            return {}
        from slicewise.transport import wasserstein

        index = torch.tensor(which, device=stack.weights[0].device)
        one, other = self.make(stack)[index], self.make(stack, again=True)[index]
        return dict(zip(which, wasserstein(one, other).tolist(), strict=True))

    def baselines(self, device: str) -> dict[str, Measures]:
        """What needs no training, and real samples."""
        if self.generates:
            train, held = self.latents.train.to(device), self._judged.to(device)
            found = baselines(train, held)
            return {name: dataclasses.asdict(one) for name, one in found.items()}
        judge = self._translation(device)
        real = {"real": dataclasses.asdict(judge.floor)}
        return real | {name: _flat(one) for name, one in judge.baselines().items()}

    def kept(self, stack: Stack, index: int) -> Any:
        """A few samples to look at, (8, d); of a translator, before and after, (2, 8, d)."""
        made = self.make(stack)[index, :_KEPT]
        if not self.generates:
            source = self._translation(str(made.device)).source[:_KEPT]
            made = torch.stack([source, made])
        return made.half().cpu().numpy()

    @property
    def real(self) -> Any:
        """A few held-out samples to look at beside what generators make, (8, d)."""
        return self._judged[:_KEPT].numpy()

    @property
    def pictured(self) -> bool:
        """Whether pictures of its samples cost next to nothing, as those of digits."""
        return self.data.path is None

    def pictures(self, samples: Any) -> Any:
        """Pictures (..., height, width) of samples (..., d) that were kept."""
        rows = torch.from_numpy(samples).float()
        found = self.latents.decode(rows.reshape(-1, rows.shape[-1]))
        return found.reshape(*rows.shape[:-1], *found.shape[1:])

    def _judge(self, device: str) -> Judge:
        return _judge_of(self, device)

    def _translation(self, device: str) -> TranslationJudge:
        return _translation_of(self, device)


# Kept here and not in tasks, which travel to other processes: rows are read there.
@functools.cache
def _domains_of(data: LatentChoice, name: str) -> tuple[Tensor, ...]:
    latents = data.load()
    task = task_of(latents, name)
    assert task.source is not None
    assert task.target is not None
    (x, x_held), (y, y_held) = (latents.domain(d) for d in (task.source, task.target))
    return x, y, x_held, y_held


@functools.cache
def _judge_of(task: LatentTask, device: str) -> Judge:
    return Judge(task._judged.to(device))


@functools.cache
def _translation_of(task: LatentTask, device: str) -> TranslationJudge:
    x, y, x_held, y_held = (rows.to(device) for rows in task._domains)
    return TranslationJudge(x, y, x_held, y_held)


def _flat(one: Moved) -> Measures:
    """All its numbers by name."""
    more = {
        name: getattr(one, name)
        for name in ("w2_removed", "frechet_removed", "probe", "move", "own_nearest")
    }
    return {**dataclasses.asdict(one.judgement), **more}
