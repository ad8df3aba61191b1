import json
import os
import re
import resource
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import held_elsewhere

from alphac4.runs.state import Costs
from alphac4.storage.files import (
    FileError,
    append_line,
    check_output,
    new_folder,
    read_lines,
    remove_leftovers,
    write_atomically,
)
from alphac4.storage.journal import Journal
from alphac4.storage.locks import FileLock, LockedError
from alphac4.storage.records import read_record


def test_writing_to_a_link_replaces_its_target(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    for name in ("old", "new"):
        (tmp_path / name).symlink_to(tmp_path / "real" / name)
    (tmp_path / "real" / "old").write_bytes(b"before")
    for name in ("old", "new"):
        write_atomically(tmp_path / name, b"after")
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / "real" / name).read_bytes() == b"after"


def test_a_replaced_file_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "mine"
    write_atomically(path, b"before")
    for mode in (0o600, 0o640):
        path.chmod(mode)
        write_atomically(path, b"after")
        assert stat.S_IMODE(path.stat().st_mode) == mode


def test_devices_and_pipes_are_rejected(tmp_path: Path) -> None:
    """Writing would replace them, and reading could block."""
    os.mkfifo(tmp_path / "pipe")
    uses: tuple[Callable[[Path], object], ...] = (
        read_lines,
        check_output,
        lambda path: write_atomically(path, b"x"),
        lambda path: append_line(path, "x"),
    )
    for path in (tmp_path / "pipe", Path("/dev/null")):
        for use in uses:
            with pytest.raises(OSError, match=rf"is a device or a pipe, not a file: '{path}'"):
                use(path)
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_a_failed_write_names_the_file_and_keeps_the_old_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")
    with pytest.raises(IsADirectoryError, match=tmp_path.name):
        write_atomically(tmp_path, b"")

    def fail(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match=r"No space.*/file'"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    with pytest.raises(OSError, match=r"No space.*/lines'"):
        append_line(tmp_path / "lines", "x")
    assert not (tmp_path / "lines").read_bytes()


@pytest.mark.parametrize("before", ["", "first\n", "first"])
def test_an_appended_line_is_whole_or_absent(before: str, tmp_path: Path) -> None:
    """The limit of a file's size ends a write as a full disk does, after part of the line."""
    path = tmp_path / "lines"
    path.write_text(before)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limit[1]))
    try:
        with pytest.raises(OSError, match=r"File too large.*/lines'"):
            append_line(path, 200 * "x")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert path.read_text() == before
    append_line(path, "last")
    assert path.read_text().split() == [*before.split(), "last"]


def test_the_folder_is_flushed_after_a_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[bool] = []
    fsync = os.fsync

    def record(descriptor: int) -> None:
        flushed.append(stat.S_ISDIR(os.fstat(descriptor).st_mode))
        fsync(descriptor)

    monkeypatch.setattr("os.fsync", record)
    write_atomically(tmp_path / "file", b"x")
    assert flushed == [False, True]
    for expected in ([False, True], [False]):  # a new file, and an existing one
        flushed.clear()
        append_line(tmp_path / "lines", "x")
        assert flushed == expected


def test_only_temporary_files_of_killed_processes_are_removed(tmp_path: Path) -> None:
    kill = "import os; os.fsync = lambda _: os._exit(9); from pathlib import Path; import sys"
    write = "from alphac4.storage.files import write_atomically; write_atomically(Path(sys.argv[1]), b'x')"
    subprocess.run([sys.executable, "-c", f"{kill}; {write}", str(tmp_path / "file")], check=False)
    (left,) = tmp_path.iterdir()
    (tmp_path / ".notes.tmp").touch()
    remove_leftovers(tmp_path)
    assert not left.exists()
    assert [path.name for path in tmp_path.iterdir()] == [".notes.tmp"]


