"""The distance between tables that no memory holds: streamed once, piece by piece, on this machine or on a Ray cluster."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from slicewise.distance import confidence_interval, skewness_of_costs
from slicewise.sampling import Randomness, uniform
from slicewise.stats.counts import LineCounts, costs_between
from slicewise.stats.tables import (
    Columns,
    Encoding,
    Piece,
    columns_of,
    first_rows,
    pieces_of,
)
from slicewise.support import (
    CheckpointFile,
    Result,
    check_choice,
    check_count,
    check_order,
    fingerprint,
)
from slicewise.support import (
    progress_bar as shown_progress,
)
from slicewise.transport import root

Engine = Literal["local", "ray"]
Array = Any
_SECONDS_BETWEEN_CHECKPOINTS = 30.0


@dataclass(frozen=True, eq=False, repr=False)
class TableDistance(Result):
    """The sliced distance between two tables: what `compare_tables` returns.

    Attributes:
        value: SW_p between the standardized tables, ().
        error_bound: by how much `value` may differ from the exact distance along the same slices, since numbers were
            counted in bins.
        costs: W_p^p along each slice, (L,).
        columns: names of the columns that were compared.
        column_distances: W_p of each column, in units of its spread in the reference, (columns,).
        slices: the directions, (L, d), in the encoded coordinates.
        left_out: columns that were not compared, and why.
        n, m: rows of the reference and of the new table.
        p: the order.
    """

    value: Tensor
    error_bound: Tensor
    costs: Tensor
    columns: list[str]
    column_distances: Tensor
    slices: Tensor
    left_out: tuple[tuple[str, str], ...]
    n: int
    m: int
    p: float

    def interval(self, level: float = 0.95) -> tuple[Tensor, Tensor]:
        """Return a confidence interval of the value over infinitely many slices, widened by `error_bound`."""
        if not 0 < level < 1:
            raise ValueError(f"level = {level!r}: give a number between 0 and 1, e.g. 0.95")
        mean = self.costs.mean()
        terms = (self.costs - mean) / len(self.costs)
        freedom = torch.tensor(len(self.costs) - 1.0)
        skewness = skewness_of_costs(terms, terms, mean, self.slices.shape[-1])
        below, above = confidence_interval(terms, freedom, level, skewness)
        low, high = (root(end.clamp(min=0), self.p) for end in (mean - below, mean + above))
        return (low - self.error_bound).clamp(min=0), high + self.error_bound

    def __repr__(self) -> str:
        return (
            f"TableDistance(SW_{self.p:g} {float(self.value):.6g} ± {float(self.error_bound):.2g} (bins) between "
            f"{self.n:,} and {self.m:,} rows, {len(self.columns)} columns, {len(self.slices)} slices)"
        )


def compare_tables(
    reference: object,
    new: object,
    *,
    p: float = 2,
    n_slices: int = 50,
    columns: Sequence[str] | None = None,
    engine: Engine = "local",
    address: str | None = None,
    checkpoint: str | Path | None = None,
    progress_bar: bool | None = None,
    generator: int = 0,
) -> TableDistance:
    """Compute the sliced distance between two tables of any size, read once in bounded memory.

    Columns of numbers are standardized by the first rows of the reference, categories get a coordinate each, and so do
    missing values that the first rows of either table have; values that are missing only later are refused. Rows are
    projected and their projections counted in bins of relative width 2^-10, on slices and on every coordinate: some
    100 MB whatever the size. Counts are whole numbers, so that the result is the same to the last bit whatever order
    pieces are read in, by one process or by a cluster, interrupted and resumed or not.

    Args:
        reference: a Parquet, Arrow, npy or csv file, a folder of such files, a Ray Dataset, or a table in memory (a
            pyarrow table, a DataFrame, a dict of columns, an array).
        new: the same, with the columns of the reference.
        p: the order, at least 1.
        n_slices: how many slices.
        columns: names of the columns to compare; None is all that can be.
        engine: "local" reads pieces one after another with all threads; "ray" as tasks of Ray Data, which repeats
            those of a node that is lost. Files have to be where every node can read them.
        address: of a Ray cluster; None is that of this machine, which is started if there is none.
        checkpoint: a file that keeps the counts of pieces that were read; a call with the same arguments continues from
            it. Not for Ray Datasets, whose pieces have no names.
        progress_bar: True shows a progress bar, False does not, None does on a terminal.
        generator: the seed of the slices.

    Returns:
        A `TableDistance`.

    Raises:
        ValueError: for tables that cannot be read or do not fit together.
        ImportError: if pyarrow (extra `tables`) or Ray (extra `ray`) is needed and missing.

    >>> x, y = torch.randn(5000, 3), torch.randn(4000, 3) + torch.tensor([0.0, 2.0, 0.0])
    >>> found = compare_tables(x, y)
    >>> int(found.column_distances.argmax()), bool(found.error_bound < 0.01)
    (1, True)
    """
    check_order(p)
    check_count("n_slices", n_slices)
    check_choice("engine", engine, ("local", "ray"))
    sources = [_Source.of(reference, engine), _Source.of(new, engine)]
    if checkpoint is not None and any(s.dataset is not None or s.rows is not None for s in sources):
        raise ValueError(
            "checkpoint is for files, whose pieces have names: leave it out, or give paths"
        )
    rows, new_rows = (source.first_rows() for source in sources)
    plan = _Plan.of(rows, new_rows, n_slices, columns, generator)
    counts = _counted(sources, plan, engine, address, checkpoint, progress_bar)
    for name, one in zip(("reference", "new"), counts, strict=True):
        if not one.n:
            raise ValueError(f"the {name} table holds no rows: give at least one")
    x, y = counts
    costs = costs_between(x, y, p)
    errors = x.error(p) + y.error(p)
    by_slice, by_coordinate = costs[:n_slices], costs[n_slices:]
    owners = torch.tensor(plan.encoding.owners)
    whole = torch.zeros(len(plan.encoding.columns), dtype=torch.float64)
    whole.index_add_(0, owners, by_coordinate)
    return TableDistance(
        root(by_slice.mean(), p),
        errors[:n_slices].pow(p).mean().pow(1 / p),  # by Minkowski's inequality over slices
        by_slice,
        [column.name for column in plan.encoding.columns],
        root(whole, p),
        plan.slices,
        plan.encoding.left_out,
        x.n,
        y.n,
        float(p),
    )


@dataclass(frozen=True, eq=False)
class _Plan:
    """What is done with every piece: how rows are encoded and along which lines they are counted."""

    encoding: Encoding
    slices: Tensor  # (L, d)
    center: Tensor  # (L + d,)
    scale: Tensor

    @classmethod
    def of(
        cls,
        rows: Columns,
        new_rows: Columns,
        n_slices: int,
        columns: Sequence[str] | None,
        generator: int,
    ) -> _Plan:
        encoding = Encoding.of(rows, columns).with_gaps_of(new_rows)
        samples = torch.from_numpy(encoding.encode(rows))
        rng = Randomness(torch.Generator().manual_seed(generator), torch.device("cpu"))
        slices = uniform((n_slices, samples.shape[1]), rng, torch.float64)
        lines = _lines(samples, slices)
        scale = lines.std(dim=-1, correction=0)
        return cls(encoding, slices, lines.mean(dim=-1), torch.where(scale > 0, scale, 1))

    def empty(self) -> LineCounts:
        return LineCounts(self.center, self.scale)

    def count(self, batches: Iterator[Columns]) -> LineCounts:
        """Count the rows of some batches."""
        found = self.empty()
        for rows in batches:
            if len(next(iter(rows.values()))):
                found.add(_lines(torch.from_numpy(self.encoding.encode(rows)), self.slices))
        return found

    def identity(self, sources: Sequence[_Source]) -> str:
        """What counts belong to: these lines, of these pieces."""
        files = [
            [(p.path, p.start, p.stop, p.rows, Path(p.path).stat().st_size) for p in s.pieces]
            for s in sources
        ]
        return fingerprint(self.slices, self.center, self.scale, str(self.encoding), str(files))


def _lines(samples: Tensor, slices: Tensor) -> Tensor:
    """Samples (n, d) along slices and along each coordinate, (L + d, n)."""
    return torch.cat([slices @ samples.mT, samples.mT])


@dataclass(frozen=True, eq=False)
class _Source:
    """A table: pieces on disk, rows in memory, or a Ray Dataset; one of the three."""

    pieces: list[Piece]
    rows: Columns | None = None
    dataset: Any = None

    @classmethod
    def of(cls, given: object, engine: Engine) -> _Source:
        if isinstance(given, (str, Path)):
            return cls(pieces_of(given))
        if hasattr(given, "map_batches") and hasattr(given, "iter_batches"):
            if engine != "ray":
                raise ValueError("a Ray Dataset is read by Ray: give engine='ray'")
            return cls([], dataset=given)
        return cls([], rows=columns_of(given))

    def first_rows(self) -> Columns:
        if self.rows is not None:
            return self.rows
        if self.dataset is not None:
            batch = next(
                iter(
                    self.dataset.limit(65_536).iter_batches(batch_size=None, batch_format="pyarrow")
                )
            )
            return columns_of(batch)
        return first_rows(self.pieces)


def _counted(
    sources: Sequence[_Source],
    plan: _Plan,
    engine: Engine,
    address: str | None,
    checkpoint: str | Path | None,
    show: bool | None,
) -> list[LineCounts]:
    counts = [plan.empty() for _ in sources]
    jobs = [(side, k) for side, source in enumerate(sources) for k in range(len(source.pieces))]
    done = set[tuple[int, int]]()
    file, identity = None, ""
    if checkpoint is not None:
        file = CheckpointFile(checkpoint, "comparison", _SECONDS_BETWEEN_CHECKPOINTS)
        identity = plan.identity(sources)
        known = file.load(identity)
        if known is not None:
            for one, places, numbers in zip(counts, known["places"], known["numbers"], strict=True):
                one.counts.flatten()[places.long()] = numbers  # a view, since counts are contiguous
            done = {(side, k) for side, k in known["done"]}
    for side, source in enumerate(sources):
        if source.rows is not None:
            counts[side].merge(plan.count(iter([source.rows])).counts)

    def save() -> None:
        if file is not None:
            some = [_not_zero(c.counts) for c in counts]
            content = {"places": [s[0] for s in some], "numbers": [s[1] for s in some]}
            file.save_if_possible({**content, "done": [list(d) for d in sorted(done)]}, identity)

    todo = [job for job in jobs if job not in done]
    with shown_progress(len(jobs), show, "tables") as tick:
        tick(len(done), "")
        found = (
            _by_ray(sources, plan, todo, address)
            if engine == "ray"
            else ((side, k, plan.count(sources[side].pieces[k].read()).counts) for side, k in todo)
        )
        for side, k, more in found:
            counts[side].merge(more)
            if k >= 0:
                done.add((side, k))
            tick(len(done), f"{sum(c.n for c in counts):,} rows")
            if file is not None and file.due():
                save()
    if todo:
        save()
    return counts


def _by_ray(
    sources: Sequence[_Source], plan: _Plan, todo: list[tuple[int, int]], address: str | None
) -> Iterator[tuple[int, int, Tensor]]:
    """Counts of pieces, made by tasks of Ray Data; Ray repeats those of nodes that are lost."""
    try:
        import ray
        import ray.data
    except ImportError as missing:
        raise ImportError(
            f"engine='ray' needs {missing.name}: pip install 'slicewise[ray]'"
        ) from None
    if not ray.is_initialized():
        ray.init(
            address=address,
            include_dashboard=False,
            logging_level=logging.ERROR,
            log_to_driver=False,
        )
    ray.data.DataContext.get_current().enable_progress_bars = False
    empty = plan.empty().counts.shape

    def count_piece(row: dict[str, Any]) -> dict[str, Any]:
        side, k = int(row["side"]), int(row["k"])
        return {"side": side, "k": k, **_sparse(plan.count(sources[side].pieces[k].read()).counts)}

    datasets = [(side, s.dataset) for side, s in enumerate(sources) if s.dataset is not None]
    for side, dataset in datasets:

        def count_batch(batch: Any) -> dict[str, Any]:
            found = _sparse(plan.count(iter([columns_of(batch)])).counts)
            return {name: [value] for name, value in found.items()}

        for row in dataset.map_batches(
            count_batch, batch_format="pyarrow", batch_size=65_536
        ).iter_rows():
            yield side, -1, _dense(row, empty)
    # Ray pickles what a task needs: paths and the plan, no data of the tables.
    light = [_Source(s.pieces) for s in sources]
    sources = light
    if todo:
        items = [{"side": side, "k": k} for side, k in todo]
        rows = ray.data.from_items(items, override_num_blocks=len(items)).map(count_piece)
        for row in rows.iter_rows():
            yield int(row["side"]), int(row["k"]), _dense(row, empty)


def _not_zero(counts: Tensor) -> tuple[Tensor, Tensor]:
    """The places of counts that are not zero, and these: most bins are empty."""
    places = counts.flatten().nonzero().squeeze(-1)
    return places.to(torch.int32), counts.flatten()[places]


def _sparse(counts: Tensor) -> dict[str, bytes]:
    """Counts that are not zero, as bytes for a table of Ray."""
    places, numbers = _not_zero(counts)
    return {"places": places.numpy().tobytes(), "numbers": numbers.numpy().tobytes()}


def _dense(row: dict[str, Any], shape: torch.Size) -> Tensor:
    places = torch.from_numpy(np.frombuffer(row["places"], np.int32).astype(np.int64))
    numbers = torch.from_numpy(np.frombuffer(row["numbers"], np.int64).copy())
    found = torch.zeros(shape, dtype=torch.int64).flatten()
    found[places] = numbers
    return found.view(shape)
