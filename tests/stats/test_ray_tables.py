"""Tables compared on a real Ray cluster of two nodes: the same to the last bit, also if one of them is killed."""

from __future__ import annotations

import os
import sys
import threading
import time

import numpy as np
import pytest

from slicewise.stats import compare_tables

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
ray = pytest.importorskip("ray")
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # of Ray's own sockets
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture(scope="module")
def nodes():
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
        made = Cluster(
            initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
        )
        other = made.add_node(num_cpus=1)
        made.wait_for_nodes()
        ray.init(made.address, logging_level="ERROR", log_to_driver=False)
        try:
            yield made, other
        finally:
            ray.shutdown()
            made.shutdown()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("tables")
    for seed, name in enumerate("ab"):
        (where / name).mkdir()
        for k in range(4):
            g = np.random.default_rng([seed, k])
            rows = {f"c{j}": g.normal(0.1 * seed, 1, 40_000) for j in range(4)}
            parquet.write_table(pa.table(rows), where / name / f"{k}.parquet", row_group_size=8_000)
    return where


def test_a_dataset_and_a_folder_are_what_one_process_finds(nodes, folder):
    alone = compare_tables(folder / "a", folder / "b", progress_bar=False)
    by_ray = compare_tables(folder / "a", folder / "b", engine="ray", progress_bar=False)
    assert by_ray.costs.tolist() == alone.costs.tolist()
    dataset = ray.data.read_parquet(str(folder / "b"))
    mixed = compare_tables(folder / "a", dataset, engine="ray", progress_bar=False)
    assert mixed.costs.tolist() == alone.costs.tolist()


def test_a_node_that_is_killed_changes_nothing(nodes, folder):
    """Last, since the node stays dead."""
    cluster, other = nodes
    alone = compare_tables(folder / "a", folder / "b", progress_bar=False)
    killed = threading.Event()

    def kill():
        time.sleep(2.0)
        cluster.remove_node(other, allow_graceful=False)
        killed.set()

    threading.Thread(target=kill).start()
    while True:  # comparisons one after another until one has seen the node die
        found = compare_tables(folder / "a", folder / "b", engine="ray", progress_bar=False)
        assert found.costs.tolist() == alone.costs.tolist()
        if killed.is_set():
            break
    assert sum(node["Alive"] for node in ray.nodes()) == 1
