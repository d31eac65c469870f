"""`slicewise distance`: right numbers, and mistakes in one line."""

from __future__ import annotations

import itertools
import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image

import slicewise as sw
from tests.command_line import accepted, refused

KEYS = {
    *("value", "power", "stderr", "variant", "recipe", "p", "n_slices", "seed", "n", "m", "d"),
    *("exact", "at_most", "seconds", "device", "dtype", "backend", "a", "b"),
    *("low", "high", "p_value"),
}


@pytest.fixture
def files(tmp_path):
    """Two sets of (20, 3) and (15, 3) samples; returns a function that saves more."""
    rng = np.random.default_rng(0)

    def save(name, array):
        np.save(tmp_path / f"{name}.npy", np.array(array, dtype=float))
        return tmp_path / f"{name}.npy"

    save("a", rng.normal(size=(20, 3)))
    save("b", rng.normal(size=(15, 3)) + 1)
    return save


def found(capsys, *arguments):
    """The JSON object."""
    out = accepted(capsys, "distance", *arguments, "--json")
    assert out.count("\n") == 1
    said = json.loads(out)
    assert set(said) == KEYS
    return said


def number(capsys, *arguments):
    return float(accepted(capsys, "distance", *arguments, "--quiet"))


@pytest.mark.parametrize("p", [1, 1.5, 2, 3])
def test_a_shift_on_a_line_is_its_length(capsys, files, p):
    x = np.arange(7.0) ** 2
    a, b = files("x", x), files("y", x[::-1] - 3)
    assert number(capsys, a, b, "--p", p) == pytest.approx(3, rel=1e-12)
    assert number(capsys, a, b, "--p", p, "--power") == pytest.approx(3**p, rel=1e-12)


def test_a_shift_in_space(capsys, files):
    x = np.random.default_rng(1).normal(size=(30, 2))
    a, b = files("x", x), files("y", x + np.array([3, 4]))
    # The climb ends along the shift; uniform slices see |shift|² / d on average.
    assert number(capsys, a, b, "-v", "maxsw", "-O", "n_steps=100") == pytest.approx(5, rel=1e-4)
    said = found(capsys, a, b, "--power", "--n-slices", 2000)
    assert said["value"] == pytest.approx(25 / 2, abs=5 * said["stderr"])
    assert said["stderr"] < 0.3


def test_the_same_number_as_a_sum_by_hand(capsys, files, tmp_path):
    x, y = (np.random.default_rng(i).normal(size=(12, 3)) for i in (1, 2))
    said = found(capsys, files("x", x), files("y", y), "--seed", 5, "--n-slices", 40)
    again = sw.evaluate(
        torch.from_numpy(x),
        torch.from_numpy(y),
        n_slices=40,
        generator=torch.Generator().manual_seed(5),
    )
    slices = again.slices.numpy()
    costs = np.mean((np.sort(slices @ x.T) - np.sort(slices @ y.T)) ** 2, axis=1)
    assert said["power"] == pytest.approx(costs.mean(), rel=1e-12)
    assert said["value"] == pytest.approx(math.sqrt(costs.mean()), rel=1e-12)
    # The error of a mean, through the derivative of the root.
    error = costs.std(ddof=1) / math.sqrt(40) / (2 * said["value"])
    assert said["stderr"] == pytest.approx(error, rel=1e-10)
    power = found(
        capsys, tmp_path / "x.npy", tmp_path / "y.npy", "--seed", 5, "--n-slices", 40, "--power"
    )
    assert power["value"] == power["power"] == said["power"]
    assert power["stderr"] == pytest.approx(costs.std(ddof=1) / math.sqrt(40), rel=1e-10)


def test_the_exact_distance_beside_it(capsys, files):
    x, y = (np.random.default_rng(i).normal(size=(5, 2)) for i in (1, 2))
    a, b = files("x", x), files("y", y)
    best = min(
        np.linalg.norm(x - y[list(order)], axis=1).mean()
        for order in itertools.permutations(range(5))
    )
    assert found(capsys, a, b, "--p", 1, "--exact")["exact"] == pytest.approx(best, rel=1e-12)
    said = found(capsys, a, b, "--p", 2, "--exact", "--power")
    assert said["value"] <= said["exact"]
    assert found(capsys, a, b)["exact"] is None
    assert f"exact W_1      {best:.6g}" in accepted(capsys, "distance", a, b, "--p", 1, "--exact")


