"""On a CUDA device: the same numbers as on the CPU, and draws that a CUDA graph can capture."""

from __future__ import annotations

import pytest
import torch

import slicewise as sw
from slicewise.distance import replay
from slicewise.sampling import sphere
from slicewise.sampling.generators import Randomness
from tests.tolerances import assert_close

pytestmark = pytest.mark.gpu
CUDA = torch.device("cuda")


def pair(dtype=torch.float64, n=40, m=30, d=5):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(2, n, d, generator=generator, dtype=torch.float64)
    y = torch.randn(2, m, d, generator=generator, dtype=torch.float64) + 0.5
    return x.to(dtype), y.to(dtype)


def on_both_devices(x, y, variant, **how):
    """The same flow on the CPU and on a CUDA device, all steps of it."""
    fixed = sw.Stopping(tolerance=None)
    return tuple(
        sw.flow(x.to(device), y.to(device), variant, seeds=[1, 2], stopping=fixed, **how)
        for device in ("cpu", "cuda")
    )


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
        value = sw.sliced_wasserstein(x, y, slices=slices, objective="power")
    (2.0**16 * value).backward()
    exact = x.detach().double().requires_grad_()
    truth = sw.sliced_wasserstein(exact, y.double(), slices=slices.double(), objective="power")
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


ELEVEN = ["sw", "maxsw", "dsw", "maxksw", "imsw", "vimsw", "omsw", "rmsw", "ebsw", "rpsw", "ebrpsw"]


@pytest.mark.parametrize("lr", ["auto", 0.05])
@pytest.mark.parametrize("variant", ELEVEN)
def test_a_seed_means_the_same_on_any_device(variant, lr):
    """Both draw the same numbers, to single precision, so that both go the same way.

    Few steps of the flow, and of ascents, which amplify rounding about fivefold each.
    """
    x, y = pair(m=40)
    few = {"n_steps": 2} if "n_steps" in sw.VARIANTS[variant].options else {}
    here, there = on_both_devices(x, y, variant, lr=lr, max_steps=3, **few)
    assert there.particles.is_cuda
    assert_close(there.particles.cpu(), here.particles, rtol=1e-4)
    assert_close(there.history.loss, here.history.loss, rtol=1e-4)


class FedSlices:
    """Slices from a list, one entry a step."""

    def __init__(self, stack, steps):
        self.stack, self.steps = stack, steps

    def __call__(self, problem, rng):
        step = round(problem.progress * self.steps)
        return self.stack[step].to(problem.x).expand(*problem.batch, -1, -1)


@pytest.mark.parametrize("lr", ["auto", 2.0])
def test_fed_the_same_slices_both_devices_go_the_same_way(lr):
    """100 steps in double precision, to the tolerance table."""
    x, y = pair(m=40)
    generator = torch.Generator().manual_seed(5)
    stack = torch.nn.functional.normalize(
        torch.randn(100, 20, 5, generator=generator, dtype=torch.float64), dim=-1
    )
    recipe = sw.Recipe(FedSlices(stack, 100))
    here, there = (
        sw.flow(
            x.to(device),
            y.to(device),
            recipe,
            lr=lr,
            seeds=0,
            max_steps=100,
            stopping=sw.Stopping(tolerance=None),
        )
        for device in ("cpu", "cuda")
    )
    assert_close(there.particles.cpu(), here.particles)
    assert_close(there.history.loss, here.history.loss)


@pytest.mark.parametrize("lr", ["auto", 0.05])
@pytest.mark.parametrize("variant", ELEVEN)
def test_a_replayed_flow_is_the_eager_one_step_for_step(variant, lr, monkeypatch):
    x, y = (t.cuda() for t in pair(torch.float64, n=64, m=64))
    at = range(0, 90, 7)

    def run(**more):
        return sw.flow(
            x,
            y,
            variant,
            lr=lr,
            seeds=[1, 2],
            max_steps=90,
            recording=sw.Recording(particles_at=at),
            stopping=sw.Stopping(tolerance=None),
            **more,
        )

    replayed = run()
    monkeypatch.setattr("slicewise.flows.group.graph_safe", lambda mover: False)
    eager = run()
    # Drawn ahead, the target is projected by another matrix product, which may round otherwise.
    assert_close(replayed.history.loss, eager.history.loss)
    assert_close(replayed.history.particles, eager.history.particles)
    assert_close(replayed.particles, eager.particles)


