"""Learning does not depend on the solver: import contracts and tests detect code that breaks this rule."""

import ast
import inspect
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import alphac4
from alphac4.runs.session import TrainingSession

PACKAGE = Path(alphac4.__file__).parent
CONTRACT = "The solver does not influence training"
SOLVER = "from alphac4.solver import shared_solver"
EVALUATION = "from alphac4.evaluation.metrics import judge_sets"


def contracts(package: Path) -> str:
    code = "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"
    environment = os.environ | {"PYTHONPATH": str(package.parent)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=package.parent, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == ("BROKEN" in done.stdout), done.stderr
    return done.stdout


def test_imports_of_solver_or_evaluation_break_an_import_contract(tmp_path: Path) -> None:
    """Add such imports to copies of modules that learn, play or promote, directly, through a helper or `runs.judge`."""
    left_out = shutil.ignore_patterns("__pycache__", "static", "local", "sets", "networks")
    copy = shutil.copytree(PACKAGE, tmp_path / "alphac4", ignore=left_out)
    shutil.copy(PACKAGE.parent / "pyproject.toml", tmp_path)
    modules = ("training.learner", "training.loop", "runs.session", "compute.cores")
    paths = (path for name in ("actors", "learner", "trees") for path in PACKAGE.glob(f"plugins/*/{name}.py"))
    modules += tuple(f"plugins.{path.parent.name}.{path.stem}" for path in paths)
    for module in modules:
        path = copy / f"{module.replace('.', '/')}.py"
        path.write_text(f"{path.read_text()}\n{SOLVER}\n{EVALUATION}\n")
    (copy / "arena" / "hints.py").write_text(f'"""Hints."""\n\n{SOLVER}\n')
    gate = copy / "training" / "matches.py"
    gate.write_text(f"{gate.read_text()}\nfrom alphac4.arena import hints\nfrom alphac4.runs import judge\n")
    output = " ".join(contracts(copy).split())
    for module in modules:
        for judge in ("solver", "evaluation.metrics"):
            assert f"- alphac4.{module} -> alphac4.{judge} (l." in output
    assert "alphac4.arena.hints" in output
    assert f"{CONTRACT}: playing, learning and promotion do not import it BROKEN" in output
    assert "Only the session imports the judge BROKEN" in output


def uses(function: object, name: str) -> list[str]:
    """Return the functions called with a variable as an argument; assert that the variable is not used elsewhere."""
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


def test_verdict_is_used_in_the_report_only() -> None:
    """The judge is called once, at the end of an iteration, and its result is passed to the report only."""
    assert inspect.getsource(TrainingSession).count("measure_network(") == 1
    assert "verdict = measure_network(" in inspect.getsource(TrainingSession.commit)
    assert uses(TrainingSession.commit, "verdict") == ["IterationReport"]


def test_no_module_imports_the_top_level_package() -> None:
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [name.name for name in node.names] if isinstance(node, ast.Import) else []
            assert "alphac4" not in names, path
            if isinstance(node, ast.ImportFrom) and node.module == "alphac4":
                assert {name.name for name in node.names} <= SUBPACKAGES, path


SUBPACKAGES = {folder.name for folder in PACKAGE.iterdir() if folder.is_dir()}
