"""The package in other processes: it leaves the caller's process as it was, and does not need Linux."""

import contextlib
import json
import logging
import os
import re
import threading
from pathlib import Path

import pytest
import torch
from campaigns.tiny_run import SETTINGS
from helpers import run_python

from alphac4.machine import SharedSetting, quiet_logging
from alphac4.nn.backends import backend_names
from alphac4.nn.network import torch_seed

ROOT = Path(__file__).parents[2]
USES_OF_THE_PACKAGE = """
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
        "signals": [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)],
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
        "threads": [thread.name for thread in threading.enumerate()],
        "mallopt": mallopt_calls,
        "connections": connections,
    }

connections = []
CONNECTING = ("socket.connect", "socket.getaddrinfo", "urllib.Request")
sys.addaudithook(lambda event, details: event in CONNECTING and connections.append((event, details)))
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
    "positions_per_iteration": 100,
    "network": {"channels": 8, "blocks": 1},
    "selfplay": {"parallel_games": 32, "full_visits": 8, "fast_visits": 4},
    "learning": {"batch_size": 32, "replay_ratio": 0.5},
    "gate": {"pairs": 2, "simulations": 4}, "baseline": {"simulations": [], "pairs": 1},
    "evaluation": {"interval": 0},
    "machine": {"backend": "torch-fp32"},
}
alphac4.train(run="run", settings=settings)
check("training")
"""


@pytest.mark.slow
def test_the_package_does_not_change_the_callers_process(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "GOMP_SPINCOUNT"}
    environment["PYTHONPATH"] = str(ROOT)
    backends = [name for name in ("torch-fp32", "openvino-fp32") if name in backend_names("cpu")]
    run_python(USES_OF_THE_PACKAGE, *backends, cwd=tmp_path, env=environment)


# A program that hides /proc and POSIX-only modules and functions from the package, but not from libraries.
WITHOUT_LINUX = """
import builtins, errno, multiprocessing, os, shutil, signal, sys
import filelock, matplotlib, numba, psutil, tensorboard, torch, tqdm, tyro, torch.utils.tensorboard

PACKAGE = sys.argv[1]
MODULES = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}
FUNCTIONS = ["fork", "forkpty", "getloadavg", "geteuid", "getuid", "killpg", "mkfifo", "sched_getaffinity", "statvfs"]
import_module = builtins.__import__

def is_ours(frame):
    while "pathlib" in frame.f_code.co_filename:
        frame = frame.f_back
    return frame.f_code.co_filename.startswith(PACKAGE)

def refuse(name, *arguments, **more):
    if name.partition(".")[0] in MODULES and is_ours(sys._getframe(1)):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return import_module(name, *arguments, **more)

def on_event(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, os.PathLike)) and is_ours(sys._getframe(1)):
        path = os.fspath(arguments[0])
        if path.startswith("/proc"):
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        if os.path.isdir(path):
            raise PermissionError(errno.EACCES, "Windows opens no folders", path)

builtins.__import__ = refuse
sys.addaudithook(on_event)
usage = shutil.disk_usage('.')
shutil.disk_usage = lambda _path: usage  # has other code on Windows
for name in FUNCTIONS:
    delattr(os, name)
for name in ("SIGALRM", "SIGHUP", "SIGKILL", "SIGUSR1"):
    delattr(signal, name)
multiprocessing.context.DefaultContext.get_all_start_methods = lambda _self: ["spawn"]

from alphac4.cli import main
for line in sys.argv[2:]:
    assert main(line.split()) == 0, line
"""
# https://learn.microsoft.com/windows/win32/fileio/naming-a-file
INVALID_NAMES = re.compile(r'.*[<>:"/\\|?*\x00-\x1f].*|.*[. ]|(con|prn|aux|nul|com\d|lpt\d)(\..*)?', re.IGNORECASE)


@pytest.mark.slow
def test_training_and_search_do_not_need_linux(tmp_path: Path) -> None:
    """The names of all files are valid on Windows."""
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps(SETTINGS | {"iterations": 1, "machine": {"device": "cpu"}}))
    network = f"{tmp_path}/run/checkpoints/best.safetensors"
    lines = (
        f"train --run {tmp_path}/run --settings {settings}",
        f"search 4455 --player {network}@20",
        f"arena {network}@4 random --games 2 --processes 1 --output {tmp_path}/games.jsonl",
    )
    environment = {name: value for name, value in os.environ.items() if name != "ALPHAC4_CORES"}
    environment |= {"PYTHONPATH": str(ROOT), "LOGNAME": "somebody"}
    run_python(WITHOUT_LINUX, ROOT / "alphac4", *lines, env=environment)
    written = [path.relative_to(tmp_path) for path in tmp_path.rglob("*")]
    assert len(written) > 10
    assert not [path for path in written if any(map(INVALID_NAMES.fullmatch, path.parts))]


def test_the_last_of_overlapping_blocks_restores_a_setting() -> None:
    values = ["user's"]
    setting = SharedSetting(lambda: values[-1], values.append)
    first, second, third = (contextlib.ExitStack() for _ in range(3))
    first.enter_context(setting.changed_to("one"))
    second.enter_context(setting.changed_to("two"))
    first.close()
    assert values[-1] == "two"
    second.close()
    assert values[-1] == "user's"
    third.enter_context(setting.changed_to("three"))
    values.append("another of the user's")
    third.close()
    assert values[-1] == "another of the user's"


def test_overlapping_exports_restore_logging() -> None:
    before = logging.root.manager.disable
    with quiet_logging(logging.INFO), quiet_logging(logging.WARNING):
        assert logging.root.manager.disable == logging.WARNING
    assert logging.root.manager.disable == before


def test_seeded_blocks_of_several_threads_take_turns() -> None:
    def draw_elsewhere() -> None:
        with torch_seed(2):
            torch.rand(3)

    with torch_seed(1):
        expected = torch.rand(4).tolist()
    before, other = torch.get_rng_state(), threading.Thread(target=draw_elsewhere)
    with torch_seed(1):
        drawn = torch.rand(2).tolist()
        other.start()
        other.join(0.2)
        drawn += torch.rand(2).tolist()
    other.join()
    assert drawn == expected
    assert torch.equal(torch.get_rng_state(), before)


SEARCH_IN_A_CHILD = """
import os, signal, sys
import alphac4
agent = alphac4.load(sys.argv[1], threads=2)
agent.search(["44", "4"])
if (child := os.fork()) == 0:
    signal.alarm(60)
    for search in (lambda: agent.search(["33", "3"]), lambda: alphac4.load(sys.argv[1]).search("44")):
        try:
            search()
        except RuntimeError as error:
            print(str(error)[:44], flush=True)
    os._exit(0)
print(os.waitpid(child, 0)[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that forks processes")
@pytest.mark.parametrize(
    ("player", "error"), [("uct:20", ""), ("quick@20", "this process was forked from one that has lo\n")]
)
def test_a_search_in_a_forked_process_works_or_fails_at_once(player: str, error: str) -> None:
    assert run_python(SEARCH_IN_A_CHILD, player).stdout == 2 * error + "0\n"
