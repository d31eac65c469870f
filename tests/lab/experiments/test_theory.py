"""The checks of the paper's theory: what they measure, against formulas written out here."""

from __future__ import annotations

import functools
import io
import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from scipy import stats
from scipy.special import betaln, gammaln

from slicewise.lab.experiments.check import Measured
from slicewise.lab.experiments.theory import CHECKS
from slicewise.lab.experiments.theory.embedded import embedded, sliced
from slicewise.lab.experiments.theory.evaluation import noise_of
from slicewise.lab.experiments.theory.minibatch import noughts, ones
from slicewise.lab.experiments.theory.minimizing import MinimizingScheme

NAMES = [
    "informativeness",
    "projected-slices",
    "gaussian-slices",
    "scaling",
    "essf",
    "epsilon",
    "gradient",
    "orthogonality",
    "gaussian",
    "minibatch",
    "one-step",
    "edge",
    "minimizing",
    "evaluation",
]
# Standard errors allowed: all seeds are fixed, and so is what comes out of them.
SIGMAS = 4.5


@functools.cache
def quick(name):
    check = CHECKS[name]
    return [Measured(task, check.measure(task)) for task in check.tasks("quick")]


def constant(m, p):
    """C_m = 2^(p/2) Γ((m + p)/2) / Γ(m/2)."""
    return 2 ** (p / 2) * math.exp(gammaln((m + p) / 2) - gammaln(m / 2))


def beta_moment(d, k, power):
    """E r^power for r² ~ Beta(k/2, (d − k)/2)."""
    a, b = k / 2, (d - k) / 2
    return math.exp(betaln(a + power / 2, b) - betaln(a, b))


def slope_of(some, name):
    x = [math.log(one.task["n_slices"]) for one in some]
    return np.polyfit(x, [math.log(one.measures[name]) for one in some], 1)[0]


def test_every_statement_has_its_check():
    assert list(CHECKS) == NAMES
    for name, check in CHECKS.items():
        assert check.name == name
        assert check.title
        assert check.statement.endswith(".")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("preset", ["quick", "paper"])
def test_tasks_are_plain_and_apart(name, preset):
    tasks = CHECKS[name].tasks(preset)
    assert tasks == CHECKS[name].tasks(preset)
    assert json.loads(json.dumps(tasks)) == tasks
    assert len({task["seed"] for task in tasks}) == len(tasks)
    without_seeds = {json.dumps({**task, "seed": None}, sort_keys=True) for task in tasks}
    assert len(without_seeds) == len(tasks)


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_that_is_none_is_refused(name):
    with pytest.raises(ValueError, match="preset"):
        CHECKS[name].tasks("quik")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_measures_are_finite_numbers_with_names_of_their_own(name):
    for one in quick(name):
        assert one.measures
        for value in one.measures.values():
            assert type(value) is float
            assert math.isfinite(value)
        assert not set(one.measures) & set(one.task)


