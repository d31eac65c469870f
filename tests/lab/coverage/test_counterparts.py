"""Which published numbers records cover: at the paper's settings, at reduced ones, or not at all."""

from __future__ import annotations

import csv
import io

import pytest

from slicewise.lab.coverage import counts, coverage, coverage_csv, coverage_table, latent_objective
from slicewise.lab.experiments import PUBLISHED_RATES
from slicewise.lab.experiments.color import on_mean_scale
from slicewise.lab.published import published
from slicewise.lab.study.export import MEANS
from tests.command_line import accepted

NAMES = ("gradient-flow", "image-flow", "color", "generate", "translate")


def line(setting, variant, objective, rate, **more):
    usual = {"limit": 10_000, "n": 300, "convention": "mean", "dtype": "float64", "seeds": 1, "diverged": 0, "w2_mean": 1.0}  # fmt: skip
    place = {"setting": setting, "variant": variant, "objective": objective, "lr": rate}
    return {**usual, **place, **more}


@pytest.fixture
def covered(tmp_path):
    """Count records that a test writes, by experiment."""

    def of(**experiments):
        for name in NAMES:
            rows = experiments.get(name.replace("-", "_"), [])
            with (tmp_path / f"{name}.csv").open("w", newline="") as file:
                writer = csv.DictWriter(file, MEANS, restval="")
                writer.writeheader()
                writer.writerows({**row, "experiment": name} for row in rows)
        return coverage(tmp_path)

    return of


def one(found, **wanted):
    (match,) = (c for c in found if all(getattr(c.number, name) == v for name, v in wanted.items()))
    return match


def test_no_records_cover_nothing(covered):
    found = covered()
    assert counts(found) == {"paper": 0, "reduced": 0, "none": len(published())}
    assert coverage_table(found)[-1][:5] == ["all", "1617", "0", "0", "1617"]


TOY = {"table": "gradient_flow_best", "variant": "ebsw", "setting": "knot d=2", "metric": "W2"}


def test_the_best_of_all_rates(covered):
    rates = PUBLISHED_RATES["gradient-flow"]
    rows = [
        line("knot d=2", "ebsw", "root", rate, w2_mean=abs(rate - 3), seeds=3) for rate in rates
    ]
    found = one(covered(gradient_flow=rows), **TOY)
    assert (found.status, found.ours, found.rate, found.seeds, found.why) == (
        "paper",
        0.0,
        3.0,
        3,
        "",
    )
    fewer = one(covered(gradient_flow=rows[1:]), **TOY)
    assert (fewer.status, fewer.why) == ("reduced", "35 of 36 rates")


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"n": 100}, "none"),
        ({"convention": "reference"}, "none"),
        ({"limit": 150}, "reduced"),
        ({"objective": "power"}, "reduced"),
    ],
)
def test_other_settings_are_not_the_papers(covered, changed, status):
    rates = PUBLISHED_RATES["gradient-flow"]
    rows = [{**line("knot d=2", "ebsw", "root", rate), **changed} for rate in rates]
    assert one(covered(gradient_flow=rows), **TOY).status == status


def test_one_rate_of_a_full_table_is_enough_for_its_number(covered):
    where = {"table": "color_transfer_full", "variant": "omsw", "setting": "set2", "metric": "W2"}
    rows = [
        line("set2", "omsw", "root", on_mean_scale(0.03, "root", 3000), n=3000, limit=steps, w2_mean=steps)
        for steps in (5_000, 50_000)
    ]  # fmt: skip
    found = covered(color=rows)
    assert (one(found, **where, lr=0.03).status, one(found, **where, lr=0.03).ours) == (
        "paper",
        50_000,
    )
    assert one(found, **where, lr=0.05).status == "none"
    short = one(covered(color=rows[:1]), **where, lr=0.03)
    assert (short.status, short.why) == ("reduced", "5,000 of 50,000 steps")
    best = one(covered(color=rows), table="color_transfer_best", variant="omsw", setting="set2", metric="W2")  # fmt: skip
    assert (best.status, best.why) == ("reduced", "1 of 25 rates")


def test_the_loss_of_networks(covered):
    """The mean of W_2 is taken for sw, the root for the others; the other one counts as reduced."""
    assert [latent_objective(v) for v in ("sw", "rpsw")] == ["mean_root", "root"]
    where = {"table": "translation_full", "setting": "male_to_female", "lr": 0.03, "metric": "W2"}
    for variant, objective, status in (("sw", "mean_root", "paper"), ("sw", "root", "reduced"), ("rpsw", "root", "paper")):  # fmt: skip
        rows = [line("male to female", variant, objective, 0.03, n=1024)]
        assert one(covered(translate=rows), **where, variant=variant).status == status


def test_times_are_scaled_to_the_papers_steps(covered):
    rows = [line("runtime, mnist", "sw", "root", 0.001, n=50, limit=2000, seconds=0.5)]
    found = one(covered(image_flow=rows), table="image_flow_runtime", variant="sw", setting="mnist")
    assert (found.status, found.ours) == ("reduced", 50.0)
    assert found.why == "2,000 of 200,000 steps timed"


def test_what_is_printed(covered, tmp_path, capsys):
    found = covered(image_flow=[line("runtime, mnist", "sw", "root", 0.001, limit=2000, seconds=0.5)])  # fmt: skip
    rows = list(csv.DictReader(io.StringIO(coverage_csv(found))))
    assert len(rows) == len(published())
    assert sum(row["status"] == "reduced" for row in rows) == 1
    said = accepted(capsys, "report", "--coverage", tmp_path, "--csv", tmp_path / "all.csv")
    assert said.splitlines()[-1] == "none 1616, at paper settings 0, reduced 1"
    assert (tmp_path / "all.csv").read_text() == coverage_csv(found)
