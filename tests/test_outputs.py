"""Where results go: through devices and links, and never where another process is writing."""

import contextlib
import json
import os
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from campaigns.tiny_run import tiny_run
from test_files import HOLD

from alphac4.cli import main
from alphac4.outputs import check_output, own_file
from alphac4.training.loop import TrainingLoop


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one iteration, whose networks can be judged and exported."""
    folder = tmp_path_factory.mktemp("run")
    with TrainingLoop.open(folder, tiny_run(iterations=1)) as loop:
        loop.run()
    return folder


EVALUATE = "evaluate random --count 2 "
CURVE = "curve {run} --simulations 0 --count 2 --every 9 --backend torch-fp32 "
ARENA = "arena random uct:1 --games 2 --processes 1 --output "
PROVE = "prove negamax:1 --plies 1 --record "

# Every command that writes a file: its line, and what the file's name must end in.
WRITERS = {
    "search --svg": ("search 44 --player uct:20 --svg ", ".svg"),
    "review --html": ("review 44 --player none --seconds 0 --html ", ".html"),
    "evaluate --json": (EVALUATE + "--json ", ""),
    "evaluate --picture": (EVALUATE + "--picture ", ".png"),
    "curve --picture": (CURVE + "--picture ", ".svg"),
    "curve --output": (CURVE + "--picture {folder}/curve.svg --output ", ""),
    "export --kaggle": ("export {run}/checkpoints/best.safetensors --kaggle ", ""),
    "solve --output": ("solve --build-book --rows 4 --columns 4 --book-plies 1 --table-bits 12 --output ", ""),
    "arena --output": (ARENA, ""),
    "prove --record": (PROVE, ""),
}
SLOW_WRITERS = {"export --onnx": ("export {run}/checkpoints/best.safetensors --onnx ", "")}
EVERY_WRITER = [
    *(pytest.param(*writer, id=name) for name, writer in WRITERS.items()),
    *(pytest.param(*writer, id=name, marks=pytest.mark.slow) for name, writer in SLOW_WRITERS.items()),
]


@pytest.mark.parametrize(("line", "suffix"), EVERY_WRITER)
def test_links_and_devices_stay_what_they_are(
    line: str, suffix: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A link's file is written, an old one replaced; /dev/null takes everything; /dev/full is told in one line."""
    words = line.format(run=run, folder=tmp_path).split()
    link, real = tmp_path / f"link{suffix}", tmp_path / "folder" / "file"
    real.parent.mkdir()
    link.symlink_to(real)
    assert main([*words, str(link)]) == 0
    assert link.is_symlink()
    assert not real.is_symlink()
    assert real.stat().st_size > 0
    assert [path.name for path in real.parent.iterdir()] == ["file"]
    for device in ("null", "full"):
        link = tmp_path / f"{device}{suffix}"
        link.symlink_to(f"/dev/{device}")
        capsys.readouterr()
        code = main([*words, str(link)])
        errors = capsys.readouterr().err.splitlines()
        if device == "null":
            assert code == 0, errors
        else:
            assert code == 2
            assert errors == [f"alphac4 {words[0]}: {link}: No space left on device"]
        assert link.is_symlink()
        assert stat.S_ISCHR(Path(f"/dev/{device}").stat().st_mode)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize(("line", "suffix"), EVERY_WRITER)
def test_folders_that_are_missing_are_made(line: str, suffix: str, run: Path, tmp_path: Path) -> None:
    """Above every file that a command writes."""
    path = tmp_path / "new" / "deeper" / f"file{suffix}"
    assert main([*line.format(run=run, folder=tmp_path).split(), str(path)]) == 0
    assert path.stat().st_size > 0


def printed(words: list[str], *, piped: bool) -> bytes:
    """What a command writes to the standard output, be that a pipe or a file."""
    collected = []
    with contextlib.ExitStack() as stack:
        if piped:
            reading, writing = os.pipe()
            reader = threading.Thread(target=lambda: collected.append(os.fdopen(reading, "rb").read()))
            reader.start()
        else:
            file = stack.enter_context(tempfile.TemporaryFile())
            writing = os.dup(file.fileno())
        before = os.dup(1)
        os.dup2(writing, 1)
        os.close(writing)
        try:
            with os.fdopen(1, "w", closefd=False) as output, contextlib.redirect_stdout(output):
                assert main(words) == 0
        finally:
            os.dup2(before, 1)
            os.close(before)
        if piped:
            reader.join(60)
            return collected[0]
        file.seek(0)
        return file.read()


