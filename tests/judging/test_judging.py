"""How generators and translators are judged, against slow definitions."""

from __future__ import annotations

import math
from dataclasses import astuple

import numpy as np
import pytest
import scipy.linalg
import torch
from scipy.optimize import linear_sum_assignment

from slicewise.judging.baselines import baselines, constant, gaussian, gaussian_map, mean_shift
from slicewise.judging.judging import Judge, Scores, best, judge, rank, real_scores
from slicewise.judging.measures import energy_distance, frechet_distance, mean_and_root
from slicewise.judging.probes import fit_probe
from slicewise.judging.translation import TranslationJudge, judge_translation


def cloud(n, d, seed=0, shift=0.0, scale=1.0):
    """Correlated samples that are no Gaussian."""
    rng = np.random.default_rng(seed)
    mix = np.random.default_rng(99).standard_normal((d, d)) / math.sqrt(d)
    return torch.from_numpy(scale * rng.standard_gamma(2.0, (n, d)) @ mix + shift)


def slow_energy(x, y):
    def mean(a, b, same):
        found = [
            math.dist(a[i], b[j])
            for i in range(len(a))
            for j in range(len(b))
            if not same or i != j
        ]
        return sum(found) / len(found)

    x, y = x.tolist(), y.tolist()
    return 2 * mean(x, y, False) - mean(x, x, True) - mean(y, y, True)


def slow_frechet(x, y):
    x, y = x.numpy(), y.numpy()
    c, e = np.cov(x.T), np.cov(y.T)
    middle = scipy.linalg.sqrtm(c @ e).real
    gap = x.mean(0) - y.mean(0)
    return gap @ gap + np.trace(c) + np.trace(e) - 2 * np.trace(middle)


def test_energy_is_the_double_loop(monkeypatch):
    x, y = cloud(23, 4), cloud(17, 4, seed=1, shift=0.3)
    assert float(energy_distance(x, y)) == pytest.approx(slow_energy(x, y), rel=1e-12)
    # In pieces of a few rows each, of which the last is cut.
    monkeypatch.setattr("slicewise.judging.measures._PAIRS_AT_ONCE", 60)
    assert float(energy_distance(x, y)) == pytest.approx(slow_energy(x, y), rel=1e-12)


def test_energy_has_no_bias():
    """Means of many small samples of one law: around zero, on both sides."""
    found = torch.stack(
        [energy_distance(cloud(8, 3, s), cloud(8, 3, s + 1000)) for s in range(400)]
    )
    assert float(found.mean().abs()) < 4 * float(found.std()) / math.sqrt(400)
    assert bool((found < 0).any())


def test_frechet_is_the_root_of_matrices():
    x, y = cloud(60, 5), cloud(40, 5, seed=1, shift=0.5, scale=1.7)
    assert float(frechet_distance(x, y)) == pytest.approx(slow_frechet(x, y), rel=1e-10)


def test_frechet_of_singular_covariances():
    """Fewer samples than dimensions: no root of a singular matrix is taken, and equal sets are at zero."""
    x = cloud(6, 20)
    assert float(frechet_distance(x, x)) == pytest.approx(0, abs=1e-12 * float(x.square().sum()))
    moved = x + torch.arange(20.0)
    assert float(frechet_distance(x, moved)) == pytest.approx(
        float(torch.arange(20.0).square().sum())
    )
    assert float(frechet_distance(x, 0 * x + x.mean(0))) == pytest.approx(float(x.var(0).sum()))


