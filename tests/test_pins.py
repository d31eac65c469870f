"""Pins, floors and hashes say one thing."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[1]


def module():
    spec = importlib.util.spec_from_file_location("hashes", ROOT / ".ci" / "hashes.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_every_pin_has_a_hash():
    pins = module().pins
    wanted = pins((ROOT / "constraints.txt").read_text())
    assert len(wanted) > 50
    assert wanted.pop("torch")  # whose builds differ
    text = (ROOT / "requirements-hashed.txt").read_text()
    assert pins(text) == wanted
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert len(lines) == len(wanted)
    assert all(len(line.partition(" --hash=sha256:")[2]) == 64 for line in lines)
