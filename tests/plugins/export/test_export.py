"""`alphac4 export`: its options, and the files it writes."""

from collections.abc import Callable
from pathlib import Path

import pytest

FORMS = {"--kaggle": ".py", "--onnx": ".onnx"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("best", "choose a form: --kaggle main.py, --onnx network.onnx, --web FOLDER or --hub FOLDER"),
        ("best --kaggle new.py --onnx ./new.py", "each form needs a path of its own"),
        pytest.param(
            "best --web /proc/page",
            "/proc/page: No such file or directory",
            marks=pytest.mark.skipif(
                not Path("/proc").is_dir(), reason="needs a folder in which there can be no other"
            ),
        ),
    ],
)
def test_invalid_forms_are_reported(options: str, message: str, error_line: Callable[..., str]) -> None:
    assert message in error_line(f"export {options}")


@pytest.mark.parametrize(("form", "suffix"), FORMS.items())
def test_no_file_is_replaced_unasked_and_none_of_another_suffix(
    form: str, suffix: str, checkpoint: Path, tmp_path: Path, error_line: Callable[..., str]
) -> None:
    """A mistyped name must not cost the user's file, such as the network that the command reads."""
    path, other = tmp_path / f"mine{suffix}", tmp_path / "mine.txt"
    for file in (path, other):
        file.write_text("mine")
    assert f"{path} exists already" in error_line(f"export {checkpoint} {form}", path)
    assert f"{other}: the name must end in {suffix}" in error_line(f"export {checkpoint} --overwrite {form}", other)
    assert path.read_text() == other.read_text() == "mine"


def test_files_are_written_through_links_but_not_to_devices(
    checkpoint: Path, tmp_path: Path, run_command: Callable[..., str], error_line: Callable[..., str]
) -> None:
    link, real, device = tmp_path / "link.py", tmp_path / "new" / "file", tmp_path / "device.py"
    link.symlink_to(real)
    run_command(f"export {checkpoint} --kaggle", link)
    assert link.is_symlink()
    assert real.stat().st_size > 0
    device.symlink_to("/dev/null")
    assert f"{device}: is a device or a pipe, not a file" in error_line(f"export {checkpoint} --kaggle", device)