def test_a_judgement_measures_what_it_says():
    x, y = cloud(50, 3), cloud(50, 3, seed=1, scale=1.3)
    found = judge(x, y, another=cloud(50, 3, seed=2))
    pairs = torch.cdist(x, y).square().numpy()
    best = pairs[linear_sum_assignment(pairs)].mean()
    assert found.w2 == pytest.approx(math.sqrt(best))
    assert found.energy == pytest.approx(slow_energy(x, y))
    assert found.frechet == pytest.approx(slow_frechet(x, y))
    assert found.variance_ratio == pytest.approx(float(x.var(0).sum() / y.var(0).sum()))
    # Directions of the plane's own drawing: a mean over 4,000 slices is near that over others.
    theta = torch.nn.functional.normalize(torch.randn(20_000, 3, dtype=torch.float64), dim=1)
    lines = [(theta @ side.mT).sort(dim=1).values for side in (x, y)]
    assert found.sw2 == pytest.approx(float((lines[0] - lines[1]).square().mean().sqrt()), rel=0.02)
    pairs = torch.cdist(x, cloud(50, 3, seed=2)).square().numpy()
    assert found.self_w2 == pytest.approx(math.sqrt(pairs[linear_sum_assignment(pairs)].mean()))
    assert math.isnan(judge(x, y, exact=False).w2)


def test_a_batch_of_runs_is_a_loop(monkeypatch):
    monkeypatch.setattr("slicewise.judging.judging._RUNS_AT_ONCE", 2)
    judged = Judge(cloud(30, 4))
    made = torch.stack([cloud(25, 4, seed, scale=1 + seed / 5) for seed in range(5)])
    for one, together in zip(made, judged.score_runs(made), strict=True):
        assert astuple(judged(one))[:5] == pytest.approx(astuple(together)[:5], rel=1e-12)


def test_runs_that_blew_up_lose_and_harm_nobody():
    judged, fine = Judge(cloud(300, 4)), cloud(300, 4, seed=1)
    nan, huge = fine.clone(), fine.clone()
    nan[3, 2], huge[0, 0] = math.nan, 1e200
    found = judged.score_runs(torch.stack([nan, fine, huge]))
    assert found[1] == judged(fine)
    for lost in (found[0], found[2]):
        assert lost.sw2 == lost.energy == lost.frechet == lost.w2 == math.inf
        assert not lost.eligible
    assert best(found) == 1
    assert rank(found)[0] == 1
    assert best([found[0]]) is None
    assert best([]) is None


def test_half_precision_is_judged_in_double():
    made = cloud(30, 4).half()
    assert judge(made, cloud(30, 4, seed=1)) == judge(made.double(), cloud(30, 4, seed=1))


def test_who_shrinks_cannot_win_and_ties_go_to_energy():
    def one(sw2, energy, variance=1.0):
        return Scores(sw2, energy, 1.0, variance)

    runs = [
        one(0.3, 0.1),
        one(0.1, 0.5, variance=0.79),
        one(0.2, 0.3),
        one(0.2, 0.2),
        one(0.5, 0.01),
    ]
    assert rank(runs) == [3, 2, 0, 4, 1]
    assert best(runs) == 3
    assert best(runs, by="energy") == 4
    assert best([runs[1]]) is None
    with pytest.raises(ValueError, match="choose from sw2, energy"):
        rank(runs, by="w2")


def test_w2_likes_a_constant_and_the_others_do_not():
    """What the judging is for: in high dimension always to answer the mean is near the floor in W_2, and wins over a
    Gaussian; SW_2 and energy put it last."""
    train, held = cloud(600, 60), cloud(200, 60, seed=1)
    found = baselines(train, held)
    mean, gauss, real = (found[name] for name in ("constant mean", "Gaussian", "real"))
    assert mean.w2 < gauss.w2 * 1.02
    assert mean.w2 < 1.2 * real.w2
    assert mean.sw2 > 3 * gauss.sw2
    assert mean.energy > 20 * max(gauss.energy, real.energy)
    assert mean.variance_ratio == pytest.approx(0, abs=1e-20)
    assert (mean.eligible, gauss.eligible, real.eligible) == (False, True, True)
    assert mean.self_w2 == 0
    assert best([mean, gauss]) == 1
    # Shrunken real rows are nearer in W_2 than real ones.
    small = judge(train.mean(0) + 0.5 * (train[:200] - train.mean(0)), held)
    assert small.w2 < real.w2
    assert small.sw2 > 2 * real.sw2
    assert not small.eligible


