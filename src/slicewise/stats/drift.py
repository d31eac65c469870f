"""Has a table drifted from a reference? A detector that can be saved, windows over time, and a change point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slicewise.stats.tables import (
    ROWS_AT_A_TIME,
    Columns,
    Encoding,
    joined,
    read_table,
    sampled_table,
)
from slicewise.stats.two_sample import TwoSampleTest, two_sample_test
from slicewise.support import CheckpointFile, check_count, check_number

Array = Any


@dataclass(frozen=True, eq=False)
class ColumnDrift:
    """How far one column has moved.

    Attributes:
        name: of the column.
        distance: W_2 between reference and batch, in units of the column's spread in the reference.
        p_value: corrected for having looked at all columns.
        direction: what changed, in words.
    """

    name: str
    distance: float
    p_value: float
    direction: str


@dataclass(frozen=True, eq=False, repr=False)
class Drift:
    """Whether a batch has drifted from the reference, and where: what `DriftDetector.score` returns.

    Attributes:
        drifted: whether `p_value` is at most the level of the detector.
        p_value: twice the smaller of two p-values, at most 1: that of all columns together, and that of the column that
            moved most.
        effect_size: the distance beyond that of relabeled rows, in units of the spread of the rows of both sides.
        columns: all columns, the most moved first.
        test: the `TwoSampleTest` over the encoded rows.
        level: the level of the detector.
        n: rows of the batch that were compared.
        order: the rows that were compared by their influence, the most influential first, (n,): indices into the batch
            where all of it was compared, else into the rows that were chosen.
    """

    drifted: bool
    p_value: float
    effect_size: float
    columns: list[ColumnDrift]
    test: TwoSampleTest
    level: float
    n: int
    order: Tensor

    @property
    def moved(self) -> list[ColumnDrift]:
        """The columns that moved, at the level of the detector, the most moved first."""
        return [column for column in self.columns if column.p_value <= self.level]

    def __repr__(self) -> str:
        moved = ", ".join(column.name for column in self.moved) or "no column by itself"
        verdict = "drift" if self.drifted else "no drift"
        return f"Drift({verdict}, p = {self.p_value:.3g}, effect size {self.effect_size:.3g}, moved: {moved})"


@dataclass(frozen=True, eq=False)
class Window:
    """One window over time.

    Attributes:
        start, end: the first and last value of the time column, or row numbers without one.
        drift: of its rows against the reference, at a level divided by the number of windows.
    """

    start: Any
    end: Any
    drift: Drift


@dataclass(frozen=True, eq=False, repr=False)
class DriftInTime:
    """How drift developed: what `DriftDetector.score_windows` returns.

    Attributes:
        windows: the windows in order.
        drifted: whether any of them has drifted; their levels add up to that of the detector.
        change_point: the index of the first window after the change, or None if none is found.
        change_p_value: of the change point: how often windows in random order show one as clear.
    """

    windows: list[Window]
    drifted: bool
    change_point: int | None
    change_p_value: float

    def __repr__(self) -> str:
        since = (
            "" if self.change_point is None else f", since {self.windows[self.change_point].start}"
        )
        count = sum(window.drift.drifted for window in self.windows)
        return f"DriftInTime({count} of {len(self.windows)} windows drifted{since})"


class DriftDetector:
    """Detect drift of batches from a reference table, over all columns together and by each of them.

    Columns of numbers are standardized, categories get a coordinate each, missing values of a column one more, and a
    permutation test along slices (`two_sample_test`) compares a batch with rows of the reference. What is standardized
    by, and which categories are frequent enough for a coordinate, the rows of both decide together, so that under no
    drift `score(batch).drifted` is True with a probability of at most `level`. Distances are reported in spreads of the
    reference.

    Args:
        reference: a table: a path (Parquet, Arrow, npy, csv), a pyarrow table, a DataFrame, a dict of columns, or an
            array (n, d).
        columns: names of the columns to compare; None is all that can be. `detector.encoding.left_out` says which not.
        level: how often drift may be reported where there is none.
        n_slices: how many slices.
        permutations: how many relabelings a score draws.
        max_rows: rows that are kept of the reference, and compared of a batch, at most: a random choice.
        generator: the seed of everything random.

    Raises:
        ValueError: for a table that cannot be read or compared, and numbers out of range.

    >>> rng = np.random.default_rng(0)
    >>> detector = DriftDetector({"age": rng.normal(40, 9, 500), "city": rng.choice(["A", "B"], 500)})
    >>> detector.score({"age": rng.normal(40, 9, 300), "city": rng.choice(["A", "B"], 300)}).drifted
    False
    >>> found = detector.score({"age": rng.normal(48, 9, 300), "city": rng.choice(["A", "B"], 300)})
    >>> found.drifted, found.moved[0].name
    (True, 'age')
    """

    def __init__(
        self,
        reference: object,
        *,
        columns: Sequence[str] | None = None,
        level: float = 0.01,
        n_slices: int = 100,
        permutations: int = 999,
        max_rows: int = 5000,
        generator: int = 0,
    ) -> None:
        generator = int(generator)
        check_count("max_rows", max_rows)
        rows, total = sampled_table(reference, max(max_rows, ROWS_AT_A_TIME), generator)
        encoding = Encoding.of(rows, columns)
        encoding.encode(rows)  # refuses what cannot be compared
        compared = encoding.compared(rows)
        chosen = _some(_size(compared), max_rows, generator).numpy()
        kept = {name: values[chosen] for name, values in compared.items()}
        self._set(encoding, kept, level, n_slices, permutations, max_rows, generator)
        self.rows = total

    def _set(
        self,
        encoding: Encoding,
        kept: Columns,
        level: float,
        n_slices: int,
        permutations: int,
        max_rows: int,
        generator: int,
    ) -> None:
        check_number("level", level, above=0)
        for name, value in (
            ("n_slices", n_slices),
            ("permutations", permutations),
            ("max_rows", max_rows),
        ):
            check_count(name, value)
        if not level < 1:
            raise ValueError(f"level = {level:g}: give a number between 0 and 1, e.g. 0.01")
        if (1 + permutations) * level < 2:
            raise ValueError(
                f"level = {level:g} with {permutations} permutations can never be reached: give at least "
                f"{int(np.ceil(2 / level)) - 1} permutations, or a larger level"
            )
        self.encoding, self.kept, self.level = encoding, kept, float(level)
        self.n_slices, self.permutations = int(n_slices), int(permutations)
        self.max_rows, self.generator = int(max_rows), generator
        self.rows = self.n_kept

    @property
    def n_kept(self) -> int:
        """How many rows of the reference are compared with a batch."""
        return _size(self.kept)

    def __repr__(self) -> str:
        return (
            f"DriftDetector({len(self.encoding.columns)} columns, {self.n_kept} rows of {self.rows} kept, "
            f"level {self.level:g})"
        )

    def score(self, batch: object) -> Drift:
        """Compare a batch with the reference.

        Args:
            batch: a table with the columns of the reference, of any kind that the reference may be.

        Returns:
            A `Drift`.

        Raises:
            ValueError: if columns are missing or of another kind.
        """
        rows, _ = sampled_table(batch, self.max_rows, self.generator + 1)
        code, reference, samples = self._encoded(rows)
        return self._score(code, reference, samples, self.level)

    def _encoded(self, rows: Columns) -> tuple[Encoding, Tensor, Tensor]:
        """The rows of the reference and those of a batch as samples, and the encoding that both decide alike."""
        both = self.encoding.compared(rows)
        code = self.encoding.decided_by(joined([self.kept, both]))
        reference, batch = (torch.from_numpy(code.encode(side)) for side in (self.kept, both))
        return code, reference, batch

    def _score(self, code: Encoding, x: Tensor, batch: Tensor, level: float) -> Drift:
        chosen = _some(len(batch), self.max_rows, self.generator + 1)
        y = batch[chosen]
        # As many relabelings as the level needs: a p-value is at least 2 / (1 + B).
        permutations = max(self.permutations, int(np.ceil(4 / level)))
        test = two_sample_test(
            x,
            y,
            n_slices=self.n_slices,
            permutations=permutations,
            generator=self.generator + 2,
        )
        assert test.coordinate_costs is not None
        assert test.coordinate_p_values is not None
        columns = self._columns(code, x, y, test)
        p_value = min(1.0, 2 * min(test.p_value, float(test.coordinate_p_values.min())))
        order = chosen[test.y_influence.argsort(descending=True)]
        return Drift(
            p_value <= level, p_value, test.effect_size, columns, test, level, len(y), order
        )

    def _columns(
        self, code: Encoding, x: Tensor, y: Tensor, test: TwoSampleTest
    ) -> list[ColumnDrift]:
        assert test.coordinate_costs is not None
        assert test.coordinate_p_values is not None
        owners, names = np.array(code.owners), code.names
        found = []
        for k, (column, unit) in enumerate(zip(code.columns, self.encoding.columns, strict=True)):
            own = np.flatnonzero(owners == k).tolist()
            # From spreads of all rows, in which columns are tested, to those of the reference.
            ratio = torch.full((len(own),), column.scale / unit.scale, dtype=torch.float64)
            if column.missing:
                ratio[1] = 1
            distance = float((test.coordinate_costs[own] * ratio.square()).sum().sqrt())
            shifts = (y[:, own].mean(dim=0) - x[:, own].mean(dim=0)) * ratio
            if column.kind == "category":
                most = int(shifts.abs().argmax())
                words = f"{names[own[most]]}: {100 * float(shifts[most]) * unit.scale:+.1f} points"
            else:
                words = f"mean {float(shifts[0]):+.2f} spreads"
                before, after = (float(t[:, own[0]].std(correction=0)) for t in (x, y))
                if before > 0 and len(y) > 1:
                    words += f", spread × {after / before:.2f}"
                if column.missing:
                    words += f", missing {100 * float(shifts[1]):+.1f} points"
            p_value = float(test.coordinate_p_values[own].min())
            found.append(ColumnDrift(column.name, distance, p_value, words))
        return sorted(found, key=lambda column: (column.p_value, -column.distance))

    def score_windows(
        self, batch: object, *, n_windows: int = 10, time: str | None = None
    ) -> DriftInTime:
        """Compare successive windows of a batch with the reference, and find where it changed.

        Args:
            batch: a table.
            n_windows: how many windows of equally many rows.
            time: the column by whose values rows are ordered; None takes them in the order they have.

        Returns:
            A `DriftInTime`. Windows share the level: each is tested at `level` / `n_windows`.

        Raises:
            ValueError: if there is no such column, or less than two rows for a window.
        """
        check_count("n_windows", n_windows, at_least=2)
        rows = read_table(batch)
        if time is not None and time not in rows:
            raise ValueError(
                f"time = {time!r} is not a column of the table: choose from {list(rows)}"
            )
        n = len(next(iter(rows.values())))
        if n < 2 * n_windows:
            raise ValueError(f"{n} rows are too few for {n_windows} windows: give fewer windows")
        order = np.arange(n) if time is None else _in_order(time, rows[time])
        stamps = order if time is None else rows[time][order]
        code, reference, samples = self._encoded(rows)
        windows = []
        for some in np.array_split(np.arange(n), n_windows):
            own = samples[torch.from_numpy(order[some])]
            drift = self._score(code, reference, own, self.level / n_windows)
            windows.append(Window(_plain(stamps[some[0]]), _plain(stamps[some[-1]]), drift))
        scores = np.array([_score_of(window.drift.test) for window in windows])
        point, p_value = change_point(scores, generator=self.generator)
        drifted = any(window.drift.drifted for window in windows)
        found = point if p_value <= max(self.level, 0.05) and drifted else None
        return DriftInTime(windows, drifted, found, p_value)

    def save(self, path: str | Path) -> None:
        """Write the detector to a file, which is always whole."""
        content = {
            "encoding": self.encoding.state(),
            "left_out": [list(pair) for pair in self.encoding.left_out],
            "kept": [_packed(values) for values in self.kept.values()],
            "rows": self.rows,
            "settings": [
                self.level, self.n_slices, self.permutations, self.max_rows, self.generator
            ],
        }  # fmt: skip
        CheckpointFile(path, "detector").save(content, "detector")

    @classmethod
    def load(cls, path: str | Path) -> DriftDetector:
        """Read a detector that `save` wrote; it scores as the saved one did.

        Raises:
            ValueError: if the file does not exist, or is no detector.
        """
        content = CheckpointFile(path, "detector").load("detector")
        if content is None:
            raise ValueError(
                f"{str(path)!r} does not exist: give a file that DriftDetector.save wrote"
            )
        found = cls.__new__(cls)
        left_out = tuple((name, why) for name, why in content["left_out"])
        encoding = Encoding(Encoding.restored(content["encoding"]).columns, left_out)
        kept = {
            column.name: _unpacked(one)
            for column, one in zip(encoding.columns, content["kept"], strict=True)
        }
        found._set(encoding, kept, *content["settings"])
        found.rows = content["rows"]
        return found


def change_point(
    scores: Array, *, permutations: int = 1999, generator: int = 0
) -> tuple[int, float]:
    """Find where a sequence of numbers changes its mean most clearly.

    Args:
        scores: the numbers, (T,).
        permutations: how many random orders to compare with; all T! are not tried.
        generator: the seed of these orders.

    Returns:
        The index of the first number after the change, and a p-value: how often numbers in random order show a change
        that is as clear, the given order counted.

    >>> change_point(np.array([0.1, -0.2, 0.0, 0.1, 3.0, 3.2, 2.9, 3.1]))[0]
    4
    """
    scores = np.asarray(scores, dtype=np.float64)
    if len(scores) < 2:
        raise ValueError(f"{len(scores)} scores have no change point: give at least two")
    rng = np.random.default_rng(generator)
    shuffled = rng.permuted(np.tile(scores, (permutations, 1)), axis=1)
    own, null = _clearest(scores[None]), _clearest(shuffled)
    reached = int((null[1] >= own[1] - 1e-12 * abs(own[1])).sum())
    return int(own[0][0]), (1 + reached) / (1 + permutations)


def _clearest(rows: Array) -> tuple[Array, Array]:
    """The split (R,) of each row (R, T) with the largest difference of means, and how clear it is."""
    t = rows.shape[1]
    splits = np.arange(1, t)
    sums = rows.cumsum(axis=1)
    gap = sums[:, :-1] / splits - (sums[:, -1:] - sums[:, :-1]) / (t - splits)
    clear = np.abs(gap) * np.sqrt(splits * (t - splits) / t)
    best = clear.argmax(axis=1)
    return splits[best], clear[np.arange(len(rows)), best]


def _size(rows: Columns) -> int:
    return len(next(iter(rows.values())))


def _in_order(name: str, stamps: Array) -> Array:
    """The rows in the order of a time column."""
    absent = np.array([v is None or v != v for v in stamps])  # None, NaN and NaT
    if absent.any():
        raise ValueError(
            f"time = {name!r} is missing in {int(absent.sum())} rows: leave them out, or order by another column"
        )
    return np.argsort(stamps, kind="stable")


def _packed(values: Array) -> dict[str, Any]:
    """A column as a checkpoint keeps it: numbers, or words and which of them each row has."""
    if values.dtype.kind == "f":
        return {"numbers": torch.from_numpy(values)}
    words, places = np.unique(values, return_inverse=True)
    return {"words": [str(word) for word in words], "places": torch.from_numpy(places)}


def _unpacked(column: dict[str, Any]) -> Array:
    if "numbers" in column:
        return column["numbers"].numpy()
    return np.array(column["words"], dtype=str)[column["places"].numpy()]


def _score_of(test: TwoSampleTest) -> float:
    """How far a statistic lies beyond relabelings, in their standard deviations."""
    spread = float(test.null.std())
    return (test.statistic - float(test.null.mean())) / spread if spread > 0 else 0.0


def _some(n: int, most: int, seed: int) -> Tensor:
    """Indices of at most so many of n rows, in their order."""
    if n <= most:
        return torch.arange(n)
    drawn = torch.randperm(n, generator=torch.Generator().manual_seed(seed))[:most]
    return drawn.sort().values


def _plain(value: Any) -> Any:
    """A number or word of a table as Python has it."""
    return (
        str(value) if isinstance(value, np.datetime64) else getattr(value, "item", lambda: value)()
    )
