"""Files that released versions wrote: `tests/release_files.py` describes and writes them."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from release_files import ARENA, AUDIT, CONTENT, TESTS, differences, read, written_folders

from alphac4 import read_reports, read_samples

FOLDERS = written_folders()
CORE = [folder for folder in FOLDERS if folder.parents[1].name == "core"]
FILES = [folder / name for folder in FOLDERS for name in json.loads((folder / CONTENT).read_text(encoding="utf-8"))]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(TESTS).as_posix())
def test_a_released_file_is_read_with_its_content(path: Path) -> None:
    if path.suffix == ".onnx":
        pytest.importorskip("onnxruntime")
    folder = next(folder for folder in FOLDERS if path.is_relative_to(folder))
    content = json.loads((folder / CONTENT).read_text(encoding="utf-8"))
    expected = content[path.relative_to(folder).as_posix()]
    assert expected
    assert list(differences(expected, read(path))) == []


@pytest.mark.slow
@pytest.mark.parametrize("folder", CORE, ids=lambda folder: folder.name)
@pytest.mark.usefixtures("no_pictures")
def test_a_released_run_resumes(folder: Path, tmp_path: Path, run_command: Callable[..., str]) -> None:
    run = shutil.copytree(folder / "run", tmp_path / "run")
    reports, samples = read_reports(run), read_samples(run)
    run_command("train --iterations 3 --run", run)
    assert [report.iteration for report in read_reports(run)] == [1, 2, 3]
    assert read_reports(run)[:2] == reports
    assert len(read_samples(run)) > len(samples)


@pytest.mark.parametrize("folder", CORE, ids=lambda folder: folder.name)
def test_released_records_of_commands_are_complete(
    folder: Path, tmp_path: Path, run_command: Callable[..., str]
) -> None:
    """The same command finds nothing left to do."""
    for line, name in ((ARENA, "tournament.jsonl"), (AUDIT, "audit.jsonl")):
        path = Path(shutil.copy(folder / name, tmp_path))
        run_command(line, path)
        assert path.read_bytes() == (folder / name).read_bytes()


def test_differences_are_found_in_values_and_lengths_but_not_in_further_entries() -> None:
    before = {"seed": 1, "loss": [0.5, None], "name": "a"}
    assert not list(differences(before, before | {"loss": [0.500001, None], "new": 1}))
    for changed in ({"seed": 2}, {"loss": [0.5]}, {"loss": [0.6, None]}, {"loss": [0.5, 0]}, {"name": None}):
        assert len(list(differences(before, before | changed))) == 1