@pytest.mark.parametrize("piped", [True, False], ids=["pipe", "file"])
@pytest.mark.parametrize(
    ("line", "suffix"), [pytest.param(*writer, id=name) for name, writer in WRITERS.items() if writer[1] != ".png"]
)
def test_the_standard_output_holds_the_file_and_what_is_printed(
    line: str, suffix: str, piped: bool, run: Path, tmp_path: Path
) -> None:
    """All of it, be it a pipe, which cannot be read back, or a file, which nothing may cut or write over."""
    words, path = line.format(run=run, folder=tmp_path).split(), tmp_path / f"file{suffix}"
    if line.endswith("--picture "):  # refused: the name does not tell the format
        assert main([*words, "/dev/stdout"]) == 2
        return
    expected = printed([*words, str(path)], piped=piped).splitlines() + path.read_bytes().splitlines()
    found = printed([*words, "/dev/stdout"], piped=piped).splitlines()
    assert len(found) == len(expected)
    assert not any(b"\0" in line for line in found if line not in expected)


APPENDING = {
    "arena": ("arena random uct:1 --games 2 --processes 1 --output {place}/t.jsonl", "t.jsonl"),
    "prove": ("prove negamax:1 --plies 1 --record {place}/walk", "walk"),
    "curve": (CURVE + "--picture {place}/c.svg --output {place}/c.jsonl", "c.jsonl"),
    "solve": ("solve --build-book --rows 4 --columns 4 --book-plies 1 --output {place}/b.book", "b.book"),
    "selfplay": (
        (
            "selfplay --samples 1 --games 2 --full-simulations 2 --fast-simulations 1 --backend torch-fp32 "
            "--output {place}"
        ),
        "",
    ),
    "positions": ("positions {place} --count 1 --sets end-easy", ""),
    "certificate": ("certificate build --player fast@1 --stones 0 --backend torch-fp32 --record {place}", ""),
}


def hold(lock: Path) -> subprocess.Popen[str]:
    """A process that holds a lock."""
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(lock)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


@pytest.mark.parametrize(("line", "name"), [pytest.param(*case, id=name) for name, case in APPENDING.items()])
def test_a_second_process_is_kept_from_a_record(
    line: str, name: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is told who has it in one line and writes nothing; after kill -9 the next one goes on at once."""
    place = tmp_path / "place"
    place.mkdir()
    (tmp_path / "another name").symlink_to(place)
    lock = place / (f".{name}.lock" if name else "lock")
    holder = hold(lock)
    for path in (place, tmp_path / "another name"):
        assert main([word.format(place=path, run=run) for word in line.split()]) == 2
        told = capsys.readouterr().err
        assert told.startswith(f"alphac4 {line.split()[0]}: {path / name if name else path} is in use by process")
        assert f"process {holder.pid} on" in told
        assert len(told.splitlines()) == 1
        assert list(place.iterdir()) == [lock]
    holder.kill()
    holder.wait()
    assert main([word.format(place=place, run=run) for word in line.split()]) == 0
    assert not lock.exists()
    assert any(place.iterdir())


@pytest.mark.slow
def test_two_arenas_at_once_do_not_mix(tmp_path: Path) -> None:
    """As the shell starts them: one plays, the other is told; the record is as if one had been alone."""
    output = tmp_path / "t.jsonl"
    words = ["arena", "negamax:3", "random", "--games", "200", "--processes", "1", "--output", str(output)]
    several = [
        subprocess.Popen([sys.executable, "-m", "alphac4", *words], stderr=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    errors = [process.communicate(timeout=300)[1].decode() for process in several]
    codes = [process.returncode for process in several]
    assert 0 in codes
    assert all("is in use by" in error for code, error in zip(codes, errors, strict=True) if code), errors
    parts = [json.loads(line).get("part") for line in output.read_text().splitlines()]
    assert parts[0] is None
    assert parts[1:] == sorted(set(parts[1:]))


def test_a_records_lock_is_known_by_what_its_name_leads_to(tmp_path: Path) -> None:
    """Also before the file is there; afterwards nothing is left."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real" / "t.jsonl")
    with own_file(tmp_path / "link"):
        assert [path.name for path in (tmp_path / "real").iterdir()] == [".t.jsonl.lock"]
    assert os.listdir(tmp_path / "real") == []  # noqa: PTH208 - hidden files too
    with own_file(Path("/dev/null")), own_file(None):
        assert not Path("/dev/.null.lock").exists()


def test_a_link_is_checked_where_it_leads_to(tmp_path: Path) -> None:
    """And the standard output, where that is a file, without a trace in the folder of devices."""
    (tmp_path / "real").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "good").symlink_to(tmp_path / "real" / "new")
    (tmp_path / "bad").symlink_to(tmp_path / "file" / "below")
    check_output(tmp_path / "good")
    with pytest.raises(OSError, match="bad"):
        check_output(tmp_path / "bad")
    before = os.stat("/dev").st_mtime_ns  # noqa: PTH116
    with (tmp_path / "output").open("w") as output:
        check_output(Path(f"/dev/fd/{output.fileno()}"))
    assert os.stat("/dev").st_mtime_ns == before  # noqa: PTH116
