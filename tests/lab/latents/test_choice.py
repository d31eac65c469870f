"""Whose latents, which labels and ages: what can be asked of a study, and what tells its runs apart."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from slicewise.lab import experiments
from slicewise.lab.cli import main
from slicewise.lab.errors import NothingToDo
from slicewise.lab.experiments import Options
from slicewise.lab.experiments.latent.cells import DISPLACEMENT, BaselineCell, TrainingCell
from slicewise.lab.experiments.latent.presets import cells
from slicewise.lab.experiments.latent.tasks import LatentTask
from slicewise.lab.latents.choice import LatentChoice
from slicewise.lab.latents.layouts import load
from slicewise.lab.report.page import write_report
from slicewise.lab.report.training_runs import groups
from slicewise.lab.study.run import Result
from slicewise.lab.study.store import Store
from tests.command_line import accepted, refused

AGES = np.arange(240) % 60


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A matrix without labels, and ages in another folder; where we are is neither."""
    load.cache_clear()
    (tmp_path / "labels").mkdir()
    (tmp_path / "here").mkdir()
    draw = np.random.default_rng(0)
    rows = draw.standard_normal((240, 5)) + 0.03 * AGES[:, None]
    np.save(tmp_path / "w.npy", rows.astype(np.float32))
    np.save(tmp_path / "labels" / "age.npy", AGES)
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


@pytest.fixture
def first_only(monkeypatch):
    """Of the trainings only what needs none, of all other experiments nothing: they take their time elsewhere."""
    for name, of in list(experiments.EXPERIMENTS.items()):
        some = (lambda asked, of=of: of(asked)[:1]) if name in ("generate", "translate") else (lambda asked: [])  # fmt: skip
        monkeypatch.setitem(experiments.EXPERIMENTS, name, some)


def translate(files, *more, labels="../labels/age.npy"):
    return ("reproduce", "translate", "--latents", "../w.npy", "--labels", labels, "--no-report", "--quiet",
            "--jobs", 1, "--store", files / "runs.db", *more)  # fmt: skip


def kept(files):
    with Store.reading(files / "runs.db") as store:
        return store.rows(experiment="translate")


def test_labels_from_elsewhere_and_other_ages(files, first_only, capsys):
    assert accepted(capsys, *translate(files)) == ""
    assert {row["setting"] for row in kept(files)} == {"adult to child"}
    count = len(kept(files))
    accepted(capsys, *translate(files))
    assert len(kept(files)) == count  # the same again
    for more in (("--adult", 40), ("--child", 8), ("--held-out", 100)):
        accepted(capsys, *translate(files, *more))
        count += 5
        assert len(kept(files)) == count, more
    notes = {note for row in kept(files) for note in row["given"]["notes"]}
    assert "labels from age.npy" in notes
    assert "ages above 40 are adults, below 10 children" in notes


def test_other_ages_are_another_run_also_where_they_name_the_same_rows(files):
    """Whole years: older than 18 and older than 18.5 are the same people."""
    data = [LatentChoice(str(files / "w.npy"), str(files / "labels" / "age.npy"), adult=a) for a in (18, 18.5)]  # fmt: skip
    assert data[0].load().digest == data[1].load().digest
    made = [cells("translate", "quick", one) for one in data]
    keys = [{run.key for cell in some for run in cell.runs} for some in made]
    assert not keys[0] & keys[1]
    # As a whole number or not, and in another process, it is the same choice.
    same = LatentTask("adult to child", LatentChoice(data[0].path, data[0].labels, adult=30), 8, 16)
    other = LatentTask("adult to child", LatentChoice(data[0].path, data[0].labels, adult=30.0), 8, 16)  # fmt: skip
    key = {cell.runs[0].key for cell in (BaselineCell("translate", same), BaselineCell("translate", other))}  # fmt: skip
    assert len(key) == 1
    assert pickle.loads(pickle.dumps(same)) == other


