"""Tables: columns as samples, the same result however they are read, drift and its change point, the command."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import slicewise as sw
from slicewise.lab.cli import main
from slicewise.stats import DriftDetector, change_point, compare_tables, streamed
from slicewise.stats.counts import BINS, LineCounts, costs_between, plain_count
from slicewise.stats.tables import Encoding, Piece, pieces_of, sampled_table
from slicewise.transport import match
from tests.command_line import refused

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def table(n, *, seed=0, shift=0.0, start=0):
    g = np.random.default_rng(seed)
    return pa.table(
        {
            "when": (np.datetime64("2026-01-01") + np.arange(start, start + n).astype("timedelta64[m]")).astype("datetime64[s]"),
            "age": g.normal(40, 9, n) + 9 * shift,
            "income": g.lognormal(10, 0.5, n),
            "city": g.choice(["A", "B", "C"], n, p=[0.5, 0.3, 0.2]),
            "id": [f"u{k}" for k in range(start, start + n)],
            "score": np.where(g.random(n) < 0.1, np.nan, g.normal(size=n)),
        }
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    """Two folders of Parquet files with several row groups, and the same rows in other formats."""
    for name, rows in (("a", table(900)), ("b", table(700, seed=1, shift=1.0, start=900))):
        (tmp_path / name).mkdir()
        for k in range(3):
            part = rows.slice(k * rows.num_rows // 3, rows.num_rows // 3)
            parquet.write_table(part, tmp_path / name / f"{k}.parquet", row_group_size=100)
        with (
            pa.OSFile(str(tmp_path / f"{name}.arrow"), "wb") as sink,
            pa.ipc.new_file(sink, rows.schema) as writer,
        ):
            writer.write_table(rows, max_chunksize=200)
    return tmp_path


def test_counts_are_the_plain_version_and_keep_their_bound():
    g = torch.Generator().manual_seed(0)
    x = torch.cat(
        [
            torch.randn(3, 400, generator=g),
            1e-9 * torch.randn(3, 50, generator=g),
            torch.zeros(3, 5),
        ],
        dim=1,
    ).double()
    x[2] = torch.exp(3 * x[2])
    y = 1.3 * torch.randn(3, 333, generator=g).double() + 0.2
    center, scale = torch.tensor([0.1, -3.0, 0.0]), torch.tensor([0.7, 2.0, 1.0])
    a, b = LineCounts(center, scale), LineCounts(center, scale)
    a.add(x[:, :200])
    a.add(x[:, 200:])
    b.add(y)
    plain = torch.zeros_like(a.counts)
    plain_count(x, a.center, a.scale, plain)
    assert torch.equal(plain, a.counts)
    assert (a.n, b.n) == (455, 333)
    for p in (1, 2, 3):
        exact = torch.stack([match(u, v, p=p).cost for u, v in zip(x, y, strict=True)]) ** (1 / p)
        found = costs_between(a, b, p) ** (1 / p)
        bound = a.error(p) + b.error(p)
        assert ((found - exact).abs() <= bound).all()
        assert (bound < 2e-3 * (1 + x.abs().pow(p).mean(dim=1) ** (1 / p))).all()


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1e30])
def test_what_no_bin_holds_is_refused(bad):
    counts = LineCounts(torch.zeros(1), torch.ones(1))
    with pytest.raises(ValueError, match="first rows"):
        counts.add(torch.tensor([[0.0, bad]]))
    assert counts.counts.shape == (1, 2 * BINS)


def test_columns_become_coordinates():
    rows = sampled_table(table(500), 10_000, 0)[0]
    code = Encoding.of(rows)
    assert code.names == [
        "age", "income", "city = A", "city = B", "city = C", "city = any other", "score", "score is missing",
    ]  # fmt: skip
    assert [name for name, _ in code.left_out] == ["when", "id"]
    samples = code.encode(rows)
    np.testing.assert_allclose(samples[:, :2].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(samples[:, :2].std(axis=0), 1)
    assert samples[:, 2:6].var(axis=0).sum() == pytest.approx(1)
    other = dict(rows, city=np.array(["Z"] * 500, dtype=object))
    assert (code.encode(other)[:, 5] > 0).all()
    with pytest.raises(ValueError, match=r"columns \['city'\] are not in the table"):
        code.encode({k: v for k, v in rows.items() if k != "city"})
    with pytest.raises(ValueError, match="holds words, but numbers"):
        code.encode(dict(rows, age=rows["city"]))
    assert Encoding.restored(code.state()).columns == code.columns


def test_a_table_is_the_same_however_it_is_read(folder):
    one = compare_tables(folder / "a", folder / "b", progress_bar=False)
    assert (one.n, one.m) == (900, 699)
    assert one.columns == ["age", "income", "city", "score"]
    again = compare_tables(folder / "a.arrow", folder / "b", progress_bar=False)
    assert float(again.value) == float(one.value)
    code = Encoding.of(sampled_table(table(900), 10_000, 0)[0])
    x = torch.from_numpy(code.encode(sampled_table(folder / "a", 10_000, 0)[0]))
    y = torch.from_numpy(code.encode(sampled_table(folder / "b", 10_000, 0)[0]))
    exact = sw.sliced_wasserstein(x, y, slices=one.slices)
    assert abs(float(one.value - exact)) <= float(one.error_bound) < 2e-3
    assert one.column_distances.argmax() == 0
    low, high = one.interval()
    assert low < one.value < high


@pytest.mark.slow
def test_an_interrupted_comparison_continues(folder, monkeypatch):
    whole = compare_tables(folder / "a", folder / "b", progress_bar=False)
    monkeypatch.setattr(streamed, "_SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    read = Piece.read
    count = 0

    def fails_later(self):
        nonlocal count
        count += 1
        if count > 24:  # 18 for the first rows of both, then 6 of 18 that are counted
            raise KeyboardInterrupt
        return read(self)

    monkeypatch.setattr(Piece, "read", fails_later)
    with pytest.raises(KeyboardInterrupt):
        compare_tables(folder / "a", folder / "b", checkpoint=folder / "c.pt", progress_bar=False)
    count = -100
    found = compare_tables(
        folder / "a", folder / "b", checkpoint=folder / "c.pt", progress_bar=False
    )
    # 18 for the first rows of both, and those of 18 that had not been counted.
    assert count + 100 == 18 + 12
    assert torch.equal(found.costs, whole.costs)
    with pytest.raises(ValueError, match="other"):
        compare_tables(folder / "a", folder / "a", checkpoint=folder / "c.pt", progress_bar=False)


def test_a_random_choice_of_rows_is_uniform(folder):
    counts = np.zeros(900)
    for seed in range(60):
        rows, total = sampled_table(folder / "a", 90, seed)
        counts[[int(name[1:]) for name in rows["id"]]] += 1
        assert (total, len(rows["id"])) == (900, 90)
    # A tenth of 60 each, with a variance of 5.4; the mean over the first and the last third agrees.
    assert counts.var() == pytest.approx(5.4, rel=0.25)
    assert abs(counts[:300].mean() - counts[600:].mean()) < 4 * (2 * 5.4 / 300) ** 0.5


def test_a_detector_finds_drift_and_only_drift(folder):
    detector = DriftDetector(folder / "a", permutations=399)
    found = detector.score(folder / "b")
    assert found.drifted
    assert [column.name for column in found.moved] == ["age"]
    assert "mean +" in found.moved[0].direction
    calm = detector.score(table(600, seed=5))
    assert not calm.drifted
    assert not calm.moved
    detector.save(folder / "detector.pt")
    same = DriftDetector.load(folder / "detector.pt").score(folder / "b")
    assert (same.p_value, same.test.statistic) == (found.p_value, found.test.statistic)
    assert "no drift" in repr(calm)
    with pytest.raises(ValueError, match="never be reached"):
        DriftDetector(table(50), level=0.001, permutations=99)
    with pytest.raises(ValueError, match="does not exist"):
        DriftDetector.load(folder / "nothing.pt")


def test_false_alarms_keep_the_level():
    """At level 0.1 about 10 of 100 calm batches raise an alarm, with a standard deviation of 3."""
    g = np.random.default_rng(0)
    alarms = 0
    for k in range(100):
        reference, batch = g.normal(size=(40, 3)), g.normal(size=(30, 3))
        alarms += (
            DriftDetector(reference, level=0.1, permutations=99, n_slices=10, generator=k)
            .score(batch)
            .drifted
        )
    assert alarms <= 10 + 2 * 3


def alarms_of(draw, *, sizes, level=0.1, repeats=40):
    g = np.random.default_rng(1)
    return sum(
        DriftDetector(draw(g, sizes[0]), level=level, permutations=99, n_slices=5, generator=k)
        .score(draw(g, sizes[1]))
        .drifted
        for k in range(repeats)
    )


def test_many_categories_raise_no_alarm_by_themselves():
    """Which categories were frequent in the reference is chance: chosen by it alone, all of 40 calm batches alarmed."""
    found = alarms_of(lambda g, n: {"zip": g.integers(0, 150, n).astype(str)}, sizes=(300, 300))
    assert found <= 4 + 3 * 1.9


def test_heavy_tails_raise_no_alarm_by_themselves():
    """In units of a reference without outliers, those of a batch outweigh all columns."""
    found = alarms_of(lambda g, n: g.standard_cauchy((n, 12)), sizes=(100, 10))
    assert found <= 4 + 3 * 1.9


def test_missing_values_and_unseen_categories_are_drift():
    g = np.random.default_rng(0)
    reference = {"a": g.normal(size=400), "b": g.choice(["u", "v"], 400)}
    gaps = {"a": np.where(g.random(300) < 0.1, np.nan, g.normal(size=300)), "b": g.choice(["u", "v"], 300)}  # fmt: skip
    detector = DriftDetector(reference)
    found = detector.score(gaps)
    assert [c.name for c in found.moved] == ["a"]
    assert "missing +" in found.moved[0].direction
    unseen = {"a": g.normal(size=300), "b": g.choice(["u", "v", "w"], 300, p=[0.4, 0.4, 0.2])}
    assert "b = w: +" in detector.score(unseen).moved[0].direction
    assert compare_tables(reference, gaps).slices.shape[1] == 5  # a, a is missing, u, v, any other


def test_columns_that_do_not_fit():
    with pytest.raises(ValueError, match="rows: give one value of each"):
        DriftDetector({"a": [1.0, 2.0, 3.0], "b": [1.0, 2.0]})
    with pytest.raises(ValueError, match="between 0 and 1"):
        DriftDetector({"a": [1.0, 2.0, 3.0]}, level=2)
    late = np.arange(5.0)
    late[3] = np.nan
    with pytest.raises(ValueError, match="none in the first rows"):
        Encoding.of({"a": np.arange(5.0)}).encode({"a": late})
    detector = DriftDetector({"a": np.arange(30.0)})
    for stamps in (np.array([None, "a"] * 20, dtype=object), np.array([np.nan, 1.0] * 20)):
        with pytest.raises(ValueError, match="missing in 20 rows"):
            detector.score_windows({"a": np.arange(40.0), "t": stamps}, n_windows=2, time="t")
    alone = detector.score({"a": [3.0]})
    assert "spread" not in alone.columns[0].direction.replace("spreads", "")


def test_windows_find_the_change(folder):
    both = pa.concat_tables([table(600, seed=3), table(600, seed=4, shift=1.0, start=600)])
    shuffled = both.take(np.random.default_rng(0).permutation(1200))
    found = DriftDetector(folder / "a", permutations=199, level=0.05, n_slices=30).score_windows(
        shuffled, n_windows=8, time="when"
    )
    assert [window.drift.drifted for window in found.windows] == [False] * 4 + [True] * 4
    assert found.change_point == 4
    assert str(found.windows[4].start).startswith("2026-01-01T10:00")
    assert change_point(np.zeros(6))[1] == 1
    with pytest.raises(ValueError, match="not a column"):
        DriftDetector(folder / "a").score_windows(shuffled, time="then")


def test_the_command(folder, capsys):
    status = main(["drift", str(folder / "a"), str(folder / "b"), "--json", "--all-rows", "--permutations", "399",
                   "-o", str(folder / "p.png"), "--save", str(folder / "d.pt")])  # fmt: skip
    said = json.loads(capsys.readouterr().out)
    assert status == 3
    assert said["drift"]
    assert said["columns"][0]["name"] == "age"
    assert set(said["left_out"]) == {"when", "id"}
    assert said["all_rows"]["low"] < said["all_rows"]["distance"] < said["all_rows"]["high"]
    assert (folder / "p.png").read_bytes().startswith(b"\x89PNG")
    parquet.write_table(table(500, seed=8), folder / "calm.parquet")
    assert main(["drift", str(folder / "d.pt"), str(folder / "calm.parquet"), "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    saved = (str(folder / "d.pt"), str(folder / "calm.parquet"))
    assert "is a saved detector" in refused(capsys, "drift", *saved, "--level", "0.05")
    status = main(
        [
            "drift",
            str(folder / "a"),
            str(folder / "b"),
            "--windows",
            "4",
            "--time",
            "when",
            "--permutations",
            "199",
            "--level",
            "0.05",
        ]
    )
    out = capsys.readouterr().out
    assert status == 3
    assert "####" in out
    assert "left out    id" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("a", "nope.parquet"), "there is no such file"),
        (("a", "b", "--columns", "agee"), "choose from"),
        (("a", "b", "--time", "when"), "add --windows"),
        (("a", "b", "--level", "0.0001"), "never be reached"),
        (("a", "b", "-o", "x.txt"), "ends in .png"),
        (("a", "b", "--json", "--quiet"), "choose one"),
    ],
)
def test_mistakes_of_the_command(folder, capsys, words, said):
    paths = [str(folder / word) for word in words[:2]]
    assert said in refused(capsys, "drift", *paths, *words[2:])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "new.csv' cannot be read as a table"),
        (b"a,b\n1,u\n2\n", "new.csv' cannot be read as a table"),
        (b"a,b\n", "holds no rows"),
        (b"a,b\n1,\xff\xfe\n2,\xc3\n", "'b' holds bytes or lists, but categories"),
        (b"a,b\nx,u\ny,v\n", "'a' holds words, but numbers"),
    ],
)
def test_files_that_are_no_tables(tmp_path, capsys, content, said):
    (tmp_path / "old.csv").write_text("a,b\n" + "1,u\n2,v\n" * 20)
    (tmp_path / "new.csv").write_bytes(content)
    assert said in refused(capsys, "drift", str(tmp_path / "old.csv"), str(tmp_path / "new.csv"))


def test_pieces_say_what_they_want(tmp_path):
    with pytest.raises(ValueError, match="holds no table"):
        pieces_of(tmp_path)
    (tmp_path / "x.parquet").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="cannot be read as a table"):
        pieces_of(tmp_path)
    np.save(tmp_path / "x.npy", np.zeros((3, 2)))
    with pytest.raises(ValueError, match="files of one kind"):
        pieces_of(tmp_path)
    with pytest.raises(ValueError, match="engine='ray'"):
        compare_tables(_Dataset(), np.zeros((3, 2)))
    with pytest.raises(ValueError, match="checkpoint is for files"):
        compare_tables(np.zeros((3, 2)), np.zeros((3, 2)), checkpoint=tmp_path / "c.pt")


class _Dataset:
    def map_batches(self): ...

    def iter_batches(self): ...
