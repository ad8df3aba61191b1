import email
import email.message
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from alphac4 import __version__

pytest.importorskip("build", reason="needs pip install build")
pytestmark = [pytest.mark.beside, pytest.mark.slow]
ROOT = Path(__file__).parents[1]


def run(*command: str | Path, folder: Path, given: str = "") -> str:
    """The output of a command that must succeed, without this checkout on Python's path."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    result = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env=environment,
        input=given,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("built")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, folder=folder)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    """The wheel."""
    (path,) = built.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that holds the wheel and what it depends on, and nothing else."""
    folder = tmp_path_factory.mktemp("elsewhere")
    run(sys.executable, "-m", "venv", "environment", folder=folder)
    programs = folder / "environment" / ("Scripts" if sys.platform == "win32" else "bin")
    install = [programs / "python", "-m", "pip", "install", "--no-compile"]
    run(*install, "--constraint", ROOT / "constraints.txt", wheel, folder=folder)
    return programs


def contents(wheel: Path) -> dict[str, bytes]:
    """Every file of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_wheel_is_the_same_from_a_checkout_and_from_the_sdist(wheel: Path, tmp_path: Path) -> None:
    """With every file of the package, the networks, and nothing else."""
    run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", tmp_path, ROOT, folder=tmp_path)
    (other,) = tmp_path.glob("*.whl")
    found = contents(wheel)
    assert contents(other) == found
    package = {path for path in (ROOT / "alphac4").rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    expected = {path.relative_to(ROOT).as_posix() for path in package}
    expected |= {f"alphac4/checkpoints/{path.name}" for path in (ROOT / "checkpoints").iterdir()}
    assert {name for name in found if ".dist-info/" not in name} == expected


def test_the_sdist_holds_what_it_takes_to_check_it(built: Path) -> None:
    """Tests, scripts, pins and the networks; no environment, run or cache."""
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"tests/test_package.py", "tests/data/solver_sample.columns", "scripts/check.sh", "constraints.txt"} <= names
    assert {"checkpoints/grown.safetensors", "LICENSE", "CHANGELOG.md", "docs/ENGINE.md"} <= names
    assert not {name.split("/")[0] for name in names} & {".git", ".venv", "runs", "dist", "build"}
    assert not [name for name in names if "__pycache__" in name]


def test_setup_refuses_an_extra_that_does_not_exist(tmp_path: Path) -> None:
    """Pip would install the rest and succeed."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").symlink_to(sys.executable)
    for name in ("pyproject.toml", "scripts/setup.sh"):
        shutil.copy(ROOT / name, tmp_path / name)
    command = ["bash", str(tmp_path / "scripts" / "setup.sh"), "web", "wbe"]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode == 2
    assert refused.stderr.startswith("setup.sh: no extra 'wbe'; there are ")
    assert " web," in refused.stderr
    assert not refused.stdout


def test_the_metadata_are_complete(built: Path, wheel: Path) -> None:
    """As the package index checks them, with one version, and every extra that the README names."""
    run(sys.executable, "-m", "twine", "check", "--strict", *built.iterdir(), folder=built)
    text = next(content for name, content in contents(wheel).items() if name.endswith(".dist-info/METADATA"))
    metadata = email.message_from_bytes(text, _class=email.message.Message)
    assert metadata["Version"] == __version__
    assert metadata["Requires-Python"] == ">=3.11"
    assert all(metadata[field] for field in ("Summary", "Author", "License-Expression", "Keywords"))
    classifiers = metadata.get_all("Classifier")
    assert {f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13)} <= set(classifiers)
    extras = {"cluster", "cuda", "hub", "kaggle", "onnx", "openspiel", "openvino", "peers", "pettingzoo", "web"}
    assert extras <= set(metadata.get_all("Provides-Extra"))


def test_the_installed_wheel_plays(installed: Path, tmp_path: Path) -> None:
    """Outside the repository, by a pipe: a game, the solver, and a search with the shipped network."""
    (tmp_path / "best").write_text("not a network")
    assert run(installed / "alphac4", "--version", folder=tmp_path) == f"alphac4 {__version__}\n"
    game = run(installed / "alphac4", "play", "--level", "4", "--seed", "1", folder=tmp_path, given="4\nhint\nquit\n")
    assert "would play" in game
    solved = run(installed / "alphac4", "solve", "112233", folder=tmp_path)
    assert "wins in 1 move" in solved
    searched = run(installed / "alphac4", "search", "44", "--player", "best@50", folder=tmp_path)
    assert "50 simulations" in searched
    where = run(installed / "python", "-c", "import alphac4; print(alphac4.__file__)", folder=tmp_path)
    assert Path(where.strip()).is_relative_to(installed.parent)