def test_what_was_run_with_the_usual_ages_is_found_in_stores_made_before_these_could_be_chosen(
    files,
):
    task = LatentTask("generation", LatentChoice(str(files / "w.npy")), 8, 16)
    assert set(task.given) == {"latents", "task", "network", "batch"}


def test_the_report_tells_other_ages_and_networks_apart(files, tmp_path):
    def result(run, sw2):
        measures = {"sw2": sw2, "energy": sw2, "variance_ratio": 1.0, "steps": 0.0}
        return Result(run, "out of steps", 0.0, w2=sw2, measures=measures)

    found = {}
    ways = [{"adult": 18}, {"adult": 18.5}, {"adult": 18, "hidden": 32}]
    with Store(tmp_path / "runs.db") as store:
        for way in ways:
            hidden = way.pop("hidden", 8)
            data = LatentChoice(str(files / "w.npy"), str(files / "labels" / "age.npy"), **way)
            (run, *_) = BaselineCell(
                "translate", LatentTask("adult to child", data, hidden, 16)
            ).runs
            store.add([result(run, 1.0)], "here", {})
        found = [group.words for group in groups(store, "translate")[0]]
    assert len(set(found)) == 3
    assert sum("adults over 18.5, children under 10" in words for words in found) == 1
    assert sum("network 5 → 32 → 32 → 5" in words for words in found) == 1
    write_report(tmp_path / "runs.db", tmp_path / "report")
    assert len(list((tmp_path / "report").glob("translate-adult-to-child*-displacement.csv"))) == 3


def test_the_same_checks_as_where_latents_are_described(files, capsys):
    """One word for one mistake, whichever command it is made in."""
    mistakes = [
        ("--labels", "../none.npy"),
        ("--labels", "../labels/age.npy", "--adult", 5),
        ("--labels", "../labels/age.npy", "--held-out", 1),
        ("--labels", "../labels/age.npy", "--held-out", 240),
        ("--adult", 30),
        ("--more", 5),
        ("--more", -1),
    ]
    for mistake in mistakes:
        described = refused(capsys, "latents", "../w.npy", *mistake)
        assert refused(capsys, "reproduce", "translate", "--latents", "../w.npy", *mistake).replace(
            str(files / "here" / ".."), ".."
        ) == described  # fmt: skip
    assert not (files / "here" / "runs.db").exists()
    for option in ("--labels", "--held-out", "--adult", "--child", "--more"):
        said = refused(capsys, "reproduce", "generate", option, 30)
        assert f"{option} is for latents from a file: give --latents PATH too" in said


def test_ages_where_none_are_known_are_no_silent_wish(files, capsys):
    assert "has no ages in years" in refused(capsys, "latents", "../w.npy", "--child", 5)
    assert "give their path, too" in refused(capsys, "latents", "--adult", 30)


def test_a_folder_without_latents_is_told_as_one_whatever_else_is_given(files, capsys):
    said = refused(capsys, "latents", "../labels", "--labels", "../labels/age.npy")
    assert "holds no latents" in said


@pytest.mark.parametrize(
    ("experiment", "option", "readers"),
    [
        ("color", ("--latents", "w.npy"), "generate and translate"),
        ("theory", ("--labels", "age.npy"), "generate and translate"),
        ("gradient-flow", ("--adult", 30), "generate and translate"),
        ("gradient-flow", ("--child", 12), "generate and translate"),
        ("image-flow", ("--held-out", 10), "generate and translate"),
        ("estimators", ("--more", 10), "generate and translate"),
        ("generate", ("--mnist", "mnist.npz"), "image-flow"),
        ("color", ("--faces", "faces"), "image-flow"),
        ("translate", ("--photographs", "here"), "color"),
        ("theory", ("--convention", "reference"), "gradient-flow and image-flow"),
    ],
)
def test_what_an_experiment_does_not_read_is_refused(files, capsys, experiment, option, readers):
    said = refused(capsys, "reproduce", experiment, *option)
    assert f"{option[0]} is for {readers}: {experiment} does not use it" in said
    assert not list((files / "here").iterdir())


