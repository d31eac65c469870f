"""Do samples come from a law? The sliced distance to it, against that of samples that do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from slicewise.distance import evaluate, problem_for, recipe_for, sliced_wasserstein
from slicewise.laws import Law
from slicewise.sampling import Generators
from slicewise.support import check_count, check_generator, takes_arrays
from slicewise.variants import Recipe, Variant


@dataclass(frozen=True, eq=False)
class Goodness:
    """What `goodness_of_fit` found.

    Attributes:
        statistic: SW_p between the samples and the law.
        p_value: The share of samples of the law, as many as were given, that lie no nearer to it; theirs counted in.
        null: The statistic of each of these, (n_null,).
    """

    statistic: float
    p_value: float
    null: Tensor

    def __repr__(self) -> str:
        return f"Goodness(statistic={self.statistic:.6g}, p_value={self.p_value:.4g}, {len(self.null)} draws)"


@takes_arrays("x")
def goodness_of_fit(
    x: Tensor,
    law: Law,
    variant: str | Variant | Recipe = "sw",
    *,
    p: float = 2,
    n_slices: int | None = None,
    n_null: int = 199,
    generator: Generators = 0,
    backend: str = "auto",
    **options: Any,
) -> Goodness:
    """Test whether samples come from a law that is known.

    The statistic is SW_p to the law. Its distribution under the law is simulated, by samples of the law of the same
    number on the same slices, so that the test is exact: if x are independent samples of the law, P(p_value ≤ α) ≤ α for
    every n, d and variant. Parameters that were estimated from x itself make it conservative.

    Args:
        x: Samples (n, d).
        law: A law of `slicewise.laws` that can be sampled.
        variant: A name in `VARIANTS` whose slices do not look at the samples, or such a `Recipe`.
        p, n_slices, backend, options: As in `sliced_wasserstein`.
        n_null: How many sets of samples to simulate. The smallest p-value is 1 / (n_null + 1).
        generator: Source of the slices and of the simulated samples: an int or a `torch.Generator`.

    Returns:
        A `Goodness`: `statistic`, `p_value` and `null`.

    Raises:
        ValueError: For arguments that do not fit together.

    >>> import slicewise as sw
    >>> x = sw.laws.Normal().sample(100, 3, generator=1)
    >>> sw.goodness_of_fit(x, sw.laws.Normal()).p_value > 0.05
    True
    >>> sw.goodness_of_fit(x + 0.5, sw.laws.Normal()).p_value
    0.005

    M. Hallin, G. Mordant, J. Segers, Multivariate goodness-of-fit tests based on Wasserstein distance, 2021.
    """
    check_count("n_null", n_null)
    if not isinstance(law, Law):
        raise ValueError(
            f"law is a {type(law).__name__}: give one of slicewise.laws, e.g. Normal(); two sets of samples are "
            f"compared by sliced_wasserstein"
        )
    if not isinstance(x, Tensor) or x.dim() != 2:
        got = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
        raise ValueError(f"x is {got}: give one set of samples (n, d)")
    check_generator(generator)
    if not (generator is None or isinstance(generator, (int, torch.Generator))):
        raise ValueError("generator is a list: give an int or a torch.Generator")
    source = generator
    if isinstance(source, int):
        source = torch.Generator().manual_seed(source)
    assert source is None or isinstance(source, torch.Generator)
    recipe = recipe_for(variant, n_slices, options)
    problem_for(x, law, p, None, None, recipe.convention, 0.0, backend)  # refuses what does not fit
    n, d = x.shape
    # One seed each for slices, the samples they may look at, and the null: what shares a seed is not independent.
    of_slices, of_first, *of_null = torch.randint(2**31, (n_null + 2,), generator=source).tolist()
    first = law.sample(n, d, generator=of_first).to(x)
    if first.dim() != 2:
        raise ValueError(f"{law!r} is a batch of laws: give one law, to test one set of samples")
    # Of samples that are from the law: slices that looked at x would not be those of the others.
    slices = evaluate(first, law, recipe, p=p, generator=of_slices, backend=backend).slices.detach()
    given = {"p": p, "slices": slices, "backend": backend}
    with torch.no_grad():
        statistic = float(sliced_wasserstein(x.detach(), law, recipe, **given))
        drawn = (law.sample(n, d, generator=seed).to(x) for seed in of_null)
        null = torch.stack([sliced_wasserstein(y, law, recipe, **given) for y in drawn]).double()
    p_value = (1 + int((null >= statistic).sum())) / (n_null + 1)
    return Goodness(statistic, p_value, null.cpu())
