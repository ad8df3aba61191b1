"""Kills (SIGKILL) on a cluster of three nodes: actors, workers, nodes, drivers and heads, at random moments.

Nodes join again, drivers and heads are restarted, and the same command resumes the run until it is finished. Then each
position of a committed iteration must be stored exactly once.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from alphac4.runs.reports import read_reports
from alphac4.runs.state import STATE_FILE, load_state
from alphac4.selfplay.replay import find_shards, load_shard
from alphac4.selfplay.samples import concatenate
from alphac4.storage.files import FileError
from campaigns.command import Findings

ITERATIONS = 5
SETTINGS = {
    "iterations": ITERATIONS,
    "positions_per_iteration": 1000,
    "machine": {"backend": "torch-fp32", "device": "cpu"},
    "network": {"channels": 8, "blocks": 1},
    "selfplay": {"parallel_games": 8, "full_visits": 12, "full_search_prob": 1.0},  # noise makes games differ
    "learning": {"batch_size": 64},
    "gate": {"pairs": 3, "simulations": 4}, "baseline": {"interval": 0, "simulations": []},
    "evaluation": {"interval": 0},
}  # fmt: skip
NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_log_monitor": False}
QUICK_TO_NOTICE = {
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 5000,
    "health_check_failure_threshold": 4,
    "worker_niceness": 0,
}
KINDS = {"actor": 0.45, "worker": 0.1, "node": 0.2, "driver": 0.17, "head": 0.08}  # probabilities
MAX_KILL_INTERVAL_S = 4.0
MAX_DUPLICATE_SHARE = 0.05  # share of positions; a block that is stored twice is a larger share
START_ATTEMPTS = 10  # attempts to start a cluster
PROGRESS_TIMEOUT_S = 900.0
DRIVER_TIMEOUT_S = 180.0  # for a driver to end after its head was killed


def attack(folder: Path, count: int, seed: int) -> Findings:
    """Kill parts of runs until there are ``count`` kills, and resume each run to its end."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    (folder / "settings.json").write_text(json.dumps(SETTINGS))
    rng, findings = np.random.default_rng(seed), Findings()
    while kills(findings) < count:
        run = folder / f"run-{findings.counts['runs']}"
        with contextlib.closing(Attack(run, folder / "settings.json", rng, findings, count)) as attacked:
            if problem := attacked.to_the_end():
                findings.failures.append(f"{run.name}: {problem}")
        findings.counts["runs"] += 1
    return findings


def kills(findings: Findings) -> int:
    return sum(findings.counts[f"{kind}s killed"] for kind in KINDS)


