"""Plans, spheres and unbalanced distances on a CUDA device are those of the CPU."""

from __future__ import annotations

import pytest
import torch

import slicewise as sw
import slicewise.pot
from tests.tolerances import assert_close

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


def both(call):
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(k, 3, generator=generator, dtype=torch.float64) for k in (40, 30))
    slices = torch.nn.functional.normalize(torch.randn(9, 6, generator=generator).double(), dim=-1)
    return [call(*(t.to(device) for t in (x, y, slices))) for device in ("cpu", "cuda")]


@pytest.mark.parametrize("kind", ["best", "expected"])
@pytest.mark.parametrize("n", [40, 30])
def test_plans(kind, n):
    here, there = both(lambda x, y, s: sw.sliced_plan(x[:n], y, kind, slices=s[:, :3]))
    assert there.mass.is_cuda
    assert_close(there.cost.cpu(), here.cost)
    assert_close(there.dense().cpu(), here.dense())


@pytest.mark.parametrize("name", ["ssw", "linearssw", "ris3w"])
@pytest.mark.parametrize("n", [40, 30])
def test_spheres_with_gradients(name, n):
    def call(x, y, slices):
        x = x[:n].clone().requires_grad_()
        value = sw.sliced_wasserstein(x, y, name, slices=slices)
        return value, torch.autograd.grad(value, x)[0]

    for here, there in zip(*both(call), strict=True):
        assert_close(there.cpu(), here)


@pytest.mark.parametrize("marginals", ["per_slice", "shared"])
def test_unbalanced(marginals):
    here, there = both(
        lambda x, y, s: sw.unbalanced(x, y, 1.0, marginals=marginals, slices=s[:, :3])
    )
    assert_close(there.value.cpu(), here.value)
    assert_close(there.x_marginal.cpu(), here.x_marginal)


def test_the_face_of_pot_stays_on_the_device():
    def call(x, y, slices):
        columns = slices[:, :3].T.contiguous()
        value = slicewise.pot.sliced_wasserstein_distance(x, y, projections=columns)
        plan, cost = slicewise.pot.min_sliced_transport_plan(x, y, projections=columns)
        assert value.device == plan.device == x.device
        return torch.stack([value, cost])

    here, there = both(call)
    assert_close(there.cpu(), here)
    sw_seeded = slicewise.pot.sliced_wasserstein_distance(
        torch.randn(5, 2, device="cuda"), torch.randn(5, 2, device="cuda"), seed=0
    )
    assert sw_seeded.is_cuda
