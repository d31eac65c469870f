"""Tables as samples: columns of numbers standardized, categories encoded; from memory, or piece by piece from files."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from torch import Tensor

Array = Any
Columns = Mapping[str, Array]
TABLE_SUFFIXES = (".parquet", ".arrow", ".feather", ".npy", ".csv", ".tsv")
# Rows that are decoded at a time, which bounds memory.
ROWS_AT_A_TIME = 65_536
# Categories of a column that get a coordinate each; what is rarer shares one. With more than this many in the first rows
# a column is a name, not a category.
_MOST_CATEGORIES, _TOO_MANY = 20, 200
_PLURAL = {"number": "numbers", "category": "categories"}


@dataclass(frozen=True)
class ColumnCode:
    """How one column becomes coordinates: a number standardized, or a coordinate for each category.

    Attributes:
        name: of the column.
        kind: "number" or "category".
        center, scale: subtracted from numbers, and what they are then divided by.
        categories: those with a coordinate of their own; all others share one more.
        missing: whether a further coordinate says that the value is missing.
    """

    name: str
    kind: Literal["number", "category"]
    center: float = 0.0
    scale: float = 1.0
    categories: tuple[str, ...] = ()
    missing: bool = False

    @property
    def names(self) -> list[str]:
        """What its coordinates are called."""
        if self.kind == "number":
            return [self.name] + [f"{self.name} is missing"] * self.missing
        return [f"{self.name} = {c}" for c in self.categories] + [f"{self.name} = any other"]

    def encode(self, values: Array) -> Array:
        """Return the coordinates (rows, k) of values (rows,)."""
        if self.kind == "number":
            numbers = np.asarray(values, dtype=np.float64)
            absent = np.isnan(numbers)
            if absent.any() and not self.missing:
                raise ValueError(
                    f"column {self.name!r} has missing values, but none in the first rows: fill them, or leave the column out"
                )
            plain = np.where(absent, 0.0, (numbers - self.center) / self.scale)
            return np.stack([plain] + [absent.astype(np.float64)] * self.missing, axis=1)
        words = _words(values)
        found = np.zeros((len(words), len(self.categories) + 1))
        places = {c: i for i, c in enumerate(self.categories)}
        columns = np.fromiter((places.get(w, len(places)) for w in words), np.int64, len(words))
        found[np.arange(len(words)), columns] = 1 / self.scale
        return found


@dataclass(frozen=True)
class Encoding:
    """How a table becomes samples, decided by the first rows of a reference: standardized columns count alike.

    Attributes:
        columns: how each column is encoded.
        left_out: columns that are not compared, and why.
    """

    columns: tuple[ColumnCode, ...]
    left_out: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, first_rows: Columns, only: Sequence[str] | None = None) -> Encoding:
        """Decide how to encode a table by its first rows.

        Args:
            first_rows: columns by name, numbers or words.
            only: the columns to compare; None is all that can be.

        Raises:
            ValueError: if a named column does not exist, or no column can be compared.
        """
        unknown = [name for name in only or () if name not in first_rows]
        if unknown:
            raise ValueError(
                f"columns {unknown} are not in the table: choose from {list(first_rows)}"
            )
        columns, left_out = list[ColumnCode](), list[tuple[str, str]]()
        for name, values in first_rows.items():
            if only is not None and name not in only:
                continue
            code = _code_of(name, values)
            if isinstance(code, str):
                left_out.append((name, code))
            else:
                columns.append(code)
        if not columns:
            why = "; ".join(f"{name}: {reason}" for name, reason in left_out)
            raise ValueError(
                f"no column can be compared ({why}): give columns of numbers or categories"
            )
        return cls(tuple(columns), tuple(left_out))

    @property
    def names(self) -> list[str]:
        """What the coordinates are called."""
        return [name for column in self.columns for name in column.names]

    @property
    def owners(self) -> list[int]:
        """Which column each coordinate belongs to."""
        return [k for k, column in enumerate(self.columns) for _ in column.names]

    def encode(self, rows: Columns) -> Array:
        """Return rows as samples (n, d).

        Raises:
            ValueError: if a column is missing, or has words where numbers were.
        """
        compared = self.compared(rows)
        found = np.concatenate([c.encode(compared[c.name]) for c in self.columns], axis=1)
        if not np.isfinite(found).all():
            bad = sorted({self.names[j] for j in np.flatnonzero(~np.isfinite(found).all(axis=0))})
            raise ValueError(f"columns {bad} hold infinite numbers: leave those rows out")
        return found

    def compared(self, rows: Columns) -> Columns:
        """Return the columns that are compared, numbers as float64 and categories as words.

        Raises:
            ValueError: if a column is missing, or has words where numbers were.
        """
        absent = [c.name for c in self.columns if c.name not in rows]
        if absent:
            raise ValueError(
                f"columns {absent} are not in the table, which has {list(rows)}: give the columns of the reference"
            )
        found: dict[str, Array] = {}
        for column in self.columns:
            values = rows[column.name]
            if values.dtype.kind == "V":
                raise ValueError(
                    f"column {column.name!r} holds bytes or lists, but {_PLURAL[column.kind]} in the reference: give text in "
                    f"UTF-8, or convert it first"
                )
            if column.kind == "category":
                found[column.name] = _words(values)
            elif values.dtype.kind in "fiub":
                found[column.name] = values.astype(np.float64)
            else:
                raise ValueError(
                    f"column {column.name!r} holds {_kind_of(values)}, but numbers in the reference: convert it first"
                )
        return found

    def decided_by(self, rows: Columns) -> Encoding:
        """Return the encoding of the same columns whose units, categories and gaps these rows decide.

        A test decides by the rows of both sides together: categories and units of one side alone would make the sides
        differ where nothing has moved.
        """
        decide = {"number": _number_code, "category": _category_code}
        compared = self.compared(rows)
        codes = (decide[c.kind](c.name, compared[c.name]) for c in self.columns)
        return Encoding(tuple(codes), self.left_out)

    def with_gaps_of(self, rows: Columns) -> Encoding:
        """Return the same encoding, with a coordinate for missing values also where these rows have some."""
        compared = self.compared(rows)
        codes = (
            dataclasses.replace(
                c, missing=c.missing or (c.kind == "number" and bool(np.isnan(compared[c.name]).any()))
            )
            for c in self.columns
        )  # fmt: skip
        return Encoding(tuple(codes), self.left_out)

    def state(self) -> list[dict[str, Any]]:
        """Return what `restored` makes it from: plain numbers and words."""
        return [dataclasses.asdict(column) for column in self.columns]

    @classmethod
    def restored(cls, state: list[dict[str, Any]]) -> Encoding:
        """Return the encoding that `state` was taken of."""
        return cls(
            tuple(ColumnCode(**{**one, "categories": tuple(one["categories"])}) for one in state)
        )


def _code_of(name: str, values: Array) -> ColumnCode | str:
    """How to encode a column, or why not to."""
    if values.ndim != 1:
        return f"values of shape {values.shape[1:]}, neither numbers nor words"
    if values.dtype.kind in "fiub":
        numbers = values.astype(np.float64)
        if not np.isfinite(numbers).any():
            return "no numbers in the first rows"
        return _number_code(name, numbers)
    if values.dtype.kind in "Mm":
        return "a time, which always moves on; order windows by it with `time`"
    if values.dtype.kind not in "OUS":
        return f"{values.dtype} values, neither numbers nor words"
    words = _words(values)
    different = len(np.unique(words))
    if different > _TOO_MANY and different > 0.1 * len(words):
        return f"{different} different words in the first rows: a name, not a category"
    return _category_code(name, words)


def _number_code(name: str, numbers: Array) -> ColumnCode:
    known = numbers[np.isfinite(numbers)]
    missing = bool(np.isnan(numbers).any())
    if not known.size:
        return ColumnCode(name, "number", missing=missing)
    center, spread = float(known.mean()), float(known.std())
    # One value everywhere: whatever departs from it is in its own unit.
    scale = spread if spread > 0 else max(abs(center), 1.0)
    return ColumnCode(name, "number", center, scale, missing=missing)


def _category_code(name: str, words: Array) -> ColumnCode:
    different, counts = np.unique(words, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:_MOST_CATEGORIES]
    shares = counts / counts.sum()
    # All coordinates of a column together vary as much as one standardized number.
    spread = float(np.sqrt((shares * (1 - shares)).sum()))
    categories = tuple(sorted(map(str, different[order])))
    return ColumnCode(name, "category", scale=spread or 1.0, categories=categories)


def _kind_of(values: Array) -> str:
    return "times" if values.dtype.kind in "Mm" else "words"


def _words(values: Array) -> Array:
    return np.array(["(missing)" if v is None or v != v else str(v) for v in values], dtype=str)


def columns_of(table: object) -> Columns:
    """Return a table in memory as columns by name.

    Args:
        table: a pyarrow table or batch, a DataFrame, a mapping of columns, or an array or tensor (n, d), whose columns
            are called "0", "1", ….

    Raises:
        ValueError: for anything else.
    """
    given: Any = table
    if isinstance(given, Tensor):
        given = given.detach().cpu().numpy()
    if isinstance(given, np.ndarray):
        if given.ndim == 1:
            given = given[:, None]
        if given.ndim != 2 or given.dtype.kind not in "fiub":
            raise ValueError(
                f"a table is an array of shape {given.shape} and dtype {given.dtype}: give numbers (n, d)"
            )
        return {str(j): given[:, j] for j in range(given.shape[1])}
    if hasattr(given, "column_names") and hasattr(given, "schema"):
        return {name: _from_arrow(given.column(name)) for name in given.column_names}
    if isinstance(given, Mapping):
        found = {str(name): np.asarray(values) for name, values in given.items()}
        sizes = {name: values.shape[0] if values.ndim else 1 for name, values in found.items()}
        if len(set(sizes.values())) > 1 or any(not values.ndim for values in found.values()):
            raise ValueError(f"columns have {sizes} rows: give one value of each for every row")
        return found
    if hasattr(given, "columns") and hasattr(given, "__getitem__"):  # a DataFrame
        return {str(name): given[name].to_numpy() for name in given.columns}
    raise ValueError(
        f"a table is a {type(table).__name__}: give a path, a pyarrow table, a DataFrame, a dict of columns, or an array (n, d)"
    )


def _from_arrow(column: Any) -> Array:
    pa = arrow()
    kind = column.type
    if pa.types.is_boolean(kind) or pa.types.is_decimal(kind) or pa.types.is_integer(kind):
        column = column.cast(pa.float64())
    if pa.types.is_floating(column.type):
        return (
            column.to_numpy()
            if hasattr(column, "chunks")
            else column.to_numpy(zero_copy_only=False)
        )
    if pa.types.is_temporal(kind):
        plain = (
            column.to_numpy()
            if hasattr(column, "chunks")
            else column.to_numpy(zero_copy_only=False)
        )
        return plain if plain.dtype.kind in "Mm" else plain.astype("datetime64[us]")
    if pa.types.is_dictionary(kind):
        kind, column = kind.value_type, column.cast(kind.value_type)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return np.array(column.to_pylist(), dtype=object)
    return np.zeros(len(column), dtype=np.dtype("V1"))  # nested or binary: left out, and said


def arrow() -> Any:
    """Return pyarrow, or a line that says how to install it."""
    try:
        import pyarrow
    except ImportError:
        raise ImportError("tables need pyarrow: pip install 'slicewise[tables]'") from None
    return pyarrow


@dataclass(frozen=True)
class Piece:
    """A part of a table on disk that is read as a whole: a row group, a batch, some rows, or a file.

    Attributes:
        path: the file.
        start, stop: rows of an npy file; a row group or batch of others is `start`.
        rows: how many it holds; 0 where that is not known before it is read.
    """

    path: str
    start: int = 0
    stop: int = 0
    rows: int = 0

    def read(self) -> Iterator[Columns]:
        """Yield its columns, some rows at a time.

        Raises:
            ValueError: if the file cannot be read, with its name.
        """
        try:
            yield from self._read()
        except (OSError, ValueError) as error:
            raise ValueError(f"{self.path!r} cannot be read as a table: {error}") from None

    def _read(self) -> Iterator[Columns]:
        suffix = Path(self.path).suffix.lower()
        if suffix == ".npy":
            array = np.load(self.path, mmap_mode="r")
            for first in range(self.start, self.stop, ROWS_AT_A_TIME):
                yield columns_of(np.array(array[first : min(first + ROWS_AT_A_TIME, self.stop)]))
            return
        pa = arrow()
        if suffix == ".parquet":
            import pyarrow.parquet as parquet

            with parquet.ParquetFile(self.path) as file:
                for batch in file.iter_batches(ROWS_AT_A_TIME, row_groups=[self.start]):
                    yield columns_of(batch)
        elif suffix in (".csv", ".tsv"):
            import pyarrow.csv as csv

            options = csv.ParseOptions(delimiter="\t" if suffix == ".tsv" else ",")
            with csv.open_csv(self.path, parse_options=options) as reader:
                for batch in reader:
                    yield columns_of(batch)
        else:
            with pa.memory_map(self.path) as source:
                yield columns_of(pa.ipc.open_file(source).get_batch(self.start))


def pieces_of(source: str | Path) -> list[Piece]:
    """Return the pieces of a table on disk: of one file, or of all files of one kind in a folder.

    Raises:
        ValueError: if there is no such file, or no file that can be read.
    """
    path = Path(source)
    if path.is_dir():
        files = sorted(
            f for f in path.rglob("*") if f.suffix.lower() in TABLE_SUFFIXES and f.is_file()
        )
        kinds = sorted({f.suffix.lower() for f in files})
        if not files:
            raise ValueError(
                f"folder {str(path)!r} holds no table: give files that end in {', '.join(TABLE_SUFFIXES)}"
            )
        if len(kinds) > 1:
            raise ValueError(
                f"folder {str(path)!r} holds {' and '.join(kinds)} files: give files of one kind"
            )
    else:
        files = [path]
    return [piece for file in files for piece in _pieces_of_file(file)]


def _pieces_of_file(path: Path) -> list[Piece]:
    suffix, name = path.suffix.lower(), str(path)
    if suffix not in TABLE_SUFFIXES:
        raise ValueError(
            f"{name!r}: give a table that ends in {', '.join(TABLE_SUFFIXES)}, or a folder of such"
        )
    if not path.is_file():
        raise ValueError(f"{name!r} does not exist: give the path of a table")
    try:
        if suffix == ".npy":
            rows, step = len(np.load(name, mmap_mode="r")), 16 * ROWS_AT_A_TIME
            ends = [(i, min(i + step, rows)) for i in range(0, rows, step)]
            return [Piece(name, i, j, j - i) for i, j in ends]
        pa = arrow()
        if suffix == ".parquet":
            import pyarrow.parquet as parquet

            with parquet.ParquetFile(name) as file:
                groups = [file.metadata.row_group(k).num_rows for k in range(file.num_row_groups)]
            return [Piece(name, k, rows=rows) for k, rows in enumerate(groups)]
        if suffix in (".csv", ".tsv"):
            return [Piece(name)]
        with pa.memory_map(name) as source:
            return [Piece(name, k) for k in range(pa.ipc.open_file(source).num_record_batches)]
    except (OSError, ValueError) as error:
        raise ValueError(f"{name!r} cannot be read as a table: {error}") from None


def first_rows(pieces: Sequence[Piece], n: int = ROWS_AT_A_TIME) -> Columns:
    """Return the first rows of a table on disk, n of them or as many as there are."""
    parts, left = list[Columns](), n
    for piece in pieces:
        for rows in piece.read():
            taken = {name: values[:left] for name, values in rows.items()}
            parts.append(taken)
            left -= len(next(iter(taken.values())))
            if left <= 0:
                return joined(parts)
    if not parts:
        raise ValueError("a table holds no rows: give at least one")
    return joined(parts)


def joined(parts: Sequence[Columns]) -> Columns:
    """Return several sets of rows as one."""
    for one in parts:
        if set(one) != set(parts[0]):
            raise ValueError(
                f"files have columns {sorted(parts[0])} and {sorted(one)}: give tables of one kind"
            )
    return {name: np.concatenate([one[name] for one in parts]) for name in parts[0]}


def read_table(source: object) -> Columns:
    """Return a whole table, from a path or from memory, as columns by name."""
    if isinstance(source, (str, Path)):
        parts = [rows for piece in pieces_of(source) for rows in piece.read()]
        if not parts or not sum(len(next(iter(one.values()))) for one in parts):
            raise ValueError(f"{str(source)!r} holds no rows: give at least one")
        return joined(parts)
    return columns_of(source)


def sampled_table(source: object, most: int, seed: int) -> tuple[Columns, int]:
    """Return at most so many rows of a table, chosen at random and in their order, and how many rows it has.

    Files are read once, and no more than the chosen rows and those being read are held in memory.
    """
    if not isinstance(source, (str, Path)):
        rows = columns_of(source)
        n = len(next(iter(rows.values()))) if rows else 0
        if not n:
            raise ValueError("a table in memory holds no rows: give at least one")
        batches: Iterator[Columns] = iter([rows])
    else:
        batches = (rows for piece in pieces_of(source) for rows in piece.read())
    rng = np.random.default_rng(seed)
    kept, keys, total = list[Columns](), np.empty(0), 0
    for rows in batches:
        n = len(next(iter(rows.values())))
        total += n
        own = rng.random(n)
        everything = np.concatenate([keys, own])
        if len(everything) <= most:
            kept, keys = [*kept, rows], everything
            continue
        # The rows with the least keys: of all rows each set of that size is as likely.
        chosen = np.sort(np.argpartition(everything, most)[:most])
        whole = joined([*kept, rows])
        kept = [{name: values[chosen] for name, values in whole.items()}]
        keys = everything[chosen]
    if not total:
        raise ValueError(f"{str(source)!r} holds no rows: give at least one")
    return joined(kept), total
