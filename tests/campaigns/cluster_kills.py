"""Kill -9 on a cluster of three nodes: actors, workers, nodes, drivers and heads, at random moments.

Nodes join again, drivers and heads are started again, and the same command goes on from the folder until its run is
finished. Then every position of a whole iteration must be there once.
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
    "samples": 1000,
    "machine": {"backend": "torch-fp32", "device": "cpu"},
    "network": {"channels": 8, "blocks": 1},
    "selfplay": {"games": 8, "full_simulations": 12, "full_search_prob": 1.0},  # noise tells games apart
    "learning": {"batch_size": 64},
    "gate": {"pairs": 3, "simulations": 4, "baseline_interval": 0, "baseline_rollouts": []},
    "evaluation": {"every": 0},
}  # fmt: skip
NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_log_monitor": False}
QUICK_TO_NOTICE = {
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 5000,
    "health_check_failure_threshold": 4,
    "worker_niceness": 0,
}
KINDS = {"actor": 0.45, "worker": 0.1, "node": 0.2, "driver": 0.17, "head": 0.08}  # how often which is killed
SECONDS_BETWEEN_KILLS = 4.0  # at most
MAX_DOUBLED = 0.05  # of the positions: a block that is there twice is a larger part
ATTEMPTS = 10  # at starting a node
SECONDS_WITHOUT_PROGRESS = 900.0  # then something waits for something that never comes
SECONDS_FOR_DRIVER = 180.0  # to end by itself once its head has gone


def attack(folder: Path, count: int, seed: int) -> Findings:
    """Kill until there were ``count`` kills, and let every run come to its end."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    (folder / "settings.json").write_text(json.dumps(SETTINGS))
    rng, found = np.random.default_rng(seed), Findings()
    while kills(found) < count:
        run = folder / f"run-{found.counts['runs']}"
        with contextlib.closing(Attack(run, folder / "settings.json", rng, found, count)) as attacked:
            if problem := attacked.to_the_end():
                found.failures.append(f"{run.name}: {problem}")
        found.counts["runs"] += 1
    return found


def kills(found: Findings) -> int:
    return sum(found.counts[f"{kind}s killed"] for kind in KINDS)


