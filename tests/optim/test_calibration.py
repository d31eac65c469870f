"""Outputs that begin at the scale of what they are compared with: by one number and the biases of the last layer."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn

import slicewise as sw
from slicewise.optim import Compared, Computed, calibrate
from slicewise.optim.calibration import reach
from slicewise.training import Generator, Stack, Translator

NOISE = torch.randn(2000, 8, generator=torch.Generator().manual_seed(1)).double()


def samples(d, *, scale=1.0, shift=0.0):
    drawn = torch.randn(2000, d, generator=torch.Generator().manual_seed(2)).double()
    return scale * (drawn + shift)


def network(d=5, *, output=None, **options):
    return Generator(d, noise=8, hidden=(16, 16), output=output, generator=0, **options).double()


def calibrated(model, target, given=NOISE, *, stacked=False):
    """The outputs afterwards, and what calibration returns."""
    parameters = list(model.parameters())
    found = calibrate(lambda: [Compared(model(given), target)], parameters, stacked=stacked)
    with torch.no_grad():
        return model(given), found


def moments(x):
    return x.mean(dim=-2), (x - x.mean(dim=-2, keepdim=True)).square().mean(dim=(-2, -1)).sqrt()


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize("norm", [None, "batch"])
def test_outputs_have_the_mean_and_the_spread_of_the_target(scale, norm):
    target = samples(5, scale=scale, shift=3.0)
    model = network(norm=norm)
    before = copy.deepcopy(model)
    made, found = calibrated(model, target)
    (mean, spread), (wanted_mean, wanted_spread) = moments(made), moments(target)
    assert spread.item() == pytest.approx(wanted_spread.item(), rel=0.1)
    assert (mean - wanted_mean).abs().max() < 0.1 * wanted_spread
    # By the last layer alone, whose weights keep their directions.
    last = len(model.layers) - 1
    for name, parameter in model.named_parameters():
        old = dict(before.named_parameters())[name]
        if name == f"layers.{last}.weight":
            ratio = parameter / old
            torch.testing.assert_close(ratio, ratio.mean().expand_as(ratio))
        elif name != f"layers.{last}.bias":
            assert parameter.equal(old)
    assert all(scale.item() == pytest.approx(wanted_spread.item()) for scale in found.values())
    assert len(found) == 2


@pytest.mark.parametrize(
    ("output", "low", "high"),
    [("sigmoid", 0.0, 1e-3), ("sigmoid", 0.2, 0.9), ("tanh", -1e-3, 2e-3), ("tanh", 0.5, 0.9)],
)
def test_newtons_method_goes_through_what_bends_outputs(output, low, high):
    target = low + (high - low) * torch.rand(2000, 5).double()
    made, _ = calibrated(network(output=output), target)
    (mean, spread), (wanted_mean, wanted_spread) = moments(made), moments(target)
    assert spread.item() == pytest.approx(wanted_spread.item(), rel=0.1)
    assert (mean - wanted_mean).abs().max() < 0.15 * wanted_spread


@pytest.mark.parametrize("frozen", [False, True])
def test_what_cannot_be_reached_is_left_as_it_was(frozen):
    """A sigmoid makes nothing of 255; neither do hidden units, if the last layer is frozen."""
    if frozen:
        model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 5)).double()
        model[2].requires_grad_(False)
    else:
        model = network(output="sigmoid")
    before = copy.deepcopy(model.state_dict())
    parameters = [p for p in model.parameters() if p.requires_grad]
    calibrate(lambda: [Compared(model(NOISE), samples(5, scale=100.0, shift=1.0))], parameters)
    assert all(tensor.equal(before[name]) for name, tensor in model.state_dict().items())


def test_what_agrees_already_stays_to_the_last_bit():
    model = network()
    with torch.no_grad():
        target = 1.02 * model(torch.randn(500, 8).double())
    before = copy.deepcopy(model.state_dict())
    calibrated(model, target)
    assert all(tensor.equal(before[name]) for name, tensor in model.state_dict().items())


def test_the_noise_of_few_samples_moves_hardly_anything():
    """Sixteen samples of one law: means differ by a quarter of the spread, and none of that is made up for."""
    torch.manual_seed(3)
    model = network(40)
    with torch.no_grad():
        target = model(torch.randn(16, 8).double())
    bias = model.layers[-1].bias.detach().clone()
    calibrated(model, target, NOISE[:16])
    assert (model.layers[-1].bias - bias).norm() < 0.2 * target.std(dim=0).norm() / math.sqrt(16)


def test_means_that_cancel_in_the_last_layer_are_no_obstacle():
    """The mean of W h is as large as that of the data a thousand times over, and the bias takes it away again."""
    model = network()
    with torch.no_grad():
        model.layers[1].bias.add_(50.0)  # hidden units far from zero
        model.layers[-1].bias.sub_(model(NOISE).mean(dim=0))
    target = samples(5, scale=1e-3, shift=2.0)
    made, _ = calibrated(model, target)
    (mean, spread), (wanted_mean, wanted_spread) = moments(made), moments(target)
    assert spread.item() == pytest.approx(wanted_spread.item(), rel=0.1)
    assert (mean - wanted_mean).abs().max() < 0.1 * wanted_spread


def test_a_network_that_begins_as_the_identity_is_left_alone():
    model = Translator(5, hidden=(16,), generator=0).double()
    source = samples(5)
    target = samples(5, scale=2.0, shift=3.0)
    made, found = calibrated(model, target, source)
    assert made.equal(source)
    assert len(found) == 2  # but it is known how large its outputs will have to be


def test_a_stack_is_calibrated_as_its_networks():
    targets = torch.stack([samples(5, scale=30.0, shift=1.0), samples(5, scale=0.01)])
    networks = [network(), Generator(5, noise=8, hidden=(16, 16), generator=7).double()]
    stack = Stack(networks)
    together, found = calibrated(stack, targets, NOISE, stacked=True)
    for i, one in enumerate(networks):
        alone, scales = calibrated(one, targets[i])
        torch.testing.assert_close(together[i], alone, rtol=1e-6, atol=1e-9)
        assert {s[i].item() for s in found.values()} == {s.item() for s in scales.values()}


def test_channels_of_images_share_a_bias():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(8, 4 * 16), nn.ReLU(), nn.Unflatten(1, (4, 4, 4)), nn.Conv2d(4, 3, 3, padding=1)
    ).double()
    channels = torch.tensor([100.0, 10.0, 200.0]).double().repeat_interleave(16)
    target = channels + 20 * samples(48)
    made, _ = calibrated(nn.Sequential(model, nn.Flatten()), target)
    per_channel = made.mean(dim=0).reshape(3, 16).mean(dim=1)
    torch.testing.assert_close(per_channel, channels[::16], rtol=0, atol=2.0)
    assert moments(made)[1].item() == pytest.approx(20, rel=0.1)


def test_only_what_is_compared_moves_and_only_if_it_may():
    """A frozen last layer, and outputs that come from somewhere else."""
    model, target = network(), samples(5, scale=50.0)
    parameters = [p for name, p in model.named_parameters() if not name.startswith("layers.2")]
    before = copy.deepcopy(model.state_dict())
    assert calibrate(lambda: [Compared(model(NOISE), target)], parameters) == {}
    assert calibrate(lambda: [Compared(target, target)], list(model.parameters())) == {}
    assert all(tensor.equal(before[name]) for name, tensor in model.state_dict().items())


def test_the_optimizer_calibrates_before_its_first_step_alone():
    """Draws, running statistics and what a loss has learned are as if the closure had been computed once."""
    target = samples(5, scale=300.0, shift=1.0)[:200]
    found = {}
    for calibrates in (True, False):
        model, loss = network(norm="batch"), sw.SlicedWasserstein("dsw", generator=4)
        optimizer = Computed(model.parameters(), calibrate_outputs=calibrates)
        torch.manual_seed(0)

        def closure(model=model, loss=loss):
            return loss(model(NOISE[:200] + 0.01 * torch.randn(200, 8).double()), target)

        first = optimizer.step(closure).item()
        drawn = torch.get_rng_state(), loss.generator.get_state()
        statistics = [one.running_var.clone() for one in model.norms]
        second = optimizer.step(closure).item()
        found[calibrates] = (first, second, drawn, statistics)
    (first, second, drawn, statistics), (plain, _, plain_drawn, plain_statistics) = (
        found[True],
        found[False],
    )
    assert first < 0.1 * plain
    assert second < 3 * first
    assert all(a.equal(b) for a, b in zip(drawn, plain_drawn, strict=True))
    for one, other in zip(statistics, plain_statistics, strict=True):
        torch.testing.assert_close(one, other)


def test_a_squared_error_tells_how_large_outputs_have_to_become():
    """Outputs of spread 1 and an error of size 300: a factor of about 300, and weights stay where they are."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 5)).double()
    with torch.no_grad():
        model[2].weight.div_(model(NOISE).std())
        size = model(NOISE).square().mean().sqrt()
    target = samples(5, scale=300.0)
    before = copy.deepcopy(model.state_dict())
    found = reach(lambda: (model(NOISE) - target).square().mean(), list(model.parameters()))
    assert set(found) == {2, 3}  # the last layer's
    for factor in found.values():  # but for the little that outputs explain by chance
        assert factor.item() == pytest.approx(
            (target.square().mean().sqrt() / size).item(), rel=1e-2
        )
    assert all(tensor.equal(before[name]) for name, tensor in model.state_dict().items())


