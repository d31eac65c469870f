"""The report of a store: one page that opens offline, with its figures and tables as files beside it.

`page` puts sections together: `flows` (with its summary), `latents`, `theory`. They are made of the blocks of `layout`, of
`charts` (Vega-Lite) and `drawings` (matplotlib), from runs that may be compared (`flow_runs`, `training_runs`), at the best of
several rates (`best`); `reasons` says why a number is not the paper's. Altair, matplotlib and Jinja are imported when a report
is written.

Imports judging, steps, support and every earlier room of lab. Used by cli.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slicewise.support import open_on_demand

if TYPE_CHECKING:
    from slicewise.lab.report.best import best_of
    from slicewise.lab.report.page import write_report
    from slicewise.lab.report.training_runs import Group, groups, no_rate_lines, samples
else:
    __getattr__, __dir__ = open_on_demand(
        __name__,
        {
            "best": "best_of",
            "page": "write_report",
            "training_runs": "Group groups no_rate_lines samples",
        },
    )

__all__ = ["Group", "best_of", "groups", "no_rate_lines", "samples", "write_report"]
