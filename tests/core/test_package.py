import email
import email.message
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from alphac4 import __version__

pytest.importorskip("build", reason="needs pip install build")
pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


def run(*command: str | Path, folder: Path, path: str = "") -> str:
    """Return the output of a command that must succeed, with ``path`` as PYTHONPATH."""
    environment = os.environ | {"PYTHONPATH": path}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel built from it."""
    folder = tmp_path_factory.mktemp("built")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, folder=folder)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_wheel_is_the_same_from_a_checkout_and_from_the_sdist(built: Path, tmp_path: Path) -> None:
    """It has all files of the package, the networks, and no others."""
    run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", tmp_path, ROOT, folder=tmp_path)
    actual = contents(built)
    assert contents(tmp_path) == actual
    package = {path for path in (ROOT / "alphac4").rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    expected = {path.relative_to(ROOT).as_posix() for path in package}
    expected |= {f"alphac4/checkpoints/{path.name}" for path in (ROOT / "checkpoints").iterdir()}
    assert {name for name in actual if ".dist-info/" not in name} == expected


def test_the_sdist_has_the_files_to_check_it(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "tests/core/test_package.py",
        "tests/core/data/solver_sample.columns",
        "scripts/check.sh",
        "constraints.txt",
    } <= names
    assert {"checkpoints/quick.safetensors", "LICENSE", "CHANGELOG.md", "docs/engine-protocol.md"} <= names
    assert not {name.split("/")[0] for name in names} & {".git", ".venv", "runs", "dist", "build"}
    assert not [name for name in names if "__pycache__" in name]


def test_the_metadata_is_complete(built: Path) -> None:
    run(sys.executable, "-m", "twine", "check", "--strict", *built.iterdir(), folder=built)
    text = next(content for name, content in contents(built).items() if name.endswith(".dist-info/METADATA"))
    metadata = email.message_from_bytes(text, _class=email.message.Message)
    assert metadata["Version"] == __version__
    extras = {"cluster", "cuda", "hub", "kaggle", "notebook", "onnx", "openspiel", "openvino", "peers", "pettingzoo"}
    assert extras | {"web"} <= set(metadata.get_all("Provides-Extra"))


# A program that hides all packages on which the wheel does not depend.
PROGRAM = """
import io, sys
from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder
from importlib.metadata import distribution, packages_distributions
from packaging.requirements import Requirement

def add_dependencies(name, extras, found):
    if (name, extras) not in found:
        found.add((name, extras))
        for requirement in map(Requirement, distribution(name).requires or ()):
            if requirement.marker is None or any(requirement.marker.evaluate({"extra": e}) for e in ("", *extras)):
                add_dependencies(requirement.name, frozenset(requirement.extras), found)

def plain(name):
    return name.lower().replace("-", "_")

found = set()
add_dependencies("alphac4", frozenset(), found)
needed = {plain(name) for name, _ in found}
hidden = [module for module, names in packages_distributions().items() if not needed & set(map(plain, names))]
assert {"openvino", "onnx", "starlette"} & set(hidden)

class Visible(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name in hidden else super().find_spec(name, path, target)

sys.meta_path[:] = [BuiltinImporter, FrozenImporter, Visible]
import alphac4
from alphac4.cli import main
print("from", alphac4.__file__)
assert all(getattr(alphac4, name) is not None for name in alphac4.__all__)
sys.stdin = io.StringIO("4\\nquit\\n")
for line in ("play 1 --seed 1", "search 44 --player best@0"):  # with little compilation
    assert main(line.split()) == 0, line
"""


def test_the_installed_wheel_plays(built: Path, tmp_path: Path) -> None:
    installed = tmp_path / "installed"
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-compile", "--target", installed]
    run(*pip, *built.glob("*.whl"), folder=tmp_path)
    command = installed / "bin" / "alphac4"
    assert run(command, "--version", folder=tmp_path, path=str(installed)) == f"alphac4 {__version__}\n"
    output = run(sys.executable, "-c", PROGRAM, folder=tmp_path, path=str(installed))
    for expected in (f"from {installed}", "beginner (level 1) plays", "x to move, best@0"):
        assert expected in output, output
