"""What is promised of trained networks: each figure, its bound, and what is said of wrong calls."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from benchmarks.claims import __main__ as claims
from benchmarks.claims import promises
from benchmarks.claims.promises import Figure, Setting
from slicewise.lab.experiments.latent.cells import DISPLACEMENT, TrainingCell
from slicewise.lab.experiments.latent.tasks import LatentTask
from slicewise.lab.latents.choice import LatentChoice
from slicewise.lab.study.run import Result


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Latents of two genders without ages, 6-dimensional."""
    where = tmp_path_factory.mktemp("latents")
    gender = np.arange(400) % 2
    rows = np.random.default_rng(0).standard_normal((400, 6)) + 2 * gender[:, None]
    np.save(where / "latents.npy", rows.astype(np.float32))
    np.save(where / "gender.npy", gender)
    return str(where)


@pytest.fixture
def setting(folder):
    return Setting(LatentChoice(folder), 3, "float32", 8)


def test_figures_and_their_bounds():
    assert Figure("", 2.1, most=2.1).holds
    assert not Figure("", 2.1001, most=2.1).holds
    assert Figure("", 0.8, 0.8).holds
    assert not Figure("", 0.8, 0.8, beyond=True).holds
    assert not Figure("", math.nan, 0.8).holds
    assert not Figure("", 1.0501, 0.93, 1.05).holds
    assert Figure("", -5, most=0.1).holds
    bounds = [Figure("", 1, 0.93, 1.05), Figure("", 1, 0.8), Figure("", 1, 0.8, beyond=True), Figure("", 1, most=2)]  # fmt: skip
    assert [one.bound for one in bounds] == ["0.93 to 1.05", "≥ 0.8", "> 0.8", "≤ 2"]


def bounds(check, **untrained):
    """{name: bound} of a check."""
    everything = dict.fromkeys(
        ("sw2", "energy", "w2", "variance_ratio", "w2_removed", "frechet_removed", "probe", "own_nearest"), 1.0
    )  # fmt: skip
    shift = {**everything, "w2_removed": 0.69, "frechet_removed": 0.68}
    return {one.name: one.bound for one in check(everything, {"real": everything, "mean shift": shift})}  # fmt: skip


def test_what_is_promised_of_generation(setting):
    plain, few, many = promises.generation(setting)
    wanted = {"SW_2 / floor": "≤ 2.1", "energy": "≤ 0.05", "variance ratio": "0.9 to 1.05", "W_2 / floor": "0.98 to 1.1"}  # fmt: skip
    assert bounds(plain.check) == wanted
    assert bounds(few.check) == {**wanted, "SW_2 / floor": "≤ 1.4", "energy": "≤ 0.015"}
    assert bounds(many.check) == {**wanted, "SW_2 / floor": "≤ 1.15", "energy": "≤ 0.004"}
    for promise, how in ((plain, ("sgd", None, (0.1,), None)), (few, ("adam", "linear", (1e-3,), 50)), (many, ("adam", "linear", (1e-3,), 500))):  # fmt: skip
        cell = promise.cell
        assert (cell.optimizer, cell.decay, cell.rates, cell.n_slices) == how
        assert (cell.seeds, cell.task.noise, cell.objective) == ((0, 1, 2), 8, DISPLACEMENT)


@pytest.mark.parametrize(
    ("name", "w2", "frechet", "probe"),
    [("male to female", 0.8, 0.8, 0.85), ("adult to child", 0.95, 0.78, 0.78)],
)
def test_what_is_promised_of_translation(name, w2, frechet, probe):
    assert bounds(promises.TRANSLATIONS[name]) == {
        "W_2 excess removed": f"≥ {w2:g}",
        "W_2 excess removed, more than by the mean shift": "> 0.69",
        "Fréchet excess removed": f"≥ {frechet:g}",
        "Fréchet excess removed, more than by the mean shift": "> 0.68",
        "variance ratio": "0.93 to 1.05",
        "taken for the target": f"≥ {probe:g}",
        "own source nearest": "≥ 0.99",
    }