@pytest.mark.parametrize("name", NAMES)
def test_a_task_decides_its_numbers(name):
    """The same task gives the same numbers, whatever was drawn before; another seed gives others."""
    for one in (quick(name)[0], quick(name)[-1]):
        torch.rand(3)
        again = CHECKS[name].measure(json.loads(json.dumps(one.task)))
        assert again == one.measures
    first = quick(name)[0]
    assert name == "minibatch" or CHECKS[name].measure({**first.task, "seed": 12345}) != dict(
        first.measures
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("left_out", [0, 1])
def test_figures(name, left_out):
    """Drawn and rendered with every axis named, also while a study still runs."""
    figure = Figure(figsize=(5, 3.6), layout="constrained")
    part = figure.subfigures()
    some = quick(name)[: len(quick(name)) - left_out]
    CHECKS[name].draw(part, some)
    assert part.axes
    for axes in part.axes:
        assert axes.get_xlabel()
    assert part.axes[0].get_ylabel()
    assert part.axes[0].get_legend().get_texts()
    # One container of error bars for each curve of points; ranks have no error.
    drawn = sum(len(axes.containers) for axes in part.axes)
    assert drawn >= 2 or name == "minibatch"
    if not left_out:
        picture = io.BytesIO()
        figure.savefig(picture, format="png")
        assert picture.tell() > 5000


@pytest.mark.parametrize("name", NAMES)
def test_verdicts_follow_the_numbers(name):
    """One sentence, with numbers, which are not the same when what was measured is not."""
    said = CHECKS[name].verdict(quick(name))
    assert said.endswith(".")
    assert "\n" not in said
    assert any(letter.isdigit() for letter in said)
    of = "rank" if name == "minibatch" else "measured"
    other = [
        replace(one, measures={**one.measures, of: 3 * one.measures[of] + 7}) for one in quick(name)
    ]
    assert CHECKS[name].verdict(other) != said
    assert CHECKS[name].verdict(quick(name)[:-1])


def test_scaling_is_that_of_the_gaussian_constants():
    for one in quick("scaling"):
        d, k, p = (one.task[name] for name in ("d", "k", "p"))
        wanted = constant(k, p) / constant(d, p)
        assert math.isclose(one.measures["expected"], wanted, rel_tol=1e-9)
        assert abs(one.measures["measured"] - wanted) < SIGMAS * one.measures["stderr"]
        assert one.measures["stderr"] < 0.1 * wanted
    two = {(one.task["d"], one.task["k"]): one for one in quick("scaling") if one.task["p"] == 2}
    assert abs(two[200, 10].measures["measured"] - 10 / 200) < 0.01


def test_essf_has_the_mean_and_the_spread_of_a_beta_law():
    for one in quick("essf"):
        d, k, p, n_slices = (one.task[name] for name in ("d", "k", "p", "n_slices"))
        mean = beta_moment(d, k, p)
        std = math.sqrt((beta_moment(d, k, 2 * p) - mean**2) / n_slices)
        seen = one.measures
        assert math.isclose(seen["expected"], mean, rel_tol=1e-9)
        assert math.isclose(seen["expected_std"], std, rel_tol=1e-6)
        assert abs(seen["measured"] - mean) < SIGMAS * std / math.sqrt(one.task["runs"])
        assert abs(seen["std"] - std) < SIGMAS * seen["std_stderr"]
        assert 0.02 < seen["std_stderr"] / std < 0.08  # 1 / √(2 · 400) of a normal law is 0.035


def test_essf_is_drawn_in_two_ways_of_one_law():
    """Whole slices, and only what decides their lengths: the same mean and spread."""
    assert {one.task["drawn"] for one in quick("essf")} == {"slices", "lengths"}
    task = {"p": 1, "d": 30, "k": 4, "n_slices": 20, "runs": 3000, "seed": 5}
    whole, short = (
        CHECKS["essf"].measure({**task, "drawn": drawn}) for drawn in ("slices", "lengths")
    )
    for name, error in (("measured", "stderr"), ("std", "std_stderr")):
        assert whole[name] != short[name]
        assert abs(whole[name] - short[name]) < SIGMAS * math.hypot(whole[error], short[error])


def on_angles(task, angles=1500):
    """Costs (A,) and gradients (A, n, 2) on slices of the plane, by sorting in NumPy."""
    data, p = embedded(task), task["p"]
    x, y = data.x.numpy(), data.y.numpy()
    costs, pulls = [], []
    for angle in np.linspace(0, np.pi, angles, endpoint=False):
        theta = np.array([np.cos(angle), np.sin(angle)])
        partner = np.empty(len(x))
        partner[np.argsort(x @ theta)] = np.sort(y @ theta)
        offset = x @ theta - partner
        costs.append(np.mean(np.abs(offset) ** p))
        slopes = p / len(x) * np.abs(offset) ** (p - 1) * np.sign(offset)
        pulls.append(slopes[:, None] * theta)
    return np.array(costs), np.array(pulls)


@pytest.mark.parametrize("p", [1, 2])
def test_value_errors_are_a_covariance_of_independent_numbers(p):
    some = [one for one in quick("epsilon") if one.task["p"] == p]
    costs, _ = on_angles(some[0].task)
    d = some[0].task["d"]
    spread = math.sqrt(beta_moment(d, 2, 2 * p) - beta_moment(d, 2, p) ** 2) * costs.std()
    for one in some:
        n_slices, seen = one.task["n_slices"], one.measures
        wanted = spread * math.sqrt(n_slices - 1) / n_slices
        assert math.isclose(seen["expected"], wanted, rel_tol=1e-3)
        assert abs(seen["measured"] - wanted) < SIGMAS * seen["stderr"]
        assert seen["stderr"] < 0.1 * wanted
    assert abs(slope_of(some, "measured") + 0.5) < 0.05


def test_value_errors_of_one_run_by_hand():
    """ε_L of a single run: W_p^p in R^d less the mean of r^p times that of the plane, slice by slice."""
    task = {**quick("epsilon")[-1].task, "runs": 2, "n_slices": 7}
    data, total = embedded(task), []
    for slices, r, directions in sliced(task, data.frame):
        for run in range(len(slices)):
            cost = {}
            for where, rows in (("whole", slices[run]), ("plane", directions[run])):
                frame = data.frame.numpy() if where == "whole" else np.eye(2)
                x, y = data.x.numpy() @ frame, data.y.numpy() @ frame
                projected = np.sort(x @ rows.numpy().T, axis=0) - np.sort(
                    y @ rows.numpy().T, axis=0
                )
                cost[where] = (np.abs(projected) ** task["p"]).mean(axis=0)
            power = r[run].numpy() ** task["p"]
            np.testing.assert_allclose(cost["whole"], power * cost["plane"], rtol=1e-10)
            total.append(np.cov(power, cost["plane"], bias=True)[0, 1] ** 2)
    seen = CHECKS["epsilon"].measure(task)["measured"]
    assert math.isclose(seen, math.sqrt(np.mean(total)), rel_tol=1e-6)


def test_the_proof_of_the_value_bound_does_not_hold_and_the_bound_does():
    for one in quick("epsilon"):
        seen, n_slices, p = one.measures, one.task["n_slices"], one.task["p"]
        data = embedded(one.task)
        largest = max(math.dist(a, b) for a in data.x.tolist() for b in data.y.tolist()) ** p
        assert seen["proof_bound"] < 1e-13
        assert seen["proof_broken"] == 1
        bound = largest * math.sqrt(math.log(20) / n_slices)
        assert math.isclose(seen["paper_bound"], bound, rel_tol=1e-9)
        assert seen["quantile"] < seen["correct_bound"] < seen["paper_bound"]
        # As printed the proof's bound is K (L − 1) ESSF.
        growing = largest * (n_slices - 1) * beta_moment(one.task["d"], 2, p)
        assert abs(seen["printed_bound"] / growing - 1) < 0.1


@pytest.mark.parametrize("p", [1, 2])
def test_gradient_errors_in_the_span_and_outside(p):
    some = [one for one in quick("gradient") if one.task["p"] == p]
    d, (_, pulls) = some[0].task["d"], on_angles(some[0].task)
    size = (pulls**2).sum(axis=-1).mean()
    spread = pulls.var(axis=0).sum(axis=-1).mean()
    variance = beta_moment(d, 2, 2 * p) - beta_moment(d, 2, p) ** 2
    leaving = beta_moment(d, 2, 2 * p - 2) - beta_moment(d, 2, 2 * p)
    for one in some:
        n_slices, seen = one.task["n_slices"], one.measures
        inside = math.sqrt((n_slices - 1) * variance * spread) / n_slices
        outside = math.sqrt(leaving * size / n_slices)
        assert math.isclose(seen["expected"], inside, rel_tol=3e-3)
        assert math.isclose(seen["expected_outside"], outside, rel_tol=3e-3)
        assert abs(seen["measured"] - inside) < SIGMAS * seen["stderr"]
        assert abs(seen["outside"] - outside) < SIGMAS * seen["outside_stderr"]
        assert seen["stderr"] < 0.1 * inside
        assert seen["outside"] > 10 * seen["measured"]
        assert seen["quantile"] < seen["correct_bound"]
    assert abs(slope_of(some, "measured") + 0.5) < 0.05
    assert abs(slope_of(some, "outside") + 0.5) < 0.01


def test_the_gradient_bound_is_broken_for_p_1():
    """1 − 2e^(−0.81) = 0.11 of the errors are promised to be below 0.9 q / √L; hardly any is."""
    for one in quick("gradient"):
        assert math.isclose(one.measures["promised"], 1 - 2 * math.exp(-0.81))
        # Errors of the samples of a run are not independent: count runs alone.
        error = math.sqrt(0.11 * 0.89 / one.task["runs"])
        if one.task["p"] == 1:
            assert one.measures["kept"] + 2 * error < one.measures["promised"]
        else:
            assert one.measures["kept"] == 1


def test_orthogonality_by_student_and_the_bounds():
    for one in quick("orthogonality"):
        d, epsilon, seen = one.task["d"], one.task["epsilon"], one.measures
        # A cosine c of a uniform direction: √(d − 1) c / √(1 − c²) has Student's law.
        student = math.sqrt(d - 1) * epsilon / math.sqrt(1 - epsilon**2)
        exact = 1 - 2 * stats.t.sf(student, d - 1)
        assert math.isclose(seen["expected"], exact, rel_tol=1e-9)
        assert abs(seen["measured"] - exact) < SIGMAS * seen["stderr"] + 1 / one.task["draws"]
        assert math.isclose(seen["paper_bound"], 1 - math.exp(-d * epsilon**2))
        assert math.isclose(seen["correct_bound"], 1 - 2 * math.exp(-d * epsilon**2 / 2))
        assert exact > seen["correct_bound"]


def test_the_paper_claims_too_much_orthogonality():
    (one,) = [
        one
        for one in quick("orthogonality")
        if one.task["d"] == 100 and math.isclose(one.task["epsilon"], 0.2)
    ]
    assert abs(one.measures["paper_bound"] - 0.9817) < 1e-4
    assert abs(one.measures["measured"] - 0.9551) < 0.005
    assert one.measures["measured"] + 10 * one.measures["stderr"] < one.measures["paper_bound"]


def test_normalised_gaussians_are_uniform_for_multiples_of_the_identity_only():
    for one in quick("gaussian"):
        d, s, seen = one.task["d"], one.task["ratio"], one.measures
        if d == 2:
            assert math.isclose(seen["expected"], s / (s + 1), rel_tol=1e-8)
            assert math.isclose(seen["expected_fourth"], s * (s + 0.5) / (s + 1) ** 2, rel_tol=1e-8)
        for name, error in (("measured", "stderr"), ("fourth", "fourth_stderr")):
            wanted = seen["expected" if name == "measured" else "expected_fourth"]
            assert abs(seen[name] - wanted) < SIGMAS * seen[error]
        off = abs(seen["measured"] - 1 / d) / seen["stderr"]
        fourth_off = abs(seen["fourth"] - 3 / (d * (d + 2))) / seen["fourth_stderr"]
        if s == 1:
            assert max(off, fourth_off) < SIGMAS
        else:
            assert min(off, fourth_off) > 50
    assert {one.task["ratio"] for one in quick("gaussian")} > {1.0, 3.0}


def test_ranks_of_minibatches():
    for one in quick("minibatch"):
        batch, d, seen = one.task["batch"], one.task["d"], one.measures
        assert seen["bound"] == min(2 * batch - 1, d)
        assert seen["rank"] <= seen["bound"]
        assert seen["halves"] <= min(2 * batch - 2, d)
        assert seen["participation"] <= seen["rank"]
        assert seen["by_variance"] <= seen["rank"]
        if one.task["data"] == "subspace":
            limit = d if one.task["noise"] else 51
            assert seen["rank"] == seen["expected"] == min(2 * batch - 1, limit)
            assert seen["by_variance"] <= 51


def test_a_batch_larger_than_the_dimension_says_nothing():
    task = {**quick("minibatch")[-1].task, "data": "subspace", "k": 20, "noise": 0.01}
    seen = CHECKS["minibatch"].measure({**task, "d": 40, "batch": 50})
    assert seen["rank"] == seen["bound"] == seen["halves_bound"] == 40


def test_drawn_digits():
    generator = torch.Generator().manual_seed(0)
    for draw in (noughts, ones):
        pictures = draw(12, generator)
        assert pictures.shape == (12, 784)
        assert pictures.min() >= 0
        assert 0.9 < pictures.amax(dim=1).min() <= pictures.max() <= 1
        assert 0.03 < pictures.mean() < 0.4
        # All different, by more than place: as many directions as pictures.
        assert np.linalg.matrix_rank(pictures.numpy(), tol=1e-6) == 12
    # A nought is hollow, a one is not.
    middle = [
        draw(50, generator).mean(dim=0).reshape(28, 28)[13:15, 13:15].mean()
        for draw in (noughts, ones)
    ]
    assert middle[0] < 0.2 < 0.5 < middle[1]


def test_one_step_reaches_the_target_with_the_right_step_only():
    left = {"right": 0.0, "paper's rate": 0.9, "paper's sign": 2.0}
    for one in quick("one-step"):
        n_slices, d, seen = one.task["n_slices"], 20, one.measures
        exact = left[one.task["update"]]
        if one.task["law"] == "orthonormal":
            assert abs(seen["measured"] - exact) < 1e-12
            assert abs(seen["expected"] - exact) < 1e-15
            continue
        # x − y is shrunk to 1 − a/d of itself on average; the rest is noise of variance (a/d)² (d − 1)/L.
        share = {"right": 1, "paper's rate": 0.1, "paper's sign": -1}[one.task["update"]]
        wanted = math.sqrt((1 - share) ** 2 + share**2 * (d - 1) / n_slices)
        assert math.isclose(seen["expected"], wanted, rel_tol=1e-9)
        assert abs(seen["measured"] - wanted) < SIGMAS * seen["stderr"]
    at_most = max(one.task["n_slices"] for one in quick("one-step"))
    right = [
        one.measures["measured"]
        for one in quick("one-step")
        if one.task["update"] == "right" and one.task["n_slices"] == at_most
    ]
    assert max(right) < 0.12


def test_steps_grow_beyond_the_edge_and_not_before():
    for one in quick("edge"):
        d, n_slices, seen = one.task["d"], one.task["n_slices"], one.measures
        a = one.task["multiple"] * 2 * n_slices * d / (n_slices + d - 1)
        wanted = 1 - 2 * a / d + a**2 * (n_slices + d - 1) / (n_slices * d**2)
        assert math.isclose(seen["expected"], wanted, rel_tol=1e-9)
        assert abs(seen["measured"] - wanted) < SIGMAS * seen["stderr"]
        assert seen["typical"] < seen["measured"]
        if one.task["multiple"] <= 0.8:
            assert seen["measured"] + SIGMAS * seen["stderr"] < 1
        if one.task["multiple"] >= 1.3:
            assert min(seen["measured"] - SIGMAS * seen["stderr"], seen["typical"]) > 1


def test_the_papers_rate_diverges_with_fewer_slices_than_dimensions():
    """k/(2p_i) = n d/2, over the edge n L d/(L + d − 1)."""
    growth = {}
    for one in quick("edge"):
        d, n_slices = one.task["d"], one.task["n_slices"]
        paper = (n_slices + d - 1) / (2 * n_slices)
        assert math.isclose(one.measures["paper_multiple"], paper)
        if math.isclose(one.task["multiple"], paper):
            growth[d, n_slices] = one.measures["measured"]
    assert growth[2, 20] < 0.1
    assert growth[40, 20] > 1.8


PAPER_SIZES = {10, 30, 50, 80, 100, 300, 500, 800, 1000}


def test_the_paper_preset_is_as_published():
    scaling = CHECKS["scaling"].tasks("paper")
    assert {(t["n"], t["n_slices"], t["runs"]) for t in scaling} == {(500, 1000, 10)}
    wanted = {(p, d, 2) for p in (1, 2) for d in PAPER_SIZES}
    wanted |= {(p, 1000, k) for p in (1, 2) for k in PAPER_SIZES}
    assert {(t["p"], t["d"], t["k"]) for t in scaling} == wanted
    assert len(scaling) == len(wanted)

    essf = CHECKS["essf"].tasks("paper")
    counts = (10, 50, 100, 500, 1000, 5000, 10_000)
    cells = {
        (p, d, k, n) for p in (1, 2) for d in (100, 500, 1000) for k in (2, 10, 50) for n in counts
    }
    assert {(t["p"], t["d"], t["k"], t["n_slices"]) for t in essf} == cells
    assert len(essf) == len(cells)
    assert {t["runs"] for t in essf} == {1000}
    whole = {(t["d"], t["n_slices"]) for t in essf if t["drawn"] == "slices"}
    assert whole >= {(100, 1000), (500, 100), (1000, 100)}


def test_the_paper_preset_covers_what_else_is_asked():
    of = {name: CHECKS[name].tasks("paper") for name in NAMES}
    assert {10, 10_000, 100_000} <= {t["n_slices"] for t in of["epsilon"]}
    assert {10, 1000, 10_000} <= {t["n_slices"] for t in of["gradient"]}
    assert {t["p"] for t in of["epsilon"]} == {t["p"] for t in of["gradient"]} == {1, 2}
    assert {t["d"] for t in of["orthogonality"]} == {10, 100, 1000}
    assert {1.0, 3.0} <= {t["ratio"] for t in of["gaussian"]}
    assert {t["d"] for t in of["minibatch"]} == {784}
    assert {8, 16, 1024} <= {t["batch"] for t in of["minibatch"]}
    assert {0.5, 0.8, 1.0, 1.3, 1.6} <= {t["multiple"] for t in of["edge"]}
    assert {(t["d"], t["n_slices"]) for t in of["edge"]} == {(2, 50), (50, 50), (100, 50)}
    assert {t["law"] for t in of["one-step"]} == {"uniform", "orthonormal"}
    assert {t["tau"] for t in of["minimizing"]} >= {0.05, 1.0, 50.0}


def test_single_precision_sees_what_is_not_there():
    """Samples that are almost equal look some 1e-4 apart in float32, and as they are in float64."""
    for one in quick("evaluation"):
        assert 5e-5 < one.measures["measured"] < 1e-3
        # Sums of squares of size 1 are exact to 1e-16: squared distances of 1e-14 d to some per cent at d = 2.
        assert one.measures["double_error"] < 0.05
        assert one.measures["measured"] > 100 * 1e-7 * math.sqrt(one.task["d"]) / 3


def test_noise_is_known_of_the_papers_toys_alone():
    assert 5e-5 < noise_of({"toy": "swiss", "d": 50, "n": 300}) < 1e-3
    assert noise_of({"toy": "swiss", "d": 3, "n": 300}) is None
    assert noise_of({"images": ["x"], "n": 50}) is None


def test_what_a_slice_sees_of_the_data():
    """One dimension in R^2, by hand: the slice at the angle t sees |cos t| of it, and of distances the p-th power."""
    for one in quick("informativeness"):
        found = one.measures
        assert 0 <= found["least"] <= found["most"] <= 1 + 1e-12
        assert max(found["inside"], found["outside"], found["turned"]) < 1e-12
        assert found["measured"] <= 1
        # With φ_U(θ)^p in the bound too: a slice shows no more than that part.
        assert found["share_bound"] <= 1
        assert found["share_outside"] < 1e-12
    # A bound that is broken is said to be.
    broken = [replace(one, measures={**one.measures, "measured": 1.2}) for one in quick("informativeness")]  # fmt: skip
    assert "breaks the bound" in CHECKS["informativeness"].verdict(broken)
    assert "breaks the bound" not in CHECKS["informativeness"].verdict(quick("informativeness"))


def test_directions_and_lengths_of_projected_slices():
    for one in quick("projected-slices"):
        assert max(one.measures[name] for name in ("measured", "short", "long")) < 1.95
        assert abs(one.measures["correlation"]) < SIGMAS
    # The test has power: a normal vector with one axis 5 % longer is found out.
    task = CHECKS["projected-slices"].tasks("quick")[0]
    generator = torch.Generator().manual_seed(1)
    draws = torch.randn(task["draws"], task["d"], generator=generator, dtype=torch.float64)
    draws[:, 0] *= 1.05
    squares = (draws[:, 0] / draws.norm(dim=-1)).square().numpy()
    law = stats.beta(0.5, (task["d"] - 1) / 2)
    assert stats.kstest(squares, law.cdf).statistic * math.sqrt(len(squares)) > 1.95


def test_normal_slices():
    for one in quick("gaussian-slices"):
        found = one.measures
        assert abs(found["measured"] - 1) < SIGMAS * found["stderr"]
        assert abs(found["constant"] - 1) < SIGMAS * found["constant_stderr"]


def test_the_minimizing_scheme():
    """One sample: (x_t + 2τ y) / (1 + 2τ). Several: nothing near is better by more than a hair, and the value never rises."""
    x, y = (torch.tensor([[float(a), float(b)]], dtype=torch.float64) for a, b in ((0, 3), (1, -1)))
    for tau in (0.05, 1.0, 50.0):
        scheme = MinimizingScheme(y, tau)
        torch.testing.assert_close(scheme.next(x), (x + 2 * tau * y) / (1 + 2 * tau))
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(6, 2, generator=generator, dtype=torch.float64) for _ in range(2))
    scheme = MinimizingScheme(y, 0.5)
    found = scheme.next(x)

    def value(z):
        return scheme.distance(z, x) / (2 * scheme.tau) + scheme.distance(z, y)

    assert value(found) < min(value(x), value(scheme.explicit(x)))
    for _ in range(30):
        noise = torch.randn(6, 2, generator=generator, dtype=torch.float64)
        assert value(found + 1e-3 * noise) > value(found) * (1 - 1e-5)
        assert value(found + 0.05 * noise) > value(found)
    assert all(one.measures["increases"] == 0 for one in quick("minimizing"))
    assert all(one.measures["value"] > 1 - 1e-9 for one in quick("minimizing"))
