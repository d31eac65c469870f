"""Uninitialised memory is NaN here, so that an output nobody wrote cannot pass."""

from __future__ import annotations

import signal

import pytest
import torch

# A shell's background jobs ignore Ctrl-C, and so would the commands that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _strict_and_seeded(request):
    strict = request.node.get_closest_marker("gpu") is None
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(strict)
    torch.utils.deterministic.fill_uninitialized_memory = strict
    yield
    torch.use_deterministic_algorithms(False)


def pytest_collection_modifyitems(items):
    if torch.cuda.is_available():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))