def test_what_is_promised_of_one_rate(setting):
    found = {words: most for _, words, most in promises.sizes(setting)}
    assert found == {
        f"one rate, B = {batch}, L = {n}": 1.15 if n == 10 else 1.05
        for batch in (8, 32, 64)
        for n in (10, 50, 200)
    }
    every = [(cell.variant, most) for cell, _, most in promises.variants(setting)]
    assert len(every) == 11
    assert {most for _, most in every} == {1.25}


def good(task, device):
    floor = {"sw2": 1.0, "w2": 1.0}
    return {"real": floor, "mean shift": {"w2_removed": 0.96, "frechet_removed": 0.5}}


def measured(**changed):
    """A training that keeps everything promised, but for what is changed."""
    fine = {"sw2": 1.1, "energy": 0.001, "frechet": 1.0, "variance_ratio": 1.0, "w2_removed": 0.97, "frechet_removed": 0.9, "probe": 0.9,
            "own_nearest": 1.0, **changed}  # fmt: skip

    def measure(self, runs, device, checkpoint=None):
        return [Result(run, "out of steps", 1.0, w2=1.0, measures=fine) for run in runs]

    return measure


@pytest.mark.parametrize(
    ("changed", "failing"),
    [
        ({}, None),
        ({"energy": 0.0041}, "energy"),
        ({"w2_removed": 0.955}, "W_2 excess removed, more than by the mean shift"),
        ({"frechet_removed": 0.79}, "Fréchet excess removed"),
        ({"probe": 0.84}, "taken for the target"),
        ({"probe": math.nan}, "taken for the target"),
        ({"variance_ratio": 1.0501}, "variance ratio"),
        ({"own_nearest": 0.98}, "own source nearest"),
    ],
)
def test_one_figure_that_fails_is_told_and_ends_in_1(tmp_path, monkeypatch, capsys, changed, failing):  # fmt: skip
    for name, values in (("gender", np.arange(100) % 2), ("age", np.arange(100) % 40)):
        np.save(tmp_path / f"{name}.npy", values)
    np.save(tmp_path / "latents.npy", np.random.default_rng(1).standard_normal((100, 3)))
    monkeypatch.setattr(TrainingCell, "measure", measured(**changed))
    monkeypatch.setattr(LatentTask, "baselines", good)
    claims._untrained.cache_clear()
    asked = ["--latents", str(tmp_path), "--only", "quality", "--out", str(tmp_path / "c.json")]
    assert claims.main(asked) == (0 if failing is None else 1)
    printed = capsys.readouterr().out.splitlines()
    rows = json.loads((tmp_path / "c.json").read_text())
    assert len(rows) == 3 * 3 + 2 * 3  # every promise by three seeds
    failed = {name for row in rows for name, one in row["figures"].items() if not one["holds"]}
    assert failed == ({failing} if failing else set())
    assert [row["met"] for row in rows] == [all(one["holds"] for one in row["figures"].values()) for row in rows]  # fmt: skip
    said = [line for line in printed if line.startswith("  ")]
    assert sum(len(row["figures"]) for row in rows) == len(said)
    assert all(line.split()[0] in ("holds", "FAILS") for line in said)
    assert any("FAILS" in line for line in said) == bool(failing)
    claims._untrained.cache_clear()


def test_promises_are_measured(folder, tmp_path, capsys):
    """Three steps keep no promise; of adults and children nothing is known, and that is no promise kept either."""
    out = tmp_path / "claims.json"
    asked = ["--latents", folder, "--steps", "3", "--size", "8", "--out", str(out)]
    assert claims.main([*asked, "--only", "quality"]) == 1
    printed = capsys.readouterr().out.splitlines()
    rows = json.loads(out.read_text())
    assert len(rows) == 3 * 3 + 3 + 1
    assert not rows[0]["met"]
    assert rows[-1] == {"claim": "adult to child", "met": False, "figures": {}, "beside": rows[-1]["beside"], "at": rows[-1]["at"]}  # fmt: skip
    assert any(line.startswith("adult to child: not measured") for line in printed)
    assert "1 not measured" in printed[-1]


