"""Pictures of the statistics: the power of tests."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from slicewise.lab.images import blank
from slicewise.support import write_whole

STYLES = {
    "sw mean": ("#0072b2", "-", "o"),
    "sw max": ("#0072b2", "--", "s"),
    "sw standardized": ("#009e73", "-", "D"),
    "sliced energy": ("#56b4e9", "-", "^"),
    "energy (hyppo)": ("#d55e00", "-", "v"),
    "MMD (hyppo)": ("#e69f00", "--", "<"),
    "KS by coordinate (SciPy)": ("#777777", ":", "x"),
}


def draw_power(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw how often each test finds each difference, over the dimension."""
    names = list(dict.fromkeys(row["alternative"] for row in rows))
    figure = blank(3.0 * len(names), 3.4)
    panels = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
    for panel, name in zip(panels, names, strict=True):
        own = [row for row in rows if row["alternative"] == name]
        for test, (color, line, mark) in STYLES.items():
            panel.plot([str(r["d"]) for r in own], [r[test] for r in own], line, marker=mark, color=color,
                       label=test, ms=5, lw=1.4)  # fmt: skip
        panel.axhline(0.05, color="#999999", lw=0.8)
        panel.set(title=name, xlabel="dimension d", ylim=(0, 1.02))
    panels[0].set_ylabel("found, of all tests at level 0.05")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=130)
    write_whole(path, buffer.getvalue())
