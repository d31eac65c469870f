"""The study of trained networks: its cells, what they keep, and what the report says of them."""

from __future__ import annotations

import csv
import hashlib
import math
import pickle
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from slicewise.lab.cli import main
from slicewise.lab.cli.latents import pictures_of_study
from slicewise.lab.errors import UserError
from slicewise.lab.experiments.flows import ELEVEN
from slicewise.lab.experiments.latent import presets
from slicewise.lab.experiments.latent.cells import (
    ADAM,
    COMPUTED,
    DISPLACEMENT,
    BaselineCell,
    TrainingCell,
    _best_rate,
)
from slicewise.lab.experiments.latent.presets import (
    FIRST_RATES,
    MEAN_ROOT,
    OTHER_RATES,
    QUICK_RATES,
    RATES,
    cells,
)
from slicewise.lab.experiments.latent.tasks import LatentTask
from slicewise.lab.experiments.selection import Selection
from slicewise.lab.latents.choice import LatentChoice
from slicewise.lab.names import LATENT_PARTS
from slicewise.lab.published import published
from slicewise.lab.report.best import Best
from slicewise.lab.report.drawings import basins
from slicewise.lab.report.latents import times
from slicewise.lab.report.page import write_report
from slicewise.lab.report.training_runs import (
    count_no_worse,
    groups,
    no_rate_lines,
    samples,
    without_a_rate,
)
from slicewise.lab.study.run import Result, Run
from slicewise.lab.study.store import Store
from slicewise.lab.study.sweep import sweep
from slicewise.training.networks import Stack
from tests.command_line import refused


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Latents of two genders in the layout of the ALAE ones, 6-dimensional."""
    where = tmp_path_factory.mktemp("latents")
    draw = np.random.default_rng(0)
    gender = np.array(["male", "female"])[np.arange(400) % 2]
    shift = np.where(gender == "male", 0, 2)[:, None]
    rows = draw.standard_normal((400, 6)) @ draw.standard_normal((6, 6)) + shift
    np.save(where / "latents.npy", rows.astype(np.float32))
    np.save(where / "gender.npy", gender)
    return str(where)


def task(folder, name="generation", batch=64):
    return LatentTask(name, LatentChoice(folder), hidden=16, batch=batch)


def without_rate(there, variant, seeds=(0,), steps=10):
    experiment = "generate" if there.generates else "translate"
    return TrainingCell(experiment, there, variant, COMPUTED, None, seeds, steps, optimizer="adam")


def small(folder, name="generation"):
    there = task(folder, name)
    experiment = "generate" if name == "generation" else "translate"
    made = [BaselineCell(experiment, there)]
    for variant in ("sw", "maxsw", "ebsw"):
        made.append(TrainingCell(experiment, there, variant, DISPLACEMENT, (0.1,), (0, 1), 40))
        made.append(without_rate(there, variant, (0, 1), 40))
        rates = (0.1, 0.5, 1e7)
        made.append(TrainingCell(experiment, there, variant, "root", rates, (0, 1), 40))
        timed = TrainingCell(experiment, there, variant, "root", (1e-3,), (0,), 4, timed_on="here")
        made.append(timed)
    return made


def test_rates_are_the_papers():
    printed = {one.lr for one in published() if one.table == "translation_full"}
    assert set(RATES) == printed
    assert len(RATES) == 25
    assert sorted((*FIRST_RATES, *OTHER_RATES)) == sorted(RATES)


@pytest.mark.parametrize("preset", ["quick", "paper"])
@pytest.mark.parametrize("experiment", ["generate", "translate"])
def test_presets(folder, experiment, preset):
    made = cells(experiment, preset, LatentChoice(folder))
    assert {cell.variant for cell in made if isinstance(cell, TrainingCell)} == set(ELEVEN)
    one_rate = [c for c in made if isinstance(c, TrainingCell) and c.objective == DISPLACEMENT]
    assert {c.rates for c in one_rate} == {(0.1,)}
    computed = [c for c in made if isinstance(c, TrainingCell) and c.objective == COMPUTED]
    assert {(c.variant, c.rates, c.optimizer) for c in computed} == {(v, None, "adam") for v in ELEVEN}  # fmt: skip
    assert {run.lr for c in computed for run in c.runs} == {None}
    keys = [run.key for cell in made for run in cell.runs]
    assert len(set(keys)) == len(keys)
    assert [run.key for cell in pickle.loads(pickle.dumps(made)) for run in cell.runs] == keys
    if preset == "paper":
        trained = [c for c in made if isinstance(c, TrainingCell) and not c.alone]
        assert {(c.steps, c.seeds, c.task.batch) for c in trained} == {(10_000, (0, 1, 2), 2048)}
        rates = {rate for c in trained if c.objective == "root" for rate in c.rates}
        assert rates == set(RATES)
        # What matters first: real samples, no rate, the one rate, then the rates that the paper found best.
        kinds = [getattr(c, "objective", "untrained") for c in made if not c.alone]
        found = list(dict.fromkeys(kinds))
        assert found == ["untrained", COMPUTED, DISPLACEMENT, "root", ADAM, "mean_root"]
        loss = [c for c in trained if c.objective == "mean_root"]
        assert {(c.variant, c.rates) for c in loss} == {(name, RATES) for name in MEAN_ROOT}
        for kind in (COMPUTED, DISPLACEMENT):
            assert kinds[: kinds.index("root")].count(kind) == 11


# Of the runs that presets had before there were any without a rate, sorted: stores have them.
KEYS_OF_BEFORE = {
    ("generate", "quick"): (37, "89da7fe3c4972adf"),
    ("generate", "paper"): (872, "2738d20249ca421d"),
    ("translate", "quick"): (39, "c6a0367c5b7b0369"),
    ("translate", "paper"): (874, "afb9ebb2826435a2"),
}


@pytest.mark.parametrize(("experiment", "preset"), KEYS_OF_BEFORE)
def test_runs_of_before_keep_their_keys(tmp_path, experiment, preset):
    np.save(tmp_path / "latents.npy", np.arange(2400, dtype=np.float32).reshape(400, 6))
    np.save(tmp_path / "gender.npy", np.array(["male", "female"])[np.arange(400) % 2])
    some = cells(experiment, preset, LatentChoice(str(tmp_path)))
    added = (COMPUTED, ADAM, "mean_root")
    before = [c for c in some if getattr(c, "objective", "") not in added]
    keys = sorted(run.key for cell in before for run in cell.runs)
    digest = hashlib.sha256(" ".join(keys).encode()).hexdigest()[:16]
    assert (len(keys), digest) == KEYS_OF_BEFORE[experiment, preset]


def test_parts_and_variants_of_a_study_can_be_chosen(folder):
    def chosen(*parts, variants=()):
        made = cells("generate", "paper", LatentChoice(folder), "here", parts)
        assert isinstance(made[0], BaselineCell)
        return Selection(parts, variants).of(made)[1:]

    whole = chosen()
    some = [chosen(part) for part in LATENT_PARTS]
    assert [cell for part in some for cell in part] == whole
    assert {c.objective for c in chosen("no-rate")} == {COMPUTED}
    assert {c.rates for c in chosen("search")} == {FIRST_RATES}
    assert {(c.objective, c.optimizer, c.decay, c.precision) for c in chosen("adam")} == {
        (ADAM, "adam", "linear", "bf16")
    }
    assert [c.alone for c in chosen("times")] == [True] * 11
    both = chosen("no-rate", "search", variants=("sw", "ebsw"))
    assert [(c.variant, c.objective) for c in both] == [
        (v, o) for o in (COMPUTED, "root") for v in ("sw", "ebsw")
    ]


def test_baselines_belong_to_their_setting(folder):
    made = cells("translate", "paper", LatentChoice(folder))
    name = made[0].task.name
    some = Selection(settings=(name,), variants=("sw",)).of(made)
    assert [isinstance(cell, BaselineCell) for cell in some].count(True) == 1
    assert all(cell.alone for cell in Selection(settings=(f"runtime, {name}",)).of(made))


def test_rates_are_given_unless_the_step_is_computed(folder):
    for objective, rates in ((COMPUTED, (0.1,)), ("root", None), (DISPLACEMENT, None)):
        with pytest.raises(ValueError, match="no rates if, and only if"):
            TrainingCell("generate", task(folder), "sw", objective, rates, (0,), 10)


def test_a_training_without_a_rate(folder):
    cell = without_rate(task(folder), "sw", seeds=(0, 1), steps=60)
    found = cell.measure(cell.runs, "cpu")
    assert [(one.run.lr, one.run.seed, one.status) for one in found] == [
        (None, 0, "out of steps"),
        (None, 1, "out of steps"),
    ]
    assert all(one.trace["loss"][-1] < one.trace["loss"][0] for one in found)
    assert "end" in found[0].arrays
    assert math.isfinite(found[0].measures["self_w2"])


def test_who_is_no_worse_without_a_rate(folder, tmp_path):
    """By means over seeds, against the best rate of all objectives; a run that collapsed or diverged is worse."""
    there = task(folder)

    def stored(variant, ours, root, adam=None, variance=1.0):
        made = [without_rate(there, variant, (0, 1))]
        of = {None: ours}
        made.append(TrainingCell("generate", there, variant, "root", tuple(root), (0, 1), 10))
        if adam is not None:
            made.append(TrainingCell("generate", there, variant, ADAM, (7.0,), (0, 1), 10))
            of[7.0] = adam
        for run in (run for cell in made for run in cell.runs):
            low, high = {**root, **of}[run.lr]
            value = (low, high)[run.seed]
            ratio = variance if run.lr is None else 1.0
            measures = {"sw2": value, "energy": 3 - value, "variance_ratio": ratio, "steps": 10.0}
            status = "out of steps" if value < math.inf else "diverged"
            yield Result(run, status, 1.0, w2=value, measures=measures)

    inf = math.inf
    with Store(tmp_path / "runs.db") as store:
        for some in (
            stored("sw", (1.0, 1.2), {0.1: (1.1, 1.1), 0.3: (2.0, 2.0)}),  # equal: no worse
            stored("maxsw", (1.2, 1.4), {0.1: (1.1, 1.3)}),  # worse, within noise
            stored("dsw", (1.5, 1.5), {0.1: (1.1, 1.1)}),  # worse
            stored("ebsw", (1.0, 1.0), {0.1: (1.1, 1.1)}, adam=(0.9, 0.9)),  # worse than Adam only
            stored("rpsw", (0.5, 0.5), {0.1: (1.1, 1.1)}, variance=0.5),  # collapsed
            stored("omsw", (1.0, inf), {0.1: (1.1, 1.1)}),  # diverged
            stored("rmsw", (1.0, 1.0), {0.1: (inf, 1.1)}),  # nothing to compare with
        ):
            store.add(list(some), "here", {})
        ((group,), _) = groups(store, "generate")
        (line,) = no_rate_lines(store, "generate")
        assert no_rate_lines(store, "translate") == []
    found = {one.variant: one for one in without_a_rate(group, "sw2", ("root", ADAM))}
    assert list(found) == [v for v in ELEVEN if v in ("sw", "maxsw", "dsw", "omsw", "ebsw", "rpsw")]
    assert {v for v, one in found.items() if one.no_worse} == {"sw"}
    assert {v for v, one in found.items() if one.within_noise} == {"sw", "maxsw"}
    assert (found["ebsw"].objective, found["ebsw"].best.rate) == (ADAM, 7.0)
    assert found["dsw"].ratio == pytest.approx(1.5 / 1.1)
    assert found["omsw"].ratio == inf
    by_root = without_a_rate(group, "sw2", ("root",))
    assert {one.variant for one in by_root if one.no_worse} == {"sw", "ebsw"}
    assert count_no_worse(by_root) == "2 of 6 variants (3 within two standard errors)"
    # By energy the largest rate of sw is the best.
    (sw,) = (one for one in without_a_rate(group, "energy", ("root",)) if one.variant == "sw")
    assert (sw.best.rate, sw.no_worse) == (0.3, False)
    assert "by SW₂ for 1 of 6 variants (2 within two standard errors), by energy for" in line


def test_a_run_does_not_depend_on_its_stack(folder):
    cell = TrainingCell("generate", task(folder), "sw", "root", (0.1, 0.5), (0, 1), 30)
    together = cell.measure(cell.runs, "cpu")
    for one in together:
        (alone,) = cell.measure([one.run], "cpu")
        assert alone.w2 == pytest.approx(one.w2, rel=1e-4)
        assert alone.measures["sw2"] == pytest.approx(one.measures["sw2"], rel=1e-4)
        assert alone.trace["loss"] == pytest.approx(one.trace["loss"], rel=1e-4)


def test_what_is_kept_of_a_training(folder):
    cell = TrainingCell("generate", task(folder), "sw", "root", (0.3, 1e8), (0, 1), 60)
    found = cell.measure(cell.runs, "cpu")
    good, lost = found[0], found[2]
    assert good.status == "out of steps"
    assert set(good.measures) >= {"sw2", "energy", "frechet", "variance_ratio", "self_w2", "steps"}
    assert good.arrays["end"].shape == (8, 6)
    assert "end" not in found[1].arrays  # of the first seed only
    assert lost.status == "diverged"
    assert lost.w2 == math.inf == lost.measures["sw2"]


def test_a_translation_learns_and_says_more(folder):
    there = task(folder, "male to female")
    cell = TrainingCell("translate", there, "sw", DISPLACEMENT, (0.1,), (0,), 150)
    (found,) = cell.measure(cell.runs, "cpu")
    (untouched,) = replace(cell, rates=(0.0,)).measure(replace(cell, rates=(0.0,)).runs, "cpu")
    assert untouched.measures["w2_removed"] == pytest.approx(0, abs=1e-6)
    assert untouched.measures["move"] == 0
    assert found.measures["w2_removed"] > 0.5
    assert found.arrays["end"].shape == (2, 8, 6)


def test_few_rows_are_noted(folder):
    assert not any("replacement" in note for note in task(folder).noted["notes"])
    notes = task(folder, "male to female", batch=300).noted["notes"]
    assert sum("replacement" in note for note in notes) == 2


def test_a_training_that_was_stopped_goes_on(folder, tmp_path, monkeypatch):
    cell = TrainingCell("generate", task(folder), "sw", "root", (0.3,), (0,), 20)
    file = tmp_path / "cell.pt"
    cell._trained(cell.runs, "cpu", file, steps=8)
    (resumed,) = cell.measure(cell.runs, "cpu", file)
    (whole,) = cell.measure(cell.runs, "cpu")
    assert resumed.measures["sw2"] == whole.measures["sw2"]
    file.write_text("damaged")
    (anew,) = cell.measure(cell.runs, "cpu", file)
    assert anew.measures["sw2"] == whole.measures["sw2"]


def test_parts_of_a_study_from_the_command_line(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(presets, "_QUICK_STEPS", 5)
    store = tmp_path / "runs.db"
    asked = ["reproduce", "generate", "--latents", folder, "--store", str(store), "--jobs", "1"]
    asked += ["--no-report", "--only", "no-rate", "--only", "search"]
    asked += ["--variant", "sw", "--variant", "dsw"]
    assert main(asked) == 0
    with Store.reading(store) as kept:
        rows = [row for row in kept.rows() if row["objective"] != "untrained"]
    found = sorted((row["variant"], row["objective"], row["lr"]) for row in rows)
    assert found == [
        ("dsw", COMPUTED, None),
        ("sw", COMPUTED, None),
        *(("sw", "root", rate) for rate in QUICK_RATES),
    ]
    said = capsys.readouterr().out
    assert re.search(r"generation: no rate .* by SW₂ for [01] of 1 variants, by energy", said)


@pytest.fixture(scope="module")
def report(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("report")
    made = [cell for name in ("generation", "male to female") for cell in small(folder, name)]
    with Store(out / "runs.db") as store:
        outcome = sweep(made, store)
        assert not outcome.failed
        again = sweep(made, store)
    assert again.made == 0
    write_report(out / "runs.db", out)
    return out


def table(report, name):
    with (report / f"{name}.csv").open() as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_the_report_ranks_by_sliced_distance_and_shows_what_needs_no_training(report):
    rows = table(report, "generate-generation-root")
    names = [row[""] for row in rows]
    assert names[-3:] == ["real", "Gaussian", "constant mean"]
    assert set(names[:-3]) == {"sw", "maxsw", "ebsw"}  # what was asked for
    ranked = [row for row in rows if row["rate"].replace(".", "").isdecimal()]
    scores = [float(row["SW₂"]) for row in ranked]
    assert scores == sorted(scores)
    assert all(row["rate"] != "1e+07" for row in ranked)
    assert next(row for row in rows if row[""] == "real")["SW₂ / floor"] == "1.00"
    assert float(next(row for row in rows if row[""] == "constant mean")["variance"]) == 0


def test_the_report_has_no_rate_beside_the_best(report):
    rows = {row[""]: row for row in table(report, "generate-generation-no-rate")}
    ranked = {row[""]: row for row in table(report, "generate-generation-root")}
    alone = {row[""]: row for row in table(report, "generate-generation-computed")}
    assert alone["sw"]["rate"].startswith("computed")  # whether or not it may win
    assert "dsw" not in rows
    for variant in ("sw", "maxsw", "ebsw"):
        assert rows[variant]["SW₂, no rate"].split()[0] == alone[variant]["SW₂"]
        may_win = "variance" not in rows[variant]["SW₂, no rate"]
        assert alone[variant]["rate"] == "computed" + ", cannot win" * (not may_win)
        assert ranked[variant]["SW₂, no rate"].startswith(alone[variant]["SW₂"])
    page = (report / "index.html").read_text()
    assert "no rate is no worse than the best by SW₂ for" in page
    ends = len(
        re.findall(r'<i data-v="[a-z]+"[^>]*title="[^"]* times the SW₂ of the best rate"', page)
    )
    assert ends == len(rows) + len(table(report, "translate-male-to-female-no-rate"))


def test_the_report_has_the_papers_numbers_beside(report):
    orders = {row[""]: row for row in table(report, "generate-generation-orders")}
    assert orders["maxsw"]["the paper: W₂"] == "13.38 ± 0.17 at 0.01"
    assert orders["maxsw"]["rank"] == "1"
    rates = table(report, "translate-male-to-female-rates")
    assert {row["rate"] for row in rates} == {"0.1", "0.5", "1e+07"}
    assert next(r for r in rates if (r["variant"], r["rate"]) == ("sw", "0.5"))["the paper: W₂"] == "14.15"  # fmt: skip
    assert next(r for r in rates if (r["variant"], r["rate"]) == ("maxsw", "0.5"))["the paper: W₂"] == "NaN"  # fmt: skip
    assert next(r for r in rates if r["rate"] == "1e+07")["W₂"] == "∞"
    times = {row[""]: row for row in table(report, "generate-generation-here-time")}
    assert times["sw"]["the paper"] == "–"  # whose networks and batches are larger
    assert float(times["sw"]["ours"]) > 0
    page = (report / "index.html").read_text()
    assert "The latents are not the paper" in page
    assert (report / "generate-generation-basin-sw2.svg").exists()


def seen_by(folder, report, asked):
    """What a decoder is shown when the pictures of a study are made."""
    shown = []

    def decoder(rows):
        shown.append(rows)
        return np.zeros((len(rows), 4, 4), np.uint8)

    latents = replace(LatentChoice(folder).load(), decoder=decoder)
    assert pictures_of_study(report / "runs.db", latents, asked).startswith(b"\x89PNG")
    return latents, shown


@pytest.mark.parametrize("asked", [None, "generation", "male to female"])
def test_what_a_study_made_can_be_looked_at(folder, report, asked):
    latents, (first, *shown) = seen_by(folder, report, asked)
    moved = asked == "male to female"
    before = latents.domain("male")[1] if moved else latents.held_out
    assert torch.equal(first, before[:8].half().float() if moved else before[:8])
    with Store.reading(report / "runs.db") as store:
        ((group,), _) = groups(store, "translate" if moved else "generate")
        made = samples(store, group, "end")
        variant, _, way = made[0].label.partition(", ")
        if way.startswith("no rate"):
            objective, rate = "computed", None
        else:
            objective, rate = way.split()[0], float(way.split()[1].strip(","))
        (row,) = (
            row for row in group.some(variant, objective) if (row["lr"], row["seed"]) == (rate, 0)
        )
        kept = store.array(row["key"], "end")
    assert [one.label.split(",")[0] for one in made] == ["sw", "maxsw", "ebsw"]
    assert torch.equal(shown[0], torch.from_numpy(kept[1] if moved else kept).float())
    assert len(shown) == 3


def test_who_cannot_win_is_looked_at_too(folder, tmp_path):
    cell = TrainingCell("generate", task(folder), "maxsw", "root", (0.1, 0.3), (0,), 10)

    def result(run, sw2):
        measures = {"sw2": sw2, "energy": sw2, "variance_ratio": 0.5, "steps": 10.0}
        arrays = {"end": np.full((8, 6), sw2, np.float16)}
        return Result(run, "out of steps", 1.0, w2=sw2, measures=measures, arrays=arrays)

    with Store(tmp_path / "runs.db") as store:
        store.add([result(cell.runs[0], 2.0), result(cell.runs[1], 1.0)], "here", {})
        ((group,), _) = groups(store, "generate")
        (found,) = samples(store, group, "end")
    assert found.label == "maxsw, root 0.3, cannot win"
    assert (found.made == 1).all()
    assert found.source is None


def test_pictures_of_a_study_that_are_not_there(folder, report, tmp_path, capsys):
    picture, runs = tmp_path / "x.png", report / "runs.db"

    def line(*arguments):
        return refused(capsys, "latents", *arguments)

    assert "give the same path and options" in line(folder, "--held-out", 50, "--pictures", picture, "--store", runs)  # fmt: skip
    there = ("--pictures", picture, "--store", runs)
    assert "choose from generation, male to female" in line(folder, *there, "--task", "children")
    assert "there is no decoder" in line(folder, *there)
    assert "--store needs --pictures" in line(folder, "--store", runs)
    assert "--task needs --store" in line(folder, "--pictures", picture, "--task", "generation")
    assert "no store" in line(folder, "--pictures", picture, "--store", tmp_path / "none.db")
    assert not picture.exists()


def test_marks_without_a_line_are_named_below():
    lines = {"sw": [Best(0.1, 1.0, 0.0, []), Best(1.0, 2.0, 0.0, [])]}
    marks = {name: Best(0.1, 1.5, 0.0, []) for name in ("sw", "dsw")}
    beside = {"no rate": marks, "displacement 0.1": marks}
    (legend,) = basins({"root": lines}, beside, {}).legends
    assert [text.get_text() for text in legend.get_texts()] == ["sw", "dsw"]


def test_a_collapse_cannot_win(folder, tmp_path):
    cell = TrainingCell("generate", task(folder), "sw", "root", (0.1, 0.3), (0,), 10)

    def result(run, sw2, variance):
        measures = {"sw2": sw2, "energy": sw2, "variance_ratio": variance, "steps": 10.0}
        return Result(run, "out of steps", 1.0, w2=sw2, measures=measures)

    with Store(tmp_path / "runs.db") as store:
        runs = cell.runs
        store.add([result(runs[0], 0.1, 0.5), result(runs[1], 0.2, 0.9)], "here", {})
        ((group,), timed) = groups(store, "generate")
    assert not timed
    assert group.best("sw", "root").rate == 0.3
    assert group.best("sw", "root", "w2").rate == 0.1  # as the paper would have it


def test_networks_of_one_seed_begin_alike(folder):
    first, again = (task(folder).network(3) for _ in range(2))
    assert all(p.equal(q) for p, q in zip(first.parameters(), again.parameters(), strict=True))
    assert torch.is_tensor(task(folder, "male to female").source)


def test_latents_that_are_not_there_are_a_line(tmp_path, capsys):
    missing, store = tmp_path / "none.npy", tmp_path / "runs.db"
    said = refused(capsys, "reproduce", "generate", "--latents", missing, "--store", store)
    assert "none.npy" in said
    assert not store.exists()


def test_generators_are_judged_on_what_an_exact_distance_can_bear(tmp_path):
    """With the public 70,000 rows 10,000 are held out: on the first 2,048 of them; and a task that travels does not carry rows."""
    rows = np.random.default_rng(0).standard_normal((70_000, 2)).astype(np.float32)
    np.save(tmp_path / "latents.npy", rows)
    where = LatentTask("generation", LatentChoice(str(tmp_path)), hidden=4, batch=8)
    stack = Stack([where.network(0)])
    assert len(where.latents.held_out) == 10_000
    assert where.noted["judged"] == where.make(stack).shape[1] == 2048
    assert len(pickle.dumps(where)) < 1000


def test_nothing_to_translate_between_is_a_line(tmp_path):
    np.save(tmp_path / "latents.npy", np.random.default_rng(0).standard_normal((100, 4)))
    with pytest.raises(UserError, match="no two domains"):
        cells("translate", "paper", LatentChoice(str(tmp_path)))


def test_two_sets_are_compared_also_where_nobody_may_win():
    """Of the best rate that may win; of the best of all where none may; never of one that diverged."""
    runs = [Run("generate", "x", "sw", "root", rate, 0, {}) for rate in (0.1, 0.2, 0.3)]

    def chosen(variances, status=("out of steps",) * 3):
        judged = [
            {"sw2": sw2, "variance_ratio": v}
            for sw2, v in zip((1.0, 3.0, 2.0), variances, strict=True)
        ]
        return _best_rate(runs, judged, status)

    assert chosen((0.5, 0.9, 0.9)) == [2]
    assert chosen((0.5, 0.5, 0.5)) == [0]
    assert chosen((0.5, 0.5, 0.5), ("diverged", "out of steps", "out of steps")) == [2]
    assert chosen((0.5, 0.5, 0.5), ("diverged",) * 3) == []


def test_times_of_other_sizes_are_tables_of_their_own():
    def row(variant, network, batch):
        task = {"network": network, "batch": batch}
        given = {"task": task, "steps": 20, "precision": "tf32", "machine": "here"}
        return {"setting": "runtime, generation", "variant": variant, "given": given, "seconds": 0.1, "measures": {"steps": 20}}  # fmt: skip

    small, large = row("sw", [8, 64, 32], 128), row("sw", [8, 512, 512], 2048)
    first, second = times("generate", [small, large])
    assert first.name != second.name
    assert first.rows[0][2:4] == ["–", "–"]  # no match for the paper's
    assert second.rows[0][2] == "26.69 ± 0.23"
    assert second.rows[0][3].endswith("×")
