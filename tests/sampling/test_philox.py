"""Random numbers by counting: NumPy's, of the right law, a function of seed and step alone."""

from __future__ import annotations

import numpy as np
import torch
from scipy import stats

from slicewise.sampling.philox import _normals, numbers
from slicewise.sampling.run_seeds import RunSeeds


def counted(seeds, step=3, purpose=0):
    return RunSeeds(torch.tensor(seeds), torch.device("cpu")).at(step, purpose)


def test_the_laws():
    normal = numbers("normal", 200_001, 5, 0, 7, 0)
    assert normal.dtype == np.float32
    assert len(normal) == 200_001
    assert stats.kstest(normal, "norm").pvalue > 1e-3
    assert abs(np.corrcoef(normal[:-1:2], normal[1::2])[0, 1]) < 0.01
    uniform = numbers("uniform", 200_000, 5, 0, 7, 0)
    assert uniform.dtype == np.float64
    assert 0 <= uniform.min() < uniform.max() < 1
    assert stats.kstest(uniform, "uniform").pvalue > 1e-3


def test_words_at_the_ends_make_directions():
    """A level that rounded to 1 would make both numbers of a word zero: no direction, once in 2^25 draws."""
    words = np.array([0, 2**64 - 1, 2**64 - 2**32, 2**32 - 1], dtype=np.uint64)
    pairs = _normals(words).reshape(-1, 2)
    lengths = np.linalg.norm(pairs, axis=1)
    assert np.isfinite(pairs).all()
    assert lengths.min() > 1e-4
    assert lengths.max() < 6


def test_what_a_run_draws_is_its_own():
    both = counted([4, 9, 4])
    first, second = both.normal(3, 5), both.uniform(3, 2)
    assert first[0].equal(first[2])
    assert not first[0].equal(first[1])
    alone = counted([9])
    assert alone.normal(1, 5)[0].equal(first[1])
    assert alone.uniform(1, 2)[0].equal(second[1])
    assert not counted([9], step=4).normal(1, 5).equal(first[1:2])
    assert not counted([9], purpose=1).normal(1, 5).equal(first[1:2])
    assert counted([-1]).normal(1, 5).isfinite().all()


def test_draws_may_be_written_to():
    rng = counted([1, 1])
    drawn = rng.normal(2, 3)
    drawn[0] = 0
    assert not drawn[1].equal(drawn[0])


def test_several_steps_at_once():
    """As for a graph of steps: each step's draws of each seed, the numbers they have one at a time."""
    seeds = RunSeeds(torch.tensor([4, 9, 4]), torch.device("cpu"))
    steps = torch.tensor([2, 3, 7])
    together = seeds.across(steps)
    normal, uniform = together.normal(6, 5), together.uniform(6, 2)
    for i, step in enumerate(steps.tolist()):
        alone = seeds.at(step)
        first, second = alone.normal(3, 5), alone.uniform(3, 2)
        assert normal[2 * i : 2 * i + 2].equal(first[:2])
        assert uniform[2 * i : 2 * i + 2].equal(second[:2])
    assert seeds.at(torch.tensor(3)).normal(3, 4).equal(seeds.at(3).normal(3, 4))
