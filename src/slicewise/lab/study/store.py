"""A SQLite file that holds the runs of a study: a cell is stored as a whole, and no run twice."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from slicewise.lab.data import Array, printable, visible
from slicewise.lab.errors import UserError
from slicewise.lab.study.run import Cell, Result, Run, as_json
from slicewise.lab.study.schema import (
    APPLICATION,
    ASKED,
    ASKED_COLUMNS,
    CHECKS,
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
        path: the SQLite file, which is opened by its absolute path.
        write: whether the store may be written to; it is created if there is none. `Store.reading` opens one to read.

    Raises:
        UserError: the file is not a store, is damaged, cannot be opened, or does not exist where nothing may be written.

    Example:

    >>> import tempfile
    >>> with Store(Path(tempfile.mkdtemp()) / "runs.db") as store:
    ...     store.rows()
    []
    """

    def __init__(self, path: str | Path, *, write: bool = True) -> None:
        self._shown = printable(str(path))
        # SQLite gives some names a meaning: `:memory:` keeps nothing, `file:` begins an address.
        if str(path).startswith((":", "file:")):
            raise UserError(
                f"store {self._shown}: runs are kept in a file; give its path, such as runs.db"
            )
        self.path = Path(os.path.abspath(path))
        if self.path.is_dir():
            raise UserError(f"{self._shown} is a folder: give the file of a store, such as runs.db")
        if self.path.exists() and not self.path.is_file():
            raise UserError(f"store {self._shown} is a device or a pipe: give the path of a file")
        if not write and not self.path.exists():
            raise UserError(f"there is no store {self._shown}: `slicewise reproduce` makes one")
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
                f"{self._shown} is a database, but not a store of slicewise: give another file"
            )
        elif version != VERSION:
            raise UserError(
                f"{self._shown} is a store of version {version}, this slicewise writes version {VERSION}: "
                f"give another file"
            )
        if write:
            # Readers need not wait, and a process killed during a commit leaves the previous state.
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute("PRAGMA foreign_keys = ON")
            self._connection.execute(ASKED)
            self._connection.execute(CHECKS)
        self._check_whole()

    def _check_whole(self) -> None:
        """Find pages that make no sense, and checks of rows that are not there."""
        (found,) = self._connection.execute("PRAGMA integrity_check(1)").fetchone()
        if found != "ok":
            raise self._damaged(found)
        if self._has_table("checks"):
            lost = self._connection.execute(
                "SELECT of, key FROM checks WHERE (of = 'runs' AND key NOT IN (SELECT key FROM runs)) OR (of = 'arrays' AND "
                "(key, name) NOT IN (SELECT key, name FROM arrays)) OR of NOT IN ('runs', 'arrays', 'asked') LIMIT 1"
            ).fetchone()
            if lost is not None:
                raise self._damaged(f"row {lost[1]!r} of table {lost[0]} is missing")

    def _has_table(self, name: str) -> bool:
        found = self._connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (name,))
        return found.fetchone() is not None

    def _damaged(self, where: str) -> UserError:
        return UserError(
            f"store {self._shown} is damaged: {visible(where)}; restore a copy of it, or give another file"
        )

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
                self._add_check("runs", result.run.key, "", self._raw_row(result.run.key))
                for name, array in result.arrays.items():
                    packed = _packed(array)
                    self._connection.execute(
                        "INSERT INTO arrays VALUES (?, ?, ?)", (result.run.key, name, packed)
                    )
                    self._add_check("arrays", result.run.key, name, packed)

    def _raw_row(self, key: str) -> tuple[Any, ...]:
        """A run as SQLite returns it, which may be a float where an int was given."""
        row: tuple[Any, ...] = self._connection.execute(
            f"SELECT {', '.join(COLUMNS)} FROM runs WHERE key = ?", (key,)
        ).fetchone()
        return row

    def _add_check(self, of: str, key: str, name: str, held: Any) -> None:
        self._connection.execute(
            "INSERT OR REPLACE INTO checks VALUES (?, ?, ?, ?)", (of, key, name, _hash(held))
        )

    def _checks(self, of: str) -> dict[str, str]:
        """The hashes of rows by their keys; those of rows from before there were any are missing."""
        if not self._has_table("checks"):
            return {}
        found = self._connection.execute("SELECT key, sha256 FROM checks WHERE of = ?", (of,))
        return dict(found.fetchall())

    def ask(self, cells: Iterable[Cell], error: str = "") -> None:
        """Record that cells were asked for, or the error of the last attempt."""
        wanted = {(*_place(run), error) for cell in cells for run in cell.runs}
        with self._explained(), self._transaction():
            self._connection.executemany(
                "INSERT OR REPLACE INTO asked VALUES (?, ?, ?, ?, ?, ?, ?)", sorted(wanted)
            )
            for row in wanted:
                held = (*row[:4], int(row[4]), *row[5:])
                self._add_check("asked", _hash(held[:-1]), "", held)

    def asked(self) -> list[dict[str, Any]]:
        """Return what was ever asked for, with the error of the last attempt, if any."""
        with self._explained(), self._snapshot():
            if not self._has_table("asked"):
                return []
            found = self._connection.execute(
                f"SELECT {', '.join(ASKED_COLUMNS)} FROM asked"
            ).fetchall()
            checks = self._checks("asked")
        keys = [_hash(row[:-1]) for row in found]
        for row, key in zip(found, keys, strict=True):
            if checks.get(key, _hash(row)) != _hash(row):
                raise self._damaged(f"what was asked of {row[0]}, {row[1]}, {row[2]}")
        if lost := set(checks) - set(keys):
            raise self._damaged(f"what was asked, {min(lost)!r}, is missing")
        rows = [dict(zip(ASKED_COLUMNS, row, strict=True)) for row in found]
        return [
            {**row, "given": self._parsed(row["given"], f"what was asked of {row['setting']}")}
            for row in rows
        ]

    def rows(self, **wanted: str) -> list[dict[str, Any]]:
        """Return runs as dictionaries by column, filtered by values of columns, such as `rows(experiment="theory")`.

        A status that an older version stored is returned in today's words.
        """
        for name in wanted:
            check_choice("column", name, COLUMNS)
        where = " AND ".join(f"{name} = ?" for name in wanted) or "1"
        order = "experiment, setting, variant, objective, lr, seed, key"
        with self._explained(), self._snapshot():
            found = self._connection.execute(
                f"SELECT {', '.join(COLUMNS)} FROM runs WHERE {where} ORDER BY {order}",
                tuple(wanted.values()),
            ).fetchall()
            checks = self._checks("runs")
        for raw in found:
            if checks.get(raw[0], _hash(raw)) != _hash(raw):
                raise self._damaged(f"the numbers of run {raw[0]!r} are not those that were stored")
        rows = [dict(zip(COLUMNS, row, strict=True)) for row in found]
        for row in rows:
            row["status"] = STATUS_BEFORE.get(row["status"], row["status"])
        return [
            {
                **row,
                **{name: self._parsed(row[name], f"run {row['key']!r}, {name}") for name in JSON},
            }
            for row in rows
        ]

    def _parsed(self, text: Any, where: str) -> Any:
        try:
            return json.loads(text)
        except (ValueError, TypeError, RecursionError) as wrong:
            raise self._damaged(f"{where}: {wrong}") from wrong

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
            check = None
            if self._has_table("checks"):
                check = self._connection.execute(
                    "SELECT sha256 FROM checks WHERE of = 'arrays' AND key = ? AND name = ?",
                    (key, name),
                ).fetchone()
        if found is None:
            return None
        where = f"array {name!r} of run {key!r}"
        if check is not None and check[0] != _hash(found[0]):
            raise self._damaged(f"{where} is not as it was stored")
        try:
            array: Array = np.load(io.BytesIO(found[0]), allow_pickle=False)
        except (ValueError, TypeError, EOFError, OSError, SyntaxError, MemoryError) as wrong:
            raise self._damaged(f"{where}: {wrong}") from wrong
        return array

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
    def _snapshot(self) -> Iterator[None]:
        """Have several statements see one state of the store, whatever other processes write meanwhile."""
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.execute("COMMIT")

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn errors of SQLite into a UserError that says what to do."""
        try:
            yield
        except sqlite3.Error as error:
            said = str(error)
            if "full" in said or "disk I/O" in said:
                advice = "is the disk full? stored runs are safe: free some space and run again"
            elif "not a database" in said or "malformed" in said or "decode" in said:
                advice = "it is not a store of slicewise, or damaged: give another file"
            elif "locked" in said:
                advice = "another process is using it: wait until it has ended"
            else:
                advice = "can the file and its folder be written to?"
            raise UserError(f"store {self._shown}: {said}; {advice}") from error
        except UnicodeDecodeError as error:
            raise self._damaged(f"text in it is not UTF-8 ({error.reason})") from error
        except OSError as error:
            raise UserError(
                f"store {self._shown}: {error}; give a file in a folder that you can write to"
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


def _hash(held: Any) -> str:
    """Hash what a row holds, as SQLite returns it."""
    whole = held if isinstance(held, bytes) else repr(held).encode("utf-8", "surrogatepass")
    return hashlib.sha256(whole).hexdigest()


def _packed(array: Array) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()
