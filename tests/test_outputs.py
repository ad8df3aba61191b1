"""Results go where links lead, and never to devices or where another process is writing."""

import stat
from pathlib import Path

import pytest
from helpers import held_elsewhere

from alphac4.cli import main
from alphac4.storage.locks import lock_file

EVALUATE = "evaluate random --count 2 "

# Every command that writes a file: its line, and what the file's name must end in.
WRITERS = {
    "search --svg": ("search 44 --player uct:20 --svg ", ".svg"),
    "review --html": ("review 44 --player none --seconds 0 --html ", ".html"),
    "evaluate --picture": (EVALUATE + "--picture ", ".png"),
    "export --kaggle": ("export {checkpoint} --kaggle ", ""),
    "arena --output": ("arena random uct:1 --games 2 --processes 1 --output ", ""),
    "prove --record": ("prove negamax:1 --plies 1 --record ", ""),
    "export --onnx": pytest.param("export {checkpoint} --onnx ", "", marks=pytest.mark.slow),
}


@pytest.mark.parametrize(("line", "suffix"), WRITERS.values(), ids=WRITERS)
def test_what_a_command_writes_goes_where_it_is_told(
    line: str, suffix: str, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """To what a link names, in folders that are made; a device is refused in one line."""
    words = line.format(checkpoint=checkpoint).split()
    link, real = tmp_path / f"link{suffix}", tmp_path / "new" / "deeper" / "file"
    link.symlink_to(real)
    assert main([*words, str(link)]) == 0
    assert link.is_symlink()
    assert not real.is_symlink()
    assert real.stat().st_size > 0
    assert [path.name for path in real.parent.iterdir()] == ["file"]
    device = tmp_path / f"device{suffix}"
    device.symlink_to("/dev/null")
    capsys.readouterr()
    assert main([*words, str(device)]) == 2
    refusal = f"alphac4 {words[0]}: {device}: is a device or a pipe, not a file"
    assert capsys.readouterr().err.splitlines() == [refusal]
    assert stat.S_ISCHR(device.stat().st_mode)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


APPENDING = {
    "arena": ("arena random uct:1 --games 2 --processes 1 --output {place}/t.jsonl", "t.jsonl"),
    "prove": ("prove negamax:1 --plies 1 --record {place}/walk", "walk"),
    "selfplay": ("selfplay --samples 1 --games 2 --full-simulations 2 --backend torch-fp32 --output {place}", ""),
    "positions": ("positions {place} --count 1 --sets end-easy", ""),
    "certificate": ("certificate build --player fast@1 --stones 0 --backend torch-fp32 --record {place}", ""),
}


@pytest.mark.parametrize(("line", "name"), APPENDING.values(), ids=APPENDING)
def test_a_second_process_is_kept_from_a_record_until_the_first_is_killed(
    line: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    (tmp_path / "another name").symlink_to(place)
    lock = place / (f".{name}.lock" if name else "lock")
    with held_elsewhere(lock):
        for path in (place, tmp_path / "another name"):
            assert main([word.format(place=path) for word in line.split()]) == 2
            told = capsys.readouterr().err
            of = path / name if name else path
            assert told.startswith(f"alphac4 {line.split()[0]}: {of} is in use by process 4711 on")
            assert len(told.splitlines()) == 1
            assert list(place.iterdir()) == [lock]
    assert main([word.format(place=place) for word in line.split()]) == 0
    assert not lock.exists()
    assert any(place.iterdir())


def test_a_records_lock_is_known_by_what_its_name_leads_to(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real" / "t.jsonl")
    with lock_file(tmp_path / "link"):
        assert [path.name for path in (tmp_path / "real").iterdir()] == [".t.jsonl.lock"]
    with lock_file(None):
        pass