def test_sample_weights(capsys, files):
    a, b = files("x", [0, 1]), files("y", [0])
    weights = files("w", [1, 3])  # W_1 to 0 is the mean, 3/4
    said = found(capsys, a, b, "--p", 1, "--x-weights", weights, "--exact")
    assert (said["value"], said["exact"]) == pytest.approx((0.75, 0.75))
    said = found(capsys, b, a, "--p", 1, "--y-weights", weights)
    assert said["value"] == pytest.approx(0.75)


def test_options_of_variants(capsys, files, tmp_path):
    a, b = tmp_path / "a.npy", tmp_path / "b.npy"
    said = found(capsys, a, b, "-v", "rpsw", "-O", "kappa=10", "-O", "n-slices=7")
    assert said["recipe"] == repr(sw.VARIANTS["rpsw"](kappa=10, n_slices=7))
    assert said["n_slices"] == 7
    assert found(capsys, a, b, "-O", "defaults=flow_script")["n_slices"] == 30
    said = found(capsys, a, b, "-v", "ebsw", "-O", "energy=poly", "-O", "hold_weights=false")
    assert said["recipe"] == repr(sw.VARIANTS["ebsw"](energy="poly", hold_weights=False))
    # Published scripts add costs up, here 4 · 3² = 36, and multiply the root by n.
    line, shifted = files("x", [0, 1, 2, 5]), files("y", [3, 4, 5, 8])
    assert number(capsys, line, shifted, "-O", "convention=reference") == pytest.approx(24)


def test_a_seed_gives_the_answer_again(capsys, tmp_path, files):
    a, b = tmp_path / "a.npy", tmp_path / "b.npy"
    first = number(capsys, a, b, "--samples", 8)
    assert number(capsys, a, b, "--samples", 8, "--seed", 0) == first
    assert number(capsys, a, b, "--samples", 8, "--seed", 1) != first
    x, y = (torch.from_numpy(np.load(f)) for f in (a, b))
    by_hand = sw.sliced_wasserstein(x, y, generator=torch.Generator().manual_seed(3))
    assert number(capsys, a, b, "--seed", 3) == float(by_hand)


def test_some_samples_of_each(capsys, files, tmp_path):
    said = found(capsys, tmp_path / "a.npy", tmp_path / "b.npy", "--samples", 7)
    assert (said["n"], said["m"], said["d"]) == (7, 7, 3)
    # All of them, in another order, and their weights with them.
    a, b, weights = files("x", [0, 1]), files("y", [0, 0]), files("w", [1, 3])
    shuffled = found(capsys, a, b, "--p", 1, "--x-weights", weights, "--samples", 2)
    assert shuffled["value"] == pytest.approx(0.75)


def test_images_archives_and_tables(capsys, tmp_path):
    for name, gray in (("black.png", 0), ("white.jpg", 255)):
        Image.new("L", (6, 5), gray).save(tmp_path / name)
    said = found(capsys, tmp_path / "black.png", tmp_path / "white.jpg")
    assert (said["n"], said["m"], said["d"]) == (30, 30, 1)
    assert said["value"] == pytest.approx(1)
    np.savez(tmp_path / "s.npz", x=np.zeros((2, 1, 1)), y=np.full((4, 1, 1), 2))
    assert number(capsys, f"{tmp_path}/s.npz:x", f"{tmp_path}/s.npz:y", "--flatten") == 2
    (tmp_path / "t.csv").write_text("value\n1\n1\n")
    assert number(capsys, tmp_path / "t.csv", tmp_path / "black.png") == 1


def test_precision_and_backend(capsys, tmp_path, files):
    a, b = tmp_path / "a.npy", tmp_path / "b.npy"
    wide = number(capsys, a, b)
    assert number(capsys, a, b, "--backend", "torch", "--device", "cpu") == pytest.approx(wide)
    single = found(capsys, a, b, "--dtype", "float32")
    assert single["value"] == pytest.approx(wide, rel=1e-4)
    assert single["value"] != wide
    assert single["dtype"] == "float32"


