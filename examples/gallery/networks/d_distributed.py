"""
The loss of a batch is not the mean of its shards' losses
=========================================================

On several processes, each has a part of the batch. Averaging their losses, as data-parallel training does for most losses,
optimizes something else here: a distance between small sets is larger. With ``group=`` all processes compute the one loss
of all samples; they exchange projections, not samples. This example starts two processes with torchrun.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import torch

import slicewise as sw

program = """
import json, sys
import torch
import torch.distributed as dist
import slicewise as sw

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
found = []
for n in (16, 32, 64, 128, 256):
    generator = torch.Generator().manual_seed(n)
    x, y = torch.randn(2, n, 8, generator=generator, dtype=torch.float64)  # equal laws; all samples of both sets
    mine, theirs = x[rank::size], y[rank::size]                            # what this process has
    together = sw.SlicedWasserstein(n_slices=50, generator=0, group=dist.group.WORLD)
    apart = sw.SlicedWasserstein(n_slices=50, generator=0)
    mean = apart(mine, theirs)
    dist.all_reduce(mean)
    found.append([n, together(mine, theirs).item(), mean.item() / size])
if rank == 0:
    json.dump(found, open(sys.argv[1], "w"))
dist.barrier()  # a process that leaves while another still works may be aborted
dist.destroy_process_group()
"""
with tempfile.TemporaryDirectory() as folder:
    script, answer = Path(folder, "two.py"), Path(folder, "found.json")
    script.write_text(program)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run([*launch, script, answer], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(answer.read_text())

alone = []
for n, _, _ in found:  # the same on one process
    x, y = torch.randn(2, n, 8, generator=torch.Generator().manual_seed(n), dtype=torch.float64)
    alone.append(sw.SlicedWasserstein(n_slices=50, generator=0)(x, y).item())

sizes, together, mean = (list(column) for column in zip(*found, strict=True))
fig, ax = plt.subplots(figsize=(7, 3.8))
ax.loglog(sizes, alone, "o", ms=10, mfc="none", color="k", label="one process with all samples")
ax.loglog(sizes, together, "s-", ms=4, label="two processes, group=: one loss")
ax.loglog(sizes, mean, "^-", label="two processes, mean of two losses")
ax.set(xlabel="samples in the whole batch", ylabel="SW$_2^2$ of two sets of one law")
ax.set_title(
    f"The mean of shards is {mean[-1] / alone[-1]:.1f} times the loss of the batch; group= is exact"
)
ax.legend()
plt.show()

assert max(abs(a - b) for a, b in zip(alone, together, strict=True)) < 1e-10
assert all(m > 1.3 * a for m, a in zip(mean, alone, strict=True))
