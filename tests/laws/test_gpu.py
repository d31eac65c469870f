"""On a CUDA device: samples against a law as on the CPU, by kernels and by captured graphs."""

from __future__ import annotations

import pytest
import torch

import slicewise as sw
from slicewise.distance import replay
from slicewise.kernels import matcher
from slicewise.laws import Normal, StudentT, UniformSphere
from slicewise.transport import RoundPoints, Wanted, match_slices
from tests.tolerances import assert_close

pytestmark = pytest.mark.gpu


def test_every_law_and_order():
    x = torch.randn(3, 257, 16, device="cuda")
    a = torch.rand(257, device="cuda")
    for law in (Normal(), Normal(0.5, [1.0] * 8 + [2.0] * 8), UniformSphere(4.0), StudentT(5.0)):
        for p in (1, 2, 3):
            for weights in (None, a / a.sum()):
                given = {"p": p, "x_weights": weights, "objective": "power"}
                along = torch.nn.functional.normalize(torch.randn(20, 16, device="cuda"), dim=-1)
                found = sw.value_and_grad(x, law, slices=along, **given)
                given["x_weights"] = None if weights is None else weights.cpu().double()
                wanted = sw.value_and_grad(
                    x.cpu().double(), law, slices=along.cpu().double(), **given
                )
                for one, other in zip(found, wanted, strict=True):
                    assert_close(one.cpu(), other)


def test_a_flow():
    x = torch.randn(257, 16, device="cuda")
    fixed = sw.Stopping(tolerance=None)
    moved = sw.flow(x, Normal(1.0), max_steps=20, seeds=0, stopping=fixed).particles
    assert float((moved.mean() - 1).abs()) < 0.5 * float((x.mean() - 1).abs())


@pytest.mark.parametrize(
    ("shape", "law", "dtype"),
    [
        ((2048, 512), Normal(), torch.float32),  # one block sorts a line, projected by a product
        ((2048, 512), Normal(), torch.float64),
        ((3, 257, 16), Normal(0.5, 2.0), torch.float32),  # projected where it is sorted; a batch
        ((3, 257, 16), Normal([[0.5] * 16, [1.0] * 16, [0.0] * 16]), torch.float64),  # one law each
        ((257, 16), Normal([[0.5] * 16, [1.0] * 16]), torch.float32),  # several laws for one set
        ((100, 600), UniformSphere(2.0), torch.float32),  # projected in parts
        ((100, 600), Normal([[0.5] * 600, [1.0] * 600]), torch.float32),
        ((9000, 24), StudentT(5.0), torch.float32),  # too long for one block
        ((2, 9000, 24), Normal(), torch.float64),
        ((9000, 24), Normal([[0.5] * 24, [1.0] * 24]), torch.float32),
    ],
    ids=str,
)
def test_kernels_move_the_points_of_a_law(shape, law, dtype):
    generator = torch.Generator().manual_seed(0)
    x = (1.5 * torch.randn(shape, generator=generator, dtype=torch.float64) + 0.3).to(dtype)
    along = torch.randn(30, shape[-1], generator=generator, dtype=torch.float64)
    along = torch.nn.functional.normalize(along, dim=-1).to(dtype)
    # The plain version in the same precision, where the samples are: it sorts the same projections. In single precision
    # those of double precision lie in another order wherever two of them nearly coincide (2,048 samples: the plain
    # version itself is 4e-4 from double precision, on a CPU too).
    x, along = x.cuda(), along.cuda()
    wanted = sw.value_and_grad(x, law, slices=along, objective="power", backend="torch")
    found = sw.value_and_grad(x, law, slices=along, objective="power")
    for one, other in zip(found, wanted, strict=True):
        assert_close(one, other)


@pytest.mark.parametrize("level", ["nvrtc", "torch-nvrtc"])
@pytest.mark.parametrize(
    ("batch", "n", "d", "means", "shared"),
    [
        ((), 2048, 512, (), True),
        ((), 1, 1, (), True),
        ((), 70, 5, (), True),
        ((3,), 257, 16, (), False),
        ((3,), 257, 40, (3,), False),
        ((3,), 257, 40, (3,), True),
        ((), 100, 700, (2,), True),
        ((), 5000, 20, (2,), True),  # too long for one block
    ],
)
def test_a_round_law_is_placed_by_the_slices(level, batch, n, d, means, shared):
    """Slices of any length: kernels find the mean along them, and how wide the law is."""
    generator = torch.Generator().manual_seed(n)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64).cuda()

    x, mean = 1.5 * draw(*batch, n, d), draw(*means, 1, d)
    slices = draw(*(() if shared else batch), 9, d)
    points = draw(n).sort().values
    law = RoundPoints(points, points.new_tensor(0.3), mean, 1.7)
    for given in (law, law.on(slices)):
        found = matcher(level, torch.device("cuda", 0))(
            x, x, slices, p=2, wanted=Wanted(True, False), y_sorted=given
        )
        placed = law.on(slices)
        assert_close(placed.scale[..., 0], 1.7 * slices.norm(dim=-1).expand(placed.loc.shape[:-1]))
        assert_close(placed.loc, slices @ mean.mT)
        wanted = match_slices(
            x, x, slices, p=2, wanted=Wanted(True, False), y_sorted=placed.written_out()
        )
        assert_close(found.cost, wanted.cost + 0.3 * placed.scale[..., 0] ** 2)
        assert_close(found.u_grad, wanted.u_grad)


@pytest.mark.parametrize("objective", ["root", "power"])
@pytest.mark.parametrize("variant", ["sw", "ebsw"])
def test_captured_calls_are_those_of_a_law(variant, objective):
    law, before = Normal(0.2), set(replay._kept.graphs)
    # Graphs are captured in the third call, and replayed with other samples and other slices.
    for seed in range(6):
        x = torch.randn(300, 20, generator=torch.Generator().manual_seed(seed)).cuda()
        torch.manual_seed(seed)
        value, gradient = sw.value_and_grad(x, law, variant, objective=objective)
        torch.manual_seed(seed)
        live = x.clone().requires_grad_()
        loss = sw.SlicedWasserstein(variant, objective=objective)(live, law)
        loss.backward()
        torch.manual_seed(seed)
        wanted = sw.sliced_wasserstein(x, law, variant, backend="torch")
        assert_close(value, wanted if objective == "root" else wanted**2)
        assert_close(loss.detach(), value)
        assert_close(live.grad, gradient)
    assert len(set(replay._kept.graphs) - before) >= 1


def test_a_captured_law_may_change():
    law = Normal(torch.zeros(8), 1.0)
    x = torch.randn(200, 8, device="cuda")
    for step in range(6):
        law.mean.fill_(float(step))
        torch.manual_seed(3)
        value, _ = sw.value_and_grad(x, law, objective="power")
        torch.manual_seed(3)
        fresh, _ = sw.value_and_grad(x, Normal(float(step)), objective="power", backend="torch")
        assert_close(value, fresh)


def test_laws_that_are_found_anew_are_not_captured():
    mixture = sw.laws.Mixture([Normal(-1.0, 0.3), Normal(1.0, 0.2)])
    x = torch.randn(60, 4, device="cuda")
    for law, p in ((mixture, 2), (Normal(), 3)):
        found = []
        for _ in range(5):
            torch.manual_seed(1)
            found.append(sw.value_and_grad(x, law, p=p)[0])
        for one in found[1:]:
            assert_close(one, found[0])
