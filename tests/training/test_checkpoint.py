"""A training that is killed goes on as if it had not been; a file that is not its own is left alone."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import time

import pytest
import torch

from slicewise.problem.schedules import Anneal
from slicewise.training.checkpoint import TrainingCheckpoint
from slicewise.training.loop import TrainingLoop
from slicewise.training.networks import Generator, Layers, Stack
from slicewise.training.step import Trainer
from slicewise.training.training import train

TARGET = torch.randn(90, 5, generator=torch.Generator().manual_seed(7)) + 1


class Killed(Exception):
    pass


def dropout():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(3, 16),
        torch.nn.Dropout(0.3),
        torch.nn.BatchNorm1d(16),
        torch.nn.Linear(16, 5),
    )


class Dropping(Generator):
    """A subclass that draws from torch's own generator, which its checkpoint must remember."""

    def forward(self, z):
        return torch.nn.functional.dropout(super().forward(z), 0.3)


def dropping():
    torch.manual_seed(0)
    return Dropping(5, noise=3, hidden=(8,), generator=0)


KINDS = {
    "plain": (lambda: Generator(5, noise=3, hidden=(8,), generator=0), {}),
    "momentum and decay": (
        lambda: Generator(5, noise=3, hidden=(8,), generator=0),
        {"optimizer": "momentum", "decay": "linear"},
    ),
    "adam and ema": (
        lambda: Generator(5, noise=3, hidden=(8,), generator=0),
        {"optimizer": "adam", "ema": 0.9, "clip": 1.0},
    ),
    "learned slices": (
        lambda: Generator(5, noise=3, hidden=(8,), generator=0),
        {"variant": "dsw", "n_slices": 5},
    ),
    "a stack": (
        lambda: Stack([Generator(5, noise=3, hidden=(8,), generator=s) for s in (0, 1)]),
        {"optimizer": ["adam", "momentum"], "lr": [0.01, 0.02], "seeds": [0, 1], "decay": "tail"},
    ),
    "a stack with a dead run": (
        lambda: Stack([Generator(5, noise=3, hidden=(8,), generator=s) for s in (0, 1)]),
        {"lr": [0.05, 1e7], "seeds": [0, 1]},
    ),
    "dropout": (dropout, {"source": 3}),
    "dropout in a subclass": (dropping, {}),
    "bf16": (lambda: Generator(5, noise=3, hidden=(8,), generator=0), {"precision": "bf16"}),
}


def steps_made(monkeypatch):
    """A list that grows by the number of every step that is made from now on."""
    make, made = Trainer.take_step, []
    monkeypatch.setattr(
        Trainer, "take_step", lambda self, t, *rest: made.append(t) or make(self, t, *rest)
    )
    return made


def numbers(network):
    return list(network.state_dict().values())


@pytest.mark.parametrize("kind", KINDS)
def test_killed_and_resumed_is_not_interrupted(tmp_path, monkeypatch, kind):
    """Bit for bit: weights, averages and losses."""
    make, how = KINDS[kind]
    how = {"max_steps": 12, "batch": 20, "progress_bar": False, **how}
    whole = train(make(), TARGET, **how)
    file, save, saves = tmp_path / "run.pt", TrainingCheckpoint.save, []

    def killed_after(self, *rest):
        if len(saves) == 5:
            raise Killed
        saves.append(save(self, *rest))

    monkeypatch.setattr(TrainingCheckpoint, "save", killed_after)
    with pytest.raises(Killed):
        train(make(), TARGET, checkpoint=file, checkpoint_every=0, **how)
    monkeypatch.setattr(TrainingCheckpoint, "save", save)
    made = steps_made(monkeypatch)
    resumed = train(make(), TARGET, checkpoint=file, checkpoint_every=0, **how)
    assert made == list(range(5, 12))  # one begun anew would have come to the same
    assert resumed.n_steps == 12
    assert resumed.status == whole.status
    assert resumed.losses.equal(whole.losses)
    for p, q in zip(numbers(resumed.network), numbers(whole.network), strict=True):
        assert p.equal(q)
    if whole.ema_network is not None:
        for p, q in zip(numbers(resumed.ema_network), numbers(whole.ema_network), strict=True):
            assert p.equal(q)


