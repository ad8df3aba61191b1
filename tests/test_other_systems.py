"""The package without modules and functions of Linux, as on Windows and macOS."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from campaigns.tiny_run import SETTINGS

ROOT = Path(__file__).parents[1]

# Removes /proc and POSIX-only modules and functions, for the package but not for libraries.
PROGRAM = """
import builtins, errno, multiprocessing, os, signal, sys
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
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(ROOT / "alphac4"), *lines],
        env=environment | {"PYTHONPATH": str(ROOT), "LOGNAME": "somebody"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    written = [path.relative_to(tmp_path) for path in tmp_path.rglob("*")]
    assert len(written) > 10
    assert not [path for path in written if any(map(INVALID_NAMES.fullmatch, path.parts))]
