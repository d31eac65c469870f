"""Threads: all pieces are worked off once, torch's own are kept out, and those that do not help are left alone."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import pytest
import torch

import slicewise as sw
from slicewise.kernels import cpu, numba_loops
from slicewise.support import multiply
from tests.tolerances import assert_close


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def crew(monkeypatch):
    fresh = cpu._Crew()
    monkeypatch.setattr(cpu, "_crew", fresh)
    return fresh


_TASKS = Path("/proc/self/task")
needs_control = pytest.mark.skipif(not cpu.controlled(), reason="OpenMP's settings not found")


@pytest.mark.parametrize("rows", [1, 5, 16, 103])
@pytest.mark.parametrize("each_ns", [1.0, 1e7])
def test_every_row_once(two_threads, crew, rows, each_ns):
    seen = [0] * rows

    def work(start, stop):
        for r in range(start, stop):
            seen[r] += 1

    cpu.share(work, rows, each_ns=each_ns)
    assert seen == [1] * rows


def test_a_thread_is_woken_only_for_work_that_pays(two_threads, crew):
    assert crew.number_for(100, 0.5 * cpu.SERIAL_NS) == 1
    assert crew.number_for(100, 5 * cpu.SERIAL_NS) == 2
    assert crew.number_for(1, 5 * cpu.SERIAL_NS) == 1
    torch.set_num_threads(1)
    assert crew.number_for(100, 5 * cpu.SERIAL_NS) == 1


def test_threads_that_keep_a_call_waiting_are_left_alone_for_a_while(two_threads, crew):
    def slow(k):
        both.wait(timeout=5)  # each thread takes one of two pieces
        if threading.current_thread() is not threading.main_thread():
            time.sleep(0.02)  # as one that has lost its core

    both = threading.Barrier(2)
    cpu.share_pieces(slow, 2, n_threads=2)
    assert crew.number_for(100, 1e9) == 2  # once may be chance, or the call that loads the code
    cpu.share_pieces(slow, 2, n_threads=2)
    assert crew.number_for(100, 1e9) == 1
    assert crew._alone_until > time.perf_counter() + 0.5
    first = crew._rest
    cpu.share_pieces(slow, 2, n_threads=2)
    assert crew._rest == 2 * first


def test_threads_that_pay_go_on(two_threads, crew):
    """Judged by what this thread alone would have needed: half as long pays, nine tenths do not."""
    crew._judge(now=time.perf_counter(), elapsed=1.0, alone=2.0)
    assert crew.number_for(100, 1e9) == 2
    for _ in range(3):  # never twice in a row
        crew._judge(now=time.perf_counter(), elapsed=1.0, alone=1.05)
        assert crew.number_for(100, 1e9) == 2
        crew._judge(now=time.perf_counter(), elapsed=1.0, alone=2.0)
    for _ in range(2):
        crew._judge(now=time.perf_counter(), elapsed=1.0, alone=1.05)
    assert crew.number_for(100, 1e9) == 1
    assert crew._alone_until <= time.perf_counter() + 50


def test_an_error_in_a_piece_is_raised(two_threads, crew):
    def work(k):
        raise ValueError(f"piece {k}")

    with pytest.raises(ValueError, match="piece"):
        cpu.share_pieces(work, 4, n_threads=2)


@needs_control
def test_one_thread_is_a_setting_of_the_calling_thread(two_threads):
    seen = []
    with cpu.one_thread():
        assert torch.get_num_threads() == 1
        assert cpu.allowed() == 2
        with cpu.one_thread():
            assert cpu.allowed() == 2
        assert torch.get_num_threads() == 1
        other = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
        other.start()
        other.join()
    assert seen == [2]
    assert torch.get_num_threads() == 2
    with pytest.raises(RuntimeError, match="out"), cpu.one_thread():
        raise RuntimeError("out")
    assert torch.get_num_threads() == 2


@needs_control
@pytest.mark.parametrize("threads", [1, 2])
def test_one_thread_in_a_thread_that_has_not_asked_torch_yet(two_threads, threads):
    torch.set_num_threads(threads)
    seen = []

    def look():
        with cpu.one_thread():
            torch.ones(100_000).sum()
            seen.append((torch.get_num_threads(), cpu.allowed()))

    other = threading.Thread(target=look)
    other.start()
    other.join()
    assert seen == [(1, threads)]


@needs_control
def test_our_threads_start_none_of_torchs(two_threads, crew):
    seen = []
    hold = threading.Barrier(2)

    def work(k):
        hold.wait(timeout=5)  # both threads take a piece
        seen.append(torch.get_num_threads())

    cpu.share_pieces(work, 2, n_threads=2)
    assert seen == [1, 1]
    assert torch.get_num_threads() == 2


def ends_called(monkeypatch):
    """How torch's threads are told to end is watched; what is said is kept."""
    said = []
    found = cpu._controls()
    monkeypatch.setattr(cpu, "_controls", lambda: found._replace(end=said.append))
    return said


