"""
Since when has a table drifted?
===============================

A reference table, and a later one of which the last third has changed in one column. The detector tests windows of it in
order, all columns together; the level is shared by all windows, so that a table without drift raises an alarm as rarely as
was asked for.
"""

import matplotlib.pyplot as plt
import numpy as np

import slicewise as sw

rng = np.random.default_rng(0)


def table(n, moved=0.0):
    """Draw rows with an age, an income and a city."""
    return {
        "age": rng.normal(40, 9, n),
        "income": rng.lognormal(10 + moved, 0.4, n),
        "city": rng.choice(["Bonn", "Trier", "Mainz"], n),
    }


january = table(2000)
early, late = table(1600), table(800, moved=0.25)
february = {name: np.concatenate([early[name], late[name]]) for name in early}
detector = sw.DriftDetector(january, level=0.05, permutations=199, max_rows=400)
windows = detector.score_windows(february, n_windows=6)
whole = detector.score(february)

fig, axes = plt.subplots(1, 2, figsize=(9.5, 3.6))
found = [window.drift for window in windows.windows]
sizes, alarms = [one.effect_size for one in found], [one.drifted for one in found]
axes[0].bar(range(6), sizes, color=["C1" if alarm else "0.75" for alarm in alarms])
axes[0].axvline(3.5, color="k", ls=":", label="the column changed here")
axes[0].set(
    xlabel="window",
    ylabel="effect size, in spreads",
    title=f"{sum(alarms)} of 6 windows raise an alarm",
)
axes[0].legend()
names = [column.name for column in whole.columns]
axes[1].barh(
    names,
    [column.distance for column in whole.columns],
    color=["C1" if c.p_value < 0.05 else "0.75" for c in whole.columns],
)
axes[1].set(xlabel="W$_2$ of the column, in spreads", title="And only one column is accused")
plt.show()

assert alarms == [False] * 4 + [True] * 2
assert [column.name for column in whole.columns if column.p_value < 0.05] == ["income"]