def test_what_a_person_reads(capsys, tmp_path, files):
    out = accepted(capsys, "distance", tmp_path / "a.npy", tmp_path / "b.npy")
    for words in (
        "SW_2",
        "±",
        "50 slices",
        "a.npy (n = 20)",
        "b.npy (m = 15)",
        "Recipe(Uniform(50))",
    ):
        assert words in out
    out = accepted(capsys, "distance", tmp_path / "a.npy", tmp_path / "b.npy", "-v", "maxsw")
    assert "±" not in out
    odd = files("[bold]x", [1, 2])  # shown as it is, not as markup
    assert "[bold]x.npy" in accepted(capsys, "distance", odd, odd)


def test_no_error_is_known_of_one_slice(capsys, tmp_path, files):
    assert found(capsys, tmp_path / "a.npy", tmp_path / "b.npy", "-v", "maxsw")["stderr"] is None
    same = found(capsys, tmp_path / "a.npy", tmp_path / "a.npy")
    assert (same["value"], same["stderr"]) == (0, 0)


def test_slices_by_a_tolerance_and_a_test(capsys, files):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(60, 4))
    a, b = files("x", x), files("y", rng.normal(size=(50, 4)) + 1)
    said = found(capsys, a, b, "--rtol", 0.05, "--test")
    assert (said["high"] - said["low"]) / 2 <= 0.05 * said["value"]
    assert said["low"] < said["value"] < said["high"]
    assert said["n_slices"] > 50
    assert said["p_value"] == 0.001  # the least of 999 relabelings
    assert found(capsys, a, files("z", x[::-1]), "--test")["p_value"] == 1
    assert found(capsys, a, b)["p_value"] is None
    out = accepted(capsys, "distance", a, b, "--rtol", 0.1, "--test")
    assert "p-value        0.001" in out
    assert "95 % interval" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("a.npy b.npy --rtol 0", "--rtol = 0.0"),
        ("a.npy b.npy --rtol 0.1 --n-slices 5", "leave --n-slices out"),
        ("a.npy b.npy --rtol 0.1 -v maxsw", "states no standard error"),
        ("a.npy b.npy --test -v maxsw", "would make the test invalid"),
        ("missing.npy b.npy", "there is no file"),
        ("folder b.npy", "is a folder"),
        ("empty.npy b.npy", "is empty"),
        ("damaged.npz b.npy", "cannot be read as an npz file"),
        ("objects.npy b.npy", "pickled objects"),
        ("words.csv b.npy", "is no number"),
        ("nan.npy b.npy", "NaN or infinite"),
        ("flat.npy b.npy", "flat.npy holds samples of 2 dimensions and b.npy of 3"),
        ("a.npy", "Missing argument 'B'"),
        ("a.npy b.npy c.npy", "unexpected extra argument"),
        ("a.npy b.npy -v rspw", "or 'rpsw'"),
        ("a.npy b.npy -O kappa=3", "option of variant 'sw' = 'kappa' is unknown"),
        ("a.npy b.npy -v rpsw -O kapa=3", "did you mean 'kappa'"),
        ("a.npy b.npy -v rpsw -O kappa=much", "-O kappa=much: give a number"),
        ("a.npy b.npy -v rpsw -O kappa=nan", "give a number"),
        ("a.npy b.npy -v rpsw -O kappa=-3", "kappa"),
        ("a.npy b.npy -v rpsw -O kappa", "write name=value"),
        ("a.npy b.npy -v rpsw -O kappa=1 -O kappa=2", "given twice"),
        ("a.npy b.npy -v ebsw -O energy=3", "give a word"),
        ("a.npy b.npy -v ebsw -O energy=ex", "did you mean 'exp'"),
        ("a.npy b.npy -v ebsw -O hold_weights=1", "give true or false"),
        ("a.npy b.npy -v dsw -O betas=0.5", "give (a number, a number)"),
        ("a.npy b.npy -v omsw -O n_steps=2.5", "give a whole number"),
        ("a.npy b.npy -v phisw -O basis=1", "in Python only"),
        ("a.npy b.npy -O n_slices=5 --n-slices 5", "give one of them"),
        ("a.npy b.npy -O defaults=papr", "did you mean 'paper'"),
        ("a.npy b.npy -O convention=sum", "convention = 'sum' is unknown"),
        ("a.npy b.npy --n-slices 0", "n_slices = 0"),
        ("a.npy b.npy --n-slices 9999999999", "too many"),
        ("a.npy b.npy --n-slices few", "Invalid value"),
        ("a.npy b.npy -v maxksw --n-slices 4", "4"),
        ("a.npy b.npy --p 0.5", "p = 0.5"),
        ("a.npy b.npy --samples 16", "b.npy has only 15"),
        ("a.npy b.npy --samples 0", "--samples = 0"),
        ("a.npy b.npy --seed -1", "--seed -1"),
        ("a.npy b.npy --x-weights b.npy", "one weight for each"),
        ("a.npy b.npy --x-weights missing.npy", "there is no file"),
        ("a.npy b.npy --dtype float16", "--dtype = 'float16' is unknown"),
        ("a.npy b.npy --device tpu", "--device tpu: give auto, cpu, cuda"),
        ("a.npy b.npy --backend numb", "did you mean 'numba'"),
        ("a.npy b.npy --backend triton", "cannot run where the samples are"),
        ("a.npy b.npy --json --quiet", "choose one"),
        ("a.npy b.npy --sample 3", "No such option"),
        ("huge.npy b.npy --dtype float32", "too large for float32"),
        ("many.npy many.npy --exact", "--samples 3000"),
    ],
)
def test_mistakes_end_in_one_line(capsys, files, tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty.npy").touch()
    (tmp_path / "damaged.npz").write_bytes(b"PK\x03\x04 and no more")
    (tmp_path / "words.csv").write_text("1,2,3\n1,two,3\n")
    np.save(tmp_path / "objects.npy", np.array([{}], object))
    np.save(tmp_path / "many.npy", np.zeros(3001))
    files("nan", [[0, 1, math.nan]])
    files("flat", np.zeros((4, 2)))
    files("huge", np.full((4, 3), 1e200))
    assert said in refused(capsys, "distance", *arguments.split())


def test_numbers_whose_squares_overflow(capsys, files, tmp_path):
    files("huge", np.full((4, 3), 1e200))
    files("none", np.zeros((4, 3)))
    paths = [tmp_path / "huge.npy", tmp_path / "none.npy"]
    found = json.loads(
        accepted(capsys, "distance", *paths, "-v", "orthosw", "--n-slices", 3, "--json")
    )
    assert found["value"] == pytest.approx(
        1e200
    )  # SW_2² of a shift in one frame is its square over d


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there(capsys, files, tmp_path):
    said = refused(capsys, "distance", tmp_path / "a.npy", tmp_path / "b.npy", "--device", "cuda")
    assert "there is no CUDA device here" in said


def test_too_little_memory_is_no_fault(capsys, files, tmp_path, monkeypatch):
    def full(*_, **__):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr("slicewise.distance.evaluate", full)
    assert "not enough memory" in refused(
        capsys, "distance", tmp_path / "a.npy", tmp_path / "b.npy"
    )


def test_help_shows_examples(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    out = accepted(capsys, "distance", "--help")
    assert "slicewise distance a.npy b.npy" in out
    for option in ("--variant", "--n-slices", "--x-weights", "--samples", "--exact", "--json"):
        assert option in out


@pytest.mark.slow
def test_in_a_process_of_its_own(files, tmp_path):
    call = [sys.executable, "-m", "slicewise"]
    where = {"cwd": tmp_path, "env": os.environ, "capture_output": True, "text": True}
    a, b = files("x", [0, 1]), files("y", [2, 3])
    done = subprocess.run([*call, "distance", a, b, "-q"], check=False, **where)
    assert (done.returncode, done.stderr) == (0, "")
    assert float(done.stdout) == pytest.approx(2)
    done = subprocess.run([*call, "distance", a, "none.npy"], check=False, **where)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "slicewise: there is no file none.npy\n"
