"""Checkpoint files: whole, checked, and refused in one line where they cannot be continued from."""

from __future__ import annotations

import errno
import math
import os
import random
import zipfile
from enum import IntEnum

import pytest
import torch

import slicewise as sw
from slicewise.support import CheckpointError, CheckpointWarning, checkpoint
from slicewise.support.checkpoint import FORMAT_VERSION, CheckpointFile, fingerprint

CONTENT = {
    "step": 7,
    "seconds": 0.1 + 0.2,
    "word": "ada",
    "nothing": None,
    "flags": [True, (1, 2.5)],
    "groups": [{"x": torch.randn(3, 2, dtype=torch.float64), "half": torch.ones(4).bfloat16()}],
    "kept": {3: torch.arange(3), 5: torch.zeros(0)},
    "scalar": torch.tensor(math.nan),
}


def file_at(tmp_path, kind="flow", **options):
    return CheckpointFile(tmp_path / "run.pt", kind, **options)


def same(a, b):
    if isinstance(a, torch.Tensor):
        return (
            a.dtype == b.dtype
            and torch.equal(a.isnan(), b.isnan())
            and torch.equal(a[~a.isnan()], b[~b.isnan()])
        )
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


def test_what_is_saved_is_loaded_bit_for_bit(tmp_path):
    file = file_at(tmp_path)
    assert file.load("mine") is None
    file.save(CONTENT, "mine")
    assert same(CONTENT, file_at(tmp_path).load("mine"))
    assert [p.name for p in tmp_path.iterdir()] == ["run.pt"]


@pytest.mark.parametrize("name", ["run.pt", "run.safetensors", "run"])
def test_the_name_of_a_file_does_not_matter(tmp_path, name):
    """torch would choose how to read a file by the ending of its name."""
    path = tmp_path / name
    CheckpointFile(path, "flow").save(CONTENT, identity="a")
    assert same(CheckpointFile(path, "flow").load("a"), CONTENT)


def test_a_view_is_stored_without_the_tensor_it_looks_at(tmp_path):
    file = file_at(tmp_path)
    file.save({"x": torch.zeros(1000, 1000)[:2].mT}, "mine")
    assert file.path.stat().st_size < 50_000
    assert file.load("mine")["x"].shape == (1000, 2)


def test_what_is_loaded_is_a_copy(tmp_path):
    x = torch.zeros(3)
    file = file_at(tmp_path)
    file.save({"x": x}, "mine")
    x.add_(1)
    assert file.load("mine")["x"].sum() == 0


def refused(file, *said, identity="mine"):
    """The file is refused in one line that says why, and nothing about it changes."""
    before = file.path.read_bytes()
    with pytest.raises(ValueError, match="checkpoint = ") as caught:
        file.load(identity)
    message = str(caught.value)
    assert "\n" not in message
    for words in (*said, "remove", "left as it is", str(file.path)):
        assert words in message
    assert file.path.read_bytes() == before


def test_another_kind_and_another_run_are_refused(tmp_path):
    file = file_at(tmp_path)
    file.save(CONTENT, "mine")
    refused(file_at(tmp_path, "training"), "holds a flow, not a training")
    refused(file, "belongs to another flow", identity="yours")


def test_the_identity_can_be_checked_once_it_is_known(tmp_path):
    file_at(tmp_path).save(CONTENT, "mine")
    file = file_at(tmp_path)
    file.check_identity("anything: nothing was loaded")
    assert file.load() is not None
    file.check_identity("mine")
    with pytest.raises(ValueError, match="belongs to another flow"):
        file.check_identity("yours")


@pytest.mark.parametrize("content", [b"", b"not a state", b"PK\x03\x04 and then nothing"])
def test_a_file_of_something_else_is_refused(tmp_path, content):
    file = file_at(tmp_path)
    file.path.write_bytes(content)
    refused(file, "cannot be read as a flow")


