"""The report of a store: one page that opens offline, its figures and tables beside it."""

from slicewise.lab.report.page import write_report

__all__ = ["write_report"]
