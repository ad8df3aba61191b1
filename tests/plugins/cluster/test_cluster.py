"""Tests with a Ray cluster: a head and two nodes with a core each, as processes of this machine."""

import contextlib
import copy
import itertools
import json
import logging
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from campaigns.cluster_kills import QUICK_TO_NOTICE, ensure_folder, workers
from campaigns.cluster_kills import SETTINGS as RUN

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # before Ray is imported
pytest.importorskip("ray", reason="needs pip install 'alphac4[cluster]'")
from ray.cluster_utils import Cluster

from alphac4.cli import main
from alphac4.compute import choose_compute
from alphac4.compute.cores import Compute
from alphac4.game import IllegalMove, Position
from alphac4.game.rules import STANDARD
from alphac4.mcts.puct import Puct
from alphac4.nn.network import PolicyValueNetwork
from alphac4.plugins.cluster.pool import RayPool
from alphac4.runs import judge as judging
from alphac4.runs.folder import RunFolder
from alphac4.runs.judge import measure_network
from alphac4.runs.reports import read_reports
from alphac4.runs.session import TrainingSession
from alphac4.selfplay.samples import Block
from alphac4.training.config import GateConfig, TrainConfig, from_dict
from alphac4.training.matches import Contender, Matches, PlayerProvider

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cluster")]

NODE = {"object_store_memory": 80 * 2**20}
LARGEST_BLOCK = 2 * 8 * 42  # positions


@pytest.fixture(scope="module")
def started() -> Iterator[Cluster]:
    head = {**NODE, "num_cpus": 0, "include_dashboard": False, "_system_config": QUICK_TO_NOTICE}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("OMP_PROC_BIND", "true")
            for _ in range(2):
                cluster.add_node(**NODE, num_cpus=1)
        yield cluster
    finally:
        cluster.shutdown()


@pytest.fixture
def cluster(started: Cluster) -> Cluster:
    """The cluster, with new nodes in place of those that the previous test killed."""
    while len(started.list_all_nodes()) < 3:
        started.add_node(**NODE, num_cpus=1)
    started.wait_for_nodes()
    return started


