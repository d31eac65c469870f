"""The time and memory of one step on a CPU, against other implementations: `python -m benchmarks.speed`.

`workloads` lists what is timed and the targets, `contenders` the implementations, `timing` and `scaling` the measurements;
`ranks` times several processes.
"""