@needs_control
def test_torchs_threads_are_ended_before_work_that_takes_longer_than_to_start_them(
    monkeypatch, two_threads, crew
):
    said = ends_called(monkeypatch)
    cpu.share_pieces(lambda k: None, 2, each_ns=0.9 * cpu._RESTART_NS, n_threads=2)
    assert said == []
    cpu.share_pieces(lambda k: None, 2, each_ns=2 * cpu.SERIAL_NS)
    assert len(said) == 1
    monkeypatch.setattr(cpu, "_crew", cpu._Crew())  # the other has seen that nothing is gained
    cpu.share(lambda i, j: None, 100, each_ns=0.1 * cpu.SERIAL_NS)
    assert len(said) == 2
    torch.set_num_threads(1)
    cpu.share_pieces(lambda k: None, 2, each_ns=2 * cpu.SERIAL_NS)
    assert len(said) == 2


def soon(found, wanted):
    """Wait until what is found is as wanted: threads that end are listed for a moment longer."""
    until = time.monotonic() + 5
    while not wanted(found()) and time.monotonic() < until:
        time.sleep(0.001)
    return found()


@pytest.mark.skipif(not cpu.ends_threads(), reason="OpenMP's threads cannot be ended")
@pytest.mark.skipif(not _TASKS.exists(), reason="lists the threads of this process, on Linux")
def test_torchs_threads_are_gone_while_ours_work_and_come_back(two_threads, crew):
    def threads():
        return {one.name for one in _TASKS.iterdir()}

    numbers = torch.arange(200_000.0)
    cpu.share_pieces(lambda k: None, 2, each_ns=2 * cpu.SERIAL_NS)  # ours have been started
    theirs, left, right = set(), set(), []

    def apart():  # in a thread of its own, whose threads are known to no other test
        before = threads()
        right.append(bool((numbers + 1 == torch.arange(1.0, 200_001.0)).all()))
        theirs.update(threads() - before)
        cpu.share_pieces(
            lambda k: left.update(soon(threads, theirs.isdisjoint) & theirs),
            1,
            each_ns=1e9,
            n_threads=2,
        )
        before = threads()
        right.append(bool((numbers + 1 == torch.arange(1.0, 200_001.0)).all()))
        theirs.update({"again"} if threads() - before else ())

    one = threading.Thread(target=apart)
    one.start()
    one.join()
    assert len(theirs) == 2
    assert "again" in theirs
    assert left == set()
    assert right == [True, True]


