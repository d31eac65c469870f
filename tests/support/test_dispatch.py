"""Kernels are found whichever room a program imports first."""

from __future__ import annotations

import subprocess
import sys
import textwrap

# Ways into the library, and the distance by them.
ROUTES = [
    "import slicewise; f = slicewise.sliced_wasserstein",
    "from slicewise import sliced_wasserstein as f",
    "from slicewise import *; f = sliced_wasserstein",
    "from slicewise.distance import sliced_wasserstein as f",
    "from slicewise.distance.evaluation import sliced_wasserstein as f",
    "import slicewise.flows; f = slicewise.distance.sliced_wasserstein",
    "import slicewise.lab.data; from slicewise import sliced_wasserstein as f",
]


def fresh(code):
    """What a program prints in a process of its own."""
    run = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_distance_is_computed_by_the_kernels():
    """By every route; the package is forgotten in between, and torch, which takes longest, is not."""
    said = fresh(
        f"""
        import sys, torch
        x, y = torch.randn(2, 9, 3)
        for route in {ROUTES!r}:
            for module in [one for one in sys.modules if one.partition(".")[0] == "slicewise"]:
                del sys.modules[module]
            names = {{}}
            exec(route, names)
            assert "slicewise.kernels" not in sys.modules or "*" in route, route
            names["f"](x, y)
            from slicewise.distance.request import _registered_matcher
            from slicewise.kernels import backends, matcher
            chosen = _registered_matcher("auto", x.device)
            assert chosen is matcher(backends()["cpu"], x.device), (route, chosen)
            print(chosen.__module__)
        """
    )
    assert said.split() == ["slicewise.kernels.cpu"] * len(ROUTES)


def test_whoever_asks_first_finds_them():
    """Matchings and draws ask without a distance. One that was registered before is kept."""
    said = fresh(
        """
        import sys
        from slicewise.support import dispatch, matching_loops, register, registered
        mine = object()
        register(mine)
        assert registered() is mine
        dispatch._registered = None
        assert "slicewise.kernels" not in sys.modules
        loops = matching_loops()
        from slicewise.kernels import backends
        assert (loops is not None) == (backends()["cpu"] == "numba")
        print(type(registered()).__name__)
        """
    )
    assert said == "Chosen"


def test_compiled_code_may_be_the_first_to_ask():
    """Without a graph break, though no name of the package was asked for before: imports are not traced."""
    fresh(
        """
        import torch
        import slicewise as sw
        def distance(x, y, slices):
            return sw.sliced_wasserstein(x, y, slices=slices)
        x, y = torch.randn(2, 9, 3)
        slices = torch.eye(3)
        found = torch.compile(distance, fullgraph=True, backend="eager")(x, y, slices)
        torch.testing.assert_close(found, distance(x, y, slices))
        """
    )
