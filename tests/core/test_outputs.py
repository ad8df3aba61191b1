"""Commands write through links, and never to devices or to files in use by another process."""

import signal
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import held_elsewhere

from alphac4.cli import main
from alphac4.selfplay.replay import find_shards, load_shard
from alphac4.storage.files import append_line
from alphac4.storage.locks import LOCK_FILE

EVALUATE = "evaluate random --count 2 "

# Commands that write a file: the line, and the suffix of the file's name.
WRITERS = {
    "search --svg": ("search 44 --player uct:20 --svg ", ".svg"),
    "evaluate --picture": (EVALUATE + "--picture ", ".png"),
    "arena --output": ("arena random uct:1 --games 2 --processes 1 --output ", ""),
    "audit --output": ("audit negamax:1 --max-stones 1 --output ", ""),
}


@pytest.mark.parametrize(("line", "suffix"), WRITERS.values(), ids=WRITERS)
def test_commands_write_through_links_but_not_to_devices(
    line: str,
    suffix: str,
    checkpoint: Path,
    tmp_path: Path,
    run_command: Callable[..., str],
    error_line: Callable[..., str],
) -> None:
    """Missing folders of a link's target are created; a device is rejected in one line."""
    line = line.format(checkpoint=checkpoint)
    link, real = tmp_path / f"link{suffix}", tmp_path / "new" / "deeper" / "file"
    link.symlink_to(real)
    run_command(line, link)
    assert link.is_symlink()
    assert not real.is_symlink()
    assert real.stat().st_size > 0
    assert {path.name for path in real.parent.iterdir()} <= {"file", ".file.lock"}
    device = tmp_path / f"device{suffix}"
    device.symlink_to("/dev/null")
    assert error_line(line, device) == f"alphac4 {line.split()[0]}: {device}: is a device or a pipe, not a file"
    assert stat.S_ISCHR(device.stat().st_mode)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


ONE_SHOT = {name: value for name, value in WRITERS.items() if name.startswith(("search", "evaluate"))}


@pytest.mark.parametrize(("line", "suffix"), ONE_SHOT.values(), ids=ONE_SHOT)
def test_commands_replace_no_file_unasked_and_none_of_another_suffix(
    line: str, suffix: str, checkpoint: Path, tmp_path: Path, error_line: Callable[..., str]
) -> None:
    """A mistyped name must not cost the user's file, such as the network that the command reads."""
    line, path, other = line.format(checkpoint=checkpoint), tmp_path / f"mine{suffix}", tmp_path / "mine.txt"
    for file in (path, other):
        file.write_text("mine")
    assert f"{path} exists already: choose another name, or replace it by --overwrite" in error_line(line, path)
    assert f"{other}: the name must end in {suffix}" in error_line(f"{line} {other} --overwrite")
    assert path.read_text() == other.read_text() == "mine"


def test_an_existing_file_is_replaced_on_request(tmp_path: Path, run_command: Callable[..., str]) -> None:
    path = tmp_path / "mine.svg"
    path.write_text("mine")
    run_command(f"search 44 --player uct:20 --svg {path} --overwrite")
    assert path.read_text().startswith("<svg")


APPENDING = {
    "arena": ("arena random uct:1 --games 2 --processes 1 --output {folder}/t.jsonl", "t.jsonl"),
    "audit": ("audit negamax:1 --max-stones 1 --output {folder}/walk", "walk"),
    "selfplay": ("selfplay --samples 1 --parallel-games 2 --full-visits 2 --backend torch-fp32 --output {folder}", ""),
}


@pytest.mark.parametrize(("line", "name"), APPENDING.values(), ids=APPENDING)
def test_output_in_use_by_another_process_is_rejected_until_that_ends(
    line: str, name: str, tmp_path: Path, run_command: Callable[..., str], error_line: Callable[..., str]
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "link").symlink_to(folder)
    lock = folder / (f".{name}.lock" if name else LOCK_FILE)
    with held_elsewhere(lock):
        for path in (folder, tmp_path / "link"):
            output = path / name if name else path
            refusal = f"alphac4 {line.split()[0]}: {output} is in use by process 4711 on"
            assert error_line(line.format(folder=path)).startswith(refusal)
            assert list(folder.iterdir()) == [lock]
    run_command(line.format(folder=folder))
    assert len(list(folder.iterdir())) > 1


def test_interrupted_selfplay_has_recorded_the_games_of_all_its_shards(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C is pressed between a shard and its games."""
    write, pressed = append_line, list[Path]()

    def press(path: Path, text: str) -> None:
        if not pressed:
            pressed.append(path)
            signal.raise_signal(signal.SIGINT)
        write(path, text)

    monkeypatch.setattr("alphac4.commands.train.append_line", press)
    line = "selfplay quick --samples 9999 --parallel-games 32 --full-visits 2 --fast-visits 1 --opening-prob 0"
    assert main([*line.split(), "--backend", "torch-fp32", "--output", str(tmp_path)]) == 130
    games = (tmp_path / "games.txt").read_text().split()
    assert f"Stopped. Recorded {len(games)} games in" in capsys.readouterr().err
    positions = sum(len(load_shard(path)) for path in find_shards(tmp_path / "replay").values())
    assert positions == sum(map(len, games)) > 0