_FORKS = """
import multiprocessing, os, signal, sys, torch
if {loaded!r} != "in the child":
    import slicewise as sw
torch.set_num_threads(2)
x = torch.arange(60_000.0).reshape(3000, 20).sin()
y = x + 1  # here, because torch itself would wait forever in the child
if {loaded!r} == "used":
    sw.sliced_wasserstein(x, y, generator=0)
x.repeat(10, 1) + 1  # now torch has threads

def compare():
    import slicewise as sw
    from slicewise.kernels import cpu
    cpu._crew = cpu._Crew()  # that does not rest
    print(float(sw.sliced_wasserstein(x, y, generator=0, n_slices=500)), flush=True)

if {by!r} == "multiprocessing":
    child = multiprocessing.get_context("fork").Process(target=compare)
    child.start()
    child.join(30)
    child.kill()
    sys.exit(child.exitcode)
if os.fork() == 0:
    signal.alarm(30)
    compare()
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked")
@pytest.mark.parametrize("by", ["multiprocessing", "os.fork"])
@pytest.mark.parametrize("loaded", ["used", "imported", "in the child"])
def test_a_forked_process_does_not_wait_for_the_threads_of_its_parent(loaded, by):
    script = _FORKS.format(loaded=loaded, by=by)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert 0 < float(done.stdout) < 2


@needs_control
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((20, 700), (700, 2500)),
        ((2500, 20), (20, 700)),
        ((3, 40, 500), (3, 500, 600)),
        ((40, 500), (3, 500, 600)),
        ((2, 1, 40, 500), (3, 500, 300)),
        ((5, 3), (3, 4)),
    ],
)
def test_products_in_pieces(monkeypatch, two_threads, crew, dtype, a, b):
    """Those of torch; and the same bits whether another thread helps or not."""
    monkeypatch.setattr(cpu, "_WHOLE", 1e5)
    monkeypatch.setattr(cpu, "_PIECE", 1e6)
    monkeypatch.setattr(cpu, "SERIAL_NS", 1e3)
    left, right = torch.randn(a, dtype=dtype), torch.randn(b, dtype=dtype)
    helped = multiply(left, right)
    assert_close(helped, left @ right)
    crew._alone_until = time.perf_counter() + 60
    assert multiply(left, right).equal(helped)


def test_products_that_are_recorded_are_torchs_own(two_threads):
    a = torch.randn(3, 4, requires_grad=True)
    multiply(a, torch.eye(4)).sum().backward()
    assert a.grad.equal(torch.ones(3, 4))


@needs_control
def test_helpers_do_not_record_what_the_caller_does_not(monkeypatch, two_threads, crew):
    """Gradients are off in the caller's thread alone: samples of both sides that ask for them, on many long lines."""
    monkeypatch.setattr(cpu, "_WHOLE", 1e5)
    monkeypatch.setattr(cpu, "_PIECE", 1e6)
    monkeypatch.setattr(cpu, "SERIAL_NS", 1e3)
    x, y = torch.randn(2, 500, 40, requires_grad=True).unbind(0)
    loss = sw.SlicedWasserstein(n_slices=60, generator=0)(x, y)
    found = torch.autograd.grad(loss, (x, y))
    plain = sw.SlicedWasserstein(n_slices=60, generator=0, backend="torch")(x, y)
    for one, other in zip(found, torch.autograd.grad(plain, (x, y)), strict=True):
        assert_close(one, other)


@needs_control
def test_a_step_is_the_same_with_helpers_or_without(monkeypatch, two_threads, crew):
    monkeypatch.setattr(cpu, "SERIAL_NS", 1e3)
    monkeypatch.setattr(cpu, "_WHOLE", 1e5)
    for n, d in ((300, 2), (2000, 3), (1500, 60)):
        x, y = torch.randn(n, d), torch.randn(n, d) + 1
        crew._alone_until = 0.0
        helped = sw.value_and_grad(x, y, generator=0)
        crew._alone_until = time.perf_counter() + 60
        alone = sw.value_and_grad(x, y, generator=0)
        assert all(one.equal(other) for one, other in zip(helped, alone, strict=True))


def test_it_is_said_once_that_the_first_call_compiles(caplog, monkeypatch):
    notice = numba_loops._Notice()
    ours = types.SimpleNamespace(data={"dispatcher": numba_loops.pack})
    numpys = types.SimpleNamespace(
        data={"dispatcher": types.SimpleNamespace(py_func=threading.Thread.start)}
    )
    with caplog.at_level(logging.INFO, "slicewise"):
        notice.on_start(numpys)
        assert not caplog.records
        for _ in range(2):
            notice.on_start(ours)
    assert len(caplog.records) == 1
    assert "compiling kernels" in caplog.text
    assert caplog.records[0].levelno == logging.INFO  # nobody is watching
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with caplog.at_level(logging.INFO, "slicewise"):
        numba_loops._Notice().on_start(ours)
    assert caplog.records[1].levelno == logging.WARNING
