"""Sweeps on a real Ray cluster of two nodes: the same rows, whoever is killed; and nothing outlives them."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from slicewise.lab import experiments
from slicewise.lab.errors import UserError
from slicewise.lab.study import ray_cluster as clusters
from slicewise.lab.study import ray_engine
from slicewise.lab.study.engines import Job, SerialEngine
from slicewise.lab.study.ray_engine import RayEngine
from slicewise.lab.study.run import Result, Run
from slicewise.lab.study.store import Store
from slicewise.lab.study.sweep import sweep
from tests.lab.cli.test_study import said, small, wrong
from tests.lab.study.test_sweep import Plain, everything
from tests.sweep_to_kill import cells

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.cluster
HERE = Path(__file__).parents[2]


def wait_for(true, seconds=60):
    patience = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < patience, "waited in vain"
        time.sleep(0.02)
    return found


def node_here():
    return ray.get_runtime_context().get_node_id()


@dataclass(frozen=True)
class Noted:
    """A cell that notes where it begins, `name@node`, and then does as its kind."""

    name: str
    folder: Path
    how: str = ""
    alone: bool = False
    beside: int = 0  # so many others have begun, before it goes on

    @property
    def runs(self):
        return tuple(Run("test", self.name, "", "", None, seed, {}) for seed in (0, 1))

    def device(self, asked):
        return asked

    def measure(self, runs, device, checkpoint=None):
        (self.folder / f"{self.name}@{node_here()}").touch()
        arrays = {}
        if self.how in ("caught", "held"):
            # Warm processes would be through with all cells before a new node has made its first.
            (trap,) = (path.name.split()[1] for path in self.folder.glob("trap *"))
            wait_for(lambda: list(self.folder.glob(f"*@{trap}")), 300)
            if trap == node_here():
                # For ever; or until told, and then what came of it stays there.
                told = self.folder / ("never" if self.how == "caught" else "go")
                wait_for(told.exists, 600)
        if self.how == "held":
            arrays = {"way": np.full(1_000_000, 1.5)}
        if self.how == "waits":
            wait_for((self.folder / "go").exists, 600)
        wait_for(lambda: len(begun(self.folder)) > self.beside)
        if device == "cuda":
            stand_in_for_a_gpu()
        if self.how == "one at a time":
            (self.folder / "somebody").touch(exist_ok=False)
            time.sleep(0.3)
            (self.folder / "somebody").unlink()
        seen = {"threads": torch.get_num_threads(), "gpus": len(ray.get_gpu_ids())}
        return [Result(run, "made", 1.0, 2, measures=seen, arrays=arrays) for run in runs]


def stand_in_for_a_gpu():
    """For the process of one task; a cluster can be told that it has a GPU, torch cannot."""
    torch.cuda.get_device_name = lambda device: "pretended GPU"


def begun(folder, name="*"):
    return sorted(path.name.split("@")[0] for path in folder.glob(f"{name}@*"))


def ways():
    """Where nodes find the cells of these tests, and the package as it is found here."""
    return os.pathsep.join(path for path in (str(HERE), *sys.path) if path)


@pytest.fixture(scope="module")
def two_nodes():
    """The head with one core; a node with two and a GPU, as it believes."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", ways())
        head = {"num_cpus": 1, "include_dashboard": False}
        made = Cluster(initialize_head=True, head_node_args=head)
        try:
            made.add_node(num_cpus=2, num_gpus=1)
            made.wait_for_nodes()
            yield made
        finally:
            ray.shutdown()
            made.shutdown()  # asks that no process of it is left


@pytest.fixture
def cluster(two_nodes):
    """With one connection for many tests, whose processes then serve them all: torch takes seconds to import."""
    if not ray.is_initialized():
        ray.init(two_nodes.address, logging_level="ERROR", log_to_driver=False)
    return two_nodes


@pytest.fixture
def unconnected(two_nodes):
    ray.shutdown()
    return two_nodes


