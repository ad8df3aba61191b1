"""The setup script."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The files that the script reads, and an existing environment: this one."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "setup.sh", tmp_path / "scripts")
    for name in ("pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    return tmp_path


@pytest.mark.skipif(sys.platform == "win32", reason="runs a shell script as a Python")
def test_setup_fails_at_once_if_an_index_is_unreachable(clone: Path) -> None:
    variable = "PIP_EXTRA_INDEX_URL"
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # without listening
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/simple"
        environment = os.environ | {variable: url, "no_proxy": "127.0.0.1"}
        done = subprocess.run(
            [clone / "scripts" / "setup.sh", "web"], env=environment, capture_output=True, text=True, check=False
        )
    assert done.returncode == 2
    assert done.stderr.startswith(f"setup.sh: cannot reach the package index {url}: ")
    assert variable in done.stderr
    assert "installing" not in done.stdout


@pytest.mark.slow
def test_setup_adds_pip_to_an_environment_without_it(clone: Path) -> None:
    """`uv venv` makes such environments."""
    environment, python = clone / ".venv", clone / ".venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", environment], check=True)
    subprocess.run(
        [clone / "scripts" / "setup.sh"], env=os.environ | {"PIP_INDEX_URL": "http://127.0.0.1:1"}, check=False
    )
    subprocess.run([python, "-m", "pip", "--version"], check=True)
