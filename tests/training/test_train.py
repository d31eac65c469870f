"""Training a network: the steps are those a user would write, whatever they are made by."""

from __future__ import annotations

import logging
import sys
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

import slicewise as sw
from slicewise.distance.request import recipe_for
from slicewise.optim import Walker
from slicewise.sampling.run_seeds import RunSeeds, Stream
from slicewise.training import loop, replay
from slicewise.training.data import Minibatches, RowSampler
from slicewise.training.networks import Generator, Layers, Stack, Translator
from slicewise.training.optimizers import StackedOptimizer
from slicewise.training.replay import EAGER_STEPS, STEPS_PER_GRAPH, CapturedSteps, can_capture
from slicewise.training.settings import TrainingSettings, decay_for
from slicewise.training.step import Trainer
from slicewise.training.training import train
from tests.stand_ins import stand_in_for_graphs

CPU = torch.device("cpu")
TARGET = torch.randn(150, 5, generator=torch.Generator().manual_seed(7), dtype=torch.float64) + 1
QUIET = {"progress_bar": False, "batch": 32}


def generator(seed=0):
    return Generator(5, noise=3, hidden=(16,), generator=seed).double()


def untrained():
    """The loss of the network as it is drawn."""
    drawn = torch.randn(150, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    with torch.no_grad():
        return sw.SlicedWasserstein(n_slices=500, generator=0)(generator()(drawn), TARGET)


def trainer_of(network, variant="sw", *, max_steps=20, source=3, seeds=(0,), **how):
    settings = TrainingSettings(recipe_for(variant, None, {}), batch=32, max_steps=max_steps, **how)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    return Trainer(network, TARGET, source, settings, optimizer, torch.tensor(seeds))


@pytest.mark.parametrize("variant", ["sw", "maxsw", "ebsw", "rpsw"])
@pytest.mark.parametrize(
    ("scale", "objective"),
    [("classic", "power"), ("classic", "root"), ("displacement", "power")],
)
def test_a_step_is_what_the_loss_module_and_autograd_make_of_it(variant, scale, objective):
    network, plain = generator(), generator()
    trainer = trainer_of(network, variant, scale=scale, objective=objective)
    drawn = trainer.batches.draw(0)
    given, real = trainer.batches.select(drawn, 0)
    value = trainer.step()

    made = plain(given)
    loss = sw.SlicedWasserstein(variant, scale=scale, objective=objective)
    problem = trainer._problem
    there = replace(problem, x=made.detach()[None], y=real[None])
    slices = loss.recipe.slicer(there, RunSeeds(torch.tensor([0]), CPU).at(0))[0]
    expected = loss(made, real, slices=slices)
    expected.backward()
    with torch.no_grad():
        for p in plain.parameters():
            p -= 0.1 * p.grad
    assert torch.allclose(value.squeeze(), expected, rtol=1e-10)
    for p, q in zip(network.parameters(), plain.parameters(), strict=True):
        assert torch.allclose(p, q, rtol=1e-9, atol=1e-12)


def test_the_mean_of_roots_is_descended_too():
    found = train(
        generator(), TARGET, objective="mean_root", scale="classic", lr=0.3, max_steps=60, **QUIET
    )
    assert found.losses[-10:].mean() < 0.7 * found.losses[:3].mean()
    with pytest.raises(ValueError, match="whose weights follow the costs"):
        train(generator(), TARGET, "ebsw", objective="mean_root", scale="classic", lr=1, **QUIET)


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
def test_every_named_optimiser_learns_without_a_rate(optimizer):
    found = train(generator(), TARGET, optimizer=optimizer, max_steps=150, decay="tail", **QUIET)
    assert found.status == "out of steps"
    assert found.n_steps == len(found.losses) == 150
    assert found.losses[-20:].mean() < 0.5 * untrained()
    assert found.losses[-20:].mean() < 0.85 * found.losses[:5].mean()  # calibrated, not yet trained


def test_a_translator_carries_one_set_to_another():
    source = torch.randn(200, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    network = Translator(5, hidden=(16,), generator=0).double()
    with torch.no_grad():
        before = sw.wasserstein(network(source[:150]), TARGET)
    train(network, TARGET, source=source, max_steps=150, **QUIET)
    with torch.no_grad():
        after = sw.wasserstein(network(source[:150]), TARGET)
    assert after < 0.6 * before


def test_a_network_and_an_optimiser_of_ones_own():
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Linear(3, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Linear(16, 5)
    ).double()
    found = train(
        network,
        TARGET,
        source=3,
        optimizer=lambda p: torch.optim.AdamW(p, lr=0.01),
        max_steps=80,
        **QUIET,
    )
    assert found.network is network
    assert found.losses[-10:].mean() < 0.5 * found.losses[:3].mean()


def test_rows_come_without_replacement_until_no_whole_batch_is_left():
    sampler, seeds = RowSampler(10, 3, Stream.TARGET_BATCHES), RunSeeds(torch.tensor([5, 6]), CPU)
    epoch = torch.cat([sampler.rows(seeds, t) for t in range(3)], dim=1)
    assert epoch.shape == (2, 9)
    assert all(len(set(rows.tolist())) == 9 for rows in epoch)
    again = torch.cat([sampler.rows(seeds, t) for t in range(3, 6)], dim=1)
    assert not again.equal(epoch)
    assert sampler.rows(seeds, 1).equal(epoch[:, 3:6])  # a step may be asked for again
    assert not epoch[0].equal(epoch[1])


@pytest.mark.parametrize(("n", "batch"), [(10, 3), (10, 10), (4, 9), (100, 7)])
def test_rows_dealt_ahead_are_those_dealt_one_by_one(n, batch):
    sampler, seeds = (
        RowSampler(n, batch, Stream.TARGET_BATCHES),
        RunSeeds(torch.tensor([5, 6]), CPU),
    )
    for first in (0, 2, 5):
        ahead = sampler.rows_ahead(seeds, torch.arange(first, first + 6))
        single = torch.stack(
            [
                RowSampler(n, batch, Stream.TARGET_BATCHES).rows(seeds, t)
                for t in range(first, first + 6)
            ]
        )
        assert ahead.equal(single)
        assert ahead.min() >= 0
        assert ahead.max() < n


def test_too_few_rows_are_drawn_with_replacement_and_it_is_said(caplog):
    with caplog.at_level(logging.WARNING, "slicewise"):
        found = train(generator(), TARGET, max_steps=2, batch=200, progress_bar=False)
    assert found.notes == ("the target has 150 rows for batches of 200: drawn with replacement",)
    assert caplog.text.count("with replacement") == 1
    batches = Minibatches(TARGET, 3, 200, torch.tensor([0]), single=True)
    rows = batches.draw(0).target
    assert len(set(rows.flatten().tolist())) < 150 <= rows.numel()


def test_rates_fall_as_asked():
    network = generator()
    trainer = trainer_of(network, max_steps=10, decay=decay_for("linear"))
    for t in range(10):
        trainer.step()
        assert trainer.optimizer.param_groups[0]["lr"] == pytest.approx(0.1 * (1 - t / 10))
    assert decay_for("tail")(0.7) == pytest.approx(1)
    assert decay_for("tail")(0.85) == pytest.approx(0.5)
    assert decay_for("cosine")(0.5) == pytest.approx(0.5)


def test_weights_are_averaged_over_steps():
    network, seen = generator(), []
    trainer = trainer_of(network, ema=0.9)
    average = [p.detach().clone() for p in network.parameters()]
    for _ in range(5):
        trainer.step()
        seen = [p.detach().clone() for p in network.parameters()]
        average = [0.9 * a + 0.1 * p for a, p in zip(average, seen, strict=True)]
    for a, b in zip(trainer.ema_weights, average, strict=True):
        assert torch.allclose(a, b)
    found = train(generator(), TARGET, ema=0.9, max_steps=5, **QUIET)
    ours = list(found.ema_network.parameters())
    assert not ours[0].equal(next(iter(found.network.parameters())))


def test_gradients_are_clipped():
    free, short = (
        train(generator(), TARGET, scale="classic", lr=1.0, clip=c, max_steps=1, **QUIET)
        for c in (None, 1e-3)
    )
    start = torch.cat([p.detach().flatten() for p in generator().parameters()])
    moved = [
        (torch.cat([p.detach().flatten() for p in f.network.parameters()]) - start).norm()
        for f in (free, short)
    ]
    assert moved[0] > 0.01
    assert moved[1] == pytest.approx(1e-3, rel=1e-2)


def test_half_precision_learns():
    network = Generator(5, noise=3, hidden=(16,), generator=0)
    found = train(network, TARGET.float(), precision="bf16", max_steps=60, **QUIET)
    assert found.losses[-10:].mean() < 0.5 * untrained()
    assert next(network.parameters()).dtype == torch.float32


def test_a_run_that_diverges_is_said_and_stopped():
    found = train(generator(), TARGET, scale="classic", lr=1e9, max_steps=200, **QUIET)
    assert found.status == "diverged"
    assert found.diverged
    assert found.n_steps < 200


def test_losses_are_noted():
    class Writer:
        def __init__(self):
            self.noted = []

        def add_scalar(self, tag, value, step):
            self.noted.append((tag, value, step))

    writer = Writer()
    found = train(generator(), TARGET, max_steps=3, tensorboard=writer, **QUIET)
    assert [(tag, step) for tag, _, step in writer.noted] == [("loss", 1), ("loss", 2), ("loss", 3)]
    assert [value for _, value, _ in writer.noted] == pytest.approx(found.losses.tolist())


@pytest.mark.parametrize("variant", ["sw", "dsw", "maxsw", "ebsw"])
@pytest.mark.parametrize("stacked", [False, True])
def test_a_graph_makes_the_same_steps(monkeypatch, variant, stacked):
    """Drawn ahead, counted on the device, in buffers of its own: the same numbers as step by step."""
    recipe = sw.VARIANTS[variant](n_slices=6) if variant != "maxsw" else variant
    how = {"decay": decay_for("linear"), "ema": 0.9, "scale": "displacement"}

    def ready():
        seeds = (0, 1) if stacked else (0,)
        network = Stack([generator(s) for s in seeds]) if stacked else generator()
        settings = TrainingSettings(recipe_for(recipe, None, {}), batch=32, max_steps=14, **how)
        if stacked:
            optimizer = StackedOptimizer(network.parameters(), [0.1, 0.05], ["adam", "sgd"])
        else:
            optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
        return Trainer(network, TARGET, 3, settings, optimizer, torch.tensor(seeds))

    by_hand, by_graph = ready(), ready()
    expected = torch.stack([by_hand.step() for _ in range(14)])
    found = [by_graph.step() for _ in range(2)]
    stand_in_for_graphs(monkeypatch, replay)
    captured = CapturedSteps(by_graph, length=4)
    assert by_graph.n_steps == 2
    found = torch.cat([torch.stack(found), captured.replay(2), captured.replay(1)])
    assert by_graph.n_steps == 14
    # SGD reads a rate on the host, which no capture allows: only who expects a tensor is given one.
    assert isinstance(by_graph.optimizer.param_groups[0]["lr"], torch.Tensor) is stacked
    assert torch.allclose(found, expected, rtol=1e-5)
    for p, q in zip(by_graph.parameters, by_hand.parameters, strict=True):
        assert torch.allclose(p, q, atol=1e-6)
    for p, q in zip(by_graph.ema_weights, by_hand.ema_weights, strict=True):
        assert torch.allclose(p, q, atol=1e-6)


def test_no_graph_on_a_cpu():
    assert not can_capture(trainer_of(generator()))
    with pytest.raises(ValueError, match="graph=True"):
        train(generator(), TARGET, graph=True, max_steps=2, **QUIET)


@pytest.mark.parametrize(
    ("variant", "possible"), [("sw", True), ("ebsw", True), ("lcvsw", False), ("gsw", False)]
)
def test_what_autograd_differentiates_is_no_graph(monkeypatch, variant, possible):
    trainer = trainer_of(generator(), variant)
    recipe = trainer.settings.recipe
    for part in (recipe.lift, recipe.weighting):  # as a part of one's own may say
        if part is not None:
            monkeypatch.setattr(type(part), "graph_safe", True, raising=False)
    trainer.parameters = [SimpleNamespace(is_cuda=True)]
    monkeypatch.setattr(RunSeeds, "counts_on_device", True)
    assert can_capture(trainer) is possible


def own():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 5)).double()