def test_schedules_are_replayed(monkeypatch):
    """A number that changes over the run, and steps that shrink once the loss is at rest (n ≠ m)."""
    x, y = (t.cuda() for t in pair(torch.float64, n=40, m=30))
    kappa = sw.Anneal(100.0)

    def run():
        made = [sw.flow(x, y, "rpsw", kappa=kappa, lr=0.5, seeds=[1, 2], max_steps=200)]
        return [*made, sw.flow(x, y, seeds=[1, 2])]

    replayed = run()
    monkeypatch.setattr("slicewise.flows.group.graph_safe", lambda mover: False)
    for ours, eager in zip(replayed, run(), strict=True):
        assert ours.status == eager.status
        assert ours.n_steps.equal(eager.n_steps)
        assert_close(ours.particles, eager.particles)
    assert replayed[1].status == ["minimum reached"] * 2


@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
def test_steps_do_not_wait_for_the_host():
    """No synchronisation while steps are made, for any variant; one look in a while."""
    x, y = (t.cuda() for t in pair(torch.float32, n=64, m=64))
    from slicewise.flows import replay

    for variant in ELEVEN:
        seen = []
        go = replay.Replay.run

        def strict(self, *arguments, go=go, seen=seen):
            torch.cuda.set_sync_debug_mode("error")
            try:
                seen.append(arguments)
                return go(self, *arguments)
            finally:
                torch.cuda.set_sync_debug_mode("default")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(replay.Replay, "run", strict)
            sw.flow(
                x, y, variant, seeds=[1, 2], max_steps=120, stopping=sw.Stopping(tolerance=None)
            )
        assert seen


def test_going_on_from_a_state_on_the_device():
    x, y = (t.cuda() for t in pair(m=40))
    for variant in ("sw", "ebsw", "dsw"):
        whole = sw.flow(
            x, y, variant, seeds=[1, 2], max_steps=150, stopping=sw.Stopping(tolerance=None)
        )
        state = sw.flow(
            x, y, variant, seeds=[1, 2], max_steps=70, stopping=sw.Stopping(tolerance=None)
        ).state
        rest = sw.flow(
            x,
            y,
            variant,
            seeds=[1, 2],
            max_steps=150,
            stopping=sw.Stopping(tolerance=None),
            resume=state,
        )
        assert_close(rest.particles, whole.particles, rtol=1e-8)


def test_runs_that_end_within_a_replay():
    """Some diverge, some arrive: each where and when it would have by itself."""
    x, y = pair(torch.float64, n=100, m=100, d=2)
    x, y = x[0].cuda(), y[0].cuda()
    rates = torch.tensor([10.0, 300.0, 1e4, 60.0, 500.0, 1e9, 20.0, 30.0])
    many = sw.flow(x, y, lr=rates, seeds=3, max_steps=300, stopping=sw.Stopping(w2=0.02))
    for i, rate in enumerate(rates.tolist()):
        alone = sw.flow(x, y, lr=rate, seeds=3, max_steps=300, stopping=sw.Stopping(w2=0.02))
        assert many.status[i] == alone.status
        assert many.n_steps[i] == alone.n_steps
        assert_close(many.particles[i], alone.particles, rtol=1e-8)
    assert many.diverged.any()
    assert many.converged.any()
    assert not many.converged.all()
    loss = many.history.loss
    for i in range(len(rates)):
        made = int(many.n_steps[i])
        assert loss[:made, i].isfinite().all() or many.diverged[i]
        assert loss[made:, i].isnan().all()


# Evaluations as graphs.


def gradient_of(x, y, **options):
    live = x.clone().requires_grad_()
    value = sw.sliced_wasserstein(live, y, **options)
    value.sum().backward()
    return value.detach(), live.grad


@pytest.mark.parametrize("variant", ELEVEN)
def test_a_seed_means_the_same_with_a_graph_and_without(variant):
    """The first calls run one launch after another, later ones as a graph; nobody should notice."""
    replay._kept.__init__()
    x, y = (t.cuda() for t in pair(n=50, m=50))
    options = {"n_steps": 2} if "n_steps" in sw.VARIANTS[variant].options else {}
    for call in (sw.value_and_grad, gradient_of):
        found = []
        for _ in range(5):
            torch.manual_seed(3)
            found.append(call(x, y, variant=variant, **options))
        assert len(replay._kept.graphs) >= 1
        for value, gradient in found[1:]:
            assert_close(value, found[0][0])
            assert_close(gradient, found[0][1], rtol=1e-8)


def test_one_x_against_many_y_in_a_graph():
    """x is shared by the batch: its gradient adds up what each element weighs."""
    x, y = (t.cuda() for t in pair(n=20, m=20))
    for start in (x[:1], x[0]):
        found = []
        for _ in range(5):
            torch.manual_seed(0)
            live = start.clone().requires_grad_()
            (
                sw.sliced_wasserstein(live, y) * torch.tensor([1.0, 3.0], device=CUDA)
            ).sum().backward()
            found.append(live.grad)
        for gradient in found[1:]:
            assert_close(gradient, found[0])