class Attack:
    """One run on a cluster, whose parts are killed."""

    def __init__(self, run: Path, settings: Path, rng: np.random.Generator, findings: Findings, count: int) -> None:
        self.run, self.settings, self.rng, self.findings, self.count = run, settings, rng, findings, count
        self.log = run.with_suffix(".log")
        self.seen: set[tuple[Path, int]] = set()  # shards and their modification times
        self.committed = 0  # iterations
        self.kept: dict[Path, bytes] = {}  # content of the shards of committed iterations
        self.cluster = self._start_cluster()
        self.driver = self._start_driver()
        self.lost_node = False  # since the driver was started
        self.next_node: float | None = None  # value of time.monotonic() at which a node joins again

    def to_the_end(self) -> str:
        """Kill parts until the run is finished; return a description of the problem, or ""."""
        progress = next_kill = time.monotonic()
        at_start, kind, patient = 0, None, False
        while True:
            time.sleep(0.1)
            now = time.monotonic()
            if self._look():
                progress = now
            status = self.driver.poll()
            if status == 0:
                return self._damage()
            if status is not None and self.lost_node:  # the driver was connected through this node
                self.findings.counts["drivers that died with their node"] += 1
                self.driver = self._start_driver()
                at_start, progress = self.committed, now
                continue
            if status is not None or now - progress > PROGRESS_TIMEOUT_S:
                return f"the driver ended with {status} or makes no progress: {self.log.read_text()[-2000:]}"
            if self.next_node is not None and now >= self.next_node:
                with contextlib.suppress(Exception):  # the start may time out, as in `_start_cluster`; retry later
                    self.cluster.add_node(**NODE)
                    self.next_node = None
            if now < next_kill or kills(self.findings) >= self.count:
                continue
            if kind is None:
                kind = str(self.rng.choice(list(KINDS), p=list(KINDS.values())))
                patient = kind in ("driver", "head") and self.rng.random() < 0.7
            if patient and self.committed == at_start:
                continue  # in most cases, let the driver commit an iteration before it is killed again
            if self._kill(kind):
                self.findings.counts[f"{kind}s killed"] += 1
                if kind in ("driver", "head"):
                    at_start, progress = self.committed, time.monotonic()
                kind, next_kill = None, time.monotonic() + self.rng.uniform(0, MAX_KILL_INTERVAL_S)

    def close(self) -> None:
        """Stop the driver and the cluster."""
        if self.driver.poll() is None:
            self.driver.kill()
            self.driver.wait()
        self.cluster.shutdown()

    def _kill(self, kind: str) -> bool:
        """Kill a part of this kind; return False if there is none."""
        if kind in ("actor", "worker"):
            with contextlib.suppress(ValueError, ProcessLookupError):  # there is none, or it has just ended
                processes = list(workers(self.cluster, "ray::RemoteActor" if kind == "actor" else "ray::"))
                os.kill(self.rng.choice(processes), signal.SIGKILL)
                return True
            return False
        if kind == "node":
            if self.next_node is not None or not self.cluster.worker_nodes:
                return False
            self.cluster.remove_node(self.rng.choice(list(self.cluster.worker_nodes)), allow_graceful=False)
            self.lost_node = True
            self.next_node = time.monotonic() + self.rng.uniform(0, MAX_KILL_INTERVAL_S)
        elif kind == "driver":
            self.driver.kill()
            self.driver.wait()
            self.driver = self._start_driver()
        else:
            self._kill_head()
        return True

    def _kill_head(self) -> None:
        """Kill the head, with or without its raylet and the driver, then restart both."""
        processes = self.cluster.head_node.all_processes
        for name in ("gcs_server", "raylet")[: 1 + self.rng.integers(2)]:
            processes[name][0].process.kill()
        if self.rng.random() < 0.5:
            self.driver.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.driver.wait(DRIVER_TIMEOUT_S)
        if self.driver.poll() is None:
            self.findings.failures.append(f"{self.run.name}: a driver without a head does not end")
            self.driver.kill()
        if self.driver.wait() not in (0, 1, 2, -signal.SIGKILL):
            self.findings.failures.append(
                f"{self.run.name}: a driver without a head ended with {self.driver.returncode}"
            )
        self.cluster.shutdown()
        self.next_node = None
        self.cluster = self._start_cluster()
        self.driver = self._start_driver()

    def _start_cluster(self) -> Any:
        from ray.cluster_utils import Cluster

        head = {**NODE, "include_dashboard": False, "no_monitor": True, "_system_config": QUICK_TO_NOTICE}
        for _ in range(START_ATTEMPTS):
            cluster = Cluster()
            with contextlib.suppress(Exception):  # on a busy machine, a node may exceed Ray's timeout of 30 s
                for node in (head, NODE, NODE):
                    cluster.add_node(**node)
                return cluster
            cluster.shutdown()
        raise RuntimeError(f"the cluster did not start in {START_ATTEMPTS} attempts")

    def _start_driver(self) -> subprocess.Popen[bytes]:
        self.lost_node = False
        command = ["train", "--run", str(self.run), "--settings", str(self.settings)]
        device = f"ray:{self.cluster.address}"
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "alphac4", *command, "--machine.device", device], stdout=log, stderr=log
            )

    def _look(self) -> bool:
        """Record new shards, and the content of committed ones, which must not change; return whether any are new."""
        before = len(self.seen)
        with contextlib.suppress(FileError):  # no iteration is committed yet
            self.committed = load_state(self.run / STATE_FILE).iteration
        for iteration, path in find_shards(self.run / "replay").items():
            with contextlib.suppress(FileNotFoundError):  # the iteration is being repeated
                self.seen.add((path, path.stat().st_mtime_ns))
                if iteration <= self.committed and path not in self.kept:
                    self.kept[path] = path.read_bytes()
        return len(self.seen) > before

    def _damage(self) -> str:
        """Return a description of the damage to the finished run's folder, or ""."""
        self._look()
        actual = {path: path.read_bytes() for path in self.kept if path.exists()}
        if changed := [path.name for path, content in self.kept.items() if actual.get(path) != content]:
            return f"shards of {self.committed} iterations are lost or were written twice: {changed}"
        try:
            self.findings.counts += ensure_folder(self.run)
        except AssertionError as error:
            return str(error)
        return ""


def workers(cluster: Any, name: str) -> Iterator[int]:
    """Yield the ids of processes that the nodes' daemons have started and whose command begins with ``name``."""
    for node in cluster.list_all_nodes():
        for entry in node.all_processes.get("raylet", []):
            with contextlib.suppress(psutil.Error):
                for child in psutil.Process(entry.process.pid).children():
                    if " ".join(child.cmdline()).startswith(name):
                        yield child.pid


def ensure_folder(run: Path, iterations: int = ITERATIONS) -> Counter[str]:
    """Return the numbers of shards and positions of a finished run, after asserting that each is stored once."""
    shards = {iteration: load_shard(path) for iteration, path in find_shards(run / "replay").items()}
    assert list(shards) == list(range(1, iterations + 1)), f"shards {list(shards)}"
    samples = concatenate(list(shards.values()))
    rows = Counter(b"".join(part.tobytes() for part in row) for row in zip(*samples.arrays().values(), strict=True))
    duplicates = len(samples) - len(rows)  # proven positions at the end of games may be equal
    assert duplicates < MAX_DUPLICATE_SHARE * len(samples), f"{duplicates} of {len(samples)} positions are duplicates"
    state, reports = load_state(run / STATE_FILE), read_reports(run / "reports.jsonl")
    numbers = [report.iteration for report in reports]
    assert [state.iteration, *numbers] == [iterations, *range(1, iterations + 1)], f"it ended after {numbers}"
    counted = {state.samples, reports[-1].samples_total}
    assert counted == {len(samples)}, f"{len(samples)} positions are stored, {counted} were counted"
    return Counter(shards=len(shards), positions=len(samples))
