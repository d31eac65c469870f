"""Whatever is given for an argument of a public call: it is taken, or refused by an error of the library's own."""

from __future__ import annotations

import fractions
import math

import pytest
import torch

from benchmarks.torture.arguments import _FACES, X, _outcome

HOSTILE = {
    "None": lambda: None,
    "a fraction": lambda: fractions.Fraction(1, 2),
    "sparse": lambda: X.to_sparse(),
    "nested": lambda: torch.nested.nested_tensor([X[:2], X[:3]], layout=torch.jagged),
    "no samples": lambda: X[:0],
    "a batch of none": lambda: torch.zeros(0, 6, 3),
    "complex": lambda: X + 0j,
    "meta": lambda: X.to("meta"),
    "a word": lambda: "sw",
    "NaN": lambda: math.nan,
    "huge": lambda: 10**30,
    "an object": lambda: object(),
    "a list": lambda: [],
}
CASES = [(face, name) for face, (_, fits, more) in _FACES.items() for name in dict.fromkeys((*fits, *more))]  # fmt: skip


@pytest.mark.parametrize(("face", "name"), CASES)
def test_an_argument_of_the_wrong_kind(face, name):
    call, fits, _ = _FACES[face]
    for kind, make in HOSTILE.items():
        assert _outcome(face, call, {**fits, name: make()}, 0) is None, kind


@pytest.mark.parametrize("kind", ["sparse", "nested"])
def test_other_layouts_are_named(kind):
    import slicewise as sw

    with pytest.raises(ValueError, match=f"x is a {kind}.* tensor: samples are plain tensors"):
        sw.sliced_wasserstein(HOSTILE[kind](), X)


@pytest.mark.parametrize("device", ["meta"])
def test_a_default_device_does_not_reach_calls_on_the_cpu(device):
    import slicewise as sw
    from slicewise.stats import barycenter

    x, y = torch.randn(2, 9, 3).unbind()
    quiet = sw.Recording(progress_bar=False)
    with torch.device(device):
        assert sw.sliced_wasserstein(x, y).device.type == "cpu"
        assert sw.value_and_grad(x, y)[1].device.type == "cpu"
        found = sw.flow(x, y, max_steps=200, recording=quiet)
        assert found.particles.device.type == "cpu"
        assert sw.two_sample_test(x, y, permutations=9).p_value > 0
        assert barycenter([x, y]) is not None


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_a_default_dtype_does_not_change_values(dtype):
    import slicewise as sw

    x, y = torch.randn(2, 9, 3).unbind()
    variants = ("sw", "maxsw", "ebsw", "orthosw", "qsw", "rpsw", "phisw", "lcvsw")
    before = [sw.sliced_wasserstein(x, y, name, generator=1) for name in variants]
    torch.set_default_dtype(dtype)
    try:
        after = [sw.sliced_wasserstein(x, y, name, generator=1) for name in variants]
    finally:
        torch.set_default_dtype(torch.float32)
    assert all(a.dtype == torch.float32 for a in after)
    assert torch.equal(torch.stack(before), torch.stack(after))
