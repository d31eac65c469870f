"""How many steps flows and trainings take, each against what is promised: `python -m benchmarks.steps`.

`flows` has whole flows, `local` the behavior near the target, `rates` and `training` networks over learning rates.
"""
