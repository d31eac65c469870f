"""The optimizer without a rate: exact where the theory is, invariant, and at home in ordinary training loops."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import torch
from torch import nn

import slicewise as sw
from slicewise.optim import Computed

WIDE = torch.Generator().manual_seed(0)
DATA = torch.randn(400, 6, generator=WIDE) @ torch.randn(6, 6, generator=WIDE) + 2


def network(*, seed=0, norm=False, dropout=0.0):
    torch.manual_seed(seed)
    middle = [nn.BatchNorm1d(24)] if norm else []
    middle += [nn.Dropout(dropout)] if dropout else []
    return nn.Sequential(nn.Linear(4, 24), *middle, nn.Tanh(), nn.Linear(24, 6)).double()


def train(model, *, steps=60, scale=1.0, loss=None, batch=64, dtype=torch.float64, **options):
    """A loop as a user writes it; returns the losses, the first of the untrained network, and the optimizer."""
    loss = loss or sw.SlicedWasserstein(n_slices=16, generator=1)
    optimizer = Computed(model.parameters(), total_steps=steps, **options)
    drawn = torch.Generator().manual_seed(3)
    found = []
    for _ in range(steps):
        z = torch.randn(batch, 4, generator=drawn).to(dtype)
        y = scale * DATA[torch.randint(len(DATA), (batch,), generator=drawn)].to(dtype)
        if (
            not found
        ):  # of the network as it was given: the first step lets outputs have the data's scale
            found.append(loss(copy.deepcopy(model)(z), y).item())
        found.append(optimizer.step(lambda z=z, y=y: loss(model(z), y)).item())
    return torch.tensor(found), optimizer


@pytest.mark.parametrize("direction", ["adam", "momentum", "gradient"])
def test_losses_fall_at_every_scale_of_the_data(direction):
    for scale in (1e-3, 1.0, 1e3):
        losses, _ = train(network(), scale=scale, steps=120, direction=direction)
        assert losses[-10:].mean() < 0.35 * losses[0], scale
        assert losses[-10:].mean() < 0.8 * losses[1:4].mean(), scale  # what steps do


def linear_setting():
    torch.manual_seed(1)
    model = nn.Linear(4, 6).double()
    return model, torch.randn(50, 4).double(), DATA[:50].double()


def test_the_length_is_that_of_a_line_search_where_outputs_are_linear():
    """With plans held, a grid of lengths along the same direction finds no better one than t*."""
    model, z, y = linear_setting()
    slices = torch.randn(16, 6, dtype=torch.float64)
    slices /= slices.norm(dim=1, keepdim=True)
    loss = sw.SlicedWasserstein()
    optimizer = Computed(model.parameters(), "gradient", calibrate_outputs=False)
    start = copy.deepcopy(model)
    optimizer.step(lambda: loss(model(z), y, slices=slices))
    (weight, bias), best = optimizer.walker.along, optimizer.limit.item()

    u = start(z).detach() @ slices.T
    order = u.argsort(0).argsort(0)
    partners = (y @ slices.T).sort(0).values.gather(0, order)
    change = (z @ weight.T + bias) @ slices.T

    def held(t):
        return (u + t * change - partners).square().mean().item()

    tried = best * torch.linspace(0.5, 1.5, 101).double()
    lengths = [held(t) for t in tried]
    assert tried[lengths.index(min(lengths))].item() == pytest.approx(best, rel=0.011)
    assert 0 < optimizer.length.item() <= best * (1 + 1e-6)


@pytest.mark.parametrize("factor", [1e-3, 64.0])
def test_nothing_depends_on_the_scale_of_data_and_loss(factor):
    """Outputs, data and loss scaled alike: the same weights, step by step."""

    class Scaled(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, z):
            return factor * self.inner(z)

    plain, scaled = network(), network()
    train(plain, steps=20)
    loss = sw.SlicedWasserstein(n_slices=16, generator=1)
    train(Scaled(scaled), steps=20, scale=factor, loss=lambda x, y: 1e3 * loss(x, y))
    for one, other in zip(plain.parameters(), scaled.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_forward_derivatives_and_differences_agree():
    found = []
    for derivatives in ("forward", "difference"):
        model, z, y = linear_setting()
        optimizer = Computed(model.parameters(), derivatives=derivatives)
        for _ in range(5):
            optimizer.step(partial(on_axes, model, z, y))
        found.append(model.weight.detach())
    torch.testing.assert_close(*found, rtol=1e-3, atol=1e-4)


def test_running_statistics_are_updated_once_and_masks_are_drawn_once():
    model = network(norm=True, dropout=0.3)
    losses, _ = train(model, steps=40)
    assert model[1].num_batches_tracked == 40
    torch.manual_seed(5)
    plain, optimizer = network(norm=True, dropout=0.3), None
    before = torch.get_rng_state()
    optimizer = Computed(plain.parameters())
    z, y = torch.randn(32, 4).double(), DATA[:32].double()
    state = torch.get_rng_state()
    loss = sw.SlicedWasserstein(generator=3)
    plain(z)  # draws what one pass draws
    once = torch.get_rng_state()
    torch.set_rng_state(state)
    optimizer.step(lambda: loss(plain(z), y))
    assert torch.get_rng_state().equal(once)
    assert not before.equal(once)
    assert losses[-1] < losses[0]


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Sequential(
            nn.utils.parametrizations.spectral_norm(nn.Linear(4, 16)), nn.Tanh(), nn.Linear(16, 6)
        ),
        lambda: Recurrent(),
    ],
)
def test_networks_without_forward_derivatives_are_measured_by_differences(make, caplog):
    torch.manual_seed(0)
    losses, optimizer = train(make(), steps=80, dtype=torch.float32)
    assert "measured by differences" in caplog.text
    assert caplog.text.count("measured by differences") == 1
    assert losses[-5:].mean() < 0.5 * losses[0]
    torch.manual_seed(0)
    with pytest.raises((RuntimeError, NotImplementedError), match="forward AD"):
        train(make(), steps=1, derivatives="forward", dtype=torch.float32)
    assert not optimizer._derivatives.forward


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells, self.out = nn.LSTM(4, 12, batch_first=True), nn.Linear(12, 6)

    def forward(self, z):
        return self.out(self.cells(z[:, None].expand(-1, 3, -1))[0][:, -1])


@pytest.mark.parametrize(
    "variant", ["ebsw", "rpsw", "maxsw", "dsw", "lcvsw", "orthosw", "gsw", "asw"]
)
def test_variants(variant):
    loss = sw.SlicedWasserstein(variant, generator=2)
    losses, _ = train(network(), loss=loss, steps=40)
    assert losses.isfinite().all()
    assert losses[-5:].mean() < losses[:3].mean()


@pytest.mark.parametrize(
    "options",
    [
        {"objective": "root"},
        {"objective": "mean_root"},
        {"scale": "displacement"},
        {"scale": "gaussian"},
        {"p": 1},
        {"p": 3},
    ],
)
def test_objectives_scales_and_orders(options):
    loss = sw.SlicedWasserstein(n_slices=16, generator=2, **options)
    losses, optimizer = train(network(), loss=loss, steps=60)
    assert losses[-5:].mean() < 0.7 * losses[0]
    assert optimizer._derivatives.forward


def test_other_terms_count():
    """An autoencoder: the reconstruction curves the loss as well."""
    torch.manual_seed(0)
    encoder, decoder = nn.Linear(6, 2), nn.Linear(2, 6)
    optimizer = Computed([*encoder.parameters(), *decoder.parameters()], total_steps=150)
    loss = sw.SlicedWasserstein(n_slices=10, generator=0)
    found = []
    for _ in range(150):
        x, prior = DATA[torch.randint(400, (64,))], torch.randn(64, 2)

        def both(x=x, prior=prior):
            codes = encoder(x)
            return (decoder(codes) - x).square().mean() + 0.1 * loss(codes, prior)

        found.append(optimizer.step(both).item())
    assert sum(found[-10:]) < 0.5 * sum(found[:10])
    assert 0 < optimizer.limit < 1e3  # the curvature was measured


def on_axes(model, z, y, factor=1.0):
    return factor * sw.SlicedWasserstein()(model(z), y, slices=torch.eye(6, dtype=torch.float64))


def test_batches_add_up():
    """Two halves of a batch by `backward`, as one closure of both."""
    found = []
    for halves in (False, True):
        model, z, y = linear_setting()
        parts = [partial(on_axes, model, z[i::2], y[i::2], 0.5) for i in (0, 1)]
        optimizer = Computed(model.parameters())
        for _ in range(3):
            if halves:
                optimizer.zero_grad()
                for part in parts:
                    optimizer.backward(part)
                optimizer.step()
            else:
                optimizer.step(lambda parts=parts: parts[0]() + parts[1]())
        found.append(model.weight.detach())
    torch.testing.assert_close(*found)


def test_clipped_gradients_lose_nothing_of_the_length():
    found = []
    for clip in (None, "inside", "by hand"):
        model, z, y = linear_setting()
        max_norm = 1e-3 if clip == "inside" else None
        optimizer = Computed(model.parameters(), "gradient", max_norm=max_norm)
        for _ in range(3):
            optimizer.zero_grad()
            optimizer.backward(partial(on_axes, model, z, y))
            if clip == "by hand":
                nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
            optimizer.step()
        found.append(model.weight.detach())
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found[2], found[0], rtol=1e-4, atol=1e-5)


def test_scaled_losses_make_the_same_steps():
    """A scaler's powers of two change nothing; a step that it skips leaves nothing behind."""

    def weights(scale):
        model, z, y = linear_setting()
        loss = sw.SlicedWasserstein(n_slices=8, generator=1)
        optimizer = Computed(model.parameters(), total_steps=12)
        scaler = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=3)
        for i in range(12):
            optimizer.zero_grad()
            optimizer.backward(lambda: loss(model(z), y), scaler)
            if i == 5:
                model.weight.grad[0, 0] = torch.inf
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
        assert optimizer.n_steps == 11
        return model.weight.detach()

    assert (weights(2.0**12) - weights(1.0)).abs().max() < 1e-6


