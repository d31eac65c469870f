"""The same calls by `slicewise.pot` and by POT: plans, spheres, unbalanced distances; and the memory of a large plan."""