def test_who_is_dead_stays_so(tmp_path, monkeypatch):
    """Without a step to die of once more."""
    make, how = KINDS["a stack with a dead run"]
    how = {
        "max_steps": 3,
        "batch": 20,
        "progress_bar": False,
        "checkpoint": tmp_path / "run.pt",
        **how,
    }
    train(make(), TARGET, **how)
    made = steps_made(monkeypatch)
    assert train(make(), TARGET, **how).status == ["out of steps", "diverged"]
    assert not made


SCRIPT = """
import sys, time, torch
from slicewise.training import Generator, train
target = torch.randn(90, 5, generator=torch.Generator().manual_seed(7)) + 1
slow = lambda progress: time.sleep(float(sys.argv[2])) or 1 - progress
slow.__qualname__ = "slow"
network = Generator(5, noise=3, hidden=(8,), generator=0)
how = {"max_steps": 40, "batch": 20, "decay": slow, "progress_bar": False}
found = train(network, target, checkpoint=sys.argv[1], checkpoint_every=0, **how)
print(found.losses.sum().item(), sum(p.sum().item() for p in network.parameters()))
"""


@pytest.mark.slow
def test_a_process_that_is_killed(tmp_path):
    """SIGKILL in the middle: the file is whole, and the next process ends where an undisturbed one does."""
    file = tmp_path / "run.pt"
    begin = [sys.executable, "-c", textwrap.dedent(SCRIPT)]
    process = subprocess.Popen([*begin, str(file), "0.1"])
    while not file.exists() and process.poll() is None:
        time.sleep(0.05)
    time.sleep(0.7)
    process.kill()
    process.wait()
    done = len(torch.load(file, weights_only=True)["content"]["losses"])
    assert 1 <= done < 40
    answers = [
        subprocess.run([*begin, str(where), "0"], capture_output=True, text=True, check=True).stdout
        for where in (file, tmp_path / "undisturbed.pt")
    ]
    assert answers[0] == answers[1]
    assert not list(tmp_path.glob(".*"))  # nothing half written is left


def test_more_steps_go_on(tmp_path, monkeypatch):
    file = tmp_path / "run.pt"
    how = {"batch": 20, "progress_bar": False, "lr": 0.1}
    train(KINDS["plain"][0](), TARGET, max_steps=5, checkpoint=file, **how)
    made = steps_made(monkeypatch)
    longer = train(KINDS["plain"][0](), TARGET, max_steps=9, checkpoint=file, **how)
    assert made == list(range(5, 9))
    assert longer.losses.equal(train(KINDS["plain"][0](), TARGET, max_steps=9, **how).losses)


def remembering():
    network = KINDS["plain"][0]()
    network.register_buffer("memory", torch.zeros(2))
    return network


def partly():
    network = KINDS["plain"][0]()
    network.layers[0].requires_grad_(False)
    return network


def test_networks_that_differ_in_a_bend_only_are_not_mixed_up(tmp_path):
    """Whatever they are made of: the modules are named in the file."""

    def make(bend):
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(3, 8), bend, torch.nn.Linear(8, 5))

    how = {
        "source": 3,
        "max_steps": 2,
        "batch": 20,
        "progress_bar": False,
        "checkpoint": tmp_path / "a.pt",
    }
    train(make(torch.nn.ReLU()), TARGET, **how)
    with pytest.raises(ValueError, match="belongs to another training"):
        train(make(torch.nn.Tanh()), TARGET, **how)


