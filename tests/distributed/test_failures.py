"""What goes wrong between processes is an error on all of them, soon; and what they send is what is stated."""

from __future__ import annotations

import os
import time

import pytest
import torch
import torch.distributed as dist

import slicewise as sw
from slicewise.support import tensors
from tests.ranks import GONE, loss_of, run, seeded, shares


def mistakes(rank, size):
    """One rank is given something else. All get an error at once, and the group still works after it."""
    x, y = torch.zeros(6, 4), torch.ones(5, 4)
    odd = rank == 1
    told = []

    def ask(*samples, loss=None, **options):
        start = time.monotonic()
        try:
            (loss_of() if loss is None else loss)(*samples, **options)
        except ValueError as error:
            told.append((str(error), time.monotonic() - start))

    ask(*((torch.zeros(6, 3), torch.ones(5, 3)) if odd else (x, y)))
    ask(*((x.double(), y.double()) if odd else (x, y)))
    ask(x, y, loss=loss_of(n_slices=40 if odd else 50))
    ask(x, y, loss=loss_of("ebsw" if odd else "sw"))
    ask(x, y, loss=loss_of(p=1 if odd else 2))
    ask(x, torch.ones(5, 3) if odd else y)  # wrong on its own
    ask(x, y, x_weights=torch.full((6,), 1 / 12) if odd else None)
    ask(x, y, slices=torch.eye(4)[: 2 if odd else 3])
    ask(x.expand(2, 6, 4) if odd else x, y)
    ask(x[:0], y)
    ask(x, y, generator="3" if odd else None)
    ask(*((x.to("meta"), y.to("meta")) if odd else (x, y)))
    with (
        pytest.MonkeyPatch.context() as patch
    ):  # "meta" stands for a device that the backend does not know
        patch.setattr(tensors, "_check_has_values", lambda *_: None)
        ask(*((x.to("meta"), y.to("meta")) if odd else (x, y)))
    with torch.no_grad() if odd else torch.enable_grad():
        ask(x, y)
    assert loss_of()(x, y).isfinite()
    return told


EXPECTED = [
    "ranks disagree on d: rank 0 has 4, rank 1 has 3; give every rank samples of one dimension",
    "ranks disagree on dtype: rank 0 has torch.float32, rank 1 has torch.float64",
    "rank 0 has Recipe(Uniform(50)), rank 1 has Recipe(Uniform(40)); give every rank the same variant, n_slices",
    "rank 0 has Recipe(Uniform(50)), rank 1 has Recipe(Uniform(50), weighting=Energy())",
    "ranks disagree on settings: rank 0 has p=2, objective='power'",
    "rank 1 could not take part in the loss: ValueError: x has shape (6, 4) and y (5, 3)",
    "ranks disagree on x_weights: rank 0 has None, rank 1 has ['torch.float32']",
    "ranks disagree on slices: rank 0 has [3, 4], rank 1 has [2, 4]",
    "ranks disagree on x_batch: rank 0 has [], rank 1 has [2]",
    "no rank has a sample of x",
    "rank 1 could not take part in the loss: ValueError: generator is a str",
    "rank 1 could not take part in the loss: ValueError: x is on the device 'meta', which holds no values",
    "rank 1 could not take part in the loss: ValueError: the samples are on meta, which the group's backend does",
    "ranks disagree on grad: rank 0 has True, rank 1 has False",
]


def test_ranks_that_disagree_are_told_so_at_once():
    others, odd = run(2, mistakes)
    assert len(others) == len(odd) == len(EXPECTED)
    for said, (here, seconds), (there, _) in zip(EXPECTED, others, odd, strict=True):
        assert said in here
        assert here == there or there in here  # on the rank itself without "could not take part"
        assert seconds < 10


def absent(rank, size, how):
    """The last rank takes part once and is then gone, dead or asleep, in the middle of a training."""
    x, y = torch.randn(40, 3), torch.randn(30, 3)
    loss = loss_of("imsw", exchange="projections")
    loss(x, y)
    if rank == size - 1:
        if how == "asleep":
            time.sleep(5)
        os._exit(GONE)
    start = time.monotonic()
    with pytest.raises(
        RuntimeError, match="Another process died, raised an error of its own"
    ) as trouble:
        loss(x, y)
    return time.monotonic() - start, str(trouble.value)


@pytest.mark.parametrize("how", ["dead", pytest.param("asleep", marks=pytest.mark.slow)])
def test_a_rank_that_is_gone_is_an_error_on_the_others(how):
    limit = 3.0
    *others, gone = run(3, absent, how, timeout=limit)
    assert gone is None
    for seconds, said in others:
        assert seconds < limit + 3
        assert "between the processes of the loss failed" in said


def counted(function, bytes_of):
    def call(*given, **options):
        TRAFFIC.append(bytes_of(*given, **options))
        return function(*given, **options)

    return call


TRAFFIC: list[int] = []


def measure(rank, size):
    """Bytes that torch.distributed is given for other ranks, by replacing its functions here."""

    def all_to_all(found, send, arriving, leaving, group=None):
        return (sum(leaving) - leaving[rank]) * send.element_size()

    def broadcast(tensor, root, group=None):
        return (size - 1) * tensor.nbytes if rank == root else 0

    dist.all_to_all_single = counted(dist.all_to_all_single, all_to_all)
    dist.broadcast = counted(dist.broadcast, broadcast)
    dist.all_gather = counted(
        dist.all_gather, lambda found, here, group=None: (size - 1) * here.nbytes
    )
    dist.all_reduce = counted(
        dist.all_reduce, lambda t, how, group=None: 2 * (size - 1) * t.nbytes // size
    )


