"""Statistics on sets of samples: do two differ, where and how surely; which are alike; what is their mean.

`two_sample` is a permutation test on `relabeling`s of a pool.

Imports `distance` and the rooms before it. Used by `lab`; its functions are public.
"""

from slicewise.stats.two_sample import TwoSampleTest, two_sample_test

__all__ = ["TwoSampleTest", "two_sample_test"]
