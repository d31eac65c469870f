"""The report of a store: one page that opens offline, with its figures and tables as files beside it.

`page` puts sections together: `flows` (with its summary), `latents`, `theory`. They are made of the blocks of `layout`, of
`charts` (Vega-Lite) and `drawings` (matplotlib), from runs that may be compared (`flow_runs`, `training_runs`), at the best of
several rates (`best`); `reasons` says why a number is not the paper's. Altair, matplotlib and Jinja are imported when a report
is written.

Imports judging, steps, support and every earlier room of lab. Used by cli.
"""

from __future__ import annotations

from slicewise.lab.report.best import best_of
from slicewise.lab.report.page import write_report
from slicewise.lab.report.training_runs import Group, groups, samples

__all__ = ["Group", "best_of", "groups", "samples", "write_report"]