def test_journal_skips_damaged_lines(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """After a truncation within the last line, earlier lines are read, and the next entry is on its own line."""
    path = tmp_path / "journal"
    for number in (1, 2):
        Journal(path, "alphac4-test", {"seed": 1}).add({"seconds": number, "games": 1})
    content = path.read_bytes()
    assert json.loads(content.splitlines()[-1]) == {"seconds": 2, "games": 1}
    last = content.rindex(b"\n", 0, -1) + 1
    for end in range(last + 1, len(content) - 1):
        path.write_bytes(content[:end])
        caplog.clear()
        journal = Journal(path, "alphac4-test", {"seed": 1})
        journal.add({"seconds": 3})
        entries = journal.read(lambda entry: read_record(Costs, entry))
        assert [costs.seconds for costs in entries] == [1, 3]
        assert f"{path}: line 3 is damaged and left out" in caplog.text
    path.write_bytes(content + b'{"second": 4}\n7\n')
    entries = Journal(path, "alphac4-test", {"seed": 1}).read(lambda entry: read_record(Costs, entry))
    assert [costs.seconds for costs in entries] == [1, 2]


@pytest.mark.parametrize("header", ['{"format":"other","about":{}}', '{"format":"alphac4-te', "7", "[]"])
def test_journal_rejects_other_files_and_settings(header: str, tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_text(f"{header}\n")
    with pytest.raises(FileError, match=f"{path} is not a file of alphac4-test"):
        Journal(path, "alphac4-test", {"seed": 1})
    assert path.read_text() == f"{header}\n"
    Journal(tmp_path / "mine", "alphac4-test", {"seed": 1})
    for about in ({"seed": 2}, {"seed": 1, "more": 1}, {}):
        with pytest.raises(FileError, match="choose another output"):
            Journal(tmp_path / "mine", "alphac4-test", about)


def test_records_are_validated_by_type() -> None:
    assert read_record(Costs, {"seconds": 1, "games": 2, "evaluations": 3}) == Costs(
        seconds=1.0, games=2, evaluations=3
    )
    for data, message in (
        ({"games": True}, "games must be int"),
        ({"seconds": True}, "seconds must be float"),
        ({"seconds": 10**400}, "seconds must be float, not such a large number"),
        ({"gaems": 1}, "unknown entry 'gaems'"),
        ([], "must be an object"),
    ):
        with pytest.raises(ValueError, match=message):
            read_record(Costs, data)


HOLD = """
import sys, time
from pathlib import Path
from alphac4.storage.journal import Journal
from alphac4.storage.locks import FileLock
lock = FileLock(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(600)
"""
HOLD_BRIEFLY = HOLD.replace("time.sleep(600)", "lock.close()")


def test_a_lock_is_held_until_its_process_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(LockedError, match=f"process {holder.pid} on {socket.gethostname()}"):
        FileLock(path)
    holder.kill()
    holder.wait()
    lock = FileLock(path)
    with pytest.raises(LockedError, match=f"process {os.getpid()} on {socket.gethostname()}"):
        FileLock(path)
    lock.close()


def test_a_released_lock_is_free_for_one_process_that_waited_and_for_no_other(tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    path = tmp_path / "lock"
    lock = FileLock(path)
    with path.open() as waiting:
        lock.close()
        fcntl.flock(waiting, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with pytest.raises(LockedError):
            FileLock(path)


def test_a_child_process_does_not_hold_its_parents_lock(tmp_path: Path) -> None:
    """The child's end does not release the lock, and the child does not hold it after the parent has released it."""
    path = tmp_path / "lock"
    lock = FileLock(path)
    ended, living = os.fork(), 0
    if not ended:
        os._exit(subprocess.call([sys.executable, "-c", "pass"]))
    os.waitpid(ended, 0)
    assert path.exists()
    living = os.fork()
    if not living:
        time.sleep(60)
        os._exit(0)
    lock.close()
    try:
        result = subprocess.run([sys.executable, "-c", HOLD_BRIEFLY, str(path)], capture_output=True, check=False)
        assert result.returncode == 0, result.stderr
    finally:
        os.kill(living, signal.SIGKILL)
        os.waitpid(living, 0)


@pytest.mark.parametrize("content", ["", "[" * 5000, '{"pid": "x"}'])
def test_a_damaged_lock_file_does_not_block(tmp_path: Path, content: str) -> None:
    path = tmp_path / "lock"
    path.write_text(content)
    FileLock(path).close()
    with held_elsewhere(path):
        path.write_text(content)
        with pytest.raises(LockedError, match="in use by another process"):
            FileLock(path)


def test_a_new_folder_is_created_atomically_and_replaces_nothing(tmp_path: Path) -> None:
    page = tmp_path / "above" / "page [1]"

    def fail() -> None:
        with new_folder(page) as new:
            (new / "index").touch()
            raise OSError(5, "Input/output error")

    with pytest.raises(OSError, match="Input/output"):
        fail()
    assert not list(page.parent.iterdir())
    with pytest.raises(OSError, match=re.escape(f"No space: '{page}'")), new_folder(page) as new:
        raise OSError(28, "No space", str(new / "index"))
    with pytest.raises(OSError, match=r"No such file.*/absent'"), new_folder(page):
        (tmp_path / "absent").read_bytes()
    with new_folder(page) as new:
        (new / "index").write_text("mine")
        assert not page.exists()
    assert stat.S_IMODE(page.stat().st_mode) == stat.S_IMODE((tmp_path / "above").stat().st_mode)
    for taken in (page, page / "index", tmp_path / "above"):
        with pytest.raises(ValueError, match="exists already: remove it, or choose a new folder"), new_folder(taken):
            pass
    assert (page / "index").read_text() == "mine"
    assert list(page.parent.iterdir()) == [page]
