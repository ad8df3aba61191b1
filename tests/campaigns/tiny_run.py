"""A run of seconds, made in forked children: they start warm, and may be killed."""

import dataclasses
import faulthandler
import functools
import hashlib
import logging
import math
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from alphac4.cli import main as alphac4
from alphac4.compute import cores
from alphac4.runs.reports import read_reports
from alphac4.runs.session import TrainingSession
from alphac4.runs.state import STATE_FILE, load_state
from alphac4.runs.tensorboard import Monitor
from alphac4.selfplay.replay import load_shard
from alphac4.storage.checkpoints import load_checkpoint
from alphac4.training.config import TrainConfig, from_dict

ITERATIONS = 3
SETTINGS: dict[str, Any] = {
    "iterations": ITERATIONS,
    "samples": 50,
    "machine": {"backend": "torch-fp32", "device": "cpu", "keep_checkpoints": 1},
    "network": {"channels": 4, "blocks": 1},
    "selfplay": {"games": 4, "full_simulations": 4, "fast_simulations": 2, "full_search_prob": 0.5},
    "learning": {"batch_size": 16, "passes": 1.0, "optimizer": "adamw", "fast_search_weight": 0.0},
    "gate": {"pairs": 1, "simulations": 2, "baseline_interval": 0, "baseline_rollouts": []},
    "evaluation": {"every": 0},
}
# Other ways to search and to learn, which a resumed run must go on with as well.
EXPLORING: dict[str, Any] = {
    "selfplay": SETTINGS["selfplay"] | {"policy_target": "visits"},
    "learning": SETTINGS["learning"] | {"fast_search_weight": 0.5, "optimizer": "muon"},
}
# Parts of a report that depend on the clock, on interruptions, or on what an actor's cache has kept.
OF_THE_MOMENT = {
    *("seconds", "seconds_total", "games_total", "evaluations_total", "simulations", "evaluations"),
    *("cached_evaluations", "network_share", "tree_share", "time_shares", "memory_mb"),
}


def tiny_run(**changes: object) -> TrainConfig:
    return from_dict(SETTINGS | changes)


@functools.cache
def prepare() -> None:
    """Make this process, for good, one whose children need not compile, and from which it is safe to fork."""
    logging.basicConfig(level=logging.ERROR, format="%(message)s", stream=sys.stderr)
    torch.set_num_threads(1)
    torch.set_num_threads = lambda _threads: None  # a pool of threads would not come along into a child
    tqdm.monitor_interval = 0
    Monitor._figures = lambda _self, _report: {}  # type: ignore[method-assign]  # two seconds of drawing an iteration
    cores.MIN_GAMES = 1  # so that several actors play these few games
    with tempfile.TemporaryDirectory() as folder:
        train(Path(folder) / "warm", tiny_run(iterations=1))


def train(folder: Path, config: TrainConfig | None = None) -> None:
    """Train to the end in this process."""
    with TrainingSession(folder, config or tiny_run()) as training:
        training.train()
        training.play_closing_matches()


def in_child(work: Callable[[], object], *, kill_after: float = math.inf, limit: float = 120.0) -> int:
    """Do some work in a forked child; its exit status, or minus the signal that ended it.

    What it says goes to ``/dev/null``, but for the traceback of an unexpected error.

    Raises:
        TimeoutError: if it takes longer than ``limit`` seconds; it is ended then.
    """
    sys.stdout.flush()
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            faulthandler.dump_traceback_later(0.9 * limit)  # where it hangs, should it
            tqdm.set_lock(threading.RLock())  # a fork that is killed would keep the one that all share
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        passed = time.monotonic() - started
        if passed > min(kill_after, limit):
            os.kill(child, signal.SIGKILL)
        if passed > limit:
            os.waitpid(child, 0)
            raise TimeoutError(f"still at work after {limit} s")
        time.sleep(0.005)


def train_by_command(run: Path, settings: Path, first: Callable[[], object] = lambda: None) -> tuple[int, str]:
    """Exit code of `alphac4 train` in a child, and its standard error."""
    said = settings.with_suffix(".said")

    def work() -> None:
        with said.open("w") as file:
            os.dup2(file.fileno(), 2)
        first()
        os._exit(alphac4(["train", "--run", str(run), "--settings", str(settings)]))

    return in_child(work), said.read_text()


def kill_at_event(folder: Path, wanted: int) -> list[int]:
    """Kill this process just before its ``wanted``-th change to files in a folder; the list counts them."""
    place, seen, flush = str(folder.resolve()), [0], os.fsync

    def count(path: object = place) -> None:
        if isinstance(path, str | bytes) and os.fsdecode(path).startswith(place):
            seen[0] += 1
            if seen[0] == wanted:
                os.kill(os.getpid(), signal.SIGKILL)

    def on_event(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                count(path)
        elif event in ("os.rename", "os.remove", "os.link", "os.mkdir", "os.truncate"):
            count(arguments[0])

    def fsync(descriptor: int) -> None:
        count()  # written, but not flushed
        flush(descriptor)

    sys.addaudithook(on_event)
    os.fsync = fsync
    return seen


def outcome(folder: Path) -> dict[str, Any]:
    """The results of a finished run, without what depends on the clock and on interruptions."""
    state = load_state(folder / STATE_FILE)
    checkpoints = {path.name: load_checkpoint(path) for path in sorted((folder / "checkpoints").iterdir())}
    return {
        "iteration": state.iteration,
        "best": state.best_iteration,
        "samples": state.samples,
        "state": digest(state.learner) + digest(state.actors),
        "networks": {
            name: (checkpoint.provenance["iteration"], digest(checkpoint.network.state_dict()))
            for name, checkpoint in checkpoints.items()
        },
        "reports": [lasting(dataclasses.asdict(report)) for report in read_reports(folder / "reports.jsonl")],
        "replay": {path.name: digest(load_shard(path).arrays()) for path in (folder / "replay").iterdir()},
    }


def lasting(report: Any) -> Any:
    """A report without what is `OF_THE_MOMENT`."""
    if isinstance(report, dict):
        return {name: lasting(part) for name, part in report.items() if name not in OF_THE_MOMENT}
    return [lasting(part) for part in report] if isinstance(report, list) else report


def digest(arrays: Mapping[str, Any]) -> str:
    """A digest of arrays or tensors and their names."""
    found = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        found.update(name.encode() + np.ascontiguousarray(array).tobytes())
    return found.hexdigest()
