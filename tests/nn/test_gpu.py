"""Regularizers on a CUDA device: by kernels and captured graphs, against the CPU in double precision."""

from __future__ import annotations

import pytest
import torch

from slicewise.distance import replay
from slicewise.nn import SIGReg, SlicedNormal, VISReg
from tests.tolerances import assert_close

pytestmark = pytest.mark.gpu
ALL = [SlicedNormal, SIGReg, VISReg]


@pytest.mark.parametrize("kind", ALL)
def test_given_slices(kind):
    x = torch.randn(300, 16, generator=torch.Generator().manual_seed(0))
    along = torch.randn(30, 16, generator=torch.Generator().manual_seed(1))
    along = torch.nn.functional.normalize(along, dim=-1)
    live = [x.clone().requires_grad_(), x.cuda().requires_grad_()]
    values = [kind(30)(t, slices=along.to(t.device)) for t in live]
    for value in values:
        value.backward()
    assert_close(values[1].cpu(), values[0])
    assert_close(live[1].grad.cpu(), live[0].grad)


@pytest.mark.parametrize("shape", [(2048, 512), (4, 300, 16), (5000, 40)])
@pytest.mark.parametrize("kind", ALL)
def test_captured_steps(kind, shape):
    loss, before = kind(50), set(replay._kept.graphs)
    # Graphs are captured in the third step, and replayed with other embeddings and other slices. In double precision:
    # in single precision projections that nearly coincide lie in another order than those of the reference.
    for seed in range(5):
        generator = torch.Generator().manual_seed(seed)
        x = 1.5 * torch.randn(shape, generator=generator, dtype=torch.float64) + 0.2
        torch.manual_seed(seed)
        live = x.cuda().requires_grad_()
        value = loss(live)
        along = value.grad_fn.slices
        (3 * value).backward()
        assert_close(along.norm(dim=-1).cpu(), torch.ones(50, dtype=torch.float64))
        wanted = x.clone().requires_grad_()
        known = kind(50)(wanted, slices=along.cpu())
        (3 * known).backward()
        assert_close(value.cpu(), known)
        assert_close(live.grad.cpu(), wanted.grad)
    assert len(set(replay._kept.graphs) - before) == 1


@pytest.mark.parametrize("kind", ALL)
def test_captured_steps_in_single_precision(kind):
    loss = kind(50)
    for seed in range(5):
        x = torch.randn(2048, 64, generator=torch.Generator().manual_seed(seed)).cuda()
        live = x.clone().requires_grad_()
        value = loss(live)
        along = value.grad_fn.slices
        value.backward()
        known, gradient = loss._pricing(x)(x.clone(), along)  # eagerly
        assert_close(value, known)
        assert_close(live.grad, gradient)


@pytest.mark.parametrize("kind", ALL)
def test_a_seed_gives_the_same_slices_captured_or_not(kind):
    x = torch.randn(300, 16, device="cuda", requires_grad=True)
    loss, found = kind(30), []
    for _ in range(5):
        torch.manual_seed(4)
        found.append(loss(x).detach())
    for one in found[1:]:
        assert_close(one, found[0], rtol=1e-6)


@pytest.mark.parametrize("n_points", [2, 17, 33, 34])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sums_of_characteristic_functions(n_points, dtype):
    x = torch.randn(2, 5001, 6, generator=torch.Generator().manual_seed(0)).to(dtype)
    along = torch.nn.functional.normalize(torch.randn(9, 6).to(dtype), dim=-1)
    found = []
    for device in ("cuda", "cpu"):
        live = x.to(device).requires_grad_()
        value = SIGReg(9, t_max=5.0, n_points=n_points)(live, slices=along.to(device))
        value.backward()
        found.append((value.detach().cpu(), live.grad.cpu()))
    for one, other in zip(*found, strict=True):
        assert_close(one, other)


def test_half_precision_and_autocast():
    x = torch.randn(400, 32, device="cuda", dtype=torch.float16)
    for kind in ALL:
        live, wide = x.clone().requires_grad_(), x.float().requires_grad_()
        for _ in range(4):
            torch.manual_seed(2)
            with torch.autocast("cuda", torch.float16):
                value = kind(20)(live)
            torch.manual_seed(2)
            assert_close(value, kind(20)(wide))
        value.backward()
        assert live.grad.dtype == torch.float16
        assert live.grad.isfinite().all()
