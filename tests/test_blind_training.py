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
from alphac4.training.loop import TrainingLoop
from alphac4.training.reporting import describe_iteration

PACKAGE = Path(alphac4.__file__).parent
CONTRACT = "The solver judges and never teaches"
SOLVER = "from alphac4.solver import shared_solver"
EVALUATION = "from alphac4.evaluation.accuracy import judge_moves"


def contracts(package: Path) -> subprocess.CompletedProcess[str]:
    """What ``lint-imports`` says of a package beside a ``pyproject.toml``."""
    code = "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=package.parent,
        env=os.environ | {"PYTHONPATH": str(package.parent)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the package's code and of its contracts."""
    shutil.copytree(PACKAGE, tmp_path / "alphac4", ignore=lambda _folder, names: [n for n in names if n in IGNORED])
    shutil.copy(PACKAGE.parent / "pyproject.toml", tmp_path)
    return tmp_path / "alphac4"


IGNORED = ("__pycache__", "static", "local", "sets", "networks")


def test_the_contracts_hold_for_an_unchanged_copy(copy: Path) -> None:
    """So that what the tests below see comes from the imports that they add."""
    result = contracts(copy)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("line", [SOLVER, EVALUATION])
@pytest.mark.parametrize(
    "module",
    ["training/learner.py", "training/promotion.py", "cuda/actor.py", "compute/cores.py", "training/loop.py"],
)
def test_an_import_of_the_judge_breaks_the_contract(copy: Path, module: str, line: str) -> None:
    """Wherever something is learned, played or promoted, and in the loop, which may ask the judge alone."""
    path = copy / module
    path.write_text(f"{path.read_text()}\n{line}\n")
    result = contracts(copy)
    assert result.returncode == 1
    assert CONTRACT in result.stdout
    assert "BROKEN" in result.stdout.split(CONTRACT)[1].split("KEPT")[0]


def test_another_module_is_no_way_around(copy: Path) -> None:
    """A helper that asks the solver, imported by promotion, breaks it too; so does the judge, asked by promotion."""
    (copy / "arena" / "hints.py").write_text(f'"""Hints."""\n\n{SOLVER}\n')
    path = copy / "training" / "promotion.py"
    before = path.read_text()
    path.write_text(f"{before}\nfrom alphac4.arena import hints\n")
    assert "alphac4.arena.hints" in contracts(copy).stdout
    path.write_text(f"{before}\nfrom alphac4.training import judging\n")
    result = contracts(copy)
    assert result.returncode == 1
    assert "Only the loop asks the judge BROKEN" in result.stdout


def test_only_the_report_gets_the_verdict() -> None:
    """In the loop the judge is asked once, after the gate, and only `describe_iteration` is given what it says."""
    source = ast.parse(textwrap.dedent(inspect.getsource(TrainingLoop)))
    asked = [
        node
        for node in ast.walk(source)
        if isinstance(node, ast.Attribute) and node.attr == "judge" and isinstance(node.ctx, ast.Load)
    ]
    assert [ast.unparse(node) for node in asked] == ["self.judge.judge", "self.judge"]
    iterate = next(node for node in ast.walk(source) if isinstance(node, ast.FunctionDef) and node.name == "_iterate")
    assigned = [
        ast.unparse(node.targets[0])
        for node in ast.walk(iterate)
        if isinstance(node, ast.Assign) and "self.judge.judge" in ast.unparse(node.value)
    ]
    assert assigned == ["verdict"]
    uses = [
        call
        for call in ast.walk(iterate)
        if isinstance(call, ast.Call)
        and any(isinstance(name, ast.Name) and name.id == "verdict" for name in [*call.args])
    ]
    assert [ast.unparse(call.func) for call in uses] == ["describe_iteration"]
    names = [node for node in ast.walk(iterate) if isinstance(node, ast.Name) and node.id == "verdict"]
    assert len(names) == 2  # where it is given, and where the report takes it
    report = ast.parse(inspect.getsource(describe_iteration))
    shown = [
        ast.unparse(call.func)
        for call in ast.walk(report)
        if isinstance(call, ast.Call)
        and any(
            isinstance(name, ast.Name) and name.id == "verdict"
            for name in [*call.args, *(keyword.value for keyword in call.keywords)]
        )
    ]
    assert shown == ["IterationReport", "find_warnings", "find_stalls"]
    assert sum(isinstance(node, ast.Name) and node.id == "verdict" for node in ast.walk(report)) == 3


def test_no_module_goes_through_the_packages_own_names() -> None:
    """`alphac4.solve` and its like are loaded at their first use, which no contract sees: they are for others."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [name.name for name in node.names] if isinstance(node, ast.Import) else []
            assert "alphac4" not in names, path
            if isinstance(node, ast.ImportFrom) and node.module == "alphac4":
                assert {name.name for name in node.names} <= SUBPACKAGES, path


SUBPACKAGES = {folder.name for folder in PACKAGE.iterdir() if folder.is_dir()}
