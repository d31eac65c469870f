"""On a CUDA device: the same numbers as on the CPU, and draws that a CUDA graph can capture."""

from __future__ import annotations

import pytest
import torch
from tolerances import assert_close

import slicewise as sw
from slicewise import sphere
from slicewise.randomness import Randomness

pytestmark = pytest.mark.gpu
CUDA = torch.device("cuda")


def pair(dtype=torch.float64, n=40, m=30, d=5):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(2, n, d, generator=generator, dtype=torch.float64)
    y = torch.randn(2, m, d, generator=generator, dtype=torch.float64) + 0.5
    return x.to(dtype), y.to(dtype)


@pytest.mark.parametrize("m", [40, 30])
@pytest.mark.parametrize("name", sw.VARIANTS)
def test_the_device_does_not_matter(name, m):
    """One generator on the CPU serves both: same slices, values and gradients."""
    found = []
    for device in ("cpu", "cuda"):
        x, y = (t.to(device) for t in pair(m=m))
        x.requires_grad_()
        generator = torch.Generator().manual_seed(0)
        result = sw.evaluate(x, y, name, generator=generator)
        assert result.value.device.type == result.slices.device.type == device
        (gradient,) = torch.autograd.grad(result.value.sum(), x)
        found.append((result.value.cpu(), result.slices.cpu(), gradient.cpu()))
    for here, there in zip(*found, strict=True):
        assert_close(there, here, rtol=1e-8)


@pytest.mark.parametrize("name", sw.VARIANTS)
def test_seeds_hold_on_the_device(name):
    x, y = (t.cuda() for t in pair(torch.float32))
    torch.manual_seed(3)
    first = sw.sliced_wasserstein(x, y, name)
    torch.manual_seed(3)
    assert sw.sliced_wasserstein(x, y, name).equal(first)
    own = [torch.Generator(CUDA).manual_seed(4) for _ in range(2)]
    values = [sw.sliced_wasserstein(x, y, name, generator=g) for g in own]
    assert values[0].equal(values[1])


@pytest.mark.parametrize("weighted", [False, True])
def test_weights_and_all_gradients(weighted):
    results = []
    for device in ("cpu", "cuda"):
        x, y = (t.to(device).requires_grad_() for t in pair())
        slices = torch.nn.functional.normalize(
            torch.arange(35.0, dtype=torch.float64).cos().reshape(7, 5), dim=-1
        )
        slices = slices.to(device).requires_grad_()
        inputs = [x, y, slices]
        options = {}
        if weighted:
            scores = torch.arange(40.0, dtype=torch.float64, device=device).sin().requires_grad_()
            inputs.append(scores)
            options = {"x_weights": scores.softmax(-1)}
        value = sw.sliced_wasserstein(x, y, slices=slices, **options).sum()
        results.append([value, *torch.autograd.grad(value, inputs)])
    for here, there in zip(*results, strict=True):
        assert_close(there.cpu(), here)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_with_autocast_and_a_scaler(dtype):
    x = torch.randn(2048, 512, device=CUDA).to(dtype).requires_grad_()
    y = (1.1 * torch.randn(2048, 512, device=CUDA) + 0.1).to(dtype)
    slices = torch.nn.functional.normalize(torch.randn(50, 512, device=CUDA), dim=-1)
    with torch.autocast("cuda", dtype=dtype):
        value = sw.sliced_wasserstein(x, y, slices=slices, power=True)
    (2.0**16 * value).backward()
    exact = x.detach().double().requires_grad_()
    truth = sw.sliced_wasserstein(exact, y.double(), slices=slices.double(), power=True)
    (2.0**16 * truth).backward()
    assert_close(value, truth, rtol=1e-3)
    assert (x.grad.double() - exact.grad).norm() / exact.grad.norm() < 1e-2


