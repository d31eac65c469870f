"""The time of steps and of whole flows on a CUDA device: `python -m benchmarks.gpu`.

`contenders` has the other implementations, `floors` what the device allows, `timing` the measurements, `checks` what must
agree before a time counts, `report` the tables and targets.
"""