class Own(Generator):
    pass


class Declared(Generator):
    capturable = True


class DeclaredModule(torch.nn.Linear):
    capturable = True


class Silent(torch.optim.SGD):
    """Somebody's own, which does not say whether it can be captured."""


class Says(torch.optim.SGD):
    def __init__(self, parameters, *, capturable):
        super().__init__(parameters, lr=0.1)
        self.param_groups[0]["capturable"] = capturable


@pytest.mark.parametrize(
    ("make", "optimizer", "graph", "captured"),
    [
        (generator, "sgd", None, True),
        (lambda: Stack([generator()]), "adam", None, True),
        (generator, lambda p: Says(p, capturable=True), None, True),
        (generator, lambda p: Silent(p, lr=0.1), None, False),
        (generator, lambda p: Silent(p, lr=0.1), True, True),
        (own, "sgd", None, False),
        (own, "sgd", True, True),
        (lambda: Own(5, noise=3, hidden=(16,)).double(), "sgd", None, False),
        (lambda: Declared(5, noise=3, hidden=(16,)).double(), "sgd", None, True),
        (lambda: DeclaredModule(3, 5).double(), "sgd", None, True),
        (generator, "sgd", False, False),
    ],
)
def test_who_becomes_a_graph_unasked(monkeypatch, make, optimizer, graph, captured):
    """On a device that is made up: what declares it does; a network of one's own may read values on the host."""
    monkeypatch.setattr(loop, "can_capture", lambda trainer: True)
    made = stand_in_for_graphs(monkeypatch, replay)
    train(
        make(),
        TARGET,
        source=3,
        optimizer=optimizer,
        lr=None,
        graph=graph,
        max_steps=EAGER_STEPS + 4 * STEPS_PER_GRAPH,
        **QUIET,
    )
    assert bool(made) is captured


