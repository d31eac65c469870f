"""Bad input: a ValueError that names the argument, what was given and what is wanted."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import slicewise as sw
from slicewise.parts.slicers import Uniform
from slicewise.problem.padding import pad

X, Y = torch.randn(6, 3), torch.randn(5, 3)
NAN = torch.full((6, 3), float("nan"))
INF = X.clone().index_fill(0, torch.tensor([2]), float("inf"))


def weights(*entries):
    return torch.tensor(entries)


CASES = {
    "a ragged list": (([[0.0], [1.0, 2.0]], Y), {}, "a list that cannot be read", "n rows of d numbers each"),
    "a set": (({0.0}, Y), {}, "x is a set", "torch.Tensor"),
    "an array of words": ((X, np.array([["a"]])), {}, "a ndarray that cannot be read", "shape (n, d)"),
    "integers": ((X.long(), Y), {}, "x has dtype torch.int64", "x.float()"),
    "one axis": ((X[:, 0], Y), {}, "x has shape (6,)", "(n, d)"),
    "no samples": ((X[:0], Y), {}, "x has shape (0, 3)", "at least one"),
    "no coordinates": ((X[:, :0], Y[:, :0]), {}, "x has shape (6, 0)", "at least one"),
    "dimensions": ((X, Y.T), {}, "y (3, 5)", "last dimensions"),
    "half and single": ((X.half(), Y), {}, "torch.float16 and y torch.float32", "x.to(y.dtype)"),
    "complex": ((X + 0j, Y), {}, "x has dtype torch.complex64", "torch.view_as_real(x)"),
    "dtypes": ((X, Y.double()), {}, "torch.float32 and y torch.float64", "y.to(x.dtype)"),
    "devices": ((X, Y.to("meta")), {}, "device cpu and y on meta", "y.to(x.device)"),
    "batches": ((X.expand(2, 6, 3), Y.expand(4, 5, 3)), {}, "x (2,) and y (4,)", "batch"),
    "p too small": ((X, Y), {"p": 0.5}, "p = 0.5", "p >= 1"),
    "p infinite": ((X, Y), {"p": float("inf")}, "p = inf", "finite"),
    "p NaN": ((X, Y), {"p": float("nan")}, "p = nan", "p >= 1"),
    "p a word": ((X, Y), {"p": "2"}, "p = '2'", "real number"),
    "NaN": ((NAN, Y), {}, "x of shape (6, 3) has 18 NaN or infinite", "finite"),
    "infinity": ((Y, INF), {}, "y of shape (6, 3) has 3 NaN or infinite", "finite"),
    "weights short": ((X, Y), {"x_weights": weights(0.5, 0.5)}, "x_weights has shape (2,)", "(6,) or"),
    "weights negative": (
        (X, Y), {"y_weights": weights(-0.5, 0.5, 0.5, 0.5, 0.0)}, "y_weights has a negative", "at least 0",
    ),
    "weights NaN": ((X, Y), {"y_weights": weights(*[float("nan")] * 5)}, "y_weights has a", "finite"),
    "weights unnormalised": ((X, Y), {"x_weights": torch.ones(6)}, "x_weights sums to 6", "sum to 1"),
    "weights integer": ((X, Y), {"x_weights": torch.ones(6).long()}, "x_weights is torch.int64", "floating"),
    "weights list": ((X, Y), {"x_weights": [1 / 3] * 6}, "x_weights sums to 2", "sum to 1"),
    "weights batch": (
        (X.expand(2, 6, 3), Y), {"x_weights": torch.full((3, 6), 1 / 6)}, "x_weights (3,)", "batch",
    ),
    "slices as columns": ((X, Y), {"slices": torch.randn(3, 7)}, "slices has shape (3, 7)", "transpose"),
    "slices empty": ((X, Y), {"slices": torch.randn(0, 3)}, "slices has shape (0, 3)", "at least one"),
    "slices list": ((X, Y), {"slices": [1.0]}, "slices has shape (1,)", "(L, 3)"),
    "slices NaN": ((X, Y), {"slices": NAN}, "slices of shape (6, 3)", "finite"),
    "slices beyond the batch": ((X, Y), {"slices": torch.randn(4, 7, 3)}, "slices has shape (4, 7, 3)", "expand"),
    "n_slices zero": ((X, Y), {"n_slices": 0}, "n_slices = 0", "at least 1"),
    "n_slices fraction": ((X, Y), {"n_slices": 2.5}, "n_slices = 2.5", "whole number"),
    "variant": ((X, Y, "ebws"), {}, "variant = 'ebws'", "did you mean 'ebsw'"),
    "variant in capitals": ((X, Y, "EBSW"), {}, "variant = 'EBSW'", "did you mean 'ebsw'"),
    "no variant": ((X, Y, None), {}, "variant is a NoneType", "e.g. 'sw'"),
    "a number of slices": ((X, Y, 100), {}, "variant is a int", "n_slices="),
    "weights for a variant": ((X, Y, torch.ones(6)), {}, "variant is a Tensor", "x_weights="),
    "POT's count": ((X, Y), {"n_projections": 9}, "'n_projections'", "did you mean 'n_slices'"),
    "POT's directions": ((X, Y), {"projections": None}, "'projections'", "did you mean 'slices'? slices are rows"),
    "POT's weights": ((X, Y), {"a": None}, "'a'", "did you mean 'x_weights'"),
    "POT's seed": ((X, Y), {"seed": 0}, "'seed'", "generator=0, a seed"),
    "power of before": ((X, Y), {"power": True}, "'power'", "objective='power' for SW_p^p"),
    "detach of before": ((X, Y, "ebsw"), {"detach": True}, "'detach'", "hold_weights=True"),
    "POT's log": ((X, Y), {"log": True}, "'log'", "evaluate(x, y)"),
    "of the loss": ((X, Y), {"reduction": "mean"}, "'reduction'", "SlicedWasserstein(reduction=...)"),
    "a device": ((X, Y), {"device": "cuda"}, "'device'", "x.to(device)"),
    "argument": ((X, Y), {"y_weight": None}, "'y_weight'", "did you mean 'y_weights'"),
    "option": ((X, Y, "ebsw"), {"temprature": 1}, "'temprature'", "did you mean 'temperature'"),
    "no such option": ((X, Y, "sw"), {"kappa": 1}, "option of variant 'sw' = 'kappa'", "n_slices"),
    "no legacy": ((X, Y, "sw"), {"legacy": True}, "'legacy'", "n_slices"),
    "defaults": ((X, Y, "sw"), {"defaults": "papers"}, "defaults = 'papers'", "'paper'"),
    "convention": ((X, Y, "sw"), {"convention": "sum"}, "convention = 'sum'", "mean, reference"),
    "backend": ((X, Y), {"backend": "cupy"}, "backend = 'cupy'", "auto"),
    "kappa": ((X, Y, "rmsw"), {"kappa": -5.0}, "kappa = -5.0", "above 0"),
    "kappa infinite": ((X, Y, "rpsw"), {"kappa": float("inf")}, "kappa = inf", "finite"),
    "law": ((X, Y, "vdsw"), {"law": "vonmises"}, "law = 'vonmises'", "vmf"),
    "slicer and count": (
        (X, Y, "phisw"), {"slicer": Uniform(9), "n_slices": 9}, "n_slices = 9", "Uniform(9)",
    ),
    "slices and count": ((X, Y), {"slices": torch.eye(3), "n_slices": 9}, "n_slices = 9", "slices holds 3"),
    "words as generators": ((X.expand(2, 6, 3), Y), {"generator": [0, "1"]}, "list of '1'", "a seed (a whole number)"),
    "weights of another batch": (
        (X, Y.expand(4, 5, 3)), {"x_weights": torch.full((3, 6), 1 / 6)}, "x_weights (3,)", "batch",
    ),
    "basis of one axis": ((X, Y, "phisw"), {"basis": torch.ones(3)}, "basis of shape (3,)", "(d, k)"),
    "K above d": ((X, Y, "maxksw"), {"n_slices": 4}, "n_slices = 4", "n_slices <= 3"),
    "K above d, random": ((X, Y, "ksw"), {"n_slices": 4}, "d = 3", "orthosw"),
    "several max slices": ((X, Y, "maxsw"), {"n_slices": 2}, "n_slices = 2", "maxksw"),
    "broken chains": ((X, Y, "omsw"), {"n_slices": 55}, "n_slices = 55", "50 or 60"),
    "too few for a chain": ((X, Y, "omsw"), {"n_slices": 5}, "n_slices = 5", "n_slices = 10"),
    "all burnt": ((X, Y, "omsw"), {"burn_in": 10}, "burn_in = 10", "lower it"),
    "no steps": ((X, Y, "maxsw"), {"n_steps": 0}, "n_steps = 0", "at least 1"),
    "energy": ((X, Y, "ebsw"), {"energy": "exponential"}, "energy = 'exponential'", "exp, identity, poly"),
    "temperature": ((X, Y, "ebsw"), {"temperature": 0}, "temperature = 0", "above 0"),
    "temperature a word": ((X, Y, "ebsw"), {"temperature": "1"}, "temperature = '1'", "finite number"),
    "kappa a word": ((X, Y, "rpsw"), {"kappa": "5"}, "kappa = '5'", "above 0"),
    "ascent downwards": ((X, Y, "maxsw"), {"ascent_step": -1.0}, "ascent_step = -1.0", "above 0"),
    "ascent NaN": ((X, Y, "imsw"), {"ascent_step": float("nan")}, "ascent_step = nan", "finite"),
    "learning downwards": ((X, Y, "dsw"), {"inner_lr": -1.0}, "inner_lr = -1.0", "above 0"),
    "penalty": ((X, Y, "asw"), {"penalty": -0.5}, "penalty = -0.5", "at least 0"),
    "betas": ((X, Y, "dsw"), {"betas": (2.0, 3.0)}, "betas = (2.0, 3.0)", "[0, 1)"),
    "one beta": ((X, Y, "asw"), {"betas": 0.5}, "betas = 0.5", "two numbers"),
    "radius": ((X, Y, "gsw"), {"function": "circular", "radius": 0}, "radius = 0", "above 0"),
    "basis an array": ((X, Y, "phisw"), {"basis": np.eye(3)}, "basis is a ndarray", "torch.Tensor"),
    "orthogonal on a line": ((X[:, :1], Y[:, :1], "omsw"), {}, "d = 1", "'sw'"),
    "basis not orthonormal": ((X, Y, "phisw"), {"basis": torch.ones(3, 2)}, "basis of shape (3, 2)", "orthonormal"),
    "basis dimension": ((X, Y, "phisw"), {"basis": torch.eye(4)[:, :2]}, "basis has shape (4, 2)", "(3, k)"),
    "a fraction as generator": ((X, Y), {"generator": 7.5}, "generator is a float of 7.5", "torch.Generator"),
    "truth as generator": ((X, Y), {"generator": True}, "generator is a bool of True", "a seed"),
    "too few generators": (
        (X.expand(2, 6, 3), Y), {"generator": [torch.Generator()]}, "generator holds 1", "has 2 elements",
    ),
    "progress": ((X, Y), {"progress": 2}, "progress = 2", "0 to 1"),
    "options for a recipe": (
        (X, Y, sw.VARIANTS["sw"]()), {"n_slices": 3}, "n_slices cannot change", "Recipe(Uniform(50))",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_message_names_what_was_given_and_what_is_wanted(case):
    arguments, options, given_words, wanted_words = CASES[case]
    with pytest.raises(ValueError, match=re.escape(given_words)) as caught:
        sw.sliced_wasserstein(*arguments, **options)
    assert wanted_words in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (({1.0},), "y is a set: give a torch.Tensor"),
        ((Y[:, 0],), "y has shape (5,): give (n, d)"),
        ((Y, "sw"), "slices is a str: give a tensor (L, 3)"),
        ((Y, torch.randn(3, 7)), "slices has shape (3, 7)"),
    ],
    ids=["a set", "one axis", "a variant", "columns"],
)
def test_a_target_speaks_of_its_own_arguments(arguments, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        sw.Target(*arguments)


def test_a_name_that_is_not_there_is_answered_by_one_that_is():
    with pytest.raises(AttributeError, match="did you mean 'sliced_wasserstein'"):
        sw.sliced_wasserstein_distance  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute '__wrapped__'$"):
        sw.__wrapped__  # noqa: B018


def test_a_variant_prints_its_options():
    assert repr(sw.VARIANTS["rpsw"]) == "Variant('rpsw', n_slices=50, kappa=50.0)"


@pytest.mark.parametrize("part", ["sw", None, 50, Uniform], ids=str)
def test_a_recipe_is_made_of_parts(part):
    with pytest.raises(
        ValueError, match=re.escape(f"slicer = {part!r}: a recipe is made of parts")
    ):
        sw.Recipe(part)
    if part is not None:
        with pytest.raises(ValueError, match=r"lift = .*: a recipe is made of parts"):
            sw.Recipe(Uniform(5), lift=part)


@pytest.mark.parametrize("shape", [(0, 3), (5, 4)])
def test_a_slicer_of_ones_own_gives_slices_that_fit(shape):
    def slicer(problem, rng):
        return torch.ones(shape)

    with pytest.raises(
        ValueError, match=re.escape(f"gave slices of shape {shape}: a slicer gives (*batch, L, 3)")
    ):
        sw.sliced_wasserstein(X, Y, sw.Recipe(slicer))
    with pytest.raises(ValueError, match=re.escape("Uniform(0) gave slices of shape (0, 3)")):
        sw.sliced_wasserstein(X, Y, sw.Recipe(Uniform(0)))


def test_numbers_of_numpy_are_numbers():
    value = sw.sliced_wasserstein(X, Y, n_slices=np.int64(4), p=np.float64(2))
    assert value.isfinite()


MODULE_CASES = {
    "scale": ({"scale": "gauss"}, "scale = 'gauss'", "'gaussian'"),
    "reduction": ({"reduction": "avg"}, "reduction = 'avg'", "mean, sum, none"),
    "variant": ({"variant": "sww"}, "variant = 'sww'", "'sw'"),
    "p": ({"p": 0}, "p = 0", "p >= 1"),
    "of the call": ({"progress": 0.5}, "'progress'", "where the distance is computed"),
    "subspace_dim": ({"subspace_dim": 0}, "subspace_dim = 0", "at least 1"),
}


@pytest.mark.parametrize("case", MODULE_CASES)
def test_the_module_says_so_when_it_is_made(case):
    options, given_words, wanted_words = MODULE_CASES[case]
    with pytest.raises(ValueError, match=re.escape(given_words)) as caught:
        sw.SlicedWasserstein(**options)
    assert wanted_words in str(caught.value)


def test_theory_functions_say_so_too():
    with pytest.raises(ValueError, match="k = 3 and d = 2"):
        sw.essf(2, 3)
    with pytest.raises(ValueError, match="d = 0"):
        sw.gaussian_constant(0)
    with pytest.raises(ValueError, match="variance = 0"):
        sw.effective_subspace(X, Y, variance=0)
    with pytest.raises(ValueError, match=re.escape("y (3, 5)")):
        sw.effective_subspace(X, Y.T)
    with pytest.raises(ValueError, match=re.escape("basis (2, 3)")):
        sw.empirical_essf(X, torch.eye(3)[:2])
    space = sw.effective_subspace(X, Y)
    with pytest.raises(
        ValueError, match=re.escape("x has shape (6, 2), this subspace is of k = 3")
    ):
        space.reduce(X[:, :2])
    with pytest.raises(ValueError, match=re.escape("give (*batch, n, 3)")):
        space.embed(X[:, :2])
    with pytest.raises(ValueError, match=re.escape("shapes [(0, 3)]")):
        pad([X[:0]])
    with pytest.raises(ValueError, match=re.escape("shapes [(6, 3), (5, 2)]")):
        pad([X, Y[:, :2]])
    with pytest.raises(ValueError, match=r"float32.* and .*float64.*: give tensors of one dtype"):
        pad([X, Y.double()])
    with pytest.raises(ValueError, match=r"samples are of .*ndarray.*: .*torch.as_tensor"):
        pad([X, X.numpy()])
    with pytest.raises(ValueError, match=re.escape("one tensor of shape (6, 3): give a list")):
        pad(X)
    with pytest.raises(ValueError, match="18 NaN"):
        sw.effective_subspace(NAN, Y)
    with pytest.raises(ValueError, match="n_slices = 0"):
        sw.VARIANTS["ebsw"](n_slices=0)
    with pytest.raises(ValueError, match="subspace of R"):
        sw.SlicedWasserstein(scale="subspace", subspace_dim=9)(X, Y)


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 5), m=st.integers(1, 5), d=st.integers(1, 4), other=st.integers(1, 4),
    p=st.floats(-2, 4), bad=st.sampled_from([None, float("nan"), float("inf")]),
    total=st.floats(0.2, 3), variant=st.sampled_from(sorted(sw.VARIANTS)),
)  # fmt: skip
def test_any_input_gives_a_number_or_a_value_error(n, m, d, other, p, bad, total, variant):
    x, y = torch.randn(n, d), torch.randn(m, other)
    if bad is not None:
        x[0, 0] = bad
    scaled = torch.full((n,), total / n)
    fits = d == other and p >= 1 and bad is None and abs(total - 1) <= 1e-4
    possible = not (variant == "omsw" and d == 1) and not (variant in ("ksw", "maxksw") and d == 1)
    possible = possible and (p == 2 or "every_order" in sw.VARIANTS[variant].properties)
    if fits and possible:
        assert sw.sliced_wasserstein(x, y, variant, p=p, x_weights=scaled) >= 0
    else:
        with pytest.raises(ValueError):  # noqa: PT011
            sw.sliced_wasserstein(x, y, variant, p=p, x_weights=scaled)


@pytest.mark.parametrize(
    ("gives", "words"),
    [
        (lambda d: None, "gave NoneType: a slicer gives (*batch, L, 3)"),
        (lambda d: torch.zeros(4, d), "gave 4 of 4 slices that are zero, NaN or infinite"),
        (
            lambda d: torch.tensor([[1.0] * d, [float("nan")] * d]),
            "gave 1 of 2 slices that are zero",
        ),
        (lambda d: torch.full((2, d), float("inf")), "gave 2 of 2 slices"),
    ],
    ids=["None", "zeros", "NaN", "infinite"],
)
def test_a_slicer_of_ones_own_that_fails_is_named(gives, words):
    def my_slicer(problem, rng):
        return gives(problem.d)

    for call in (sw.sliced_wasserstein, sw.value_and_grad, sw.displacement):
        with pytest.raises(ValueError, match=re.escape(words)) as caught:
            call(X, Y, sw.Recipe(my_slicer))
        assert "my_slicer" in str(caught.value)


def test_a_name_that_is_taken_is_refused():
    from slicewise.variants import variant

    with pytest.raises(ValueError, match="a variant 'sw' exists already"):

        @variant()
        def sw():  # pragma: no cover
            """Not the first."""

    with pytest.raises(ValueError, match="no such property"):
        variant(lacks={"beauty"})