def test_of_samples_that_are_all_the_same_nothing_holds(tmp_path, capsys):
    """The floor is zero then: ended in a ZeroDivisionError."""
    np.save(tmp_path / "same.npy", np.ones((60, 4), np.float32))
    asked = ["--latents", str(tmp_path / "same.npy"), "--steps", "1", "--size", "4", "--only", "quality"]  # fmt: skip
    assert claims.main([*asked, "--out", str(tmp_path / "claims.json")]) == 1
    assert "FAILS  SW_2 / floor         nan" in capsys.readouterr().out


def test_one_rate_is_held_against_the_best_of_a_grid(setting, monkeypatch):
    """0.1 is 1.2 of the best: within 1.25, not within 1.15. If it diverged, it is within nothing."""
    cell = next(promises.sizes(setting))[0]
    scores = {0.05: 2.0, 0.1: 1.2, 0.3: 1.0}
    lost = set()

    def measured(self, runs, device, checkpoint=None):
        return [
            Result(run, "diverged" if run.lr in lost else "out of steps", 0.0, measures={"sw2": scores[run.lr]})
            for run in runs
        ]  # fmt: skip

    monkeypatch.setattr(TrainingCell, "measure", measured)

    def asked(most):
        return claims.one_rate(cell, "cpu", {DISPLACEMENT: tuple(scores)}, "three rates", most)

    assert asked(1.25)["met"]
    assert asked(1.25)["figures"]["SW_2 / best of the grid"]["number"] == pytest.approx(1.2)
    assert asked(1.25)["beside"]["best"] == (DISPLACEMENT, 0.3)
    assert not asked(1.15)["met"]
    lost.add(0.1)
    assert not asked(1e9)["met"]
    assert asked(1e9)["figures"]["seeds that diverged"]["number"] == 1
    lost.update(scores)
    assert asked(1e9)["beside"]["best"] is None  # nor is it an error of ours


@pytest.mark.parametrize("wrong", [["typo"], ["quality", "typo"]])
def test_a_part_that_is_not_there_is_refused(tmp_path, capsys, wrong):
    with pytest.raises(SystemExit) as ended:
        claims.main(["--only", *wrong, "--out", str(tmp_path / "claims.json")])
    assert ended.value.code == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert all(part in said for part in ("typo", *claims.PARTS))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--latents", "none.npy"], "none.npy"),
        (["--latents", "."], "holds no latents"),
        (["--steps", "0"], "--steps = 0"),
        (["--size", "-1"], "--size = -1"),
        (["--device", "tpu"], "--device tpu"),
        (["--out", "."], "--out"),
        (["--out", "claims.txt"], ".json"),
    ],
)
def test_what_is_wrong_is_a_line(tmp_path, monkeypatch, capsys, arguments, said):
    monkeypatch.chdir(tmp_path)
    assert claims.main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert line.startswith("claims: ")
    assert said in line
    assert not list(tmp_path.iterdir())


def test_stopping_with_a_key(folder, tmp_path, monkeypatch, capsys):
    def interrupted(self, runs, device, checkpoint=None):
        raise KeyboardInterrupt

    monkeypatch.setattr(TrainingCell, "measure", interrupted)
    monkeypatch.setattr(LatentTask, "baselines", good)
    claims._untrained.cache_clear()
    assert claims.main(["--latents", folder, "--out", str(tmp_path / "c.json")]) == 130
    assert capsys.readouterr().err.startswith("claims: stopped")
    claims._untrained.cache_clear()