@pytest.mark.parametrize(
    ("make", "graph", "captured"),
    [
        (lambda: Stack([generator()]), None, True),
        (generator, None, True),
        (generator, True, True),
        (lambda: Stack([generator()]), False, False),
    ],
)
def test_who_becomes_a_graph_with_computed_lengths(monkeypatch, make, graph, captured):
    monkeypatch.setattr(loop, "can_capture", lambda trainer: True)
    made = stand_in_for_graphs(monkeypatch, replay)
    steps = Walker.LATER + 4 * STEPS_PER_GRAPH
    train(make(), TARGET, source=3, graph=graph, max_steps=steps, **QUIET)
    assert bool(made) is captured


@pytest.mark.parametrize(("variant", "amplifies"), [("sw", False), ("maxsw", True)])
def test_ascents_amplify_rounding(variant, amplifies):
    """Why late steps of maxsw are not compared digit by digit: weights off by 1e-13 make other trainings of it."""
    target = torch.randn(200, 12, generator=torch.Generator().manual_seed(7)).double() + 1

    def losses(nudge):
        network = Generator(12, noise=4, hidden=(32, 32), generator=0).double()
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.mul_(1 + nudge)
        how = {"optimizer": "adam", "lr": 0.01, "batch": 64, "progress_bar": False}
        return train(network, target, variant, max_steps=100, **how).losses

    apart = (losses(1e-13) / losses(0.0) - 1).abs()
    assert apart[:10].max() < 1e-9
    assert bool(apart.max() > 1e-3) is amplifies