def test_the_floor_is_real_against_real():
    train, held = cloud(80, 5), cloud(40, 5, seed=1)
    found = real_scores(train, held, subsets=2, generator=3)
    generator = torch.Generator().manual_seed(3)
    some = [train[torch.randperm(80, generator=generator)[:40]] for _ in range(2)]
    each = [judge(rows, held, generator=3) for rows in some]
    assert found.w2 == pytest.approx((each[0].w2 + each[1].w2) / 2)
    assert found.energy == pytest.approx((each[0].energy + each[1].energy) / 2)
    assert found.self_w2 == found.w2
    assert found.relative_to(found) == dict.fromkeys(("sw2", "frechet", "w2", "self_w2"), 1.0)
    with pytest.raises(ValueError, match="hold out fewer"):
        real_scores(held, train)


def test_the_fitted_gaussian_has_mean_and_covariance():
    train = cloud(300, 4)
    drawn = gaussian(train, 200_000)
    assert torch.allclose(drawn.mean(0), train.mean(0), atol=0.02)
    assert torch.allclose(torch.cov(drawn.mT), torch.cov(train.mT), atol=0.05)
    assert torch.equal(drawn[:5], gaussian(train, 200_000)[:5])
    assert not torch.equal(drawn[:5], gaussian(train, 200_000, generator=1)[:5])
    assert gaussian(cloud(5, 20), 7).shape == (7, 20)  # a singular covariance


def test_the_gaussian_map_pushes_mean_and_covariance_exactly():
    x, y = cloud(50, 6), cloud(40, 6, seed=1, shift=2.0, scale=0.4)
    found = gaussian_map(x, y)
    moved = found(x)
    torch.testing.assert_close(moved.mean(0), y.mean(0))
    torch.testing.assert_close(torch.cov(moved.mT), torch.cov(y.mT))
    assert float(frechet_distance(moved, y)) == pytest.approx(0, abs=1e-10)
    # It is the gradient of a convex function: symmetric, and no eigenvalue is negative.
    torch.testing.assert_close(found.matrix, found.matrix.mT)
    assert float(torch.linalg.eigvalsh(found.matrix).min()) > 0
    # Its cost is the Fréchet distance, which no other map between the two Gaussians has.
    cost = (moved - x).square().sum(1)
    spread = (cost.mean() - (y.mean(0) - x.mean(0)).square().sum()) * 50 / 49
    apart = float(frechet_distance(x, y)) - float((y.mean(0) - x.mean(0)).square().sum())
    assert float(spread) == pytest.approx(apart)


def test_the_gaussian_map_of_singular_covariances():
    """Fewer samples than dimensions: finite, and exact within what the source spans."""
    x, y = cloud(8, 30), cloud(9, 30, seed=1, shift=1.0)
    moved = gaussian_map(x, y)(x)
    assert bool(moved.isfinite().all())
    torch.testing.assert_close(moved.mean(0), y.mean(0))
    axes = torch.linalg.svd(mean_and_root(x)[1], full_matrices=False)[2][:7]
    torch.testing.assert_close(torch.cov((moved @ axes.mT).mT), torch.cov((y @ axes.mT).mT))
    assert float((cloud(40, 30, seed=5) - x.mean(0)).norm()) * 50 > float(
        (gaussian_map(x, y)(cloud(40, 30, seed=5)) - y.mean(0)).norm()
    )


def test_mean_shift_keeps_the_dtype_and_adds_one_vector():
    x, y = cloud(20, 3).float(), cloud(30, 3, seed=1, shift=1.0).float()
    moves = mean_shift(x, y)(x) - x
    assert moves.dtype == torch.float32
    torch.testing.assert_close(moves, (y.mean(0) - x.mean(0)).expand(20, 3))


