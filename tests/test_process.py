"""Importing and calling the package leaves the caller's process as it was."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import alphac4
from alphac4.nn.backends import backend_names

PROGRAM = """
import logging, os, signal, sys, threading, warnings
import numba, numpy, torch
numpy.random.seed(1)

def threads_of_a_new_thread():
    counts = []
    thread = threading.Thread(target=lambda: counts.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    return counts

def state():
    return {
        "environment": sorted(os.environ.items()),
        "sys.path": list(sys.path),
        "excepthooks": (sys.excepthook, threading.excepthook, sys.unraisablehook),
        "signals": [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)],
        "PyTorch's threads": (torch.get_num_threads(), threads_of_a_new_thread(), torch.get_num_interop_threads()),
        "PyTorch's settings": (torch.get_default_dtype(), torch.is_grad_enabled(), torch.initial_seed()),
        "PyTorch's random state": hash(tuple(torch.get_rng_state().tolist())),
        "NumPy": (numpy.geterr(), hash(tuple(numpy.random.get_state()[1].tolist()))),
        "Numba": (numba.config.CACHE_DIR, numba.config.NUMBA_NUM_THREADS),
        "logging": (logging.root.manager.disable, logging.root.level, list(logging.root.handlers),
                    logging.getLogger("alphac4").level, list(logging.getLogger("alphac4").handlers)),
        "warnings": list(warnings.filters),
        "streams": (sys.stdin, sys.stdout, sys.stderr),
        "modules that cannot be imported": [name for name, module in sys.modules.items() if module is None],
        "recursion": sys.getrecursionlimit(),
        "mallopt": mallopt_calls,
    }

mallopt_calls = []
import ctypes
class Recording(ctypes.CDLL):
    def __getattr__(self, name):
        if name == "mallopt":
            mallopt_calls.append(name)
        return super().__getattr__(name)
ctypes.CDLL = Recording

torch.optim.AdamW([torch.zeros(1)])  # the first optimizer loads a compiler, which sets a variable and filters warnings
torch.set_num_threads(3)
before = state()

def check(part):
    after = state()
    for name in before:
        if before[name] != after[name] and isinstance(before[name], list):
            print("removed:", [item for item in before[name] if item not in after[name]], file=sys.stderr)
            print("added:", [item for item in after[name] if item not in before[name]], file=sys.stderr)
        assert before[name] == after[name], (part, name, before[name], after[name])

import importlib, pkgutil
import alphac4
for item in pkgutil.walk_packages(alphac4.__path__, "alphac4."):
    if "__main__" not in item.name:
        importlib.import_module(item.name)
check("imports")

for backend in sys.argv[1:]:
    agent = alphac4.load("quick@20", backend=backend)
    agent.search("44")
    agent.search(["44", "4455"])
    alphac4.analyze("112233")
    alphac4.play_match("quick@5", "uct:10", games=2)
    alphac4.evaluate("quick", simulations=(0,), count=2)
    check(backend)

settings = {
    "iterations": 1,
    "samples": 100,
    "network": {"channels": 8, "blocks": 1},
    "selfplay": {"games": 32, "full_simulations": 8, "fast_simulations": 4},
    "learning": {"batch_size": 32, "replay_ratio": 0.5},
    "gate": {"pairs": 2, "simulations": 4, "baseline_rollouts": [], "baseline_pairs": 1},
    "evaluation": {"interval": 0},
    "machine": {"backend": "torch-fp32"},
}
alphac4.train(run="run", settings=settings)
check("training")
"""


@pytest.mark.slow
def test_the_package_does_not_change_the_callers_process(tmp_path: Path) -> None:
    """A new process compares its state before and after each part."""
    environment = {name: value for name, value in os.environ.items() if name != "GOMP_SPINCOUNT"}
    environment["PYTHONPATH"] = str(Path(alphac4.__file__).parents[1])
    backends = [name for name in ("torch-fp32", "openvino-fp32") if name in backend_names("cpu")]
    command = [sys.executable, "-c", PROGRAM, *backends]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