def test_a_damaged_file_is_refused(tmp_path):
    file = file_at(tmp_path)
    file.save({"x": torch.arange(1000.0)}, "mine")
    whole = file.path.read_bytes()
    file.path.write_bytes(whole[: len(whole) // 2])
    refused(file, "cannot be read as a flow")
    # One bit of a number: torch itself may not notice, the checksum does.
    at = whole.index(torch.arange(500.0, 504.0).numpy().tobytes())
    file.path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    refused(file)


def stored(file, **changed):
    whole = torch.load(file.path, weights_only=True)
    torch.save(whole | changed, file.path)


def test_wrong_numbers_in_a_whole_file_are_refused(tmp_path):
    file = file_at(tmp_path)
    file.save({"x": torch.ones(3), "step": 3}, "mine")
    stored(file, content={"x": torch.ones(3), "step": 3})
    assert file.load("mine")["step"] == 3
    for wrong in ({"x": torch.ones(3), "step": 4}, {"x": torch.tensor([1, 1, 1.5]), "step": 3}):
        stored(file, content=wrong)
        refused(file, "damaged", "checksum")
    inside_itself: list[object] = []
    inside_itself.append(inside_itself)
    odd = torch.ones(1, dtype=torch.int64).as_strided((1,), (0,))
    for wrong in ({"x": inside_itself}, {"x": odd}):
        stored(file, content=wrong)
        refused(file, "damaged", "checksum")


def test_other_versions_are_refused(tmp_path):
    file = file_at(tmp_path)
    file.save(CONTENT, "mine")
    stored(file, version=FORMAT_VERSION + 1)
    refused(file, "later version of slicewise")
    # What slicewise 0.1 wrote: a bare dictionary for a flow, safetensors for a training.
    torch.save({"identity": "mine", "step": 3, "groups": []}, file.path)
    refused(file, "written by slicewise 0.1", "finish the run with that version")
    header = b'{"__metadata__":{"slicewise":"{}"}}'
    file.path.write_bytes(len(header).to_bytes(8, "little") + header)
    refused(file_at(tmp_path, "training"), "written by slicewise 0.1")


def test_other_dictionaries_are_refused(tmp_path):
    file = file_at(tmp_path)
    torch.save({"weights": torch.ones(3)}, file.path)
    refused(file, "it holds something else")


class Code(IntEnum):
    ONE = 1


@pytest.mark.parametrize(
    "value", [Code.ONE, {1, 2}, object(), torch.float32, torch.nn.Linear(1, 1)]
)
def test_only_tensors_and_plain_values_can_be_saved(tmp_path, value):
    file = file_at(tmp_path)
    file.save(CONTENT, "mine")
    with pytest.raises(ValueError, match=rf"{type(value).__name__} \(content\['deep'\]\[0\]\)"):
        file.save({"deep": [value]}, "mine")
    assert same(CONTENT, file.load("mine"))


def test_reading_runs_no_code(tmp_path):
    class Harmful:
        def __reduce__(self):
            return (zipfile.ZipFile, (str(tmp_path / "made.zip"), "w"))

    file = file_at(tmp_path)
    torch.save({"identity": Harmful()}, file.path)
    refused(file, "cannot be read")
    assert not (tmp_path / "made.zip").exists()


def test_a_failed_write_leaves_the_file_before(tmp_path, monkeypatch):
    file = file_at(tmp_path)
    file.save({"step": 1}, "mine")
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        file.save({"step": 2}, "mine")
    assert file.load("mine") == {"step": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["run.pt"]


def test_when_a_write_is_due(tmp_path, monkeypatch):
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    file, always, never = (file_at(tmp_path, every=e) for e in (30.0, 0.0, math.inf))
    assert (file.due(), always.due(), never.due()) == (False, True, False)
    now = 131.0
    assert (file.due(), never.due()) == (True, False)
    file.save({}, "mine")
    assert not file.due()
    for wrong in (-1.0, math.nan):
        with pytest.raises(ValueError, match="checkpoint_every = "):
            file_at(tmp_path, every=wrong)


def test_places_that_cannot_be_written_are_refused_at_once(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="is a folder"):
        CheckpointFile(tmp_path, "flow")

    def denied(dir):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", denied)
    with pytest.raises(PermissionError, match="cannot be written"):
        file_at(tmp_path)


def test_missing_folders_are_made_when_first_written(tmp_path):
    file = CheckpointFile(tmp_path / "a" / "b" / "run.pt", "training")
    assert not (tmp_path / "a").exists()
    file.save({"step": 1}, "mine")
    assert file.load("mine") == {"step": 1}


def test_fingerprints_know_values_and_not_modules():
    x = torch.arange(3.0)
    assert fingerprint(x, "a") == fingerprint(x.clone(), "a")
    assert (
        len({fingerprint(x), fingerprint(x + 1), fingerprint(x.double()), fingerprint(x[None])})
        == 4
    )

    def function():
        pass

    before = fingerprint(function)
    function.__module__ = "somewhere.else"
    assert fingerprint(function) == before
    function.__qualname__ = "another"
    assert fingerprint(function) != before


def test_fingerprints_know_what_functions_and_objects_hold():
    def slicer(k):
        return lambda problem, rng: k

    class Callable:
        def __init__(self, k):
            self.k = k

    assert fingerprint(slicer(3)) == fingerprint(slicer(3)) != fingerprint(slicer(4))
    assert fingerprint(Callable(3)) == fingerprint(Callable(3)) != fingerprint(Callable(4))
    assert fingerprint(lambda t: t) != fingerprint(lambda t: 2 * t)


FLOW = {"max_steps": 6, "seeds": 1, "stopping": sw.Stopping(tolerance=None)}


def full_disk(monkeypatch, after=0):
    """From the given write on, the disk is full."""
    written = iter(range(10**6))
    write = checkpoint.write_whole

    def failing(path, content):
        if next(written) >= after:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        write(path, content)

    monkeypatch.setattr(checkpoint, "write_whole", failing)


def saving(kind, file):
    """A computation that writes a checkpoint after every step, and its result."""
    x, y = torch.randn(2, 20, 3, generator=torch.Generator().manual_seed(0))
    if kind == "flow":
        kept = sw.Recording(checkpoint=file, progress_bar=False)
        return lambda: sw.flow(x, y, recording=kept, **FLOW).particles
    from slicewise.training import Generator, train

    def trained():
        torch.manual_seed(0)
        how = {"checkpoint": file, "checkpoint_every": 0, "seeds": 0, "max_steps": 4}
        network = Generator(3, noise=2, hidden=(8,), generator=0)
        return train(network, y, batch=10, progress_bar=False, **how).losses

    return trained


@pytest.mark.parametrize("kind", ["flow", "training"])
def test_a_full_disk_costs_the_checkpoint_not_the_run(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(CheckpointFile, "due", lambda self: True)
    whole = saving(kind, tmp_path / "whole.pt")()
    full_disk(monkeypatch, after=2)
    with pytest.warns(CheckpointWarning, match=r"half\.pt.*No space left") as told:
        found = saving(kind, tmp_path / "half.pt")()
    assert torch.equal(found, whole)
    assert "the one before it is still there" in str(told[0].message)
    monkeypatch.undo()
    # And what was written before is still good to go on from.
    assert torch.equal(saving(kind, tmp_path / "half.pt")(), whole)


@pytest.mark.parametrize("kind", ["flow", "training"])
def test_what_cannot_be_written_is_found_before_the_first_step(tmp_path, monkeypatch, kind):
    def never(*given):
        raise AssertionError("work was done")

    monkeypatch.setattr("slicewise.flows.loop.FlowLoop.run", never)
    monkeypatch.setattr("slicewise.training.loop.TrainingLoop.run", never, raising=False)
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file" / "run.pt", tmp_path / ("n" * 256)):
        with pytest.raises(OSError, match=r"cannot be written|too long"):
            saving(kind, place)()


@pytest.mark.parametrize("kind", ["flow", "training"])
def test_one_changed_bit_is_refused_or_means_nothing(tmp_path, kind):
    """Copies with one bit changed: each is refused by name, or continues to the same numbers."""
    file = tmp_path / "run.pt"
    whole = saving(kind, file)()
    good, rng = file.read_bytes(), random.Random(0)
    refused = 0
    for _ in range(150 if kind == "flow" else 50):
        held = bytearray(good)
        held[rng.randrange(len(held))] ^= 1 << rng.randrange(8)
        file.write_bytes(held)
        try:
            found = saving(kind, file)()
        except CheckpointError as error:
            told = str(error)
        else:
            assert torch.equal(found, whole)
            continue
        refused += 1
        assert "run.pt" in told
        assert file.read_bytes() == held
    assert refused > 10
