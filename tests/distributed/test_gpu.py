"""Losses of several processes on CUDA tensors: over NCCL where there are GPUs enough, over gloo on one GPU."""

from __future__ import annotations

import pytest
import torch

import slicewise as sw
from tests.ranks import loss_of, run, shares

pytestmark = pytest.mark.gpu
VARIANTS = ("sw", "ebsw", "maxsw", "rpsw", "dsw", "rmsw")


def samples():
    draw = torch.Generator().manual_seed(3)
    return torch.randn(37, 5, generator=draw).double(), torch.randn(29, 5, generator=draw).double()


def losses_on(rank, size, variants):
    """Value and gradient of this rank's share, for each variant."""
    torch.cuda.set_device(rank % torch.cuda.device_count())
    found = []
    for variant in variants:
        x, y = (shares(side, size)[rank].cuda() for side in samples())
        x.requires_grad_()
        value = loss_of(variant)(x, y, generator=torch.Generator("cuda").manual_seed(11))
        value.backward()
        found.append((value.detach().cpu(), x.grad.cpu()))
    return found


@pytest.mark.parametrize(("backend", "size"), [("nccl", 1), ("gloo", 2), ("nccl", 2)])
def test_processes_with_gpus_compute_the_loss_of_one(backend, size):
    if backend == "nccl" and size > torch.cuda.device_count():
        pytest.skip(
            f"NCCL needs a GPU for each of {size} processes, {torch.cuda.device_count()} there"
        )
    found = run(size, losses_on, VARIANTS, backend=backend)
    for k, variant in enumerate(VARIANTS):
        x, y = (side.cuda() for side in samples())
        x.requires_grad_()
        value = sw.SlicedWasserstein(variant)(
            x, y, generator=torch.Generator("cuda").manual_seed(11)
        )
        value.backward()
        assert all(
            torch.allclose(one[k][0], value.detach().cpu(), rtol=1e-10, atol=0) for one in found
        ), variant
        gradient = torch.cat([one[k][1] for one in found])
        assert torch.allclose(gradient, x.grad.cpu(), rtol=1e-8, atol=1e-12), variant
