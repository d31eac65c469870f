"""How a study is run: cells of runs, engines that make them, one SQLite store that keeps them.

`run` defines Run, Result and Cell; `sweep` makes the runs that a `store` (tables in `schema`) lacks, with one of the `engines`:
in this process, in several processes, or as tasks of a Ray cluster (`ray_engine`, `ray_cluster`; Ray is imported when one is
made). `progress` shows how far a sweep is, `export` writes CSV, `records` keeps runs of stores in a folder, `machine` names devices and
versions.

Imports support, lab.data and lab.errors. Used by experiments, report, cli and benchmarks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slicewise.support import open_on_demand

if TYPE_CHECKING:
    from slicewise.lab.study.engines import Engine, ProcessEngine, SerialEngine
    from slicewise.lab.study.export import as_csv, means_as_csv
    from slicewise.lab.study.machine import choose_device, device_name
    from slicewise.lab.study.progress import SweepProgress
    from slicewise.lab.study.ray_engine import RayEngine
    from slicewise.lab.study.records import keep, kept_means, kept_runs
    from slicewise.lab.study.run import Cell, Result, Run, as_json, plain
    from slicewise.lab.study.store import Store
    from slicewise.lab.study.sweep import sweep
else:
    __getattr__, __dir__ = open_on_demand(
        __name__,
        {
            "engines": "Engine ProcessEngine SerialEngine",
            "export": "as_csv means_as_csv",
            "machine": "choose_device device_name",
            "progress": "SweepProgress",
            "ray_engine": "RayEngine",
            "records": "keep kept_means kept_runs",
            "run": "Cell Result Run as_json plain",
            "store": "Store",
            "sweep": "sweep",
        },
    )

__all__ = [
    "Cell",
    "Engine",
    "ProcessEngine",
    "RayEngine",
    "Result",
    "Run",
    "SerialEngine",
    "Store",
    "SweepProgress",
    "as_csv",
    "as_json",
    "choose_device",
    "device_name",
    "keep",
    "kept_means",
    "kept_runs",
    "means_as_csv",
    "plain",
    "sweep",
]
