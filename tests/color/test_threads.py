"""Fits on one thread, several at once."""

from __future__ import annotations

import threading

import torch

from slicewise.color.threads import torch_on_one_thread


def test_fits_that_overlap_leave_the_number_of_threads_as_it_was():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
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

    try:
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
    finally:
        torch.set_num_threads(before)


def test_a_fit_within_another_does_not_end_it():
    """Frames of a film are moved by maps that keep to one thread, within a pool that does."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    seen = []
    try:
        with torch_on_one_thread():
            for _ in range(2):
                with torch_on_one_thread():
                    seen.append(torch.get_num_threads())
                seen.append(torch.get_num_threads())
            inside = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
            inside.start()
            inside.join()
        assert seen == [1, 1, 1, 1, 1]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