def test_steps_are_told_apart_where_slices_follow_their_number(tmp_path):
    """RPSW's spread falls over the whole run: a longer one is another from its first step on."""
    make = KINDS["plain"][0]
    for variant, kappa, another in (
        ("rpsw", Anneal(100), True),
        ("ebrpsw", falling, True),
        ("rpsw", 50.0, False),
    ):
        how = {"variant": variant, "kappa": kappa, "batch": 20, "progress_bar": False, "lr": 0.1}
        how["checkpoint"] = tmp_path / f"{variant} {another}.pt"
        train(make(), TARGET, max_steps=2, **how)
        if another:
            with pytest.raises(ValueError, match="belongs to another training"):
                train(make(), TARGET, max_steps=4, **how)
        assert train(make(), TARGET, max_steps=2 if another else 4, **how).status == "out of steps"


def falling(progress):
    return 100 - 90 * progress


def finished(file):
    train(KINDS["plain"][0](), TARGET, max_steps=3, batch=20, checkpoint=file, progress_bar=False)
    return file.read_bytes()


@pytest.mark.parametrize("damage", ["cut", "bit", "words", "pickle"])
def test_a_damaged_file_is_refused_and_stays(tmp_path, damage):
    file = tmp_path / "run.pt"
    content = finished(file)
    said = "cannot be read as a training"
    if damage == "cut":
        file.write_bytes(content[:-20])
    elif damage == "bit":  # of a weight
        weight = torch.load(file, weights_only=True)["content"]["network"]["layers.0.weight"]
        at = content.index(weight.numpy().tobytes())
        file.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        said = "is damaged|cannot be read as a training"  # as torch notices, or does not
    elif damage == "words":
        file.write_text("not a checkpoint at all")
    else:
        torch.save({"a": torch.ones(2)}, file)
    before = file.read_bytes()
    with pytest.raises(ValueError, match=said):
        train(
            KINDS["plain"][0](),
            TARGET,
            max_steps=5,
            batch=20,
            checkpoint=file,
            progress_bar=False,
        )
    assert file.read_bytes() == before


def test_a_checkpoint_of_the_first_version_is_refused_in_one_line(tmp_path):
    """It was safetensors: 8 bytes of length, then a header in JSON."""
    file = tmp_path / "run.pt"
    header = json.dumps({"__metadata__": {"slicewise": json.dumps({"version": "1"})}}).encode()
    before = len(header).to_bytes(8, "little") + header
    file.write_bytes(before)
    with pytest.raises(ValueError, match=r"was written by slicewise 0\.1") as caught:
        train(
            KINDS["plain"][0](),
            TARGET,
            max_steps=5,
            batch=20,
            checkpoint=file,
            progress_bar=False,
        )
    assert "\n" not in str(caught.value)
    assert file.read_bytes() == before


def test_a_network_that_moves_to_another_module_is_still_the_same(tmp_path, monkeypatch):
    file = tmp_path / "run.pt"
    finished(file)
    monkeypatch.setattr(Generator, "__module__", "somewhere.else")
    made = steps_made(monkeypatch)
    finished(file)
    assert not made


@pytest.mark.parametrize(
    "other",
    [
        {"batch": 21},
        {"seeds": 1},
        {"lr": 0.2},
        {"variant": "ebsw"},
        {"n_slices": 7},
        {"optimizer": "adam"},
        {"decay": "linear"},
        {"target": TARGET + 1},
        {"network": lambda: Generator(5, noise=3, hidden=(9,), generator=0)},
        {"network": lambda: Generator(5, noise=3, hidden=(8,), activation="tanh", generator=0)},
        {"network": lambda: Layers((3, 8, 5), generator=0), "source": 3},
        {"network": remembering},
        {"network": partly},
    ],
    ids=lambda other: next(iter(other)),
)
def test_another_trainings_file_is_refused_and_stays(tmp_path, other):
    file = tmp_path / "run.pt"
    before = finished(file)
    how = {"max_steps": 5, "batch": 20, "progress_bar": False, "checkpoint": file, **other}
    network, target = how.pop("network", KINDS["plain"][0]), how.pop("target", TARGET)
    with pytest.raises(ValueError, match="belongs to another training"):
        train(network(), target, **how)
    assert file.read_bytes() == before