def test_graphs_outlive_inference_mode():
    x, y = (t.cuda() for t in pair(torch.float32, n=21, m=21))
    with torch.inference_mode():
        for _ in range(4):
            sw.sliced_wasserstein(x, y)
    x.requires_grad_()
    sw.sliced_wasserstein(x, y).sum().backward()
    assert x.grad.isfinite().all()


def test_long_lines_as_a_graph():
    generator = torch.Generator().manual_seed(1)
    x, y = (torch.randn(6000, 3, generator=generator, dtype=torch.float64).cuda() for _ in "xy")
    found = []
    for _ in range(5):
        torch.manual_seed(3)
        found.append(sw.value_and_grad(x, y))
    for value, gradient in found[1:]:
        assert_close(value, found[0][0])
        assert_close(gradient, found[0][1])


def test_graphs_draw_fresh_slices_and_see_new_samples():
    x, y = (t.cuda() for t in pair(torch.float32, n=50, m=50))
    values = [sw.value_and_grad(x, y)[0] for _ in range(6)]
    assert len({float(v[0]) for v in values}) == 6
    further = [float(sw.value_and_grad(x + shift, y)[0][0]) for shift in (0, 100, 200)]
    assert further[0] < 50 < further[1] < 120 < further[2]


def test_gradients_of_gradients_through_a_graph():
    x, y = (t.cuda() for t in pair(n=30, m=30))
    loss = sw.SlicedWasserstein()
    results = []
    for _ in range(5):
        torch.manual_seed(0)
        live = x.clone().requires_grad_()
        (first,) = torch.autograd.grad(loss(live, y), live, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), live)
        results.append((first.detach(), second))
    for first, second in results[1:]:
        assert_close(first, results[0][0])
        assert_close(second, results[0][1])


def test_training_with_a_graph_and_without_is_the_same():
    """A network through the loss: the same weights after some steps, half precision input included."""
    for dtype in (torch.float32, torch.bfloat16):
        ends = []
        for graphs in (True, False):
            torch.manual_seed(1)
            layer = torch.nn.Linear(4, 5, device=CUDA)
            noise, y = torch.randn(64, 4, device=CUDA), torch.randn(64, 5, device=CUDA) + 1
            loss = sw.SlicedWasserstein("ebsw")
            with pytest.MonkeyPatch.context() as patch:
                if not graphs:
                    patch.setattr("slicewise.distance.plan.Plan._replayed", lambda *_: None)
                for _ in range(8):
                    layer.zero_grad()
                    loss(layer(noise).to(dtype), y.to(dtype)).backward()
                    with torch.no_grad():
                        for weight in layer.parameters():
                            weight -= 0.5 * weight.grad
            ends.append(layer.weight.detach())
        assert_close(ends[0], ends[1])


@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
def test_training_does_not_wait_for_the_host():
    x, y = (t.cuda() for t in pair(torch.float32, n=64, m=64))
    x.requires_grad_()
    loss = sw.SlicedWasserstein()
    for _ in range(4):
        loss(x, y).backward()
    torch.cuda.set_sync_debug_mode("error")
    try:
        loss(x, y).backward()
        loss(x[:, :20], y[:, :20]).backward()  # without a graph, too
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_flows_converge_on_the_device():
    x, y = pair(torch.float32, n=200, m=200, d=2)
    alone = sw.Stopping(w2=1e-3, assign=False)
    found = sw.flow(x.cuda(), y.cuda(), seeds=[1, 2], stopping=alone)
    assert found.by == ["flow", "flow"]
    matched = sw.flow(x.cuda(), y.cuda(), seeds=[1, 2])
    assert matched.status == ["arrived", "arrived"]
    assert (matched.w2 < 1e-3).all()
    rates = torch.tensor([10.0, 1e5], device="cuda")
    assert sw.flow(x.cuda()[0], y.cuda()[0], lr=rates, max_steps=50).diverged.tolist() == [
        False,
        True,
    ]


def test_an_assignment_on_the_device():
    """Many dimensions and an outlier: particles are the target's samples, to the last bit."""
    x, y = pair(torch.float32, n=1500, m=1500, d=20)
    y[:, 0] = 1e6
    found = sw.flow(x.cuda(), y.cuda(), seeds=[1, 2])
    assert found.by == ["assignment", "assignment"]
    for made, target in zip(found.particles.cpu(), y, strict=True):
        assert sorted(made.tolist()) == sorted(target.tolist())
    with pytest.warns(sw.NotArrivedWarning, match="out of steps after 3; W_2 at most"):
        sw.flow(x.cuda(), y.cuda(), seeds=[1, 2], max_steps=3)


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