@pytest.mark.parametrize(
    "draw",
    [
        lambda mean, rng: sphere.uniform(tuple(mean.shape), rng),
        lambda mean, rng: sphere.von_mises_fisher(mean, 50.0, rng),
        lambda mean, rng: sphere.power_spherical(mean, 50.0, rng),
        lambda mean, rng: sphere.orthogonal_to(mean, rng),
    ],
    ids=["uniform", "vmf", "power_spherical", "orthogonal"],
)
def test_draws_are_captured_in_a_graph_and_fresh_at_each_replay(draw):
    mean = torch.zeros(4000, 512, device=CUDA, dtype=torch.float64)
    mean[:, 0] = 1
    rng = Randomness(None, CUDA)
    draw(mean, rng)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        drawn = draw(mean, rng)
    replays = []
    for _ in range(2):
        graph.replay()
        replays.append(drawn.clone())
    assert not replays[0].equal(replays[1])
    norms = torch.linalg.vector_norm(replays[1], dim=-1)
    assert (norms - 1).abs().max() < 1e-12


def test_the_loss_is_captured_in_a_graph():
    x, y = (t.cuda() for t in pair(torch.float32))
    x.requires_grad_()
    slices = torch.nn.functional.normalize(torch.randn(20, 5, device=CUDA), dim=-1)
    loss = sw.SlicedWasserstein()

    def step():
        return torch.autograd.grad(loss(x, y, slices=slices), x)[0]

    expected = step()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    graph.replay()
    assert_close(captured, expected)


@pytest.mark.filterwarnings("ignore")  # about torch's own code, while it compiles ours
def test_compiles_whole():
    loss = sw.SlicedWasserstein("ebsw")
    x, y = (t.cuda() for t in pair(torch.float32))
    slices = torch.nn.functional.normalize(torch.randn(20, 5, device=CUDA), dim=-1)
    compiled = torch.compile(loss, fullgraph=True)
    assert_close(compiled(x, y, slices=slices), loss(x, y, slices=slices))


@pytest.mark.parametrize(("variant", "steps"), [("sw", 20), ("ebsw", 20), ("rpsw", 20), ("dsw", 3)])
def test_a_flow_is_the_same_on_the_device(variant, steps):
    """Seeds draw on the CPU, so that both devices see the same slices.

    Adam's first steps are signs of gradients, which rounding may turn: few steps for a learned slicer.
    """
    x, y = pair(m=40)
    here, there = (
        sw.flow(x.to(device), y.to(device), variant, seeds=[1, 2], steps=steps)
        for device in ("cpu", "cuda")
    )
    assert there.particles.is_cuda
    assert_close(there.particles.cpu(), here.particles, rtol=1e-8)
    assert_close(there.trace.loss, here.trace.loss, rtol=1e-6)
    state = sw.flow(x.cuda(), y.cuda(), variant, seeds=[1, 2], steps=steps // 2).state
    rest = sw.flow(x.cuda(), y.cuda(), variant, seeds=[1, 2], steps=steps, resume=state)
    assert_close(rest.particles, there.particles)


def test_flows_converge_on_the_device():
    x, y = pair(torch.float32, n=200, m=200, d=2)
    found = sw.flow(x.cuda(), y.cuda(), seeds=[1, 2], stop_w2=1e-3)
    assert found.converged.all()
    rates = torch.tensor([10.0, 1e5], device="cuda")
    assert sw.flow(x.cuda()[0], y.cuda()[0], lr=rates, steps=50).diverged.tolist() == [False, True]


def test_displacement_on_the_device():
    x, y = pair()
    for variant in ("sw", "ebsw", "maxsw"):
        moves = []
        for device in ("cpu", "cuda"):
            a = x.clone().to(device).requires_grad_()
            loss = sw.SlicedWasserstein(variant, scale="displacement")
            loss(a, y.to(device), generator=torch.Generator().manual_seed(0)).backward()
            moves.append(a.grad.cpu())
        assert_close(moves[1], moves[0], rtol=1e-8)