def test_groups_move_by_their_factors():
    model = network()
    still = model[0].weight.detach().clone()
    groups = [
        {"params": model[0].parameters(), "factor": 0.0},
        {"params": [p for layer in model[1:] for p in layer.parameters()]},
    ]
    optimizer = Computed(groups)
    loss = sw.SlicedWasserstein(n_slices=8)
    optimizer.step(lambda: loss(model(torch.randn(32, 4).double()), DATA[:32].double()))
    assert model[0].weight.equal(still)
    with pytest.raises(ValueError, match="begun: make a new optimizer"):
        optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(2))]})


def test_a_saved_training_goes_on_as_if_it_had_not_stopped():
    def steps(model, optimizer, first, last):
        loss = sw.SlicedWasserstein(n_slices=8)
        for k in range(first, last):
            drawn = torch.Generator().manual_seed(k)
            z = torch.randn(32, 4, generator=drawn).double()
            optimizer.step(lambda z=z: loss(model(z), DATA[:32].double(), slices=fixed))

    fixed = torch.randn(8, 6, dtype=torch.float64)
    fixed /= fixed.norm(dim=1, keepdim=True)
    whole = network()
    steps(whole, Computed(whole.parameters()), 0, 12)
    part = network()
    optimizer = Computed(part.parameters())
    steps(part, optimizer, 0, 7)
    saved = copy.deepcopy((part.state_dict(), optimizer.state_dict()))
    rest = network(seed=9)
    rest.load_state_dict(saved[0])
    again = Computed(rest.parameters())
    again.load_state_dict(saved[1])
    steps(rest, again, 7, 12)
    for one, other in zip(whole.parameters(), rest.parameters(), strict=True):
        assert one.equal(other)
    with pytest.raises(ValueError, match="another optimizer"):
        Computed(rest.parameters(), total_steps=5).load_state_dict(saved[1])
    saved[1]["walker"]["version"] -= 1
    with pytest.raises(ValueError, match="another version of slicewise"):
        again.load_state_dict(saved[1])


