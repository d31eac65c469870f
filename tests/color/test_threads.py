"""Fits on one thread, several at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from slicewise.color.threads import stay_on_one_thread, torch_on_one_thread


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_fits_that_overlap_leave_the_number_of_threads_as_it_was(two_threads):
    second_is_inside, first_has_left = threading.Event(), threading.Event()
    seen = []

    def second():
        with torch_on_one_thread():
            second_is_inside.set()
            assert first_has_left.wait(10)
            seen.append(torch.get_num_threads())
        seen.append(torch.get_num_threads())

    def third():
        seen.append(torch.get_num_threads())

    overlapping, later = threading.Thread(target=second), threading.Thread(target=third)
    with torch_on_one_thread():
        overlapping.start()
        assert second_is_inside.wait(10)
        seen.append(torch.get_num_threads())
    first_has_left.set()
    overlapping.join()
    later.start()
    later.join()
    assert seen == [1, 1, 2, 2]
    assert torch.get_num_threads() == 2


def test_a_thread_that_is_first_asked_inside_anothers_fit_gets_its_number_back(two_threads):
    inside, done, seen = threading.Event(), threading.Event(), []

    def second():
        assert inside.wait(10)
        with torch_on_one_thread():
            seen.append(torch.get_num_threads())
        seen.append(torch.get_num_threads())
        done.set()

    other = threading.Thread(target=second)
    other.start()
    with torch_on_one_thread():
        inside.set()
        assert done.wait(10)
        seen.append(torch.get_num_threads())
    other.join()
    assert seen == [1, 2, 1]
    assert torch.get_num_threads() == 2


def test_a_fit_within_another_does_not_end_it(two_threads):
    """Frames of a film are moved by maps that keep to one thread, within a pool that does."""
    seen = []

    def frame(_):
        before = torch.get_num_threads()
        with torch_on_one_thread():
            pass
        return before

    with torch_on_one_thread():
        for _ in range(2):
            with torch_on_one_thread():
                seen.append(torch.get_num_threads())
            seen.append(torch.get_num_threads())
        with ThreadPoolExecutor(2, initializer=stay_on_one_thread) as pool:
            seen += pool.map(frame, range(6))
    assert seen == 10 * [1]
    assert torch.get_num_threads() == 2