@pytest.mark.parametrize("n", [60, 200])
def test_the_probe_is_logistic_regression(n):
    sklearn = pytest.importorskip("sklearn.linear_model")
    x, y = cloud(n, 5), cloud(45, 5, seed=1, shift=0.4)
    found = fit_probe(x, y)
    labels = np.r_[np.zeros(n), np.ones(45)]
    theirs = sklearn.LogisticRegression(class_weight="balanced", tol=1e-10, max_iter=10_000)
    theirs.fit(torch.cat([x, y]).numpy(), labels)
    np.testing.assert_allclose(found.normal.numpy(), theirs.coef_[0], atol=1e-5)
    assert float(found.offset) == pytest.approx(theirs.intercept_[0], abs=1e-4)
    assert found.share(y) == pytest.approx(theirs.predict(y.numpy()).mean())


def test_the_probe_of_sets_that_can_be_told_apart_ends():
    x = cloud(30, 4)
    found = fit_probe(x, x + 50)
    assert (found.share(x), found.share(x + 50)) == (0.0, 1.0)


def domains(n=120, held=40, d=6):
    source, target = cloud(n, d), cloud(n, d, seed=1, shift=1.5, scale=1.4)
    return source[held:], target[held:], source[:held], target[:held]


def test_translations_are_measured_as_they_are_defined():
    judged = TranslationJudge(*domains())
    source = judged.source
    moved = source * 1.1 + 1.2
    found = judged(moved)
    assert found.scores == judge(moved, judged.target)
    before, least = judge(source, judged.target), real_scores(judged.target_train, judged.target)
    assert found.w2_removed == pytest.approx((before.w2 - found.scores.w2) / (before.w2 - least.w2))
    assert found.frechet_removed == pytest.approx(
        (before.frechet - found.scores.frechet) / (before.frechet - least.frechet)
    )
    gap = judged.target_train.mean(0) - judged.source_train.mean(0)
    assert found.move == pytest.approx(float((moved - source).norm(dim=1).mean() / gap.norm()))
    back = (moved - (moved - source).mean(0)).tolist()
    own = [
        min(range(40), key=lambda j: math.dist(one, source[j].tolist())) == i
        for i, one in enumerate(back)
    ]
    assert found.own_nearest == sum(own) / 40
    assert (
        judge_translation(
            source,
            moved,
            judged.target,
            source_train=judged.source_train,
            target_train=judged.target_train,
        )
        == found
    )


def test_baselines_of_a_translation():
    judged = TranslationJudge(*domains(n=1200, held=200))
    found = judged.baselines()
    still, shift, gauss, mean = found.values()
    assert list(found) == ["not moved", "mean shift", "Gaussian map", "target's mean"]
    assert (still.w2_removed, still.move, still.own_nearest) == (0, 0, 1)
    assert shift.move == pytest.approx(1)
    assert shift.own_nearest == 1
    assert gauss.frechet_removed > shift.frechet_removed > 0.3
    assert gauss.scores.sw2 < shift.scores.sw2 < still.scores.sw2
    assert gauss.probe > still.probe
    assert mean.own_nearest == pytest.approx(1 / 200)  # all are one: someone is nearest to it
    assert (still.eligible, shift.eligible, gauss.eligible, mean.eligible)[-1] is False
    assert math.isnan(judged(judged.source, exact=False).w2_removed)


def test_a_translation_that_blew_up():
    judged = TranslationJudge(*domains(), exact=False)
    found = judged.score_runs(torch.stack([judged.source * math.nan, judged.source]))
    assert found[0].own_nearest == 0
    assert not found[0].eligible
    assert found[1].own_nearest == 1


def test_shuffled_pairs_are_noticed():
    """The same set of samples in another order: no distance between sets can tell, whose source is nearest can."""
    judged = TranslationJudge(*domains())
    moved = mean_shift(judged.source_train, judged.target_train)(judged.source)
    ours, shuffled = judged(moved), judged(moved.roll(1, dims=0))
    assert shuffled.scores.w2 == pytest.approx(ours.scores.w2)
    assert shuffled.scores.energy == pytest.approx(ours.scores.energy)
    assert (ours.own_nearest, shuffled.own_nearest) == (1, 0)
    assert shuffled.move > ours.move


