"""Runs that were stored before a change of the code are found after it: their keys have not changed."""

import shutil
from pathlib import Path

import pytest

from slicewise.lab.experiments import EXPERIMENTS, Options
from slicewise.lab.experiments.color import published_objective
from slicewise.lab.study.store import Store

SHARED = Path(__file__).resolve().parents[4] / "shared"
STORE = SHARED / "runs" / "color-paper-seed0.db"
PHOTOGRAPHS = SHARED / "data" / "color_transfer"


def stored_then(run):
    """Whether a run is one of those the store was made of: see the README beside it."""
    some = (
        run.variant in ("maxksw", "imsw", "vimsw")
        if run.setting == "set1"
        else run.variant != "dsw"
    )
    rated = run.lr is not None and run.objective == published_objective(run.variant)
    return run.setting in ("set1", "set2", "set3") and run.seed == 0 and rated and some


@pytest.mark.skipif(not STORE.exists(), reason="the shared store is not here")
@pytest.mark.skipif(not PHOTOGRAPHS.is_dir(), reason="the shared photographs are not here")
def test_an_older_store_is_complete_for_todays_study(tmp_path):
    copy = shutil.copy(STORE, tmp_path / "runs.db")
    cells = EXPERIMENTS["color"](Options(preset="paper", photographs=str(PHOTOGRAPHS)))
    runs = [run for cell in cells for run in cell.runs if stored_then(run)]
    assert len(runs) == 575
    with Store(copy) as store:
        assert store.missing(runs) == []
        rows = store.rows()
    assert {row["key"] for row in rows} == {run.key for run in runs}
    assert {row["status"] for row in rows} <= {"arrived", "out of steps", "diverged"}
