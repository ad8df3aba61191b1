"""Nothing that is learned depends on the solver: proved on copies of the package that break the rule."""

import ast
import inspect
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import alphac4
from alphac4.runs.session import TrainingSession

PACKAGE = Path(alphac4.__file__).parent
CONTRACT = "The solver judges and never teaches"
SOLVER = "from alphac4.solver import shared_solver"
EVALUATION = "from alphac4.evaluation.answers import judge_sets"


def contracts(package: Path) -> str:
    """Output of ``lint-imports`` for a package beside a ``pyproject.toml``."""
    code = "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"
    environment = os.environ | {"PYTHONPATH": str(package.parent)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=package.parent, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == ("BROKEN" in done.stdout), done.stderr
    return done.stdout


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the package's code and of its contracts."""
    left_out = shutil.ignore_patterns("__pycache__", "static", "local", "sets", "networks")
    shutil.copytree(PACKAGE, tmp_path / "alphac4", ignore=left_out)
    shutil.copy(PACKAGE.parent / "pyproject.toml", tmp_path)
    return tmp_path / "alphac4"


def test_every_import_of_the_judge_breaks_the_contract(copy: Path) -> None:
    """Wherever something is learned, played or promoted."""
    assert f"{CONTRACT}" in contracts(copy)
    assert "BROKEN" not in contracts(copy)
    modules = (
        "training.learner",
        "training.matches",
        "training.loop",
        "runs.session",
        "compute.gpu.trees",
        "compute.cores",
    )
    for module in modules:
        path = copy / f"{module.replace('.', '/')}.py"
        path.write_text(f"{path.read_text()}\n{SOLVER}\n{EVALUATION}\n")
    said = contracts(copy).split(f"\n{CONTRACT}")[-1]
    for module in modules:
        for judge in ("solver", "evaluation.answers"):
            assert f"- alphac4.{module} -> alphac4.{judge} (l." in " ".join(said.split())


def test_another_module_is_no_way_around(copy: Path) -> None:
    """A helper that asks the solver, imported by the gate, breaks it too; so does the judge, asked by it."""
    (copy / "arena" / "hints.py").write_text(f'"""Hints."""\n\n{SOLVER}\n')
    path = copy / "training" / "matches.py"
    before = path.read_text()
    path.write_text(f"{before}\nfrom alphac4.arena import hints\n")
    assert "alphac4.arena.hints" in contracts(copy)
    path.write_text(f"{before}\nfrom alphac4.runs import judge\n")
    assert "Only the session asks the judge BROKEN" in contracts(copy)


def uses(function: object, name: str) -> list[str]:
    """Names called in a function with a variable as an argument; the variable is used nowhere else."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    called = [
        ast.unparse(call.func)
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        for argument in [*call.args, *(keyword.value for keyword in call.keywords)]
        if isinstance(argument, ast.Name) and argument.id == name
    ]
    read = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == name]
    assert sum(isinstance(node.ctx, ast.Load) for node in read) == len(called)
    return called


def test_only_the_report_gets_the_verdict() -> None:
    """The judge is asked once, when an iteration is over, and what it says goes into the report alone."""
    assert inspect.getsource(TrainingSession).count("judge(") == 1
    assert "verdict = judge(" in inspect.getsource(TrainingSession.commit)
    assert uses(TrainingSession.commit, "verdict") == ["IterationReport"]


def test_no_module_goes_through_the_packages_own_names() -> None:
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [name.name for name in node.names] if isinstance(node, ast.Import) else []
            assert "alphac4" not in names, path
            if isinstance(node, ast.ImportFrom) and node.module == "alphac4":
                assert {name.name for name in node.names} <= SUBPACKAGES, path


SUBPACKAGES = {folder.name for folder in PACKAGE.iterdir() if folder.is_dir()}
