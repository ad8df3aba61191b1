"""The setup script."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the script reads, and an environment without pip, such as `uv venv` makes."""
    folder = tmp_path_factory.mktemp("clone")
    (folder / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "setup.sh", folder / "scripts")
    for name in ("pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / ".venv"], check=True)
    return folder


@pytest.mark.skipif(sys.platform == "win32", reason="runs a shell script as a Python")
@pytest.mark.parametrize("variable", ["PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"])
def test_setup_fails_at_once_if_an_index_is_unreachable(variable: str, clone: Path) -> None:
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