def test_averaged_weights_are_there_for_a_while():
    model = network()
    loss = sw.SlicedWasserstein(n_slices=16, generator=1)
    optimizer = Computed(model.parameters())
    for _ in range(30):
        z = torch.randn(64, 4).double()
        optimizer.step(lambda z=z: loss(model(z), DATA[:64].double()))
    before = model[0].weight.detach().clone()
    with optimizer.averaged():
        assert not model[0].weight.equal(before)
        torch.testing.assert_close(model[0].weight, before, rtol=1, atol=0.2)
    assert model[0].weight.equal(before)
    with (
        pytest.raises(ValueError, match="nothing is averaged"),
        Computed(model.parameters(), total_steps=3).averaged(),
    ):
        pass


def test_bfloat16_autocast():
    model = network().float()
    loss = sw.SlicedWasserstein(n_slices=16, generator=1)
    optimizer = Computed(model.parameters(), total_steps=80)
    found = []
    for _ in range(80):
        z, y = torch.randn(64, 4), DATA[torch.randint(400, (64,))]

        def closure(z=z, y=y):
            with torch.autocast("cpu", torch.bfloat16):
                made = model(z)
            return loss(made.float(), y)

        found.append(optimizer.step(closure).item())
    assert sum(found[-8:]) < 0.4 * sum(found[:8])
    assert optimizer._derivatives.forward


