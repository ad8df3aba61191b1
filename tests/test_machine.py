import contextlib
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from alphac4.game import Position
from alphac4.machine import BlockEndedError, worker_threads
from alphac4.mcts import Budget
from alphac4.mcts.network_search import NetworkSearch

DISPLAY = "import alphac4.nn.network"  # loads PyTorch, whose OpenMP then prints what it runs by


def spin_count(**settings: str) -> str:
    """What GNU's OpenMP itself says of how often a waiting thread looks before it sleeps."""
    decided = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    environment = {name: value for name, value in os.environ.items() if name not in decided}
    environment |= {"OMP_DISPLAY_ENV": "verbose", **settings}
    shown = subprocess.run(
        [sys.executable, "-c", DISPLAY], env=environment, capture_output=True, text=True, timeout=120, check=True
    ).stderr
    lines = [line for line in shown.splitlines() if "GOMP_SPINCOUNT" in line]
    if not lines:
        pytest.skip("PyTorch is built with another OpenMP here")
    return lines[0].split("'")[1]


def test_threads_sleep_soon_while_they_wait_for_each_other() -> None:
    """A thread that spins for long takes the core that the others wait for."""
    assert spin_count() == "10000"


def test_what_the_user_says_of_waiting_threads_holds() -> None:
    """Either variable of the environment."""
    assert spin_count(GOMP_SPINCOUNT="77") == "77"
    assert spin_count(OMP_WAIT_POLICY="passive") == "0"


def test_what_threads_do_ends_after_an_interrupted_block() -> None:
    """A search that would take hours; the program waits for all its threads before it ends."""
    asked = threading.Event()

    class Endless:
        def evaluate(self, planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            asked.set()
            time.sleep(0.1)
            return np.zeros((len(planes), 7), np.float32), np.full((len(planes), 3), 1 / 3, np.float32)

    search = NetworkSearch(Endless(), rng=np.random.default_rng(0))
    with contextlib.suppress(KeyboardInterrupt), worker_threads(1) as pool:
        found = pool.submit(search.search, [Position()], Budget(simulations=100_000))
        assert asked.wait(60)
        raise KeyboardInterrupt
    assert isinstance(found.exception(60), BlockEndedError)
