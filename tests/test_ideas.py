"""Every idea of `examples/ideas` trains, and is as short as it is meant to be."""

import ast
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples" / "ideas"
IDEAS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "common")
MAX_LINES = 40  # of code, without the header, empty lines and docstrings


@pytest.mark.slow
@pytest.mark.parametrize("name", IDEAS)
def test_an_idea_trains(name: str, tmp_path: Path) -> None:
    if name == "sweep" and importlib.util.find_spec("optuna") is None:
        pytest.skip("needs pip install optuna")
    command = [sys.executable, str(FOLDER / f"{name}.py"), "--fast"]
    command += [] if name == "sweep" else ["--run", str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    assert ("learning_rate" if name == "sweep" else "Trained 2 iterations in") in done.stdout


@pytest.mark.parametrize("name", IDEAS)
def test_an_idea_takes_few_lines(name: str) -> None:
    text = (FOLDER / f"{name}.py").read_text()
    tree = ast.parse(text)
    documented = [node for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)]
    inside = {
        line
        for node in documented
        if ast.get_docstring(node)
        for line in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
    }
    code = [line for number, line in enumerate(text.splitlines(), 1) if number not in inside and line.strip()]
    assert len(code) <= MAX_LINES