@pytest.mark.parametrize(
    ("what", "how"),
    [
        ("direction", {"direction": "up"}),
        ("total_steps", {"total_steps": 0}),
        ("max_norm", {"max_norm": -1.0}),
        ("derivatives", {"derivatives": "guess"}),
    ],
)
def test_wrong_arguments_are_named(what, how):
    with pytest.raises(ValueError, match=what):
        Computed(network().parameters(), **how)


def test_mistakes_with_closures_are_named():
    model = network()
    optimizer, loss = Computed(model.parameters()), sw.SlicedWasserstein()
    with pytest.raises(ValueError, match="step\\(\\) without a loss"):
        optimizer.step()
    with pytest.raises(ValueError, match="a scalar tensor"):
        optimizer.step(lambda: model(torch.randn(3, 4).double()))
    with pytest.raises(ValueError, match="depends on no parameter"):
        optimizer.step(lambda: loss(DATA, DATA))
    with pytest.raises(ValueError, match="requires a gradient"):
        Computed([torch.zeros(2)])
    calls = []

    def another():
        calls.append(1)
        fresh = sw.SlicedWasserstein(p=1) if len(calls) > 1 else loss
        return fresh(model(torch.randn(8, 4).double()), DATA[:8].double())

    plain = {"derivatives": "difference", "calibrate_outputs": False}
    with pytest.raises(ValueError, match="other losses than the first"):
        Computed(model.parameters(), **plain).step(another)


def batch(k):
    drawn = torch.Generator().manual_seed(k)
    return torch.randn(48, 4, generator=drawn).double(), DATA[k : k + 48].double()


def stepped(model, optimizer, loss, steps=12):
    for k in range(steps):
        z, y = batch(k)
        found = optimizer.step(lambda z=z, y=y: loss(model(z), y))
    return found


@pytest.mark.parametrize("variant", sorted(sw.VARIANTS))
def test_every_variant_is_the_same_when_it_is_computed_again(variant):
    """The first step refuses a closure that does not repeat; a few steps move something."""
    model = network()
    before = model[0].weight.detach().clone()
    optimizer = Computed(model.parameters())
    stepped(model, optimizer, sw.SlicedWasserstein(variant, generator=1), steps=3)
    assert not model[0].weight.equal(before)
    assert optimizer.length > 0


def test_a_closure_that_does_not_repeat_is_refused():
    model, loss, own = network(), sw.SlicedWasserstein(n_slices=8), torch.Generator().manual_seed(0)
    _, y = batch(0)

    def noisy():
        return loss(model(torch.randn(48, 4, generator=own).double()), y)

    with pytest.raises(ValueError, match="when it was called again at the same weights"):
        Computed(model.parameters()).step(noisy)