class Attack:
    """One run on a cluster, and what kills its parts."""

    def __init__(self, run: Path, settings: Path, rng: np.random.Generator, found: Findings, count: int) -> None:
        self.run, self.settings, self.rng, self.found, self.count = run, settings, rng, found, count
        self.log = run.with_suffix(".log")
        self.seen: set[tuple[Path, int]] = set()  # shards that were there, and when they were written
        self.whole = 0  # iterations
        self.kept: dict[Path, bytes] = {}  # content of the shards of whole iterations
        self.cluster = self._start_cluster()
        self.driver = self._start_driver()
        self.lost_node = False  # since the driver was started
        self.next_node: float | None = None  # time.monotonic() when one joins again

    def to_the_end(self) -> str:
        """Kill until the run is finished; what went wrong, if anything did."""
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
            if status is not None and self.lost_node:  # it was the one by which the driver belongs to the cluster
                self.found.counts["drivers that died with their node"] += 1
                self.driver = self._start_driver()
                at_start, progress = self.whole, now
                continue
            if status is not None or now - progress > SECONDS_WITHOUT_PROGRESS:
                return f"the driver ended with {status} or waits without end: {self.log.read_text()[-2000:]}"
            if self.next_node is not None and now >= self.next_node:
                with contextlib.suppress(Exception):  # see `_start_cluster`; the others go on, and it is tried again
                    self.cluster.add_node(**NODE)
                    self.next_node = None
            if now < next_kill or kills(self.found) >= self.count:
                continue
            if kind is None:
                kind = str(self.rng.choice(list(KINDS), p=list(KINDS.values())))
                patient = kind in ("driver", "head") and self.rng.random() < 0.7
            if patient and self.whole == at_start:
                continue  # let the driver get somewhere before the next one, more often than not
            if self._kill(kind):
                self.found.counts[f"{kind}s killed"] += 1
                if kind in ("driver", "head"):
                    at_start, progress = self.whole, time.monotonic()
                kind, next_kill = None, time.monotonic() + self.rng.uniform(0, SECONDS_BETWEEN_KILLS)

    def close(self) -> None:
        """End everything that this attack has started."""
        if self.driver.poll() is None:
            self.driver.kill()
            self.driver.wait()
        self.cluster.shutdown()

    def _kill(self, kind: str) -> bool:
        """Whether there was something to kill; if not, it is tried again until there is."""
        if kind in ("actor", "worker"):
            with contextlib.suppress(ValueError, ProcessLookupError):  # there is none, or none any more
                found = list(workers(self.cluster, "ray::RemoteActor" if kind == "actor" else "ray::"))
                os.kill(self.rng.choice(found), signal.SIGKILL)
                return True
            return False
        if kind == "node":
            if self.next_node is not None or not self.cluster.worker_nodes:
                return False
            self.cluster.remove_node(self.rng.choice(list(self.cluster.worker_nodes)), allow_graceful=False)
            self.lost_node = True
            self.next_node = time.monotonic() + self.rng.uniform(0, SECONDS_BETWEEN_KILLS)
        elif kind == "driver":
            self.driver.kill()
            self.driver.wait()
            self.driver = self._start_driver()
        else:
            self._kill_head()
        return True

    def _kill_head(self) -> None:
        """With its raylet or without, and with the driver or leaving that to end by itself."""
        processes = self.cluster.head_node.all_processes
        for name in ("gcs_server", "raylet")[: 1 + self.rng.integers(2)]:
            processes[name][0].process.kill()
        if self.rng.random() < 0.5:
            self.driver.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.driver.wait(SECONDS_FOR_DRIVER)
        if self.driver.poll() is None:
            self.found.failures.append(f"{self.run.name}: a driver without a head goes on")
            self.driver.kill()
        if self.driver.wait() not in (0, 1, 2, -signal.SIGKILL):
            self.found.failures.append(f"{self.run.name}: a driver without a head ended with {self.driver.returncode}")
        self.cluster.shutdown()
        self.next_node = None
        self.cluster = self._start_cluster()
        self.driver = self._start_driver()

    def _start_cluster(self) -> Any:
        from ray.cluster_utils import Cluster

        head = {**NODE, "include_dashboard": False, "no_monitor": True, "_system_config": QUICK_TO_NOTICE}
        for _ in range(ATTEMPTS):
            cluster = Cluster()
            with contextlib.suppress(Exception):  # on a busy machine a node may need more than Ray's half minute
                for node in (head, NODE, NODE):
                    cluster.add_node(**node)
                return cluster
            cluster.shutdown()
        raise RuntimeError("no cluster starts")

    def _start_driver(self) -> subprocess.Popen[bytes]:
        self.lost_node = False
        command = ["train", "--run", str(self.run), "--settings", str(self.settings)]
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "alphac4", *command, "--cluster", self.cluster.address], stdout=log, stderr=log
            )

    def _look(self) -> bool:
        """Note the shards that have come; whether there were any. Those of whole iterations are to stay as they are."""
        before = len(self.seen)
        with contextlib.suppress(FileError):  # there is none yet
            self.whole = load_state(self.run / STATE_FILE).iteration
        for iteration, path in find_shards(self.run / "replay").items():
            with contextlib.suppress(FileNotFoundError):  # of an iteration that is played again
                self.seen.add((path, path.stat().st_mtime_ns))
                if iteration <= self.whole and path not in self.kept:
                    self.kept[path] = path.read_bytes()
        return len(self.seen) > before

    def _damage(self) -> str:
        """Name the damage to the finished run's folder; empty if nothing is."""
        self._look()
        here = {path: path.read_bytes() for path in self.kept if path.exists()}
        if changed := [path.name for path, content in self.kept.items() if here.get(path) != content]:
            return f"shards of {self.whole} iterations are lost or were written twice: {changed}"
        try:
            self.found.counts += check_folder(self.run)
        except AssertionError as error:
            return str(error)
        return ""


def workers(cluster: Any, name: str) -> Iterator[int]:
    """The processes that the nodes' daemons have started and whose names begin so."""
    for node in cluster.list_all_nodes():
        for entry in node.all_processes.get("raylet", []):
            with contextlib.suppress(psutil.Error):
                for child in psutil.Process(entry.process.pid).children():
                    if " ".join(child.cmdline()).startswith(name):
                        yield child.pid


def check_folder(run: Path, iterations: int = ITERATIONS) -> Counter[str]:
    """The shards and positions of a finished run, or an AssertionError: each must be there once, and be counted."""
    shards = {iteration: load_shard(path) for iteration, path in find_shards(run / "replay").items()}
    assert list(shards) == list(range(1, iterations + 1)), f"shards {list(shards)}"
    samples = concatenate(list(shards.values()))
    rows = Counter(b"".join(part.tobytes() for part in row) for row in zip(*samples.arrays().values(), strict=True))
    doubled = len(samples) - len(rows)  # some ends of games are alike, and proven
    assert doubled < MAX_DOUBLED * len(samples), f"{doubled} of {len(samples)} positions are there twice"
    state, reports = load_state(run / STATE_FILE), read_reports(run / "reports.jsonl")
    numbers = [report.iteration for report in reports]
    assert [state.iteration, *numbers] == [iterations, *range(1, iterations + 1)], f"it has ended after {numbers}"
    counted = {state.samples, reports[-1].samples_total}
    assert counted == {len(samples)}, f"{len(samples)} positions are there, {counted} were counted"
    return Counter(shards=len(shards), positions=len(samples))