@pytest.fixture
def pool(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[RayPool]:
    monkeypatch.setattr("alphac4.plugins.cluster.pool.MAX_ATTEMPTS", 3)
    with contextlib.closing(choose_compute(f"ray:{cluster.address}", for_run=True)) as compute:
        pool = compute.pool()
        assert isinstance(pool, RayPool)
        yield pool
        pool.close()


def tiny(cluster: Cluster, **changes: Any) -> TrainConfig:
    machine = RUN["machine"] | {"device": f"ray:{cluster.address}"} | changes.pop("machine", {})
    return from_dict(RUN | {"iterations": 3, "positions_per_iteration": 1500, "machine": machine} | changes)


def test_a_run_on_a_cluster_resumes_on_one_machine(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("alphac4.training.loop.MIN_CORE_RATIO", 0)  # so that the cluster plays matches
    calls, call = set(), RayPool.call
    monkeypatch.setattr(RayPool, "call", lambda *given: calls.update(given[4:5]) or call(*given))
    config, run = tmp_path / "tiny.json", tmp_path / "run"
    monkeypatch.setattr(judging, "POSITIONS_PER_SET", 5)
    evaluation = {"interval": 2}
    config.write_text(json.dumps(RUN | {"iterations": 2, "positions_per_iteration": 700, "evaluation": evaluation}))
    command = ["train", "--run", str(run), "--settings", str(config)]
    assert main([*command, "--machine.device", f"ray:{cluster.address}"]) == 0
    assert "Trained 2 iterations" in capfd.readouterr().out
    assert calls == {"choose", "search"}  # called by matches and the judge
    ensure_folder(run, 2)
    for number, report in enumerate(read_reports(run / "reports.jsonl"), start=1):
        assert 700 * number <= report.samples_total < 700 * number + LARGEST_BLOCK
        statistics = report.selfplay.statistics
        assert (statistics["cluster/nodes"], statistics["cluster/lost"]) == (2, 0)
        assert statistics["cluster/staleness"] <= statistics["cluster/max_promotions_behind"] <= 2
    assert main([*command, "--iterations", "3", "--machine.device", "cpu"]) == 0
    ensure_folder(run, 3)


def test_a_run_survives_killed_actors_nodes_and_drivers(
    cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other actors replace lost ones, and no position is recorded twice.

    Both actors have played before one of them and the node of the other are killed, so that the run cannot end without
    a block of a replacement.
    """
    run, snapshot = tmp_path / "run", tmp_path / "snapshot"
    with TrainingSession(RunFolder(run, tiny(cluster))) as session:
        play, received, played = session.loop.actors.play, itertools.count(1), set[int]()
        first: list[int] = []  # processes of the first actors

        def kill_actor() -> None:
            first.extend(workers(cluster, "ray::RemoteActor"))
            os.kill(first[0], signal.SIGKILL)

        def kill_node() -> None:
            daemon = psutil.Process(first[1]).ppid()
            nodes = {node.all_processes["raylet"][0].process.pid: node for node in cluster.worker_nodes}
            cluster.remove_node(nodes[daemon], allow_graceful=False)

        kills = [kill_actor, lambda: None, lambda: None, kill_node]

        def play_and_kill(samples: int, on_block: Callable[[int, Block], None], *given: Any, **options: Any) -> None:
            def receive(index: int, block: Block) -> None:
                on_block(index, block)
                played.add(index)
                if next(received) == 4:
                    shutil.copytree(run, snapshot)  # as a killed driver would leave it
                if len(played) < 2:
                    time.sleep(5)  # the other actor is still starting
                elif kills:
                    kills.pop(0)()

            play(samples, receive, *given, **options)

        monkeypatch.setattr(session.loop.actors, "play", play_and_kill)
        with caplog.at_level(logging.WARNING):
            session.train()
    assert not kills
    ensure_folder(run, 3)
    assert "; its replacement on node " in caplog.text
    reports = read_reports(run / "reports.jsonl")
    assert sum(report.selfplay.statistics["cluster/lost"] for report in reports) >= 1

    with TrainingSession(RunFolder(snapshot, tiny(cluster, iterations=1))) as session:
        session.train()
    assert 1500 <= ensure_folder(snapshot, 1)["positions"] < 1500 + LARGEST_BLOCK


def test_missing_backends_gpus_and_versions_of_a_cluster_are_reported_in_one_line(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error_line: Callable[..., str]
) -> None:
    command = f"train --run {tmp_path}/run --machine.device ray:{cluster.address}"
    error = error_line(f"{command} --machine.backend cuda-bf16")
    assert "unknown backend 'cuda-bf16' for a cluster's cores; available: " in error
    assert "no node of the cluster has both a GPU and a core" in error_line(f"{command},cuda")
    monkeypatch.setattr("alphac4.plugins.cluster.connection.__version__", "99.0")
    assert "install the same on every node" in error_line(command)


def test_a_run_uses_the_gpus_of_a_cluster(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each GPU has an actor. The driver, which has no GPU, learns on its cores."""
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "1")  # for the node's processes; this one has already read it
    node = cluster.add_node(**NODE, num_cpus=1, num_gpus=1)
    board = {"rows": 4, "columns": 5, "run_length": 3}
    selfplay = {"parallel_games": 2, "full_visits": 3, "fast_visits": 2}
    machine = {"device": f"ray:{cluster.address},cuda", "backend": "cuda-trees"}
    config = tiny(cluster, iterations=1, positions_per_iteration=20, machine=machine, board=board, selfplay=selfplay)
    try:
        cluster.wait_for_nodes()
        with TrainingSession(RunFolder(tmp_path / "run", config)) as session:
            (report,) = session.train()
            assert (len(session.loop.actors), session.loop.actors.slots) == (1, 2)
    finally:
        cluster.remove_node(node)
    assert report.selfplay.backend == "cuda-trees"
    assert report.samples_total >= 20


def test_commands_have_the_same_results_on_a_cluster(
    cluster: Cluster, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ray sends the network's file. An interrupted arena resumes on the cluster."""

    def printed(*arguments: str) -> str:
        assert main([*arguments, "--backend", "torch-fp32"]) == 0
        return capsys.readouterr().out

    there = ("--device", f"ray:{cluster.address}")
    record = tmp_path / "games.jsonl"
    arena = ("arena", f"{checkpoint}@8", "negamax:2", "random", "--games", "60", "--json", "--output", str(record))
    here, lines = printed(*arena), record.read_text().splitlines()
    record.write_text("\n".join(lines[:3]) + "\n")
    assert printed(*arena, *there) == here
    assert sorted(record.read_text().splitlines()) == sorted(lines)
    assert len(lines) > 5

    selfplay = (
        "selfplay",
        "--output",
        str(tmp_path),
        "--samples",
        "100",
        "--parallel-games",
        "8",
        "--full-visits",
        "4",
    )
    assert "positions to" in printed(*selfplay, *there)


def numbers(report: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Yield path and value of the numbers in a JSON report, except times."""
    if isinstance(report, dict | list):
        for name, part in report.items() if isinstance(report, dict) else enumerate(report):
            yield from numbers(part, f"{path}/{name}")
    elif isinstance(report, int | float) and not path.endswith("/seconds"):
        yield path, report


def test_matches_of_a_run_are_the_same_on_a_cluster(pool: RayPool, network: PolicyValueNetwork) -> None:
    """The games of the gate and the report of the judge are compared, for one network after another."""
    compute = Compute(backend="torch-fp32", threads=2)
    gate = GateConfig(pairs=4, simulations=12)
    other = copy.deepcopy(network)
    torch.nn.init.zeros_(other.policy.weight)
    contenders = [Contender(network=each, iteration=index) for index, each in enumerate((network, other))]
    gates, judged = [], []
    for there in (None, pool):
        sides = [PlayerProvider(compute, network, STANDARD, Puct(), there, number) for number in range(2)]
        matches = Matches(sides, gate, STANDARD, 5, pool=there)
        reports = [matches.gate(*contenders), matches.gate(*reversed(contenders))]
        gates.append([replace(report, seconds=0.0) for report in reports])
        judged.append(dict(numbers([asdict(measure_network(each, sides[1])) for each in (other, network)])))
    assert gates[0] == gates[1]
    assert judged[1] == pytest.approx(judged[0], abs=1e-6)


def test_a_pool_completes_its_calls_when_processes_and_nodes_die(
    cluster: Cluster, pool: RayPool, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match="invalid literal"):  # the function's own exception
        pool.call(0, int, "x")

    def illegal_move() -> Position:
        return Position().play(9)

    with pytest.raises(IllegalMove, match="illegal move 9"):
        pool.call(0, illegal_move)

    def killed_once(number: int) -> int:
        if number == 3 and not (tmp_path / "begun").exists():
            (tmp_path / "begun").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return number**2

    def node_of_this_process() -> str:
        import ray

        return str(ray.get_runtime_context().get_node_id())

    assert pool.call(0, os.sched_getaffinity, 0) == os.sched_getaffinity(0)  # OpenMP would bind it to one core
    before = [pool.call(index, os.getpid) for index in range(2)]
    assert len(set(before)) == 2
    answers: list[Future[int]] = [pool.submit(killed_once, number) for number in range(6)]
    assert [answer.result(timeout=180) for answer in answers] == [number**2 for number in range(6)]
    after = {pool.call(index, os.getpid) for index in range(2)}
    assert len(after) == 2
    assert len(after - set(before)) == 1

    removed = pool.call(0, node_of_this_process)
    cluster.remove_node(next(node for node in cluster.worker_nodes if node.node_id == removed))
    assert [pool.call(index, int, "7") for index in range(2)] == [7, 7]
    assert removed not in [pool.call(index, node_of_this_process) for index in range(2)]

    with pytest.raises(RuntimeError, match="a process of the cluster died repeatedly: ") as caught:
        pool.call(0, os._exit, 1)
    assert "\n" not in str(caught.value)
    assert pool.submit(int, "5").result(timeout=180) == 5
