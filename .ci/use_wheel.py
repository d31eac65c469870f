"""Run by `make dist` in an environment that holds the wheel and its requirements only."""

from importlib.metadata import version
from importlib.resources import files
from importlib.util import find_spec

import torch

import slicewise as sw

assert version("slicewise") == sw.__version__
assert files("slicewise").joinpath("py.typed").is_file()
assert find_spec("benchmarks") is None, "benchmarks are for a clone of the repository"
kernels = {file.name for file in files("slicewise.kernels.cuda").iterdir()}
assert kernels >= {"match.cu", "radix.cu", "draw.cu", "rows.cu", "frames.cu", "backproject.cu"}, (
    kernels
)
for package in ("slicewise.lab.report", "slicewise.lab.published", "slicewise.lab.templates"):
    names = {
        file.name for file in files("slicewise.lab").joinpath(package.split(".")[-1]).iterdir()
    }
    assert names & {"page.py", "results.csv", "report.html"}, (package, names)
x = torch.randn(2, 20, 5, requires_grad=True)
for name in sw.VARIANTS:
    value = sw.SlicedWasserstein(name)(x, torch.randn(15, 5))
    value.backward()
    assert value.isfinite()
found = sw.flow(x[0].detach(), torch.randn(20, 5), seeds=0)
assert found.converged, found
try:
    sw.wasserstein(x, torch.randn(15, 5))
except ImportError as missing:
    assert "slicewise[exact]" in str(missing), missing
else:
    raise AssertionError("an extra is installed: the environment was not empty")
print(f"slicewise {sw.__version__} from its wheel: {len(sw.VARIANTS)} variants work")
