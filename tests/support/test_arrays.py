"""NumPy arrays and lists at the door of functions: right values, and the same kind back."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import slicewise as sw
from tests.tolerances import assert_close

X, Y = torch.randn(2, 8, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
WEIGHTS = torch.rand(8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
WEIGHTS = WEIGHTS / WEIGHTS.sum()

CALLS = {
    "sliced_wasserstein": lambda x, y, a: sw.sliced_wasserstein(x, y, x_weights=a, generator=0),
    "value_and_grad": lambda x, y, a: sw.value_and_grad(x, y, "ebsw", x_weights=a, generator=0),
    "displacement": lambda x, y, a: sw.displacement(x, y, x_weights=a, generator=0),
    "wasserstein": lambda x, y, a: sw.wasserstein(x, y, x_weights=a),
}


def parts(found):
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.parametrize("name", CALLS)
def test_arrays_in_arrays_out(name):
    expected = parts(CALLS[name](X, Y, WEIGHTS))
    found = parts(CALLS[name](X.numpy(), Y.numpy(), WEIGHTS.numpy()))
    for one, wanted in zip(found, expected, strict=True):
        assert isinstance(one, np.ndarray | np.floating)
        assert np.array_equal(one, wanted.numpy())


@pytest.mark.parametrize("name", CALLS)
def test_lists_in_lists_out(name):
    expected = parts(CALLS[name](X, Y, WEIGHTS))
    found = parts(CALLS[name](X.tolist(), Y.tolist(), WEIGHTS.tolist()))
    for one, wanted in zip(found, expected, strict=True):
        assert isinstance(one, list | float)
        assert one == wanted.tolist()


def test_a_tensor_first_takes_arrays_to_its_precision():
    found = sw.sliced_wasserstein(X.float(), Y.numpy(), generator=0)
    assert isinstance(found, torch.Tensor)
    assert found.dtype == torch.float32
    assert torch.equal(found, sw.sliced_wasserstein(X.float(), Y.float(), generator=0))


def test_single_precision_stays_and_whole_numbers_become_float64():
    single = sw.sliced_wasserstein(X.float().numpy(), Y.float().numpy(), generator=0)
    assert single.dtype == np.float32
    whole = sw.sliced_wasserstein(np.arange(6).reshape(3, 2), np.zeros((3, 2), int), generator=0)
    assert whole.dtype == np.float64
    assert sw.sliced_wasserstein([[0], [1]], [[2], [3]]) == 2.0


def test_an_evaluation_of_arrays_is_read_as_arrays():
    found, expected = (
        sw.evaluate(*pair, "ebsw", generator=0) for pair in ((X.numpy(), Y.numpy()), (X, Y))
    )
    assert isinstance(found, sw.Evaluation)
    for name in ("value", "power", "costs", "weights", "slices", "stderr", "displacement", "bound"):
        assert np.array_equal(getattr(found, name), getattr(expected, name).numpy()), name
    assert repr(found) == repr(expected)
    assert found.recipe == expected.recipe


def test_a_subspace_of_arrays_takes_and_gives_arrays():
    x = np.concatenate([X.numpy(), np.zeros((8, 4))], axis=1)
    space = sw.effective_subspace(x, x)
    assert space.k == 3
    there = space.reduce(x)
    assert isinstance(there, np.ndarray)
    assert_close(space.embed(there), x)
    with pytest.raises(AttributeError, match="it is called 'embed' now"):
        space.lift(there)


def test_a_flow_of_arrays_is_read_as_arrays():
    found = sw.flow(X.numpy(), Y.numpy(), seeds=0)
    assert isinstance(found, sw.Flow)
    assert isinstance(found.particles, np.ndarray)
    assert found.w2 < 1e-6
    assert isinstance(found.history.loss, np.ndarray)
    assert np.array_equal(found.particles, sw.flow(X, Y, seeds=0).particles.numpy())


def test_padding_arrays_gives_arrays():
    x, weights = sw.pad([X.numpy(), Y.numpy()[:5]])
    assert isinstance(x, np.ndarray)
    assert weights[1].tolist() == [0.2] * 5 + [0.0] * 3
    assert np.array_equal(
        sw.sliced_wasserstein(x, Y.numpy(), x_weights=weights, generator=[0, 0])[1],
        sw.sliced_wasserstein(Y.numpy()[:5], Y.numpy(), x_weights=np.full(5, 0.2), generator=0),
    )


def test_a_target_of_arrays():
    target = sw.Target(Y.numpy(), n_slices=9, generator=0)
    assert isinstance(sw.sliced_wasserstein(X.numpy(), target), np.floating)


def test_an_int_is_the_same_draw_every_time_and_seeds_the_stream_of_a_module():
    once, again = (sw.sliced_wasserstein(X, Y, generator=7) for _ in range(2))
    seeded = sw.sliced_wasserstein(X, Y, generator=torch.Generator().manual_seed(7))
    assert once == again == seeded
    loss, other = (sw.SlicedWasserstein(generator=7) for _ in range(2))
    first, second = loss(X, Y), loss(X, Y)
    assert first != second
    assert (other(X, Y), other(X, Y)) == (first, second)
    assert loss(X, Y, generator=3) == loss(X, Y, generator=3)


def test_the_stream_of_a_module_is_saved_with_it():
    loss, other = (sw.SlicedWasserstein(generator=7) for _ in range(2))
    loss(X, Y)
    other.load_state_dict(loss.state_dict())
    assert other(X, Y) == loss(X, Y)


def test_one_seed_for_each_element_of_a_batch():
    both = sw.sliced_wasserstein(torch.stack([X, X]), Y, generator=[3, 4])
    assert both[0] == sw.sliced_wasserstein(X, Y, generator=3)
    assert both[1] == sw.sliced_wasserstein(X, Y, generator=4)


def test_arrays_of_two_precisions_and_lists_beside_arrays():
    single = X.float().numpy()
    assert sw.sliced_wasserstein(single, Y.tolist(), generator=0).dtype == np.float32
    assert sw.sliced_wasserstein(single, Y.numpy(), generator=0).dtype == np.float64


def test_results_of_arrays_pickle_list_their_names_and_take_keywords():
    import pickle

    found = sw.evaluate(X.numpy(), Y.numpy(), generator=0)
    assert {"costs", "value", "stderr"} <= set(dir(found))
    again = pickle.loads(pickle.dumps(found))
    assert np.array_equal(again.costs, found.costs)
    assert isinstance(sw.effective_subspace(X.numpy(), Y.numpy()).reduce(x=X.numpy()), np.ndarray)