def test_what_is_no_parabola_or_small_enough_has_no_reach():
    torch.manual_seed(0)
    model = nn.Linear(8, 5).double()
    label = torch.arange(2000) % 5
    parameters = list(model.parameters())
    assert reach(lambda: nn.functional.cross_entropy(model(NOISE), label), parameters) == {}
    with torch.no_grad():
        target = 1.1 * model(NOISE) + 0.1
    assert reach(lambda: (model(NOISE) - target).square().mean(), parameters) == {}
    assert reach(lambda: (model(NOISE) - 1e3).square().mean(), parameters, known=[0, 1]) == {}


@pytest.mark.parametrize("scale", [1.0, 1e3, 1e5])
def test_single_precision_tells_the_size_of_an_error_too(scale):
    torch.manual_seed(0)
    model, target = nn.Linear(8, 5), samples(5, scale=scale, shift=1.0).float()
    size = model(NOISE.float()).square().mean().sqrt()
    found = reach(lambda: (model(NOISE.float()) - target).square().mean(), [*model.parameters()])
    for factor in found.values():
        assert factor.item() == pytest.approx(
            (target.square().mean().sqrt() / size).item(), rel=0.05
        )
    assert bool(found) or scale == 1.0


def test_penalties_on_weights_are_no_layers():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16, bias=False), nn.ReLU(), nn.Linear(16, 5, bias=False))
    model, target = model.double(), samples(5, scale=1e3)

    def penalized():
        weights = sum(p.square().sum() + (p * p).sum() for p in model.parameters())
        return (model(NOISE) - target).square().mean() + 1e-4 * weights

    assert set(reach(penalized, list(model.parameters()))) == {1}