def test_a_capture_that_fails_says_what_to_do(monkeypatch):
    stand_in_for_graphs(monkeypatch, replay)

    def not_while_capturing(self):
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(replay, "CapturedGraph", not_while_capturing)
    monkeypatch.setattr(loop, "can_capture", lambda trainer: True)
    with pytest.raises(RuntimeError, match=r"not permitted.*give graph=False"):
        train(generator(), TARGET, lr=0.1, max_steps=EAGER_STEPS + 4 * STEPS_PER_GRAPH, **QUIET)


@pytest.mark.parametrize(
    ("what", "how"),
    [
        ("lr = None with scale='classic'", {"scale": "classic", "lr": None}),
        ("moves have the right length", {"objective": "root", "lr": None}),
        ("moves have the right length", {"objective": "root", "scale": "displacement"}),
        ("lr = 'fast'", {"lr": "fast"}),
        ("one direction for all networks", {"optimizer": ["sgd", "adam"]}),
        ("give a tensor of samples", {"source": torch.randn(3)}),
        ("optimizer", {"optimizer": "lion"}),
        ("decay", {"decay": "fast"}),
        ("precision", {"precision": "int8"}),
        ("ema = 2", {"ema": 2}),
        ("clip = 0", {"clip": 0}),
        ("one network has one of each", {"lr": [0.1, 0.2]}),
        ("one network has one of each", {"lr": torch.tensor([0.1, 0.2])}),
        ("optimizer is a function", {"optimizer": torch.optim.SGD, "lr": 0.1}),
        ("optimizer makes LBFGS, which", {"optimizer": torch.optim.LBFGS}),
        ("that makes a NoneType", {"optimizer": lambda parameters: None}),
        (r"seeds has shape \(2,\) for one network", {"seeds": [0, 1]}),
        ("seeds = 'now'", {"seeds": "now"}),
        ("give real numbers", {"source": torch.ones(40, 3, dtype=torch.complex64)}),
        ("source has 7 coordinates, the network takes", {"source": torch.ones(40, 7)}),
        ("source has 7 coordinates, the network takes", {"source": 7}),
        ("lr = -1", {"lr": -1.0}),
        ("lr = nan", {"lr": float("nan")}),
        ("lr = inf", {"lr": float("inf"), "optimizer": "adam"}),
    ],
)
def test_what_is_refused(what, how):
    with pytest.raises(ValueError, match=what):
        train(generator(), TARGET, max_steps=2, **{**QUIET, **how})


