import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from campaigns.cluster_kills import SETTINGS

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # before Ray is imported
pytest.importorskip("ray", reason="needs pip install 'alphac4[cluster]'")
from ray.cluster_utils import Cluster

from alphac4.cli import main
from alphac4.cluster.connection import Node
from alphac4.training.config import from_dict
from alphac4.training.loop import TrainingLoop

pytestmark = [pytest.mark.beside, pytest.mark.slow]

NODE = {"object_store_memory": 80 * 2**20}
TINY = SETTINGS | {
    "iterations": 2,
    "samples": 20,
    "device": "auto",
    "backend": "auto",
    "board": {"rows": 4, "columns": 5, "run_length": 3},
    "selfplay": {"games": 8, "device_games": 2, "full_simulations": 3, "fast_simulations": 2},
}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A head, and a node with a GPU that Numba's simulator stands in for; it has two cores besides."""
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "1")  # for its processes: this one has read it already
    found = Cluster(initialize_head=True, head_node_args={**NODE, "num_cpus": 1, "include_dashboard": False})
    found.add_node(**NODE, num_cpus=2, num_gpus=1)
    found.wait_for_nodes()
    yield found
    found.shutdown()


def test_a_run_plays_on_the_gpus_of_a_cluster(cluster: Cluster, tmp_path: Path) -> None:
    """One actor on each, with the games of a GPU; the driver, which has none, learns on its cores."""
    with TrainingLoop.open(tmp_path / "run", from_dict(TINY), cluster=cluster.address) as loop:
        history = loop.run()
        assert len(loop.actors) == 1
        assert loop.actors.slots == 2
    for report in history:
        assert report.selfplay.evaluator == "device-float32"
        assert report.selfplay.cluster is not None
        assert (report.selfplay.cluster.actors, report.selfplay.cluster.lost) == (1, 0)
    assert history[-1].samples_total >= 40


def test_a_cluster_without_gpus_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In one line, as does one with another backend than was asked for."""
    found = Cluster(initialize_head=True, head_node_args={**NODE, "num_cpus": 1, "include_dashboard": False})
    try:
        for option, value, line in (
            ("backend", "device-float16", "no backend 'device-float16' on a cluster's cores; available: "),
            ("backend", "nonsense", "no backend 'nonsense' on a cluster's cores; available: "),
            ("device", "cuda", "no node of the cluster has a GPU and a core beside it: use --device cpu"),
        ):
            train = ["train", "--run", str(tmp_path), f"--{option}", value, "--cluster", found.address]
            assert main(train) == 2
            assert capsys.readouterr().err.startswith(f"alphac4 train: {line}")
    finally:
        found.shutdown()


def test_a_gpu_without_a_core_beside_it_plays_nothing() -> None:
    """As on a head that was started with `--num-cpus 0`: the others' cores play."""
    nodes = [Node(identity="head", cores=0, gpus=1), Node(identity="worker", cores=4, gpus=0)]
    assert [sum(node.offers(device) for node in nodes) for device in ("cpu", "cuda")] == [4, 0]
    assert Node(identity="other", cores=1, gpus=2).offers("cuda") == 1