class Plain(nn.Module):
    """A product and a sum, and constants at the end that the graph needs."""

    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(8, 5)), nn.Parameter(torch.zeros(5))
        self.register_buffer("std", torch.full((5,), 2.0))

    def forward(self, z):
        return (z @ self.weight + self.bias) * self.std


def test_a_product_and_a_sum_are_a_layer_and_buffers_may_follow_it():
    torch.manual_seed(0)
    model, target = Plain().double(), samples(5, scale=50.0, shift=2.0)
    optimizer = Computed(model.parameters())
    optimizer.step(lambda: sw.SlicedWasserstein()(model(NOISE), target))
    with torch.no_grad():
        (mean, spread), (wanted_mean, wanted_spread) = moments(model(NOISE)), moments(target)
    assert spread.item() == pytest.approx(wanted_spread.item(), rel=0.2)
    assert (mean - wanted_mean).abs().max() < 0.2 * wanted_spread


def test_weighted_samples_are_not_calibrated_by_their_plain_moments():
    torch.manual_seed(0)
    model, loss = network(), sw.SlicedWasserstein(n_slices=20, generator=0)
    target = samples(5).clone()
    target[:32] = 1e4
    weights = torch.ones(2000).double()
    weights[:32] = 0
    before = copy.deepcopy(model.state_dict())
    Computed(model.parameters()).step(
        lambda: loss(model(NOISE), target, y_weights=weights / weights.sum())
    )
    for name, tensor in model.state_dict().items():
        assert (tensor - before[name]).abs().max() < 0.2