@pytest.mark.parametrize(
    ("what", "how"),
    [
        (r"lr has shape \(3,\) for 2 networks", {"lr": [0.1] * 3}),
        (r"lr has shape \(2, 1\) for 2 networks", {"lr": torch.ones(2, 1)}),
        ("lr = 'fast'", {"lr": "fast"}),
        (r"seeds has shape \(3,\) for 2 networks", {"seeds": range(3)}),
        ("3 kinds of optimizer for 2 networks", {"optimizer": ["sgd"] * 3, "lr": None}),
    ],
)
def test_what_is_refused_of_a_stack(what, how):
    with pytest.raises(ValueError, match=what):
        train(Stack([generator(), generator()]), TARGET, max_steps=2, **{**QUIET, **how})


@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize("of_network", [torch.float32, torch.float64])
@pytest.mark.parametrize("of_data", [torch.float16, torch.float32, torch.float64])
def test_data_become_as_precise_as_the_network(of_data, of_network, stacked):
    source = torch.randn(40, 3, dtype=torch.float64)
    data = [rows.to(of_data) for rows in (TARGET, source)]
    losses = []
    for target, given in (data, [rows.to(of_network) for rows in data]):
        one = generator().to(of_network)
        network = Stack([one]) if stacked else one
        found = train(network, target, source=given, max_steps=3, **QUIET)
        assert next(network.parameters()).dtype == of_network
        losses.append(found.losses)
    assert losses[0].equal(losses[1])