def test_domains_of_unequal_sizes_are_compared_by_the_smaller():
    source, target, source_held, target_held = domains()
    judged = TranslationJudge(source, target, source_held, target_held[:15])
    assert judged.n == len(judged.source) == len(judged.target) == 15
    assert TranslationJudge(*domains(), max_samples=12).n == 12
    few = TranslationJudge(source, target[:9], source_held, target_held)
    assert few.n == 9  # a floor is of as many of those to train on
    assert math.isfinite(few(few.source).w2_removed)
    kept = {"source_train": source, "target_train": target[:9]}
    assert math.isfinite(
        judge_translation(source_held, source_held, target_held, **kept).w2_removed
    )
    with pytest.raises(ValueError, match=r"\(runs, 15, 6\)"):
        judged(source_held)


@pytest.mark.parametrize(
    ("made", "real", "said"),
    [
        (torch.zeros(5, 3), torch.zeros(5, 2), "of that d"),
        (torch.zeros(5), torch.zeros(5, 2), "use score_runs"),
        (torch.zeros(1, 2), torch.randn(5, 2), "at least two"),
        (torch.zeros(5, 2), torch.zeros(1, 2), "at least two"),
        (torch.zeros(5, 2), torch.full((5, 2), math.nan), "leave such samples out"),
        (torch.zeros(5, 2), torch.zeros(2, 5, 2), r"\(m, d\)"),
    ],
)
def test_what_cannot_be_judged_is_said(made, real, said):
    with pytest.raises(ValueError, match=said):
        judge(made, real)


@pytest.mark.gpu
def test_judging_on_a_device_is_judging_on_the_cpu():
    made, real = torch.stack([cloud(200, 8, s) for s in range(3)]), cloud(200, 8, seed=9)
    here, there = Judge(real).score_runs(made), Judge(real.cuda()).score_runs(made.cuda())
    for one, other in zip(here, there, strict=True):
        assert astuple(one)[:5] == pytest.approx(astuple(other)[:5], rel=1e-9)
    parts = [part.cuda() for part in domains()]
    ours, theirs = TranslationJudge(*domains()), TranslationJudge(*parts)
    for name, one in ours.baselines().items():
        other = theirs.baselines()[name]
        assert astuple(one)[1:] == pytest.approx(astuple(other)[1:], rel=1e-8, abs=1e-9)


def test_a_constant_has_the_shape_asked_for():
    assert constant(cloud(10, 3), 4).shape == (4, 3)


def test_slices_and_samples_are_drawn_from_what_is_given():
    """An int is the same draw every time; a generator goes on."""
    made, real = cloud(30, 4), cloud(30, 4, seed=1)
    first = judge(made, real, exact=False, generator=3).sw2
    assert judge(made, real, exact=False, generator=torch.Generator().manual_seed(3)).sw2 == first
    assert judge(made, real, exact=False, generator=4).sw2 != first
    torch.manual_seed(3)
    assert judge(made, real, exact=False, generator=None).sw2 == first
    source = torch.Generator().manual_seed(0)
    assert torch.equal(gaussian(made, 5, generator=source), gaussian(made, 5))
    assert not torch.equal(gaussian(made, 5, generator=source), gaussian(made, 5))
    pair = baselines(made, real[:20], generator=torch.Generator().manual_seed(0))["Gaussian"]
    assert pair.self_w2 > 0
    with pytest.raises(ValueError, match=r"generator = 0\.5: give an int"):
        judge(made, real, generator=0.5)


def test_old_words_name_the_new_ones():
    x = cloud(30, 4)
    for call in (
        lambda **old: judge(x, x, **old),
        lambda **old: real_scores(x, x, **old),
        lambda **old: baselines(x, x, **old),
        lambda **old: gaussian(x, 3, **old),
        lambda **old: Judge(x, **old),
        lambda **old: TranslationJudge(x, x, x, x, **old),
        lambda **old: judge_translation(x, x, x, source_train=x, target_train=x, **old),
    ):
        with pytest.raises(TypeError, match="no argument 'seed': it is called 'generator' now"):
            call(seed=1)
