"""The store: whole cells or nothing, never a run twice, and errors that speak."""

from __future__ import annotations

import csv
import io
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from slicewise.lab.errors import UserError
from slicewise.lab.study.export import as_csv, means_as_csv
from slicewise.lab.study.run import Result, Run, as_json
from slicewise.lab.study.schema import COLUMNS
from slicewise.lab.study.store import Store


def a_run(lr=0.1, seed=0, **given):
    return Run("flow", "swiss d=2", "sw", "root", lr, seed, {"steps": 10, **given})


def a_result(run, w2=0.5, **more):
    return Result(run, "out of steps", 0.25, batch=3, w2=w2, **more)


def test_a_key_is_all_that_determines_a_run():
    same, others = (
        a_run(),
        [a_run(0.2), a_run(seed=1), a_run(steps=11), a_run(None), a_run(dtype="f")],
    )
    assert same.key == a_run().key
    assert len({same.key, *(other.key for other in others)}) == 6
    # The order in which things were said is not part of it.
    assert a_run(a=1, b=2).key == a_run(b=2, a=1).key


def test_a_key_is_the_same_in_another_process():
    code = (
        "from slicewise.lab.study.run import Run;"
        "print(Run('flow', 'swiss d=2', 'sw', 'root', 0.1, 0, {'steps': 10}).key)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == a_run().key


def test_what_goes_in_comes_out(tmp_path):
    picture = np.arange(6, dtype=np.uint8).reshape(2, 3)
    result = a_result(
        a_run(),
        measures={"steps": 10},
        trace={"loss": [1.0, float("nan")]},
        arrays={"way": picture},
    )
    with Store(tmp_path / "deep" / "runs.db") as store:
        store.add([result, a_result(a_run(None), w2=float("inf"))], "a cpu", {"torch": "2"})
        first, second = sorted(store.rows(), key=lambda row: row["w2"])
        assert np.array_equal(store.array(first["key"], "way"), picture)
        assert store.array(first["key"], "other") is None
    assert first["w2"] == 0.5
    assert first["lr"] == 0.1
    assert first["batch"] == 3
    assert first["measures"] == {"steps": 10}
    assert first["trace"] == {"loss": [1.0, None]}
    assert first["given"] == {"steps": 10}
    assert first["versions"] == {"torch": "2"}
    assert second["lr"] is None
    assert second["w2"] == float("inf")
    # Another program reads it without us.
    with sqlite3.connect(tmp_path / "deep" / "runs.db") as plain:
        names = [row[1] for row in plain.execute("PRAGMA table_info(runs)")]
    assert tuple(names) == COLUMNS


def test_rows_can_be_chosen(tmp_path):
    with Store(tmp_path / "runs.db") as store:
        store.add([a_result(a_run(lr)) for lr in (0.1, 0.2)], "cpu", {})
        assert len(store.rows(experiment="flow", variant="sw")) == 2
        assert store.rows(experiment="theory") == []


def test_a_run_that_is_there_stays_as_it_is(tmp_path):
    with Store(tmp_path / "runs.db") as store:
        store.add([a_result(a_run(), w2=1.0)], "cpu", {})
        store.add([a_result(a_run(), w2=2.0), a_result(a_run(0.2), w2=3.0)], "cpu", {})
        assert [row["w2"] for row in store.rows()] == [1.0, 3.0]
        assert store.missing([a_run(), a_run(0.3)]) == [a_run(0.3)]


def test_a_cell_is_written_as_a_whole_or_not_at_all(tmp_path):
    bad = a_result(a_run(0.2), arrays={"way": np.array([object()])})
    with Store(tmp_path / "runs.db") as store:
        with pytest.raises(ValueError, match="allow_pickle"):
            store.add([a_result(a_run()), bad], "cpu", {})
        assert store.rows() == []
        store.add([a_result(a_run())], "cpu", {})
        assert len(store.rows()) == 1
        assert store._connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_two_may_write_and_others_read(tmp_path):
    path = tmp_path / "runs.db"
    with Store(path) as one, Store(path) as two, Store.reading(path) as reader:
        one.add([a_result(a_run(0.1))], "cpu", {})
        two.add([a_result(a_run(0.2)), a_result(a_run(0.1), w2=9.0)], "cpu", {})
        assert [row["w2"] for row in reader.rows()] == [0.5, 0.5]
        with pytest.raises(UserError, match="readonly"):
            reader.add([a_result(a_run(0.3))], "cpu", {})


def test_as_csv(tmp_path):
    with Store(tmp_path / "runs.db") as store:
        store.add([a_result(a_run(), measures={"a,b": 1.0})], "cpu", {"torch": "2"})
        (row,) = csv.DictReader(io.StringIO(as_csv(store.rows())))
    assert float(row["w2"]) == 0.5
    assert json.loads(row["measures"]) == {"a,b": 1.0}


def test_json_is_valid_for_every_reader():
    assert json.loads(as_json({"b": float("inf"), "a": [float("nan"), 1.5]})) == {
        "a": [None, 1.5],
        "b": None,
    }


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: path.write_bytes(b"not a database, by far" * 50), "not a store of slicewise"),
        (lambda path: sqlite3.connect(path).execute("CREATE TABLE other (a)"), "not a store of slicewise"),
        (lambda path: path.mkdir(), "is a folder"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("write", [True, False])
def test_what_is_no_store_is_left_alone(tmp_path, make, said, write):
    path = tmp_path / "runs.db"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(UserError, match=said):
        Store(path, write=write)
    if before is not None:
        assert path.read_bytes() == before


def test_a_damaged_store_says_so(tmp_path):
    path = tmp_path / "runs.db"
    with Store(path) as store:
        store.add([a_result(a_run(seed=seed)) for seed in range(300)], "cpu", {})
    content = bytearray(path.read_bytes())
    content[4096:20000] = b"\x55" * (20000 - 4096)
    path.write_bytes(content)
    with pytest.raises(UserError, match="damaged"), Store.reading(path) as store:
        store.rows()


def test_a_store_of_another_version(tmp_path):
    path = tmp_path / "runs.db"
    Store(path).close()
    with sqlite3.connect(path) as plain:
        plain.execute("PRAGMA user_version = 99")
    with pytest.raises(UserError, match="version 99"):
        Store(path)


def test_there_must_be_something_to_read(tmp_path):
    with pytest.raises(UserError, match="slicewise reproduce"):
        Store.reading(tmp_path / "runs.db")
    assert not (tmp_path / "runs.db").exists()


def test_a_path_that_cannot_be_written_to(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="folder"):
        Store(tmp_path / "file" / "runs.db")
    with pytest.raises(UserError, match=r"unable to open|denied|No such"):
        Store("/proc/none/runs.db")


FILLED = """
import resource, sys, warnings
import numpy as np
from slicewise.lab.study.store import Store
from slicewise.lab.study.run import Result, Run
from slicewise.lab.errors import UserError
store = Store(sys.argv[1])
result = lambda seed, size: Result(
    Run("flow", "s", "sw", "root", 0.1, seed, {}), "out of steps", 0.1, w2=1.0, arrays={"a": np.zeros(size)})
store.add([result(0, 10)], "cpu", {})
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
try:
    store.add([result(1, 10), result(2, 100_000)], "cpu", {})
except UserError as trouble:
    print(trouble)
    raise SystemExit(7)
"""


def test_a_full_disk(tmp_path):
    """No more than so many bytes may be written: what was there is there, and nothing of the rest."""
    path = tmp_path / "runs.db"
    made = subprocess.run(
        [sys.executable, "-c", FILLED, str(path)], capture_output=True, text=True, check=False
    )
    assert made.returncode == 7, made.stderr
    assert "is the disk full?" in made.stdout
    with Store.reading(path) as store:
        assert [row["seed"] for row in store.rows()] == [0]
        assert store._connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_a_store_in_a_folder_nobody_may_write_to():
    """Root may write anywhere: it becomes somebody else for the while."""
    with tempfile.TemporaryDirectory() as name:
        folder, was = Path(name), os.geteuid()
        with Store(folder / "runs.db") as store:
            store.add([a_result(a_run())], "cpu", {})
        folder.chmod(0o555)
        (folder / "runs.db").chmod(0o444)
        try:
            if was == 0:
                os.seteuid(65534)
            with pytest.raises(UserError, match="can the file and its folder be written to"):
                Store(folder / "runs.db").add([a_result(a_run(0.2))], "cpu", {})
            with Store.reading(folder / "runs.db") as store:
                assert len(store.rows()) == 1
        finally:
            os.seteuid(was)
            folder.chmod(0o755)


def test_means_of_seeds_as_csv():
    given = {"task": {"n": 7}, "steps": 100, "convention": "mean", "dtype": "float64"}
    place = {
        "experiment": "e",
        "setting": "s",
        "variant": "sw",
        "objective": "root",
        "given": given,
    }
    rows = [
        {**place, "lr": lr, "w2": w2, "seconds": 2.0, "device": "here", "measures": {"steps": steps}}
        for lr, w2, steps in ((1.0, 0.1, 10), (1.0, 0.3, 12), (2.0, float("inf"), 3), (2.0, 0.5, 4))
    ]  # fmt: skip
    first, second = csv.DictReader(io.StringIO(means_as_csv(rows)))
    assert [float(first[name]) for name in ("w2_mean", "w2_std")] == [0.2, pytest.approx(0.141421)]
    assert [first[name] for name in ("seeds", "diverged", "n", "limit")] == ["2", "0", "7", "100"]
    assert [first[name] for name in ("steps_least", "steps_most", "seconds")] == ["10", "12", "2"]
    assert [second[name] for name in ("w2_mean", "w2_std", "w2_least", "diverged")] == ["inf", "", "0.5", "1"]  # fmt: skip


def test_stores_from_before_there_was_a_list_of_what_was_asked_for(tmp_path):
    with Store(tmp_path / "runs.db") as store:
        store.add([a_result(a_run())], "here", {})
    with sqlite3.connect(tmp_path / "runs.db") as database:
        database.execute("DROP TABLE asked")
    database.close()
    with Store.reading(tmp_path / "runs.db") as store:
        assert store.asked() == []
    with Store(tmp_path / "runs.db") as store:
        assert store.asked() == []
        store.ask([])
    with Store.reading(tmp_path / "runs.db") as store:
        assert len(store.rows()) == 1


def test_the_words_of_older_stores_are_read_as_todays(tmp_path):
    words = {
        "converged": "arrived",
        "assigned": "arrived",
        "finished": "out of steps",
        "diverged": "diverged",
    }
    with Store(tmp_path / "runs.db") as store:
        for seed, word in enumerate(words):
            store.add([Result(a_run(seed=seed), word, 0.25)], "cpu", {})
        assert [row["status"] for row in store.rows()] == list(words.values())


def held(path):
    """All that a report reads of a store."""
    with Store.reading(path) as store:
        rows = store.rows()
        return rows, store.asked(), [store.array(row["key"], "way").tolist() for row in rows]


@pytest.fixture
def some_store(tmp_path):
    rng = np.random.default_rng(0)
    with Store(tmp_path / "runs.db") as store:
        for seed in range(12):
            way, curve = rng.normal(size=(40, 2)), list(rng.normal(size=30))
            run = a_run(seed=seed, name="abcdefgh" * 5)
            store.add([a_result(run, trace={"loss": curve}, arrays={"way": way})], "a cpu", {})
    return tmp_path / "runs.db"


def test_one_changed_bit_is_noticed_or_means_nothing(some_store):
    """250 copies with one bit changed: a line that names the store, or the same numbers."""
    expected = held(some_store)
    good, rng = some_store.read_bytes(), np.random.default_rng(1)
    noticed = 0
    for _ in range(250):
        damaged = bytearray(good)
        damaged[rng.integers(len(good))] ^= 1 << int(rng.integers(8))
        some_store.write_bytes(damaged)
        try:
            found = held(some_store)
        except UserError as error:
            told = str(error)
        else:
            assert found == expected
            continue
        assert "runs.db" in told
        noticed += 1
    assert noticed > 100


def test_damaged_json_is_told_with_file_and_row(some_store):
    with sqlite3.connect(some_store) as plain:  # as a store from before there were checks
        (key,) = plain.execute("SELECT key FROM runs LIMIT 1").fetchone()
        plain.execute("DROP TABLE checks")
        plain.execute("UPDATE runs SET given = '{\"steps\": 1' WHERE key = ?", (key,))
    plain.close()
    with pytest.raises(UserError, match=rf"runs\.db is damaged: run '{key}', given"):
        held(some_store)


@pytest.mark.parametrize("change", ["UPDATE runs SET w2 = 0.25", "UPDATE runs SET lr = NULL",
                                    "DELETE FROM runs WHERE seed = 3", "DELETE FROM arrays",
                                    "UPDATE arrays SET data = zeroblob(900)"])  # fmt: skip
def test_a_changed_number_is_noticed(some_store, change):
    with sqlite3.connect(some_store) as plain:
        plain.execute(change)
    plain.close()
    with pytest.raises(UserError, match=r"runs\.db is damaged"):
        held(some_store)


def test_stores_from_before_there_were_checks(some_store):
    with sqlite3.connect(some_store) as plain:
        plain.execute("DROP TABLE checks")
    plain.close()
    assert len(held(some_store)[0]) == 12
    with Store(some_store) as store:
        store.add([a_result(a_run(0.7), arrays={"way": np.ones((2, 2))})], "cpu", {})
        store.ask([])
    assert len(held(some_store)[0]) == 13