def test_modules_keep_their_modes():
    """A frozen normalisation is not woken by the look at what the network makes."""
    torch.manual_seed(0)
    normal, free = torch.nn.BatchNorm1d(8), torch.nn.BatchNorm1d(8)
    network = torch.nn.Sequential(torch.nn.Linear(3, 8), normal, free, torch.nn.Linear(8, 5))
    network.double()
    normal.eval()
    before = normal.running_mean.clone()
    train(network, TARGET, source=3, max_steps=3, **QUIET)
    assert [m.training for m in network.modules()] == [True, True, False, True, True]
    assert normal.running_mean.equal(before)
    assert free.running_mean.any()


@pytest.mark.parametrize("fails", [False, True])
def test_our_own_writer_is_closed(monkeypatch, tmp_path, fails):
    made = []

    class SummaryWriter:
        def __init__(self, folder):
            self.folder, self.closed, self.noted = folder, False, 0
            made.append(self)

        def add_scalar(self, *what):
            self.noted += 1
            if fails:
                raise OSError("no space left")

        def close(self):
            self.closed = True

    there = SimpleNamespace(SummaryWriter=SummaryWriter)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", there)
    how = {"max_steps": 3, "tensorboard": tmp_path, **QUIET}
    with pytest.raises(OSError, match="no space") if fails else nullcontext():
        train(generator(), TARGET, **how)
    (writer,) = made
    assert writer.folder == str(tmp_path)
    assert writer.closed
    assert writer.noted == (1 if fails else 3)


def test_what_the_data_must_be():
    with pytest.raises(ValueError, match="they must agree"):
        train(generator(), TARGET[:, :4], max_steps=1, **QUIET)
    with pytest.raises(ValueError, match="give samples to start from"):
        train(Translator(5, hidden=(4,)).double(), TARGET, max_steps=1, **QUIET)
    with pytest.raises(ValueError, match="target"):
        train(generator(), TARGET * torch.nan, max_steps=1, **QUIET)
    with pytest.raises(ValueError, match="no parameters"):
        train(torch.nn.Identity(), TARGET, source=5, max_steps=1, **QUIET)


def test_samples_of_a_generator_depend_on_the_seed_alone():
    network = generator()
    assert network.sample(4, generator=1).equal(network.sample(4, generator=1))
    assert not network.sample(4, generator=1).equal(network.sample(4, generator=2))
    assert generator(3).sample(2).equal(generator(3).sample(2))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("steps", "max_steps"),
        ("optimiser", "optimizer"),
        ("seed", "seeds"),
        ("generator", "seeds"),
        ("every", "checkpoint_every"),
        ("bar", "progress_bar"),
        ("power", "objective"),
    ],
)
def test_old_words_name_the_new_ones(old, new):
    with pytest.raises(TypeError, match=rf"no argument '{old}': it is called '{new}' now"):
        train(generator(), TARGET, **{old: 1})


def test_old_words_of_networks_and_results_name_the_new_ones():
    for make in (Generator, Translator, lambda d, **how: Layers((d, d), **how)):
        for old, new in (("seed", "generator"), ("bend", "activation")):
            with pytest.raises(TypeError, match=f"it is called '{new}' now"):
                make(5, **{old: "tanh"})
    with pytest.raises(TypeError, match="it is called 'generator' now"):
        generator().sample(3, seed=1)
    found = train(generator(), TARGET, max_steps=1, **QUIET)
    for old, new in (("averaged", "ema_network"), ("steps", "n_steps")):
        with pytest.raises(AttributeError, match=f"'{old}': it is called '{new}' now"):
            getattr(found, old)
    assert not hasattr(found, "nonsense")


def test_weights_and_samples_are_drawn_from_what_is_given():
    seeded, drawn = (Generator(5, generator=g) for g in (3, torch.Generator().manual_seed(3)))
    assert all(p.equal(q) for p, q in zip(seeded.parameters(), drawn.parameters(), strict=True))
    source = torch.Generator().manual_seed(4)
    first, second = (seeded.sample(6, generator=source) for _ in range(2))
    assert first.equal(seeded.sample(6, generator=4))
    assert not second.equal(first)
    torch.manual_seed(4)
    assert first.equal(seeded.sample(6, generator=None))
    with pytest.raises(ValueError, match="generator = 'now': give an int"):
        seeded.sample(6, generator="now")