def test_without_labels_all_but_translation_is_run(files, first_only, capsys):
    asked = ["--latents", "../w.npy", "--no-report", "--jobs", "1"]
    assert main(["reproduce", "all", *asked]) == 0
    out, err = capsys.readouterr()
    assert out == "runs.db: 3 runs made\n"  # of generation
    (line,) = (one for one in err.splitlines() if "translate" in one)
    assert line.startswith("slicewise: translate is left out: w.npy has no two domains")
    with Store.reading(files / "here" / "runs.db") as store:
        assert {row["experiment"] for row in store.rows()} == {"generate"}
    # With labels it is run; by itself it is refused; other mistakes are mistakes still.
    assert main(["reproduce", "all", *asked, "--labels", "../labels/age.npy"]) == 0
    assert "left out" not in capsys.readouterr().err
    assert "no two domains" in refused(capsys, "reproduce", "translate", *asked)
    assert "none.npy" in refused(capsys, "reproduce", "all", "--latents", "../none.npy")
    assert main(["reproduce", "all", *asked, "--quiet"]) == 0
    assert capsys.readouterr().err == ""


def test_few_rows_are_told_once_and_not_by_every_training(files, first_only, capsys, caplog):
    task = LatentTask("adult to child", LatentChoice(str(files / "w.npy"), str(files / "labels" / "age.npy")), 8, 128)  # fmt: skip
    cell = TrainingCell("translate", task, "sw", DISPLACEMENT, (0.1,), (0,), 2)
    cell.measure(cell.runs, "cpu")
    assert "replacement" not in caplog.text
    arguments = [str(one) for one in translate(files) if one != "--quiet"]
    assert main(arguments) == 0
    err = capsys.readouterr().err
    assert err.count("slicewise: translate: target of 27 rows drawn with replacement\n") == 1
    assert err.count("replacement") == 2  # the source, too


def test_only_having_nothing_to_do_is_left_out(files):
    with pytest.raises(NothingToDo, match="--labels FILE"):
        experiments.EXPERIMENTS["translate"](Options(latents=LatentChoice(str(files / "w.npy"))))


def test_more_held_out_than_there_is_to_learn_from(files):
    """As many are judged as the floor can be made of; before, everything was trained and then could not be judged."""
    data = LatentChoice(str(files / "w.npy"), str(files / "labels" / "age.npy"), held_out=200)
    task = LatentTask("adult to child", data, 8, 16)
    child = task.target
    assert task.noted["judged"] == len(child) < 20
    assert set(task.baselines("cpu")) >= {"real", "mean shift"}


@pytest.mark.parametrize("preset", ["quick", "paper"])
def test_what_is_asked_for_is_what_is_translated(files, preset):
    """Studies take the first pairs: with a folder's own labels before them, ages and labels were silent wishes."""
    folder = files / "faces"
    folder.mkdir()
    np.save(folder / "latents.npy", np.load(files / "w.npy"))
    np.save(folder / "age.npy", AGES)
    np.save(folder / "gender.npy", np.arange(240) % 2)
    np.savez(files / "more.npz", glasses=np.arange(240) % 3 % 2, hat=np.arange(240) % 5 % 2)

    def first(**asked):
        return cells("translate", preset, LatentChoice(str(folder), **asked))[0].task.name

    assert first() == "male to female"
    assert first(adult=30) == "adult to child"
    assert first(labels=str(files / "more.npz")) == "glasses=0 to glasses=1"
    assert first(labels=str(files / "more.npz"), child=12) == "adult to child"


def test_ages_that_nobody_has_are_refused(files, capsys):
    """Else other domains would be translated between, under a note about these ages."""
    np.savez(files / "more.npz", age=AGES, gender=np.arange(240) % 2)
    told = refused(capsys, *translate(files, "--adult", 100, labels="../more.npz"))
    assert "adult = 100 and child = 10" in told
    assert "choose other ages" in told
