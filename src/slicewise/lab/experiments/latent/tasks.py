"""Tasks in a latent space: what networks learn from, and how they are judged."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from slicewise.judging import Judge, TranslationJudge, TranslationScores, baselines
from slicewise.lab.latents import LatentChoice, Latents, task_of
from slicewise.training import Generator, Layers, Stack, Translator

GENERATION = "generation"
# Seeds of the samples that are judged, and of a second set of the same generator.
_SEEDS = (10_001, 10_002)
_KEPT = 8  # samples that are stored for figures

Measures = dict[str, float]


@dataclass(frozen=True)
class LatentTask:
    """One task on one set of latents, with sizes of the network and of batches."""

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
        """Training rows of source and target, then held-out ones."""
        return _domains_of(self.data, self.name)

    @property
    def _judged(self) -> Tensor:
        """The held-out rows that generators are judged on, at most as many as there are training rows."""
        latents = self.latents
        return latents.judged[: len(latents.train)]

    @property
    def generates(self) -> bool:
        return self.name == GENERATION

    @property
    def target(self) -> Tensor:
        """The training data, (N, d)."""
        return self.latents.train if self.generates else self._domains[1]

    @property
    def source(self) -> Tensor | int:
        """The input: the dimension of noise, or training rows of the source."""
        return self.noise if self.generates else self._domains[0]

    @property
    def given(self) -> Mapping[str, Any]:
        """Everything that determines the task but for the seed."""
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
        """What else is stored about the task."""
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
        """Return an untrained network."""
        d = self.latents.d
        if self.generates:
            return Generator(d, noise=self.noise, hidden=(self.hidden,) * 3, generator=seed)
        return Translator(d, hidden=(self.hidden,) * 2, generator=seed)

    def make(self, stack: Stack, *, again: bool = False) -> Tensor:
        """Return samples of every network, (R, n, d), from noise or from held-out rows of the source."""
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
        """Judge every network on held-out data."""
        made, device = self.make(stack), str(stack.weights[0].device)
        if self.generates:
            found = self._judge(device).score_runs(made, exact=exact)
            return [dataclasses.asdict(one) for one in found]
        return [_flat(one) for one in self._translation(device).score_runs(made, exact=exact)]

    def self_distance(self, stack: Stack, which: Sequence[int]) -> dict[int, float]:
        """Return the exact W_2 between two sets of samples of some generators."""
        if not self.generates or not which:
            return {}
        from slicewise.transport import wasserstein

        index = torch.tensor(which, device=stack.weights[0].device)
        one, other = self.make(stack)[index], self.make(stack, again=True)[index]
        return dict(zip(which, wasserstein(one, other).tolist(), strict=True))

    def baselines(self, device: str) -> dict[str, Measures]:
        """Judge baselines without training, and real samples."""
        if self.generates:
            train, held = self.latents.train.to(device), self._judged.to(device)
            found = baselines(train, held)
            return {name: dataclasses.asdict(one) for name, one in found.items()}
        judge = self._translation(device)
        real = {"real": dataclasses.asdict(judge.real_scores)}
        return real | {name: _flat(one) for name, one in judge.baselines().items()}

    def kept(self, stack: Stack, index: int) -> Any:
        """Return a few samples, (8, d); of a translator sources and results, (2, 8, d)."""
        made = self.make(stack)[index, :_KEPT]
        if not self.generates:
            source = self._translation(str(made.device)).source[:_KEPT]
            made = torch.stack([source, made])
        return made.half().cpu().numpy()

    @property
    def real(self) -> Any:
        """A few held-out samples, (8, d)."""
        return self._judged[:_KEPT].numpy()

    @property
    def pictured(self) -> bool:
        """Whether pictures of samples are stored: those of digits, which take no time."""
        return self.data.path is None

    def pictures(self, samples: Any) -> Any:
        """Decode samples (..., d) to pictures (..., height, width)."""
        rows = torch.from_numpy(samples).float()
        found = self.latents.decode(rows.reshape(-1, rows.shape[-1]))
        return found.reshape(*rows.shape[:-1], *found.shape[1:])

    def _judge(self, device: str) -> Judge:
        return _judge_of(self, device)

    def _translation(self, device: str) -> TranslationJudge:
        return _translation_of(self, device)


# Cached here and not in tasks, which are sent to other processes.
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


def _flat(one: TranslationScores) -> Measures:
    """Return all scores of a translation by name."""
    more = {
        name: getattr(one, name)
        for name in ("w2_removed", "frechet_removed", "probe", "move", "own_nearest")
    }
    return {**dataclasses.asdict(one.scores), **more}
