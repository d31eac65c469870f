"""The tables of a store."""

from __future__ import annotations

# Marks a file as a store, so that no other database is written to.
APPLICATION, VERSION = 0x51CE5, 1
SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    key TEXT PRIMARY KEY,          -- a hash of all that determines the run
    experiment TEXT NOT NULL,
    setting TEXT NOT NULL,
    variant TEXT NOT NULL,
    objective TEXT NOT NULL,
    lr REAL,                       -- NULL: the step was computed
    seed INTEGER NOT NULL,
    w2 REAL,                       -- exact, what is left in the end, infinite where it diverged
    seconds REAL NOT NULL,         -- the run's share of its batch
    status TEXT NOT NULL,
    batch INTEGER NOT NULL,        -- how many runs were made together
    measures TEXT NOT NULL,        -- JSON: number by name
    trace TEXT NOT NULL,           -- JSON: curve by name
    given TEXT NOT NULL,           -- JSON: task, recipe, convention, steps, dtype
    device TEXT NOT NULL,
    versions TEXT NOT NULL,        -- JSON: version by package
    finished TEXT NOT NULL         -- when, UTC
);
CREATE TABLE IF NOT EXISTS arrays (
    key TEXT NOT NULL REFERENCES runs(key) ON DELETE CASCADE,
    name TEXT NOT NULL,
    data BLOB NOT NULL,            -- a .npy file
    PRIMARY KEY (key, name)
);
CREATE INDEX IF NOT EXISTS runs_by_place ON runs (experiment, setting, variant);
"""
# What was ever asked for, which tells missing runs from those that nobody wanted. Older stores get this table when they are
# next written to.
ASKED = """
CREATE TABLE IF NOT EXISTS asked (
    experiment TEXT NOT NULL,
    setting TEXT NOT NULL,
    variant TEXT NOT NULL,
    objective TEXT NOT NULL,
    computed INTEGER NOT NULL,     -- 1: the step, 0: rates were given
    given TEXT NOT NULL,           -- JSON, as that of its runs
    error TEXT NOT NULL,           -- what went wrong when it was last tried; empty: nothing so far
    PRIMARY KEY (experiment, setting, variant, objective, computed, given)
);
"""
# A hash of what each run, array and request holds: SQLite notices a page that makes no sense, not a changed number. Older
# stores get this table when they are next written to; rows from before have no entry.
CHECKS = """
CREATE TABLE IF NOT EXISTS checks (
    of TEXT NOT NULL,              -- runs, arrays or asked
    key TEXT NOT NULL,             -- of the run; of a request, a hash of its place
    name TEXT NOT NULL,            -- of the array, else empty
    sha256 TEXT NOT NULL,
    PRIMARY KEY (of, key, name)
);
"""
COLUMNS = (
    "key", "experiment", "setting", "variant", "objective", "lr", "seed", "w2", "seconds", "status",
    "batch", "measures", "trace", "given", "device", "versions", "finished",
)  # fmt: skip
# How a run ended, by the words of stores written before `slicewise.support.Status`; `Store.rows` reads them as its words.
STATUS_BEFORE = {"converged": "arrived", "assigned": "arrived", "finished": "out of steps"}
ASKED_COLUMNS = ("experiment", "setting", "variant", "objective", "computed", "given", "error")
JSON = ("measures", "trace", "given", "versions")
