"""A SQLite file that holds the runs of a study: a cell is stored as a whole, and no run twice."""

from __future__ import annotations

import contextlib
import io
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from slicewise.lab.data import Array
from slicewise.lab.errors import UserError
from slicewise.lab.study.run import Cell, Result, Run, as_json
from slicewise.lab.study.schema import (
    APPLICATION,
    ASKED,
    ASKED_COLUMNS,
    COLUMNS,
    JSON,
    SCHEMA,
    STATUS_BEFORE,
    VERSION,
)
from slicewise.support import check_choice


class Store:
    """The runs of a study.

    Args:
        path: the SQLite file.
        write: whether the store may be written to; it is created if there is none. `Store.reading` opens one to read.

    Raises:
        UserError: the file is not a store, cannot be opened, or does not exist where nothing may be written.

    Example:

    >>> import tempfile
    >>> with Store(Path(tempfile.mkdtemp()) / "runs.db") as store:
    ...     store.rows()
    []
    """

    def __init__(self, path: str | Path, *, write: bool = True) -> None:
        self.path = Path(path)
        if self.path.is_dir():
            raise UserError(f"{self.path} is a folder: give the file of a store, such as runs.db")
        if not write and not self.path.exists():
            raise UserError(f"there is no store {self.path}: `slicewise reproduce` makes one")
        with self._explained():
            if write:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = self._open(write)
            try:
                self._check(write)
            except BaseException:
                self._connection.close()
                raise

    @classmethod
    def reading(cls, path: str | Path) -> Store:
        """Open a store to read; another process may write to it meanwhile."""
        return cls(path, write=False)

    def _open(self, write: bool) -> sqlite3.Connection:
        # Wait for another process that is committing.
        if write:
            return sqlite3.connect(self.path, timeout=60, isolation_level=None)
        address = self.path.resolve().as_uri()
        # In a read-only folder SQLite needs `immutable`.
        log = self.path.with_name(self.path.name + "-wal")
        for mode in ("mode=ro",) if log.exists() else ("mode=ro", "immutable=1"):
            connection = sqlite3.connect(f"{address}?{mode}", uri=True, timeout=60)
            try:
                connection.execute("SELECT count(*) FROM sqlite_master")
                return connection
            except sqlite3.OperationalError:
                connection.close()
        raise sqlite3.OperationalError("unable to open database file")

    def _check(self, write: bool) -> None:
        (application,) = self._connection.execute("PRAGMA application_id").fetchone()
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        (tables,) = self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if write and not tables and not application:
            with self._transaction():
                for statement in SCHEMA.split(";"):
                    self._connection.execute(statement)
                self._connection.execute(f"PRAGMA application_id = {APPLICATION}")
                self._connection.execute(f"PRAGMA user_version = {VERSION}")
        elif application != APPLICATION:
            raise UserError(
                f"{self.path} is a database, but not a store of slicewise: give another file"
            )
        elif version != VERSION:
            raise UserError(
                f"{self.path} is a store of version {version}, this slicewise writes version {VERSION}: "
                f"give another file"
            )
        if write:
            # Readers need not wait, and a process killed during a commit leaves the previous state.
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute("PRAGMA foreign_keys = ON")
            self._connection.execute(ASKED)

    def missing(self, runs: Iterable[Run]) -> list[Run]:
        """Return the runs that are not stored yet, in their order."""
        with self._explained():
            return [run for run in runs if not self._has(run.key)]

    def _has(self, key: str) -> bool:
        found = self._connection.execute("SELECT 1 FROM runs WHERE key = ?", (key,)).fetchone()
        return found is not None

    def add(self, results: Sequence[Result], device: str, versions: Mapping[str, str]) -> None:
        """Store all results, or none if there is an error; runs that are stored already do not change."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with self._explained(), self._transaction():
            for result in results:
                if self._has(result.run.key):
                    continue
                marks = ", ".join("?" * len(COLUMNS))
                self._connection.execute(
                    f"INSERT INTO runs ({', '.join(COLUMNS)}) VALUES ({marks})",
                    _values(result, device, versions, now),
                )
                for name, array in result.arrays.items():
                    self._connection.execute(
                        "INSERT INTO arrays VALUES (?, ?, ?)",
                        (result.run.key, name, _packed(array)),
                    )

    def ask(self, cells: Iterable[Cell], error: str = "") -> None:
        """Record that cells were asked for, or the error of the last attempt."""
        wanted = {(*_place(run), error) for cell in cells for run in cell.runs}
        with self._explained(), self._transaction():
            self._connection.executemany(
                "INSERT OR REPLACE INTO asked VALUES (?, ?, ?, ?, ?, ?, ?)", sorted(wanted)
            )

    def asked(self) -> list[dict[str, Any]]:
        """Return what was ever asked for, with the error of the last attempt, if any."""
        there = "SELECT 1 FROM sqlite_master WHERE name = 'asked'"
        with self._explained():
            if self._connection.execute(there).fetchone() is None:
                return []
            found = self._connection.execute(
                f"SELECT {', '.join(ASKED_COLUMNS)} FROM asked"
            ).fetchall()
        rows = [dict(zip(ASKED_COLUMNS, row, strict=True)) for row in found]
        return [{**row, "given": json.loads(row["given"])} for row in rows]

    def rows(self, **wanted: str) -> list[dict[str, Any]]:
        """Return runs as dictionaries by column, filtered by values of columns, such as `rows(experiment="theory")`.

        A status that an older version stored is returned in today's words.
        """
        for name in wanted:
            check_choice("column", name, COLUMNS)
        where = " AND ".join(f"{name} = ?" for name in wanted) or "1"
        order = "experiment, setting, variant, objective, lr, seed, key"
        with self._explained():
            found = self._connection.execute(
                f"SELECT {', '.join(COLUMNS)} FROM runs WHERE {where} ORDER BY {order}",
                tuple(wanted.values()),
            ).fetchall()
        rows = [dict(zip(COLUMNS, row, strict=True)) for row in found]
        for row in rows:
            row["status"] = STATUS_BEFORE.get(row["status"], row["status"])
        return [{**row, **{name: json.loads(row[name]) for name in JSON}} for row in rows]

    def values_of(self, column: str) -> list[str]:
        """Return the different values of a column, without empty ones."""
        check_choice("column", column, COLUMNS)
        with self._explained():
            found = self._connection.execute(f"SELECT DISTINCT {column} FROM runs").fetchall()
        return sorted(str(value) for (value,) in found if value)

    def array(self, key: str, name: str) -> Array | None:
        """Return an array that was stored with a run, or None."""
        asked = "SELECT data FROM arrays WHERE key = ? AND name = ?"
        with self._explained():
            found = self._connection.execute(asked, (key, name)).fetchone()
        return None if found is None else np.load(io.BytesIO(found[0]), allow_pickle=False)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn errors of SQLite into a UserError that says what to do."""
        try:
            yield
        except sqlite3.Error as error:
            said = str(error)
            if "full" in said or "disk I/O" in said:
                advice = "is the disk full? stored runs are safe: free some space and run again"
            elif "not a database" in said or "malformed" in said:
                advice = "it is not a store of slicewise, or damaged: give another file"
            elif "locked" in said:
                advice = "another process is using it: wait until it has ended"
            else:
                advice = "can the file and its folder be written to?"
            raise UserError(f"store {self.path}: {said}; {advice}") from error
        except OSError as error:
            raise UserError(
                f"store {self.path}: {error}; give a file in a folder that you can write to"
            ) from error

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _place(run: Run) -> tuple[str, str, str, str, bool, str]:
    """Return what identifies a run but for its rate and seed."""
    given = as_json({**run.given, **run.noted})
    return run.experiment, run.setting, run.variant, run.objective, run.lr is None, given


def _values(result: Result, device: str, versions: Mapping[str, str], now: str) -> tuple[Any, ...]:
    run = result.run
    place = (run.key, run.experiment, run.setting, run.variant, run.objective, run.lr, run.seed)
    words = tuple(
        as_json(part) for part in (result.measures, result.trace, {**run.given, **run.noted})
    )
    outcome = (result.w2, result.seconds, result.status, result.batch)
    return (*place, *outcome, *words, device, as_json(versions), now)


def _packed(array: Array) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()
