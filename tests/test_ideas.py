"""Every idea of `examples/ideas` trains and is short."""

import ast
import runpy
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples" / "ideas"
IDEAS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "common")
MAX_LINES = 40  # lines of code, without docstrings and empty lines


@pytest.mark.slow
@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("name", IDEAS)
def test_idea_trains(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if name == "sweep":
        pytest.importorskip("optuna", reason="needs pip install optuna")
    options = [] if name == "sweep" else ["--run", str(tmp_path / "run")]
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--fast", *options])
    monkeypatch.syspath_prepend(FOLDER)
    runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    assert ("learning_rate" if name == "sweep" else "Trained 2 iterations in") in capsys.readouterr().out


@pytest.mark.parametrize("name", IDEAS)
def test_idea_has_few_lines_of_code(name: str) -> None:
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