@pytest.fixture
def one_thread():
    """As tasks have it: the device of a run is also how many threads it had."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_the_same_rows_as_the_local_engine(tmp_path, cluster, one_thread):
    some = cells()[:6]  # two variants; every objective and every way to end
    for name in ("local", "ray"):
        engine = SerialEngine() if name == "local" else RayEngine()
        with Store(tmp_path / f"{name}.db") as store:
            found = sweep(some, store, engine=engine)
            assert (found.failed, found.made) == ({}, 2 * (6 + 6 + 2))
    assert engine.description == "2 nodes of a Ray cluster"
    rows, arrays = everything(tmp_path / "ray.db")
    expected_rows, expected_arrays = everything(tmp_path / "local.db")
    assert rows == expected_rows
    assert arrays == expected_arrays
    assert {row["status"] for row in rows} == {"out of steps", "diverged", "arrived"}
    assert any(array is not None for array in arrays.values())
    assert not (tmp_path / "ray.db.cells").exists()


def test_all_cores_of_all_nodes_work(tmp_path, cluster):
    with Store(tmp_path / "runs.db") as store, RayEngine() as engine:
        three = [Noted(f"c{i}", tmp_path, beside=2) for i in range(3)]
        assert not sweep(three, store, engine=engine).failed
    assert len({path.name.split("@")[1] for path in tmp_path.glob("*@*")}) == 2


def test_more_cells_than_are_handed_over_at_a_time(tmp_path, cluster, monkeypatch):
    monkeypatch.setattr(ray_engine, "_IN_FLIGHT", 3)
    with Store(tmp_path / "runs.db") as store, RayEngine() as engine:
        found = sweep([Plain(f"c{i}", (0, 1)) for i in range(10)], store, engine=engine)
        assert (found.made, found.failed) == (20, {})


@contextlib.contextmanager
def killed_later(cluster, folder, ready, num_cpus=1):
    """A node that is killed, at once and for good, when `ready` says so."""
    node = cluster.add_node(num_cpus=num_cpus)
    (folder / f"trap {node.node_id}").touch()

    def kill():
        wait_for(lambda: ready(node.node_id), 240)
        cluster.remove_node(node, allow_graceful=False)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield node
    finally:
        killer.join()
        if node in cluster.worker_nodes:
            cluster.remove_node(node)
        # Ray takes a while to be sure of it.
        wait_for(lambda: node.node_id not in [one["NodeID"] for one in ray.nodes() if one["Alive"]])


@pytest.mark.slow
def test_a_node_killed_in_the_middle_loses_nothing(tmp_path, cluster):
    many = [Noted(f"c{i:02}", tmp_path, "caught") for i in range(20)]
    with RayEngine() as engine, Store(tmp_path / "runs.db") as store:
        at_work = lambda node: list(tmp_path.glob(f"*@{node}"))  # noqa: E731
        with killed_later(cluster, tmp_path, at_work) as node:
            found = sweep(many, store, engine=engine)
        assert (found.failed, found.made) == ({}, 2 * len(many))
    (caught,) = tmp_path.glob(f"*@{node.node_id}")
    assert len(begun(tmp_path, caught.name.split("@")[0])) == 2, "it was to be made twice"
    rows, _ = everything(tmp_path / "runs.db")
    kept = sorted((row["setting"], row["seed"]) for row in rows)
    assert kept == sorted((cell.name, seed) for cell in many for seed in (0, 1))


@pytest.mark.slow
def test_a_result_lost_before_it_was_fetched_is_made_again(tmp_path, cluster):
    # Four cores in all: each cell has one, the last of them on the node that will be lost.
    many = [Noted(f"c{i}", tmp_path, "held") for i in range(4)]
    jobs = [Job(cell, cell.runs, "cpu") for cell in many]
    done = []
    with RayEngine() as engine:
        results_are_there = (tmp_path / "stored").exists
        with killed_later(cluster, tmp_path, lambda node: results_are_there()) as node:
            found = engine(jobs)
            done += [next(found) for _ in range(3)]
            (held,) = wait_for(lambda: list(tmp_path.glob(f"*@{node.node_id}")))
            (tmp_path / "go").touch()
            time.sleep(2)  # it is done now, and nobody asks for what came of it
            (tmp_path / "stored").touch()
        done += found
    assert [one.error for one in done] == [""] * 4
    assert {one.job.cell.name for one in done} == {cell.name for cell in many}
    assert all((one.results[0].arrays["way"] == 1.5).all() for one in done)
    assert len(begun(tmp_path, held.name.split("@")[0])) == 2, "it was fetched before"


@pytest.mark.slow
def test_what_is_timed_moves_to_another_node_of_the_kind(tmp_path, cluster, monkeypatch):
    """The kind is a CPU of two threads: not the head, which has one core."""
    with (
        RayEngine() as engine,
        Store(tmp_path / "runs.db") as store,
        killed_later(cluster, tmp_path, lambda node: begun(tmp_path), num_cpus=2) as node,
    ):
        machine = engine.machine("cpu")
        assert machine.endswith("CPU, 2 threads")
        able = engine._cluster.able
        first = lambda one: (one["NodeID"] != node.node_id, one["Resources"]["CPU"])  # noqa: E731
        monkeypatch.setattr(engine._cluster, "able", lambda device: sorted(able(device), key=first))
        found = sweep([Noted("timed", tmp_path, "caught", alone=True)], store, engine=engine)
        assert (found.failed, found.made) == ({}, 2)
        assert {row["device"] for row in store.rows()} == {machine}
        assert {row["measures"]["threads"] for row in store.rows()} == {2}
    assert len(begun(tmp_path)) == 2


def test_a_cell_that_kills_its_process_fails_alone(tmp_path, cluster, capfd):
    many = [Plain(f"c{i}", (0,)) for i in range(4)]
    with RayEngine() as engine, Store(tmp_path / "runs.db") as store:
        found = sweep([Plain("dies", (0,), "dies"), *many], store, engine=engine)
        assert set(found.failed) == {"dies"}
        assert found.failed["dies"].startswith("lost by the cluster, WorkerCrashedError: ")
        assert {row["setting"] for row in store.rows()} == {cell.name for cell in many}


def test_errors_of_a_cell_are_its_own(tmp_path, cluster):
    with RayEngine() as engine, Store(tmp_path / "runs.db") as store:
        found = sweep([Plain("a", (0,), "fails"), Plain("b", (0,))], store, engine=engine)
        assert found.failed == {"a": "ValueError: it was\nto be"}
        assert [row["setting"] for row in store.rows()] == ["b"]


def test_a_long_cell_keeps_its_file_only_on_a_shared_disk(tmp_path):
    @dataclass(frozen=True)
    class Where(Plain):
        def measure(self, runs, device, checkpoint=None):
            return [Result(run, str(checkpoint), 1.0) for run in runs]

    job = Job(Where("a", (0,)), Where("a", (0,)).runs, "cpu", tmp_path / "runs.db.cells")
    with ray_engine._marked([job]) as mark:
        assert mark.parent == job.scratch
        (found,) = ray_engine._make(job, mark, torch.get_num_threads()).results
        assert found.status == str(job.checkpoint)
    (found,) = ray_engine._make(job, mark, torch.get_num_threads()).results
    assert found.status == "None", "elsewhere there is no mark"


@pytest.mark.slow
def test_shares_of_a_gpu(tmp_path, cluster):
    def made(how, **share):
        folder = tmp_path / how
        folder.mkdir()
        both = [Noted(f"{how} {i}", folder, how, beside=int(how == "together")) for i in range(2)]
        with RayEngine(**share) as engine, Store(folder / "runs.db") as store:
            assert engine.device("auto") == "cuda"
            assert sweep(both, store, device="cuda", engine=engine).failed == {}
            assert {row["device"] for row in store.rows()} == {"pretended GPU"}
            assert {row["measures"]["gpus"] for row in store.rows()} == {1}

    made("together", gpus=0.5)
    made("one at a time")


def test_devices_are_those_of_the_cluster(cluster):
    with RayEngine(cpus=2) as engine:
        assert engine.device("cpu") == "cpu"
        # It has a GPU and torch does not see it: that is said before anything is made.
        if not torch.cuda.is_available():
            with pytest.raises(UserError, match="cannot be used"):
                engine.machine(engine.device("auto"))
        with pytest.raises(UserError, match="--device cuda:1: on a Ray cluster"):
            engine.device("cuda:1")
    has = r"has --cpus-per-task 3; .* are (1 and 0 / 2 and 1|2 and 1 / 1 and 0): give fewer"
    with RayEngine(cpus=3) as engine, pytest.raises(UserError, match=has):
        engine.device("auto")


def fails(threads):
    raise ValueError("it was to be")


def ends(threads):
    return threads


def goes_on(folder, threads):
    (folder / f"it@{node_here()}").touch()
    wait_for((folder / "never").exists, 600)


def test_only_what_goes_on_is_cancelled(tmp_path, cluster, monkeypatch):
    """Ray aborts the whole process if a task is cancelled while its reply is being taken in."""
    cancelled = []
    cancel = ray.cancel
    monkeypatch.setattr(
        ray, "cancel", lambda one, **how: (cancelled.append(one), cancel(one, **how))
    )
    ours = clusters.Cluster(None, 1.0, 1.0, quiet=True)
    for _ in range(50):
        with pytest.raises(ValueError, match="it was to be"):
            ours.at(ours.alive()[0], "cpu", fails)
    assert cancelled == []
    done, going = ours.submit("done", "cpu", ends), ours.submit("going", "cpu", goes_on, tmp_path)
    wait_for(lambda: begun(tmp_path) and ray.wait([done], timeout=1)[0])
    ours.cancel(one for one in (done, going))
    assert cancelled == [going]
    with pytest.raises(ours.Lost):
        ray.get(going, timeout=60)
    ours.cancel([])
    assert ray.get(done) == 1


def test_a_connection_of_the_callers_is_left(cluster):
    RayEngine("127.0.0.1:1").close()
    assert ray.is_initialized()


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(experiments.EXPERIMENTS, "gradient-flow", small)
    return tmp_path


RAY = ("reproduce", "gradient-flow", "--engine", "ray")


@pytest.mark.slow
def test_the_command(here, unconnected, capsys):
    on = (*RAY, "--address", unconnected.address, "--device", "cpu")
    heard = said(capsys, *on, "--cpus-per-task", 1)
    assert heard.out.splitlines() == ["runs.db: 3 runs made", "report: report/index.html"]
    assert ", on 2 nodes of a Ray cluster, " in heard.err.splitlines()[0]
    again = said(capsys, *on, "--no-report")
    assert again.out.splitlines() == ["runs.db: 0 runs made, 3 were stored already"]
    said(capsys, "reproduce", "gradient-flow", "--jobs", 1, "-q", "--store", "local.db")
    assert not ray.is_initialized()
    ours, theirs = everything(here / "runs.db"), everything(here / "local.db")
    for row in ours[0] + theirs[0]:
        del row["device"]  # how many threads
    assert ours == theirs


def test_mistakes(here, unconnected, capsys, monkeypatch):
    assert "--engine" in wrong(capsys, "reproduce", "all", "--engine", "spark")
    for option in ("--address", "--cpus-per-task", "--gpus-per-task"):
        line = wrong(capsys, "reproduce", "all", option, "1")
        assert f"{option} 1" in line
        assert "--engine ray" in line
    assert "--jobs 2 is for --engine local" in wrong(capsys, *RAY, "--jobs", 2)
    for count in (0, -1, 1.5, "nan", "inf"):
        assert f"--cpus-per-task {count}" in wrong(capsys, *RAY, "--cpus-per-task", count)
    for share in (0, -1, 2, "nan"):
        assert f"--gpus-per-task {share}" in wrong(capsys, *RAY, "--gpus-per-task", share)
    for address in ("nonsense", "ray://head:10001", "head:port", "head:70000"):
        assert "give host:port" in wrong(capsys, *RAY, "--address", address)
    monkeypatch.setitem(sys.modules, "ray", None)
    assert "pip install 'slicewise[ray]'" in wrong(capsys, *RAY)
    assert not (here / "runs.db").exists()


def test_an_address_where_there_is_no_cluster(here, unconnected, capsys, monkeypatch):
    begun = time.monotonic()
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        assert f"--address {address}: there is no answer" in wrong(
            capsys, *RAY, "--address", address
        )
        monkeypatch.setenv("RAY_ADDRESS", address)
        assert f"--address {address}: there is no answer" in wrong(capsys, *RAY)
    assert time.monotonic() - begun < 10
    monkeypatch.setattr(clusters, "_PATIENCE", 4)
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        assert "is no Ray cluster" in wrong(capsys, *RAY, "--address", address)
    assert time.monotonic() - begun < 30
    assert not (here / "runs.db").exists()


INTERRUPTED = """
import sys
from slicewise.lab import experiments
from slicewise.lab.cli import main
from tests.lab.study.test_ray import to_interrupt
experiments.EXPERIMENTS["theory"] = lambda asked: to_interrupt(sys.argv[1])
sys.exit(main(["reproduce", "theory", "--engine", "ray", "--address", "local", "--no-report"]))
"""


def to_interrupt(folder):
    return [Noted(f"c{i}", Path(folder), "waits" if i else "") for i in range(4)]


@pytest.mark.slow
def test_interrupting_and_going_on(tmp_path, cluster):
    """Ctrl-C while tasks run: exit 130, one line, no process left; then on to the end, by another engine."""
    with tempfile.TemporaryDirectory(dir="/tmp") as session:
        child = subprocess.Popen(
            [sys.executable, "-c", INTERRUPTED, str(tmp_path)],
            cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
            env={**os.environ, "PYTHONPATH": ways(), "RAY_TMPDIR": session, "HOME": session},
        )  # fmt: skip
        assert child.stderr.readline().startswith("8 runs in 4 cells, on 1 node of a Ray cluster")
        assert child.stderr.readline().startswith("[1/4] c0: 2 runs")
        wait_for(lambda: begun(tmp_path, "c1"))
        os.killpg(child.pid, signal.SIGINT)
        _, heard = child.communicate(timeout=60)
        assert child.returncode == 130, heard
        (line,) = heard.splitlines()
        assert line.endswith("repeat the command to resume")
        left = subprocess.run(["ps", "-e", "-o", "args="], capture_output=True, text=True).stdout
        assert "ps -e" in left
        assert session not in left
    (tmp_path / "go").touch()
    with RayEngine() as engine, Store(tmp_path / "runs.db") as store:
        found = sweep(to_interrupt(tmp_path), store, engine=engine)
        assert (found.made, found.there, found.failed) == (6, 2, {})
