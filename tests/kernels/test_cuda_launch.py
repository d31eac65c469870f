"""What Python decides before a CUDA kernel runs; none of it needs a device."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import pytest
import torch

from slicewise.kernels.cuda import match, plan
from slicewise.kernels.cuda.compiler import _Room, only
from slicewise.transport import Needs, slices_in_a_piece

FOLDER = Path(match.__file__).parent


def words(room, kinds):
    """What a kernel would find at the addresses of its arguments."""
    addresses = (ctypes.c_void_p * len(kinds)).from_address(room.address)
    return [kind.from_address(at).value for kind, at in zip(kinds, addresses, strict=True)]


def test_arguments_of_a_launch():
    """Pointers, ints and doubles where the kernel reads them, and again when the room is reused."""
    tensor = torch.zeros(3)
    kinds = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_double, ctypes.c_longlong]
    room = _Room([tensor, None, -5, 0.25, 2**40])
    room.fill([tensor, None, -5, 0.25, 2**40])
    assert words(room, kinds) == [tensor.data_ptr(), None, -5, 0.25, 2**40]
    room.fill([None, tensor, 7, -1e300, -1])
    assert words(room, kinds) == [None, tensor.data_ptr(), 7, -1e300, -1]


def test_only_the_kernels_that_are_asked_for_are_compiled():
    """Every kernel of every source is found, and those not named are left without code."""
    for file in FOLDER.glob("*.cu"):
        source = file.read_text()
        names = re.findall(
            r"__global__[^;{]*?(\w+)\(\s*(?:const|REAL|double|int|Mass|Copies)\b", source
        )
        assert len(names) == source.count("__global__")
        for name in names:
            left = only(source, (name,))
            assert left.count("__global__") == 1
            assert all(
                f"static __device__ void {other}(" in left for other in names if other != name
            )
        assert only(source, names) == source


@pytest.mark.parametrize(("n", "m", "weighted", "kind"), [(4, 4, 0, 0), (4, 3, 0, 1), (4, 4, 1, 2)])
def test_how_masses_are_counted(n, m, weighted, kind):
    x, y = torch.zeros(n, 2), torch.zeros(m, 2)
    weights = torch.ones(n) / n if weighted else None
    assert match.masses_of(x, y, weights, None) == kind
    assert match.masses_of(y, x, None, weights) == kind


def test_lines_that_one_block_holds(monkeypatch):
    """On a device with little shared memory, long lines with weights go where they fit."""
    monkeypatch.setattr(match, "_most_shared", lambda device: 99 * 1024)
    single, double = torch.zeros(1), torch.zeros(1, dtype=torch.float64)
    assert not match.fits(single, match.LARGEST + 1, 0)
    assert all(match.fits(single, match.LARGEST, masses) for masses in (0, 1, 2))
    assert not any(match.fits(double, match.LARGEST, masses) for masses in (0, 1, 2))
    assert all(match.fits(double, 2048, masses) for masses in (0, 1, 2))


def test_rows_of_weights():
    """One row for all of the batch, or one for each of its elements."""
    one, each = torch.rand(5), torch.rand(3, 5)
    assert match.weight_rows(one, (2, 3)).equal(one[None])
    assert match.weight_rows(each, (2, 3)).equal(torch.cat([each, each]))
    assert [w.dtype for w in match._alike(one, each.double())] == [torch.float64] * 2
    assert match._alike(one.half(), None)[0].dtype == torch.float64


def test_pieces_on_a_device_allow_for_cumulative_weights():
    x, y = torch.zeros(1000, 3, device="meta"), torch.zeros(500, 3, device="meta")
    slices, weights = torch.zeros(7, 3, device="meta"), torch.zeros(1000, device="meta")
    sizes = [
        slices_in_a_piece(x, y, slices, a, None, match.match_slices, needs)
        for a, needs in (
            (None, Needs(x=True)),
            (weights, Needs(x=True)),
            (weights, Needs(x_weights=True)),
        )
    ]
    assert sizes == [2**31 // (held * 1500 * 4) for held in (3, 5, 8)]


def test_more_copies_than_a_launch_holds():
    with pytest.raises(ValueError, match="7 copies and 0 numbers in one launch: at most 6 and 4"):
        plan.CopyLaunch(torch.device("cuda"), [4] * 7)
