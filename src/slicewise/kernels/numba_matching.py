"""Loops of one-to-one matching, compiled by numba: the nearest of many, and an auction.

They do what `transport.matching` does in NumPy, one bid after another instead of in rounds. Imports numba, which takes
half a second: only to be imported once it is used.
"""

from __future__ import annotations

import numpy as np

from slicewise.kernels.numba_loops import Array, jit


@jit
def least(rows: Array, start: int, stop: int, out: Array) -> None:
    """Write the places of the K least values of each row (n,) to `out` (K,), in no order; NaN counts as infinite."""
    n, k = rows.shape[1], out.shape[1]
    values = np.empty(k, rows.dtype)
    for r in range(start, stop):
        # A heap whose root is the largest of the K kept.
        for i in range(k):
            values[i] = np.inf
            out[r, i] = i
        for j in range(n):
            value = rows[r, j]
            if not value < values[0]:
                continue
            place = 0
            while True:
                child = 2 * place + 1
                if child >= k:
                    break
                if child + 1 < k and values[child + 1] > values[child]:
                    child += 1
                if values[child] <= value:
                    break
                values[place] = values[child]
                out[r, place] = out[r, child]
                place = child
            values[place] = value
            out[r, place] = j


@jit
def auction(
    starts: Array,
    columns: Array,
    costs: Array,
    prices: Array,
    epsilon: float,
    budget: int,
    owners: Array,
    partners: Array,
) -> int:
    """As `_bid` of `transport.matching`, every bid after another."""
    n = len(starts) - 1
    waiting = np.empty(n, np.int64)
    head = 0
    count = 0
    for i in range(n):
        if partners[i] < 0:
            waiting[count] = i
            count += 1
    bids = 0
    while count > 0 and bids < budget:
        i = waiting[head]
        head = head + 1 if head + 1 < n else 0
        count -= 1
        first = np.inf
        second = np.inf
        best = -1
        for e in range(starts[i], starts[i + 1]):
            value = costs[e] + prices[columns[e]]
            if value < first:
                second = first
                first = value
                best = columns[e]
            elif value < second:
                second = value
        if second == np.inf:
            second = first
        price = prices[best] + (second - first + epsilon)
        # Where ε is below the precision of a price, the price still has to rise: else two rows bid for ever.
        prices[best] = max(price, np.nextafter(prices[best], np.inf))
        bids += 1
        loser = owners[best]
        if loser >= 0:
            partners[loser] = -1
            tail = head + count
            waiting[tail if tail < n else tail - n] = loser
            count += 1
        owners[best] = i
        partners[i] = best
    return bids