@pytest.mark.parametrize(("kept", "possible"), [(["all", "sorts"], True), ({"all"}, False)])
def test_what_an_optimizer_may_keep(tmp_path, monkeypatch, kept, possible):
    """Tensors and plain values, nested as it likes; a set is refused, by its name."""

    class Hoarder(torch.optim.SGD):
        def step(self, closure=None):
            super().step(closure)
            for p in self.param_groups[0]["params"]:
                self.state[p]["things"] = kept

    how = {"batch": 20, "progress_bar": False, "checkpoint": tmp_path / "run.pt"}
    how["optimizer"] = lambda p: Hoarder(p, lr=0.1)
    if not possible:
        with pytest.raises(ValueError, match=r"cannot hold a set .*\['things'\]"):
            train(KINDS["plain"][0](), TARGET, max_steps=2, **how)
        return
    train(KINDS["plain"][0](), TARGET, max_steps=2, **how)
    made = steps_made(monkeypatch)
    train(KINDS["plain"][0](), TARGET, max_steps=4, **how)
    assert made == [2, 3]


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(ValueError, match="is a folder"):
        train(
            KINDS["plain"][0](),
            TARGET,
            max_steps=1,
            batch=20,
            checkpoint=tmp_path,
            progress_bar=False,
        )


def test_a_place_that_cannot_be_written_is_known_before_the_first_step(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setattr(Trainer, "step", lambda self: pytest.fail("a step was made"))
    how = {
        "max_steps": 1,
        "batch": 20,
        "progress_bar": False,
        "checkpoint": tmp_path / "file" / "x.pt",
    }
    with pytest.raises(OSError, match=r"cannot be written .*give another name"):
        train(KINDS["plain"][0](), TARGET, **how)
    with pytest.raises(ValueError, match="checkpoint_every = nan"):
        train(KINDS["plain"][0](), TARGET, **how | {"checkpoint_every": float("nan")})


@pytest.mark.parametrize(("lr", "steps"), [(1e9, 3), (1e9, 1), (1e38, 1), (2e4, 1)])
@pytest.mark.parametrize("every", [0, 30])
def test_a_run_that_diverges_is_not_kept(tmp_path, lr, steps, every):
    """Not even by its last step, which no loss tells of."""
    file = tmp_path / "run.pt"
    how = {"max_steps": steps, "batch": 20, "progress_bar": False, "scale": "classic", "lr": lr}
    found = train(KINDS["plain"][0](), TARGET, checkpoint=file, checkpoint_every=every, **how)
    assert found.status == "diverged"
    assert found.n_steps == 1
    assert not file.exists()
    stack = Stack([KINDS["plain"][0]()])
    assert train(stack, TARGET, **how).status == ["diverged"]  # one rule for both


def test_a_run_that_diverges_does_not_replace_what_was_good(tmp_path, monkeypatch):
    """Even where looks are rare, as on a device."""
    file, make = tmp_path / "run.pt", KINDS["plain"][0]
    how = {
        "batch": 20,
        "progress_bar": False,
        "scale": "classic",
        "lr": 0.1,
        "checkpoint": file,
        "checkpoint_every": 0,
    }
    train(make(), TARGET, max_steps=3, **how)
    before = file.read_bytes()
    step = torch.optim.SGD.step

    def blown_up(self, closure=None):
        step(self, closure)
        with torch.no_grad():
            self.param_groups[0]["params"][-1][0] = 1e4

    monkeypatch.setattr(torch.optim.SGD, "step", blown_up)
    monkeypatch.setattr(TrainingLoop, "_may_check", lambda self: False)
    assert train(make(), TARGET, max_steps=6, **how).status == "diverged"
    assert file.read_bytes() == before
