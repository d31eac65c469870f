"""A small sweep in a process of its own, which tests kill at random moments. Arguments: store, processes."""

from __future__ import annotations

import sys

from slicewise.lab.experiments.flows import FlowCell
from slicewise.lab.experiments.gradient_flow import ToyTask
from slicewise.lab.study.engines import ProcessEngine, SerialEngine
from slicewise.lab.study.progress import SweepProgress
from slicewise.lab.study.store import Store
from slicewise.lab.study.sweep import sweep

RATES, SEEDS = (0.3, 3.0, 1e6), (0, 1)


def cells():
    tasks = [ToyTask("swiss", 2, 40), ToyTask("knot", 5, 40)]
    return [
        FlowCell("killed", task, variant, objective, rates, SEEDS, 60)
        for task in tasks
        for variant in ("sw", "maxsw", "ebsw", "rpsw")
        for objective, rates in (("root", RATES), ("power", RATES), ("power", None))
    ]


class Loud(SweepProgress):
    """Says so, at once, whenever a cell has been written."""

    def done(self, name, runs, seconds, error=""):
        print("cell", flush=True)


if __name__ == "__main__":
    count = int(sys.argv[2])
    engine = SerialEngine() if count == 1 else ProcessEngine(count)
    with Store(sys.argv[1]) as store:
        print("begun", flush=True)
        outcome = sweep(cells(), store, engine=engine, progress=Loud(quiet=True))
    print(f"made {outcome.made} of {outcome.made + outcome.there}", flush=True)
    raise SystemExit(len(outcome.failed))
