import ast
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from alphac4.cli import main
from alphac4.cluster import connection

PACKAGE = Path(__file__).parents[1] / "alphac4"


def test_only_the_cluster_package_knows_ray() -> None:
    """No other module imports it, by a statement or by its name; `alphac4 doctor` looks whether it is installed."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []
            if any(name == "ray" or name.startswith("ray.") for name in names):
                found.add(path.relative_to(PACKAGE).parts[0] if path.name != "installation.py" else "doctor")
    assert found == {"cluster", "doctor"}


@pytest.mark.slow
def test_ray_is_not_loaded_without_a_cluster() -> None:
    """It takes seconds, which ordinary commands do not wait for."""
    code = (
        "import sys, alphac4.commands.train; from alphac4.compute import choose; choose('cpu', 'torch-fp32');"
        "print([name for name in sys.modules if name.split('.')[0] == 'ray' or name.startswith('alphac4.cluster')])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_missing_ray_is_reported_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what to install."""
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(["train", "--run", str(tmp_path), "--cluster", "auto"]) == 2
    assert capsys.readouterr().err == "alphac4 train: a cluster needs Ray: pip install 'alphac4[cluster]'\n"


def test_an_address_that_is_no_longer_a_cluster_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where something else has the port that "auto" stands for and never says a word."""
    pytest.importorskip("ray", reason="needs pip install 'alphac4[cluster]'")
    monkeypatch.setattr(connection, "SECONDS_TO_CONNECT", 0.2)
    with socket.socket() as silent:
        silent.bind(("", 0))
        silent.listen()
        for port in (silent.getsockname()[1], 9):
            monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{port}")
            assert main(["train", "--run", str(tmp_path), "--cluster", "auto"]) == 2
            line = capsys.readouterr().err
            assert re.search(rf"no Ray cluster at \S+:{port}: ", line)
            assert line.count("\n") == 1