def test_a_closure_that_fails_leaves_weights_as_they_were():
    model, calls = network(), []
    loss, target = sw.SlicedWasserstein(n_slices=8, generator=0), samples(5, scale=30.0)

    def closure():
        calls.append(1)
        if len(calls) == 3:
            raise KeyError("the third time")
        return loss(model(NOISE), target)

    before = copy.deepcopy(model.state_dict())
    optimizer = Computed(model.parameters())
    with pytest.raises(KeyError):
        optimizer.step(closure)
    assert all(tensor.equal(before[name]) for name, tensor in model.state_dict().items())
    optimizer.step(closure)  # calibrated now
    assert moments(model(NOISE))[1].item() == pytest.approx(30.0, rel=0.2)


def test_copies_of_model_and_optimizer_take_the_sizes_of_their_own_weights():
    model = network()
    twin, optimizer = copy.deepcopy((model, Computed(model.parameters())))
    loss, target = sw.SlicedWasserstein(n_slices=8, generator=0), samples(5, scale=100.0)
    optimizer.step(lambda: loss(twin(NOISE), target))
    sizes = optimizer.walker.state["sizes"][0]
    for parameter, size in zip(twin.parameters(), sizes, strict=True):
        assert size.item() == pytest.approx(
            parameter.detach().square().mean().sqrt().item(), rel=0.05
        )


def test_outputs_that_explain_nothing_are_scaled_down_and_no_others():
    torch.manual_seed(0)
    for fit in (False, True):
        model = nn.Linear(8, 5).double()
        target = 0.9 * model(NOISE).detach() if fit else samples(5, scale=1e-3)
        before = copy.deepcopy(model.state_dict())
        reach(
            lambda model=model, y=target: (model(NOISE) - y).square().mean(), [*model.parameters()]
        )
        changed = (model.weight / before["weight"]).detach()
        torch.testing.assert_close(changed, changed.mean().expand_as(changed))
        assert (changed.mean() == 1) if fit else (1e-4 < changed.mean() < 1e-2)


def autoencoder_left(scale, steps=200):
    """The share of the variance that is left after some steps."""
    torch.manual_seed(0)
    encoder, decoder = nn.Linear(6, 3).double(), nn.Linear(3, 6).double()
    mix = torch.randn(3, 6, generator=torch.Generator().manual_seed(5)).double()
    data = scale * (samples(3) @ mix)
    optimizer = Computed([*encoder.parameters(), *decoder.parameters()], total_steps=steps)
    loss = sw.SlicedWasserstein(n_slices=10, generator=0)
    for k in range(steps):
        rows = data[(64 * k) % 1900 :][:64]
        prior = torch.randn(64, 3, generator=torch.Generator().manual_seed(k)).double()

        def both(rows=rows, prior=prior):
            codes = encoder(rows)
            error = (decoder(codes) - rows).square().mean()
            return error + 0.1 * scale**2 * loss(codes, prior)

        optimizer.step(both)
    with torch.no_grad():
        return ((decoder(encoder(data)) - data).square().mean() / data.var()).item()


def test_an_autoencoder_learns_data_of_any_scale():
    """The prior's term is calibrated, and what reconstructions have to become is known."""
    left = [autoencoder_left(scale) for scale in (0.01, 1.0, 1e3)]
    assert max(left) < 0.05, left
