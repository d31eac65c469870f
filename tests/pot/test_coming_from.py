"""The table of one-line moves in docs/coming-from.md: every line runs, and both sides agree where the peer is there."""

from __future__ import annotations

import re
from pathlib import Path

import ot
import pytest
import torch

import slicewise as sw
from slicewise.parts import Uniform
from tests.tolerances import assert_close

PAGE = Path(__file__).parents[2] / "docs" / "coming-from.md"
TABLE = PAGE.read_text().split("## One-line moves")[1].split("\n## ")[0]
MOVES = re.findall(r"^\| (POT|OTT-JAX|geomloss|scripts) \| (.*) \| `(.*)` \|$", TABLE, re.MULTILINE)


def names():
    generator = torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    def unit(rows):
        return torch.nn.functional.normalize(rows, dim=-1)

    x, y = draw(30, 3), draw(20, 3) + 1
    return {
        "sw": sw,
        "ot": ot,
        "x": x,
        "y": y,
        "a": draw(30).softmax(0),
        "b": draw(20).softmax(0),
        "P": unit(draw(50, 3)).T,
        "F": torch.linalg.qr(draw(50, 3, 2))[0],
        "w": draw(50).softmax(0),
        "unit": unit,
        "sort": lambda t: t.sort(dim=0).values,
        "Uniform": Uniform,
    }


def test_every_peer_has_its_lines():
    assert {peer for peer, _, _ in MOVES} == {"POT", "OTT-JAX", "geomloss", "scripts"}
    assert len(MOVES) == TABLE.count("\n| ") - 1


# POT makes sparse tensors without saying whether torch shall check them.
@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
@pytest.mark.parametrize(("peer", "there", "here"), MOVES, ids=lambda text: text[:40])
def test_one_line_move(peer, there, here):
    torch.manual_seed(0)
    known = names()
    found = eval(here, known)
    assert torch.as_tensor(found).isfinite().all()
    code = re.match(r"`([^`]*)`", there)
    if peer in ("POT", "scripts") and code:
        theirs = torch.as_tensor(eval(code[1], known))
        # POT searches for cuts up to 1e-6, and takes equal weights of plans in single precision.
        coarse = {"sphere": 1e-5, "expected": 1e-6}
        rtol = max((r for word, r in coarse.items() if word in there), default=1e-9)
        assert_close(found, theirs.double(), rtol=rtol)
