"""The theory of steps against simulation; the rules against loops, majorisers and invariances."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

import slicewise as sw
from slicewise import steps
from slicewise.problem.problem import Problem
from slicewise.sampling import sphere
from slicewise.sampling.generators import Randomness
from slicewise.steps.rules import Pull, moved, pull_of
from slicewise.transport import Needs, pull_back
from tests.tolerances import assert_close


def rng(seed=0):
    return Randomness(torch.Generator().manual_seed(seed), torch.device("cpu"))


def contracted(step, slices, e):
    """Mean over draws (N, L, d) of |e − a M e|² / |e|²."""
    moved = (slices.mT @ (slices @ e.unsqueeze(-1))).squeeze(-1) / slices.shape[-2]
    return ((e - step * moved).square().sum(-1) / e.square().sum(-1)).mean().item()


@pytest.mark.parametrize(("d", "n_slices"), [(2, 50), (10, 10), (50, 50), (100, 50), (100, 10)])
def test_contraction_at_the_best_step(d, n_slices):
    slices = sphere.uniform((4000, n_slices, d), rng())
    e = torch.randn(d, dtype=torch.float64)
    best = steps.best_step(n_slices, d)
    wanted = steps.contraction(best, n_slices, d)
    assert wanted == pytest.approx(1 - n_slices / (n_slices + d - 1))
    # One draw's ratio has a spread of at most about its mean: 5 % are more than three standard errors.
    assert contracted(best, slices, e) == pytest.approx(wanted, rel=0.05)
    for other in (0.5 * best, 1.5 * best):
        assert contracted(other, slices, e) == pytest.approx(
            steps.contraction(other, n_slices, d), rel=0.05
        )
        assert steps.contraction(other, n_slices, d) > wanted
    assert steps.contraction(steps.stability_limit(n_slices, d), n_slices, d) == pytest.approx(1)


def test_contraction_of_a_flow():
    """A thousand flows of one step at the best rate, from y plus 1e-4 of noise."""
    n, d, n_slices = 30, 10, 20
    y = torch.randn(n, d, dtype=torch.float64)
    x = y + 1e-4 * torch.randn(n, d, dtype=torch.float64)
    rate = steps.rate_of_step(steps.best_step(n_slices, d), n)
    found = sw.flow(x, y, lr=rate, n_slices=n_slices, max_steps=1, seeds=range(1000))
    ratio = (found.particles - y).square().sum(dim=(-2, -1)) / (x - y).square().sum()
    assert float(ratio.mean()) == pytest.approx(1 - n_slices / (n_slices + d - 1), rel=0.05)


@pytest.mark.parametrize(("d", "n_slices"), [(10, 3), (10, 10), (10, 20), (7, 17)])
def test_orthonormal_step_is_the_best_of_a_scan(d, n_slices):
    slices = sphere.orthonormal((4000, n_slices, d), rng())
    e = torch.randn(d, dtype=torch.float64)
    best = steps.orthonormal_step(n_slices, d)
    at = {share: contracted(share * best, slices, e) for share in (0.85, 1.0, 1.15)}
    assert at[1.0] < at[0.85]
    assert at[1.0] < at[1.15]
    if n_slices % d == 0:
        assert at[1.0] < 1e-25
        assert best == pytest.approx(d)
    if n_slices <= d:
        assert best == pytest.approx(n_slices)


def test_projected_step_is_the_best_of_a_scan():
    d, k, n_slices = 30, 3, 10
    slices = sphere.uniform((8000, n_slices, d), rng())[
        ..., :k
    ]  # what the projection leaves of them
    e = torch.randn(k, dtype=torch.float64)
    best = steps.projected_step(n_slices, d, k)
    at = {share: contracted(share * best, slices, e) for share in (0.8, 1.0, 1.2)}
    assert at[1.0] == min(at.values())


def test_limits_of_fixed_slices():
    slices = sphere.uniform((400, 100), rng())
    moment = slices.mT @ slices / 400
    limit = steps.fixed_slices_limit(slices)
    assert_close(limit, 2 / torch.linalg.eigvalsh(moment).max())
    assert float(limit) == pytest.approx(steps.marchenko_pastur_limit(400, 100), rel=0.05)
    # Kept slices allow less than fresh ones: their strongest direction never averages out.
    assert float(limit) < steps.stability_limit(400, 100)
    weights = torch.rand(400, dtype=torch.float64)
    moment = slices.mT @ (weights[:, None] * slices)
    assert_close(steps.fixed_slices_limit(slices, weights), 2 / torch.linalg.eigvalsh(moment).max())


def test_the_paper_step_and_where_it_fails():
    n, d = 300, 100
    as_step = steps.step_of_rate(steps.paper_step(d, 1 / n), n)
    assert as_step == pytest.approx(d)
    assert as_step < steps.stability_limit(n_slices=d, d=d)
    assert as_step >= steps.stability_limit(n_slices=d - 1, d=d)


@pytest.mark.parametrize("objective", ["power", "root"])
@pytest.mark.parametrize("convention", ["mean", "reference"])
def test_rates_convert_to_the_step_that_is_made(objective, convention):
    """x − rate · gradient = x − a D, for the losses as published and as defined."""
    n, d, rate = 20, 3, 0.01
    x, y = torch.randn(2, n, d, dtype=torch.float64)
    slices = sphere.uniform((30, d), rng())
    options = {"slices": slices, "convention": convention, "objective": objective}
    _, gradient = sw.value_and_grad(x, y, **options)
    pull = pull_of(Problem(x, y), slices, torch.full((30,), 1 / 30, dtype=torch.float64))
    published = {"reduction": "sum", "times_n": True} if convention == "reference" else {}
    distance = float(sw.sliced_wasserstein(x, y, slices=slices))
    a = steps.step_of_rate(rate, n, objective, sw=distance, **published)
    assert_close(rate * gradient, a * pull.direction)
    assert steps.rate_of_step(a, n, objective, sw=distance, **published) == pytest.approx(rate)


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="n_slices = 0"):
        steps.best_step(0, 3)
    with pytest.raises(ValueError, match="give SW_2 > 0"):
        steps.step_of_rate(0.1, 10, "root")


@pytest.mark.parametrize("d", [2, 50, 100])
def test_the_edge_of_stability(d):
    """Near y, 0.8 of n L d / (L + d − 1) contracts and 1.3 of it diverges."""
    n, n_slices, n_steps = 100, 50, 100
    y = torch.randn(n, d, dtype=torch.float64)
    x = y + 1e-4 * torch.randn(n, d, dtype=torch.float64)
    edge = steps.rate_of_step(steps.stability_limit(n_slices, d), n)
    rates = edge * torch.tensor([[0.8], [1.3]])
    found = sw.flow(x, y, lr=rates, max_steps=n_steps, n_slices=n_slices, seeds=[1, 2, 3])
    before = (x - y).norm()
    after = (found.particles - y).flatten(-2).norm(dim=-1)
    assert (after[0] < before).all()
    assert (after[1] > before).all()


@pytest.mark.parametrize("d", [50, 100])
def test_the_floor_of_the_root(d):
    n, n_slices, rate = 300, 50, 0.5
    y = torch.randn(n, d, dtype=torch.float64)
    found = sw.flow(
        y + 1e-6,
        y,
        lr=rate,
        objective="root",
        max_steps=300,
        seeds=1,
        recording=sw.Recording(w2_at=range(200, 301, 20)),
    )
    floor = steps.root_floor(rate, n, n_slices, d)
    assert floor / 2 < float(found.history.w2.mean()) < 2 * floor


# Rules.


def random_pull(n=12, m=12, d=4, n_slices=9, p=2.0, weighted=False, seed=0, signed=False):
    g = torch.Generator().manual_seed(seed)
    x, y = (torch.randn(k, d, generator=g, dtype=torch.float64) for k in (n, m))
    a, b = (torch.rand(k, generator=g, dtype=torch.float64) + 0.1 for k in (n, m))
    a, b = a / a.sum(), b / b.sum()
    weights = torch.rand(n_slices, generator=g, dtype=torch.float64) - (0.3 if signed else 0)
    slices = sphere.uniform((n_slices, d), rng(seed))
    problem = Problem(x, y, p, a if weighted else None, b if weighted else None)
    return pull_of(problem, slices, weights)


def loop_cauchy(pull, p):
    """The same rule from the definition, one slice and one sample at a time."""
    import ot

    x, y, slices = (t.numpy() for t in (pull.problem.x, pull.problem.y, pull.slices))
    n, m = len(x), len(y)
    q = np.full(n, 1 / n) if pull.problem.x_weights is None else pull.problem.x_weights.numpy()
    r = np.full(m, 1 / m) if pull.problem.y_weights is None else pull.problem.y_weights.numpy()
    w, direction = pull.weights.numpy(), np.zeros_like(x)
    plans, gaps = [], []
    for slice_ in slices:
        u, v = x @ slice_, y @ slice_
        plans.append(ot.emd_1d(u, v, q, r, metric="sqeuclidean") / q[:, None])
        gaps.append(u[:, None] - v[None, :])
    for w_l, slice_, plan, gap in zip(w, slices, plans, gaps, strict=True):
        pulled = (plan * np.abs(gap) ** (p - 1) * np.sign(gap)).sum(1)
        direction += w_l * pulled[:, None] * slice_
    assert_close(pull.direction, torch.from_numpy(direction))
    floor = math.sqrt(
        np.mean([(q * (plan * gap**2).sum(1)).sum() for plan, gap in zip(plans, gaps, strict=True)])
    )
    seen = np.zeros(n)
    for w_l, slice_, plan, gap in zip(w, slices, plans, gaps, strict=True):
        size = np.maximum(np.abs(gap), floor if p < 2 else 0)
        curvature = max(1, p - 1) * (plan * size ** (p - 2)).sum(1)
        seen += abs(w_l) * curvature * (direction @ slice_) ** 2
    squares = (direction**2).sum(1)
    return squares / seen if p > 2 else np.array([(q * squares).sum() / (q * seen).sum()])


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0])
@pytest.mark.parametrize(("m", "weighted"), [(12, False), (9, False), (12, True), (9, True)])
def test_cauchy_is_its_definition(p, m, weighted):
    for signed in (False, True):
        pull = random_pull(m=m, p=p, weighted=weighted, signed=signed)
        assert_close(steps.Cauchy()(pull), torch.from_numpy(loop_cauchy(pull, p)))


def test_cauchy_does_not_care_which_way_it_sums():
    """More dimensions than slices, or fewer: one formula."""
    for d, n_slices in ((3, 20), (20, 3)):
        pull = random_pull(d=d, n_slices=n_slices, weighted=True)
        assert_close(steps.Cauchy()(pull), torch.from_numpy(loop_cauchy(pull, 2)))


@pytest.mark.parametrize("seed", range(10))
def test_the_sampled_loss_cannot_rise(seed):
    pull = random_pull(m=8, weighted=bool(seed % 2), seed=seed)
    problem = pull.problem
    before = (pull.weights * problem.costs(pull.slices)).sum()
    after = Problem(problem.x + moved(pull), problem.y, 2.0, problem.x_weights, problem.y_weights)
    assert (pull.weights * after.costs(pull.slices)).sum() <= before


def test_known_steps():
    """1 for one slice, L for an orthonormal frame, a* on average for uniform slices; the same by trace."""
    x, y = torch.randn(2, 30, 8, dtype=torch.float64)

    def step(slices, rule):
        weights = torch.full((len(slices),), 1 / len(slices), dtype=torch.float64)
        return rule(pull_of(Problem(x, y), slices, weights)).item()

    frame = sphere.orthonormal((5, 8), rng())
    for rule in (steps.Cauchy(), steps.TraceRatio()):
        assert step(frame[:1], rule) == pytest.approx(1)
        assert step(frame, rule) == pytest.approx(5)
    drawn = sphere.uniform((500, 20, 8), rng())
    mean = np.mean([1 / step(slices, steps.TraceRatio()) for slices in drawn])
    assert mean == pytest.approx(1 / steps.best_step(20, 8), rel=0.02)
    assert step(frame, steps.Constant(2.5)) == 2.5
    assert step(drawn[0], steps.Constant()) == pytest.approx(0.7 * steps.best_step(20, 8))


def test_the_tempered_step_is_shorter_where_all_slices_would_be_right_at_once():
    x, y = torch.randn(2, 30, 8, dtype=torch.float64)
    for slices in (*(sphere.orthonormal((n, 8), rng()) for n in (1, 2, 8)), *random_frames()):
        for dtype in (torch.float32, torch.float64):
            weights = torch.full((len(slices),), 1 / len(slices), dtype=dtype)
            pull = pull_of(Problem(x.to(dtype), y.to(dtype)), slices.to(dtype), weights)
            share = float(steps.Tempered()(pull) / steps.Cauchy()(pull))
            frame = torch.allclose(slices @ slices.mT, torch.eye(len(slices)).double())
            assert share == pytest.approx(0.75 if frame else 1, rel=4 * torch.finfo(dtype).eps)
    with pytest.raises(ValueError, match="p = 2 only"):
        sw.displacement(x, y, step_rule="tempered", p=1)


def random_frames():
    """Slices that are not orthonormal: as few as a frame has, and more."""
    return [sphere.uniform((n, 8), rng()) for n in (2, 8, 20)]


@pytest.mark.slow
def test_few_slices_arrive_in_three_dimensions():
    """Whole steps along few slices rattle, and are still far away when tempered ones have arrived."""
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(2, 400, 3, generator=g, dtype=torch.float64)
    y = y * torch.tensor([4.0, 1.0, 0.4])
    how = {"seeds": 0, "max_steps": 1400, "stopping": sw.Stopping(w2=1e-2, assign=False)}
    assert bool(sw.flow(x, y, "ksw", **how).converged)
    with pytest.warns(sw.NotArrivedWarning):
        whole = sw.flow(x, y, "ksw", step_rule="cauchy", **how)
    assert float(whole.w2) > 0.05


def test_trace_of_wide_and_tall_slices():
    for d, n_slices in ((3, 20), (20, 3)):
        pull = random_pull(d=d, n_slices=n_slices)
        moment = pull.slices.mT @ (pull.weights[:, None] * pull.slices)
        wanted = moment.trace() / (moment @ moment).trace()
        assert_close(steps.TraceRatio()(pull), wanted.reshape(1))


@pytest.mark.parametrize("p", [1.5, 2.0])
def test_polyak_is_loss_over_squared_pull(p):
    pull = random_pull(p=p)
    costs = pull.problem.costs(pull.slices)
    wanted = (pull.weights * costs).sum() / pull.direction.square().sum(-1).mean()
    assert_close(steps.Polyak()(pull), wanted.reshape(1))


@pytest.mark.parametrize(
    "rule", [steps.Cauchy(), steps.Tempered(), steps.TraceRatio(), steps.Polyak(), steps.Constant()]
)
def test_nothing_to_move_is_no_move(rule):
    x = torch.randn(10, 3, dtype=torch.float64)
    move = sw.displacement(x, x, step_rule=rule)
    assert torch.equal(move, torch.zeros_like(x))


def test_a_rule_is_a_function():
    x, y = torch.randn(2, 10, 3, dtype=torch.float64)
    slices = sphere.uniform((7, 3), rng())

    def half(pull: Pull):
        return steps.Cauchy()(pull) / 2

    assert_close(
        sw.displacement(x, y, step_rule=half, slices=slices),
        sw.displacement(x, y, slices=slices) / 2,
    )


def test_rules_say_what_they_cannot_do():
    x, y = torch.randn(2, 10, 3)
    with pytest.raises(ValueError, match="did you mean 'cauchy'"):
        sw.displacement(x, y, step_rule="cauchi")
    with pytest.raises(ValueError, match="p = 2 only"):
        sw.displacement(x, y, step_rule="trace", p=1)


@pytest.mark.parametrize("unit", [1.0, 1e-170, 1e150])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_step_from_lines_is_that_of_the_rule(weighted, unit):
    """Slice weights of both signs, absent samples, and units whose squares no number holds."""
    generator = torch.Generator().manual_seed(3)
    x, y = (torch.randn(2, 30, 4, generator=generator, dtype=torch.float64) * unit for _ in "xy")
    slices = sphere.uniform((2, 9, 4), rng())
    weights = torch.linspace(-0.1, 0.4, 9, dtype=torch.float64).expand(2, 9)
    masses = torch.arange(30, dtype=torch.float64) / 435 if weighted else None
    problem = Problem(x, y, x_weights=masses)
    found = problem.match(slices, Needs(x=True))
    gradient = pull_back(found, x, y, slices, weights, Needs(x=True)).x
    step = steps.step_on_lines(found.u_grad, gradient, slices, weights, problem.shares(x.dtype))
    assert_close(step, steps.Cauchy()(pull_of(problem, slices, weights)).squeeze(-1))


def test_nothing_to_move_is_a_step_of_zero():
    nothing = torch.zeros(3, 5)
    step = steps.step_on_lines(
        nothing, torch.zeros(5, 2), torch.eye(2)[[0, 1, 0]], torch.ones(3), 0.2
    )
    assert step == 0


def lengths_of(slope, curvature, shrink=1.0, steps=1):
    """The length after some steps that see the same slope and curvature."""
    lengths = steps_length()
    for _ in range(steps):
        trial = lengths.trial(shrink)
        lengths.observe(torch.tensor(slope))
        lengths.measure(torch.tensor(curvature), trial)
        found = lengths.length(shrink)
    return found.item()


def steps_length():
    return steps.StepLength((), torch.device("cpu"))


@pytest.mark.parametrize("shrink", [1.0, 0.25])
def test_a_length_is_a_share_of_the_weights_but_never_beyond_the_minimum(shrink):
    assert lengths_of(1.0, 0.1, shrink) == pytest.approx(steps.SHARE * shrink)  # t* = 10
    assert lengths_of(1.0, 1e4, shrink) == pytest.approx(1e-4)  # t* = 1e-4
    assert lengths_of(1.0, -1.0, shrink) == pytest.approx(steps.SHARE * shrink)  # no minimum
    assert lengths_of(1.0, float("inf"), shrink) < 0.011 * steps.SHARE * shrink  # too long a trial


def test_trials_approach_the_length_from_below():
    lengths, tried = steps_length(), []
    for _ in range(12):
        trial = lengths.trial()
        tried.append(trial.item())
        lengths.observe(torch.tensor(1.0))
        lengths.measure(1 / trial, trial)  # a minimum at every trial
        lengths.length()
    assert tried[0] == pytest.approx(0.1 * steps.SHARE)
    assert tried[-1] == pytest.approx(steps.SHARE)
    assert all(a <= b <= 2.001 * a for a, b in itertools.pairwise(tried))


def test_a_batch_that_the_direction_climbs_changes_nothing():
    lengths = steps_length()
    for slope in (1.0, -1e6, float("nan"), 0.0):
        lengths.observe(torch.tensor(slope))
        lengths.measure(torch.tensor(100.0), lengths.trial())
        assert lengths.length() == pytest.approx(0.01)


def test_noise_limits_a_length_to_where_the_expected_loss_does_not_rise():
    """Batches that see a tenth of the slope: at most two tenths of t*. One that went wrong is one among many."""
    lengths = steps_length()

    def step(seen):
        lengths.observe(torch.tensor(1.0))
        lengths.measure(torch.tensor(100.0), lengths.trial())  # t* = 0.01
        found = lengths.length().item()
        lengths.look_back(
            torch.tensor(seen - 100.0 * found)
        )  # after the step has changed the slope
        return found

    assert step(0.1) == pytest.approx(0.01)  # nothing is known yet
    for _ in range(60):
        found = step(0.1)
    assert lengths.signal() == pytest.approx(0.1, abs=1e-3)
    assert found == pytest.approx(0.2 * 0.01, rel=0.02)
    kept = (2 + 61) / (10 + 61)  # of what was averaged before, after 61 batches
    step(-1e6)
    assert lengths.signal() == pytest.approx(max(0.01, kept * 0.1 - (1 - kept)), abs=1e-3)
    assert lengths.state.seen == pytest.approx(
        kept * 0.1 - (1 - kept), abs=1e-3
    )  # as if it were −1
    for _ in range(100):
        step(-1e6)
    assert lengths.signal() > 0  # steps go on, so that better batches can be seen
    for _ in range(200):
        step(2.0)
    assert lengths.signal() == 1
    assert step(2.0) == pytest.approx(0.01)
