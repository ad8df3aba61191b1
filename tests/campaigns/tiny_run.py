"""A run of seconds, made in forked children: they start warm, and may be killed."""

import contextlib
import faulthandler
import hashlib
import logging
import math
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from alphac4.checkpoint import load_checkpoint
from alphac4.selfplay import actor
from alphac4.selfplay.shards import load_shard
from alphac4.training.config import TrainConfig, from_dict
from alphac4.training.loop import TrainingLoop
from alphac4.training.monitor import Monitor
from alphac4.training.run_state import STATE_FILE, load_state

ITERATIONS = 3

SETTINGS: dict[str, Any] = {
    "iterations": ITERATIONS,
    "samples": 50,
    "backend": "torch-fp32",
    "device": "cpu",
    "keep_checkpoints": 1,
    "network": {"channels": 4, "blocks": 1, "head_channels": 2, "value_hidden": 4},
    "selfplay": {"games": 4, "full_simulations": 4, "fast_simulations": 2, "full_share": 0.5},
    "learning": {"batch_size": 16, "passes": 1.0},
    "gate": {"pairs": 1, "simulations": 2, "classic_every": 0, "classic_rollouts": []},
    "evaluation": {"every": 0},
}

# Everything that self-play may keep between games and learn besides, as a resumed run must find it again.
EXPLORING: dict[str, Any] = {
    "selfplay": SETTINGS["selfplay"]
    | {"fork_share": 0.5, "fork_by": "regret", "learn_proofs": True, "root_value": "best", "evaluation_cache": 256},
    "learning": SETTINGS["learning"] | {"merge_duplicates": True, "optimizer": "muon"},
}


def tiny_run(**changes: object) -> TrainConfig:
    """Its configuration."""
    return from_dict(SETTINGS | changes)


def prepare(folder: Path) -> None:
    """Make this process one whose children need not compile, and from which it is safe to fork."""
    logging.basicConfig(level=logging.ERROR, format="%(message)s", stream=sys.stderr)
    torch.set_num_threads(1)
    torch.set_num_threads = lambda _threads: None  # a pool of threads would not come along into a child
    tqdm.monitor_interval = 0
    Monitor._figures = lambda _self, _report: {}  # type: ignore[method-assign]  # two seconds of drawing an iteration
    actor.SECONDS_BETWEEN_BLOCKS = math.inf  # what is recorded when must not depend on the clock
    train(folder / "warm", tiny_run(iterations=1))


def train(folder: Path, config: TrainConfig | None = None) -> None:
    """Train to the end in this process."""
    with TrainingLoop.open(folder, config or tiny_run()) as loop:
        loop.close(loop.run())


def cut_blocks_often() -> None:
    """Let actors hand over every finished game, so that kills come between them."""
    actor.SECONDS_BETWEEN_BLOCKS = 0.0


def in_child(work: Callable[[], object], *, kill_after: float | None = None, limit: float = 60.0) -> int:
    """Do some work in a forked child; its exit status, or minus the signal that ended it.

    What it says goes to ``/dev/null``, but for the traceback of an unexpected error.

    Raises:
        TimeoutError: if it takes longer than ``limit`` seconds; it is ended then.
    """
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            faulthandler.dump_traceback_later(0.9 * limit)  # where it hangs, should it
            tqdm.set_lock(threading.RLock())  # a fork that is killed would keep the one that all share
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    timer = None
    if kill_after is not None:
        timer = threading.Timer(kill_after, _kill, (child,))
        timer.start()
    deadline = time.monotonic() + limit
    pause = 0.002
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        if time.monotonic() > deadline:
            _kill(child)
            os.waitpid(child, 0)
            raise TimeoutError(f"still at work after {limit} s")
        time.sleep(pause)
        pause = min(0.05, pause * 1.2)
    if timer is not None:
        timer.cancel()
        timer.join()
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _kill(process: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def kill_at_event(folder: Path, wanted: int) -> list[int]:
    """Kill this process just before its ``wanted``-th change to files in a folder; the list counts them."""
    place, seen = str(folder.resolve()), [0]

    def count() -> None:
        seen[0] += 1
        if seen[0] == wanted:
            os.kill(os.getpid(), signal.SIGKILL)

    def on_event(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            changes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) != 0
            if changes and isinstance(path, str | bytes) and os.fsdecode(path).startswith(place):
                count()
        elif event in ("os.rename", "os.remove", "os.link", "os.mkdir", "os.truncate") and os.fsdecode(
            arguments[0] if not isinstance(arguments[0], int) else ""
        ).startswith(place):
            count()

    sys.addaudithook(on_event)
    real = os.fsync

    def fsync(descriptor: int) -> None:
        count()  # written, but not flushed
        real(descriptor)

    os.fsync = fsync
    return seen


def outcome(folder: Path) -> dict[str, Any]:
    """The results of a finished run, without what depends on the clock and on interruptions."""
    state = load_state(folder / STATE_FILE)
    digest = hashlib.sha256()
    for name, tensor in sorted(state.learner.items()):
        digest.update(name.encode() + tensor.contiguous().numpy().tobytes())
    for name, array in sorted(state.actors.items()):
        digest.update(name.encode() + array.tobytes())
    networks = {}
    for path in sorted((folder / "checkpoints").iterdir()):
        checkpoint = load_checkpoint(path)
        weights = hashlib.sha256()
        for name, tensor in sorted(checkpoint.network.state_dict().items()):
            weights.update(name.encode() + tensor.contiguous().numpy().tobytes())
        networks[path.name] = (checkpoint.provenance["iteration"], weights.hexdigest())
    shards = {}
    for path in (folder / "replay").iterdir():  # by what they hold: the library writes its metadata in any order
        content = hashlib.sha256()
        for name, array in sorted(load_shard(path).arrays().items()):
            content.update(name.encode() + array.tobytes())
        shards[path.name] = content.hexdigest()
    return {
        "iteration": state.iteration,
        "best": state.best_iteration,
        "samples": state.samples,
        "state": digest.hexdigest(),
        "networks": networks,
        "shards": shards,
    }