def test_copies_and_schedulers():
    model = network()
    loss = sw.SlicedWasserstein(n_slices=8, generator=1)
    optimizer = Computed(model.parameters())
    stepped(model, optimizer, loss, steps=4)
    twin_model, twin, twin_loss = copy.deepcopy((model, optimizer, loss))
    stepped(model, optimizer, loss, steps=3)
    stepped(twin_model, twin, twin_loss, steps=3)
    assert twin_model[0].weight.equal(model[0].weight)
    torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.0)
    still = model[0].weight.detach().clone()
    stepped(model, optimizer, loss, steps=1)
    assert model[0].weight.equal(still)


def test_replaced_weights_are_those_that_move():
    model = network()
    loss = sw.SlicedWasserstein(n_slices=8, generator=1)
    optimizer = Computed(model.parameters(), derivatives="difference")
    stepped(model, optimizer, loss, steps=3)
    for parameter in model.parameters():
        parameter.data = parameter.data.clone()
    before = model[0].weight.detach().clone()
    stepped(model, optimizer, loss, steps=1)
    assert not model[0].weight.equal(before)


def test_closures_may_differentiate_something_themselves():
    model, loss = network(), sw.SlicedWasserstein(n_slices=8, generator=1)
    optimizer = Computed(model.parameters())
    for k in range(4):
        z, y = batch(k)

        def penalized(z=z, y=y):
            z = z.clone().requires_grad_()
            made = model(z)
            (slope,) = torch.autograd.grad(made.sum(), z, create_graph=True)
            return loss(made, y) + 0.1 * slope.square().mean()

        found = optimizer.step(penalized)
    assert found.isfinite()
    assert optimizer.length > 0


@pytest.mark.filterwarnings("ignore")
def test_compiled_networks_make_the_steps_of_plain_ones():
    plain, model = network(), network()
    start = plain[0].weight.detach().clone()
    ends = []
    for called, moved in ((plain, plain), (torch.compile(model, backend="eager"), model)):
        loss = sw.SlicedWasserstein(n_slices=8, generator=3)
        ends.append(stepped(called, Computed(moved.parameters()), loss, steps=6).item())
    assert not torch.allclose(plain[0].weight, start, rtol=1e-3)
    assert ends[1] == pytest.approx(ends[0], rel=1e-5)
    for one, other in zip(plain.parameters(), model.parameters(), strict=True):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-7)


def test_threads_do_not_share_what_they_record():
    """Each thread ends where it would alone."""
    models = {name: [network(seed=seed) for seed in range(3)] for name in ("alone", "together")}

    def work(model):
        return stepped(
            model, Computed(model.parameters()), sw.SlicedWasserstein(n_slices=8, generator=5)
        ).item()

    alone = [work(model) for model in models["alone"]]
    with ThreadPoolExecutor(3) as pool:
        together = list(pool.map(work, models["together"]))
    assert together == pytest.approx(alone, rel=1e-6)


def test_what_is_frozen_later_stays():
    model, loss = network(), sw.SlicedWasserstein(n_slices=8, generator=1)
    optimizer = Computed(model.parameters())
    stepped(model, optimizer, loss, steps=3)
    model[0].weight.requires_grad_(False)
    still, others = model[0].weight.detach().clone(), model[2].weight.detach().clone()
    stepped(model, optimizer, loss, steps=3)
    assert model[0].weight.equal(still)
    assert not model[2].weight.equal(others)


def test_more_mistakes_are_named(caplog):
    model, loss = network(), sw.SlicedWasserstein(n_slices=8, generator=1)
    z, y = batch(0)

    def eager():
        found = loss(model(z), y)
        found.backward()
        return found

    with pytest.raises(ValueError, match="called backward itself"):
        Computed(model.parameters()).step(eager)
    optimizer = Computed(model.parameters())
    stepped(model, optimizer, loss, steps=2)
    with pytest.raises(ValueError, match="within averaged"), optimizer.averaged():
        stepped(model, optimizer, loss, steps=1)
    wider = nn.Linear(4, 6).double()
    with pytest.raises(ValueError, match="other shapes"):
        Computed(wider.parameters()).load_state_dict(optimizer.state_dict())
    with pytest.raises(ValueError, match="no parameter of this optimizer has a gradient"):
        Computed(wider.parameters()).step(lambda: loss(model(z), y))
    short = Computed(model.parameters(), total_steps=1)
    stepped(model, short, loss, steps=2)
    assert "further steps move nothing" in caplog.text
