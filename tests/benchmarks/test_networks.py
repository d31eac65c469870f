"""`make bench-networks` in small: the grid, its data, what is kept and what is concluded."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, replace

import pytest
import torch

import slicewise as sw
from benchmarks.networks import __main__ as command
from benchmarks.networks import (
    autoencoders,
    report,
    rules,
    samples,
    store,
    training,
)
from benchmarks.networks.settings import BATCHES, DEPTHS, DIMENSIONS, SLICES, WIDTHS, grid, seconds

CPU = torch.device("cpu")


def test_the_grid_is_the_one_that_was_drawn_first():
    """No setting may be exchanged after results were seen."""
    settings = grid()
    assert settings == grid()
    names = "\n".join(one.name for one in settings)
    assert hashlib.sha256(names.encode()).hexdigest()[:12] == "82fcfca0f330"
    assert len(settings) == 64
    for field, values in (
        ("width", WIDTHS),
        ("depth", DEPTHS),
        ("batch", BATCHES),
        ("d", DIMENSIONS),
        ("n_slices", (None, *SLICES)),
    ):
        assert {getattr(one, field) for one in settings} == set(values)
    assert all(one.scale <= 1 for one in settings if one.output)
    assert min(one.scale for one in settings) < 3e-3
    assert max(one.scale for one in settings) > 300
    assert all(seconds(one) <= 12 for one in settings)


@pytest.mark.parametrize("d", [2, 16, 64, 128])
def test_samples_fill_the_unit_cube_and_are_of_one_law(d):
    one = replace(grid()[0], task="translator", d=d, scale=10.0)
    given = samples.samples(one, CPU, held_out=1000)
    for rows in (given.target, given.source, given.held_out, given.again, given.source_held_out):
        assert rows.shape[1] == d
        assert 0 <= rows.min() < 4
        assert 6 < rows.max() <= 10
    same, other = (
        sw.sliced_wasserstein(given.held_out, rows, n_slices=200, generator=0)
        for rows in (given.again, given.source_held_out)
    )
    assert 3 * same < other
    assert not given.again.equal(given.held_out)


def test_a_run_is_kept_merged_and_not_repeated(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(training, "Extent", lambda: training.QUICK)
    small = {one.number: one for one in command.small(grid())}
    monkeypatch.setattr(command, "grid", lambda seed: list(small.values()))
    some = ["--numbers", *(str(n) for n in list(small)[:2]), "--out", str(tmp_path)]
    for part in ("1/2", "2/2"):
        assert command.main([*some, "--part", part]) == 0
    files = sorted(tmp_path.glob("*.jsonl"))
    assert [file.name for file in files] == [f"networks-part-{i}-of-2.jsonl" for i in (1, 2)]

    before = [file.read_text() for file in files]
    monkeypatch.setattr(training, "run", lambda *_: pytest.fail("this is finished"))
    for part in ("1/2", "2/2"):
        assert command.main([*some, "--part", part]) == 0
    assert [file.read_text() for file in files] == before

    command.main(["--merge", str(tmp_path), "--out", str(tmp_path)])
    (record,) = tmp_path.glob("networks-2*.json")
    kept = json.loads(record.read_text())
    assert {row["number"] for row in kept["settings"]} == set(list(small)[:2])
    assert len(kept["settings"]) == 4  # two numbers of steps
    assert record.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    assert "## Setting by setting" in record.with_suffix(".md").read_text()
    assert "| median after 20 steps |" in capsys.readouterr().out


def test_shares_are_all_settings():
    dealt = command.shares(grid(), 5)
    assert sorted(one.number for some in dealt for one in some) == list(range(64))
    with pytest.raises(SystemExit):
        command.main(["--out", "x", "--part", "5/4"])


def test_each_side_judges_what_it_trained():
    """A network that is not moved has the distance it had; one that diverged has none."""
    one = next(s for s in command.small(grid()) if s.norm is None and s.task == "generator")
    extent = replace(training.QUICK, rates=(1e-30, 1e-2, 1e30), steps=(20,))
    found = training.run(one, "adam", CPU, extent)
    still, trained, gone = found["20"]
    assert still == pytest.approx(found["start"])
    assert max(trained) < min(still)
    assert gone == [math.inf] * 2
    assert 0 < found["floor"] < min(still)
    decayed = training.run(one, "decayed", CPU, extent)["20"]
    assert decayed[0] == pytest.approx(still)
    assert max(decayed[1]) < min(still)
    assert decayed[1] != trained


def test_an_autoencoder_of_the_stack_is_moved_as_by_torchs_adam():
    one = next(s for s in command.small(grid()) if s.task == "autoencoder")
    one = replace(one, scale=1.0, activation="relu", norm=None)  # rounding grows least
    extent = replace(training.QUICK, rates=(1e-2,), seeds=(0,), steps=(15,))
    given = samples.samples(one, CPU, held_out=300)
    judge = autoencoders.Judge(one, given.held_out, extent)
    ((stacked,),) = autoencoders._searched(one, given.target, judge, 15, extent)
    encoder, decoder = autoencoders.halves(one, 0)
    adam = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-2)
    step, loss = rules.plain_steps(adam), autoencoders.Loss(one, 0)
    for rows, prior in autoencoders.batches(given.target, one, 0, 15):
        step(lambda rows=rows, prior=prior: loss((encoder, decoder), rows, prior))
    assert judge((encoder, decoder)) == pytest.approx(stacked, rel=1e-3)


def kept_of(number, ours, adam):
    setting = asdict(grid()[number])
    results = {"300": adam, "start": [1.0, 1.0], "floor": 0.01}
    return {
        (number, "adam"): {"setting": setting, "rates": [1e-3, 1e-2], "results": results},
        (number, "computed"): {"setting": setting, "results": {"300": ours}},
    }


def test_the_verdict_is_by_means_over_seeds_and_the_best_rate():
    kept = kept_of(0, [0.11, 0.11], [[0.1, 0.2], [0.05, 0.15]]) | kept_of(
        1, [0.3, math.inf], [[0.1, 0.1], [0.2, math.inf]]
    )
    rows = report.compare(kept)
    assert rows[0]["ratio"] == pytest.approx(1.1)
    assert (rows[0]["rate"], rows[1]["rate"]) == (1e-2, 1e-3)
    assert rows[1]["ratio"] == math.inf
    assert rows[1]["diverged"] == 1
    ours, fixed, searched_again, beside = report.sums(rows, [1e-3, 1e-2])
    assert ours["within 10 %"] == pytest.approx(0.5)
    assert (fixed["rate"], fixed["worst"]) == (1e-3, pytest.approx(1.5))
    # Each seed alone chooses the second rate in the first setting, and the first in the second: the best ones.
    assert searched_again["worst"] == pytest.approx(1.0)
    assert beside["median"] == math.inf  # 1.5 and a divergence
    assert [row["met"] for row in report.verdicts(rows)] == [False, False, False]
    good = report.verdicts(report.compare(kept_of(0, [0.1, 0.1], [[0.1, 0.1], [0.1, 0.1]])))
    assert all(row["met"] for row in good)


def test_what_diverged_is_null_in_strict_json(tmp_path):
    file = tmp_path / "x.jsonl"
    row = {"setting": {"number": 3}, "side": "adam", "results": {"300": [[0.5, math.inf]]}}
    store.append(file, row)
    assert "null" in file.read_text()
    with file.open("a") as lines:
        lines.write('{"setting": {"num')  # interrupted
    ((key, kept),) = store.read([file]).items()
    assert key == (3, "adam")
    assert {name: kept[name] for name in row} == row
    later = tmp_path / "a.jsonl"
    later.write_text(json.dumps({**row, "made": kept["made"] + 1, "rates": [1.0]}) + "\n")
    assert store.read([later, file])[key]["rates"] == [1.0]


def test_a_grid_in_random_order_is_shared_out_whole(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(command, "measure", lambda settings, *_: seen.append(settings))
    for part in ("1/3", "2/3", "3/3"):
        command.main(["--out", str(tmp_path), "--shuffled", "--part", part])
    numbers = [[one.number for one in some] for some in seen]
    assert sorted(number for some in numbers for number in some) == list(range(64))
    assert numbers[0] != sorted(numbers[0])
