"""The public face, read off the signatures: one word for one idea, everywhere."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch

import slicewise as sw
from slicewise.color import ColorTransfer, transfer
from slicewise.judging import Judge, judge
from slicewise.metric import SlicedWassersteinMetric, StreamingSlicedWassersteinMetric
from slicewise.training import Generator, Stack, Translator, train

ROOT = Path(__file__).parents[1]
DISTANCES = [sw.sliced_wasserstein, sw.evaluate, sw.value_and_grad]
CALLS = [
    *DISTANCES,
    sw.displacement,
    sw.sliced_plan,
    sw.couple,
    sw.interpolate,
    sw.unbalanced,
    sw.spherical_uniformity,
    sw.SlicedWasserstein.__init__,
    sw.SlicedWasserstein.forward,
    sw.flow,
    sw.wasserstein,
    sw.effective_subspace,
    sw.subspace_robust_wasserstein,
    sw.subspace_detour,
    sw.Target.__init__,
    train,
    transfer,
    ColorTransfer.__init__,
    judge,
    Judge.__init__,
    Generator.__init__,
    Generator.sample,
    Translator.__init__,
    Stack.__init__,
    SlicedWassersteinMetric.__init__,
    StreamingSlicedWassersteinMetric.__init__,
]
# Words that no public call has any more, and the one that has taken their place.
GONE = {
    "seed": "generator",
    "rng": "generator",
    "power": "objective",
    "steps": "max_steps",
    "step": "step_rule",
    "share": "step_factor",
    "detach": "hold_weights",
    "optimiser": "optimizer",
    "bar": "progress_bar",
    "at_least": "lower_bound",
    "thetas": "slices",
    "projections": "slices",
    "n_projections": "n_slices",
}


def parameters(call):
    return inspect.signature(call).parameters


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__qualname__)
def test_one_word_for_one_idea(call):
    assert not GONE.keys() & parameters(call).keys()


def test_calls_that_take_the_same_thing_take_it_alike():
    same = {}
    for call in [*DISTANCES, sw.displacement]:
        for name, parameter in parameters(call).items():
            same.setdefault(name, set()).add((parameter.kind, repr(parameter.default)))
    assert {name: kinds for name, kinds in same.items() if len(kinds) > 1} == {}


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__qualname__)
def test_what_follows_the_first_arguments_is_given_by_name(call):
    free = [
        name
        for name, one in parameters(call).items()
        if one.kind is one.POSITIONAL_OR_KEYWORD and name != "self"
    ]
    assert len(free) <= 3, free


def test_every_variant_holds_weights_by_one_word():
    for name, variant in sw.VARIANTS.items():
        assert not GONE.keys() & variant.options.keys(), name
        assert variant.options.get("hold_weights", None) is None


def test_flow_has_the_few_arguments_people_use():
    assert len(parameters(sw.flow)) <= 22


def test_dir_is_the_public_names():
    assert set(dir(sw)) == {*sw.__all__, "__version__"}
    for name in sw.__all__:
        assert getattr(sw, name) is not None
        assert (getattr(sw, name).__doc__ or "").strip(), f"{name} has no docstring"


@pytest.mark.parametrize(
    "name", [n for n in sw.__all__ if callable(getattr(sw, n)) and n[0].islower()]
)
def test_public_functions_are_documented(name):
    """Args, Returns, Raises where there are any, and an example that runs with the doctests."""
    call = getattr(sw, name)
    doc = inspect.getdoc(call) or ""
    if parameters(call):
        assert "Args:" in doc
    assert "Returns:" in doc
    assert ">>>" in doc
    for argument in parameters(call):
        assert argument in doc, f"{name} does not say what {argument} is"


def test_old_paths_work_with_a_warning():
    """In a process of its own, where none of them has been imported yet."""
    code = """
import importlib, warnings
import slicewise
from slicewise.support.renamed import MOVED
for old, new in MOVED.items():
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        importlib.import_module(old)
    found = [str(one.message) for one in said if one.category is DeprecationWarning]
    wanted = [f"{old} has moved to {new}"] if old != "slicewise.learn" else []
    assert [one.partition(":")[0] for one in found] == wanted, (old, found)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_names_under_old_paths_are_the_same():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from slicewise.learn.color import transfer as old_transfer
        from slicewise.learn.latent import Generator as OldGenerator
        from slicewise.learn.latent import Judge as OldJudge
        from slicewise.slicers import Uniform as OldUniform
        from slicewise.weighting import Energy as OldEnergy
    assert old_transfer is transfer
    assert (OldGenerator, OldJudge) == (Generator, Judge)
    assert sw.Recipe(OldUniform(5), OldEnergy()) == sw.VARIANTS["ebsw"](n_slices=5)


def test_recipes_pickled_before_are_read():
    """As slicewise 0.1 wrote them: the modules are those of before."""
    new = pickle.dumps(sw.VARIANTS["ebsw"](n_slices=7), protocol=0)
    old = new
    for now, before in {
        b"cslicewise.variants.recipe\n": b"cslicewise.recipe\n",
        b"cslicewise.parts.slicers\n": b"cslicewise.slicers\n",
        b"cslicewise.parts.weightings\n": b"cslicewise.weighting\n",
    }.items():
        assert now in old
        old = old.replace(now, before)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        assert pickle.loads(old) == sw.VARIANTS["ebsw"](n_slices=7)


@pytest.mark.parametrize("kind", ["images", "sweep"])
def test_images_are_warned_of_once(kind):
    loss = sw.SlicedWasserstein()
    shape = (2, 3, 16, 16) if kind == "images" else (2, 3, 40, 8)
    x = torch.randn(shape)
    if kind == "sweep":
        assert loss(x, x + 1).isfinite()
        return
    with pytest.warns(UserWarning, match=r"looks like images .*x\.flatten\(1\)"):
        value = loss(x, x + 1)
    assert value == value
    loss(x, x + 1)  # no second time: warnings are errors here


def test_one_call_passes_few_modules():
    """The trace of docs/design.md: `sliced_wasserstein(x, y, "ebsw")` on a CPU enters at most 15 modules."""
    root = str(Path(sw.__file__).parent)
    x, y = torch.randn(2, 50, 3)
    entered = []

    def note(frame, event, argument):
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(root) and file not in entered:
            entered.append(file)

    sw.sliced_wasserstein(x, y, "ebsw", backend="auto")
    sys.setprofile(note)
    try:
        sw.sliced_wasserstein(x, y, "ebsw", backend="auto")
    finally:
        sys.setprofile(None)
    modules = [str(Path(file).relative_to(root)) for file in entered]
    assert len(modules) <= 15, modules
    page = (ROOT / "docs" / "design.md").read_text()
    for module in modules:
        assert f"`{module.removesuffix('.py')}`" in page, f"docs/design.md does not name {module}"