def traffic(rank, size):
    measure(rank, size)
    x, y = (shares(torch.randn(n, 7, generator=seeded(1)), size)[rank] for n in (60, 50))
    found = {}
    for name, exchange, grads in (
        ("sw", "projections", "x"),
        ("sw", "projections", "xy"),
        ("sw", "projections", ""),
        ("imsw", "projections", "x"),
        ("sw", "samples", "x"),
    ):
        loss = loss_of(name, exchange=exchange, n_slices=10)
        TRAFFIC.clear()
        one, other = (t.clone().requires_grad_(s in grads) for t, s in ((x, "x"), (y, "y")))
        value = loss(one, other)
        if grads:
            value.backward()
        assert loss.exchanged.sent == sum(TRAFFIC)  # the backward pass sends nothing
        found[name, exchange, grads] = sum(TRAFFIC)
    return (len(x), len(y)), found


HEADER = 1536


def formula(rank, sizes, n_slices, d, grads, pricings=1, ascents=0, item=4):
    """What docs/distributed.md states, in bytes sent by one rank: the header, slices, there and back."""
    n_ranks = len(sizes)
    edges = [n_slices * r // n_ranks for r in range(n_ranks + 1)]
    own = edges[rank + 1] - edges[rank]
    n, m = sizes[rank]
    others = [s for r, s in enumerate(sizes) if r != rank]
    there = (n + m) * (n_slices - own)
    slopes = sum((("x" in grads) * a + ("y" in grads) * b) for a, b in others)
    back = own * (len(others) + slopes)
    drawn = (n_ranks - 1) * n_slices * d if rank == 0 else 0
    return HEADER * (n_ranks - 1) + item * (drawn + there + back)


def test_bytes_sent_are_those_of_the_formula():
    answers = run(3, traffic)
    sizes = [size for size, _ in answers]
    for rank, (_, found) in enumerate(answers):
        for grads in ("x", "xy", ""):
            expected = formula(rank, sizes, 10, 7, grads)
            assert found["sw", "projections", grads] == expected
        gathered = 4 * 7 * sum(sizes[rank]) * 2
        drawn = 4 * 10 * 7 * 2 if rank == 0 else 0
        assert found["sw", "samples", "x"] == HEADER * 2 + gathered + drawn
        # One chain of ten steps: nine ascents of one slice, each agreed on, priced and added up (a ring's share),
        # then all ten slices; with a slice to price, the first two ranks of three have none.
        step = formula(rank, sizes, 1, 7, "xy") - HEADER * 2 + 2 * 2 * 4 * 7 // 3
        assert found["imsw", "projections", "x"] == formula(rank, sizes, 10, 7, "x") + 9 * step


def large(rank, size):
    """n = 16,384 a rank, d = 512, L = 50: value and gradient by projections, and what gathering would send."""
    x, y = (torch.randn(16_384, 512, generator=seeded(rank + 10 * k)) for k in range(2))
    x.requires_grad_()
    loss = loss_of(n_slices=50)
    loss(x, y).backward()
    assert x.grad.isfinite().all()
    assert loss.exchanged.what == "projections"
    return loss.exchanged.sent, (size - 1) * (x.nbytes + y.nbytes)


def test_projections_take_a_fraction_of_the_bytes_of_samples():
    for sent, gathered in run(2, large):
        assert gathered >= 5 * sent


def test_a_process_outside_the_group_is_told(monkeypatch):
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_rank", lambda group: -1)
    monkeypatch.setattr(dist, "get_world_size", lambda group: -1)
    with pytest.raises(ValueError, match="no member of group"):
        sw.SlicedWasserstein(group=object())


def broken(problem, rng):
    """A slicer of a caller's own, which raises on one rank."""
    if dist.get_rank() == 1:
        raise RuntimeError("out of ideas")
    return torch.eye(problem.d)[:2]


def weigh_badly(costs, slices, problem):
    if dist.get_rank() == 0:
        raise KeyError("no weight")
    return torch.full_like(costs, 1 / costs.shape[-1])


def troubles(rank, size):
    x, y = torch.zeros(6, 4), torch.ones(5, 4)
    recipes = [sw.Recipe(broken), sw.Recipe(sw.parts.Uniform(5), weighting=weigh_badly)]
    told = []
    start = time.monotonic()
    for recipe in recipes:
        try:
            loss_of(recipe)(x, y)
        except Exception as error:
            told.append(f"{type(error).__name__}: {error}")
    batch = x.expand(3, 6, 4), y.expand(3, 5, 4)
    try:
        loss_of()(*batch, generator=[1, 2] if rank == 1 else [1, 2, 3])
    except ValueError as error:
        told.append(str(error))
    assert loss_of()(x, y).isfinite()  # the group is as it was
    loss = loss_of()
    dist.destroy_process_group()
    try:
        loss(x, y)
    except ValueError as error:
        told.append(str(error))
    return told, time.monotonic() - start


def test_what_goes_wrong_on_one_rank_is_heard_by_all():
    (first, soon), (second, soon_too) = run(2, troubles)
    heard = "rank 1 could not take part in the loss"
    assert first[0].startswith(f"ValueError: {heard}")
    assert "RuntimeError: out of ideas" in first[0]
    assert second[0] == "RuntimeError: out of ideas"
    assert first[1] == "KeyError: 'no weight'"
    assert "rank 0 could not take part" in second[1]
    assert "2 generators for 3" in second[2]
    assert first[2].startswith(heard)
    for told in (first, second):
        assert "was destroyed" in told[3]
    assert max(soon, soon_too) < 20
