import contextlib
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from alphac4.runs.costs import Costs
from alphac4.storage.files import append_line, link_atomically, remove_leftovers, write_atomically
from alphac4.storage.folders import foreign_file, place_to_build, put_in_place, seal
from alphac4.storage.locks import FileLock, LockedError
from alphac4.storage.records import parse_json, read_record


def test_a_link_stays_and_what_it_names_is_written(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    for name in ("old", "new"):
        (tmp_path / name).symlink_to(tmp_path / "real" / name)
    (tmp_path / "real" / "old").write_bytes(b"before")
    for name in ("old", "new"):
        write_atomically(tmp_path / name, b"after")
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / "real" / name).read_bytes() == b"after"


def test_files_of_a_file_system_below_dev_are_replaced_as_a_whole(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else tmp_path) as folder:
        path = Path(folder) / "file"  # in memory, a folder like others
        write_atomically(path, b"1")
        with path.open("rb") as before:
            write_atomically(path, b"2")
            assert before.read() == b"1"


def test_what_is_replaced_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "mine"
    write_atomically(path, b"before")
    for mode in (0o600, 0o640):
        path.chmod(mode)
        write_atomically(path, b"after")
        assert stat.S_IMODE(path.stat().st_mode) == mode


PRINTED_BETWEEN = """
import sys
from pathlib import Path
from alphac4.storage.files import append_line, write_atomically
print("first")
write_atomically(Path("/dev/stdout"), b"second\\n")
append_line(Path(sys.argv[1]), "third")
print("fourth")
"""


@pytest.mark.parametrize("piped", [False, True], ids=["file", "pipe"])
def test_the_standard_output_is_gone_on_with(piped: bool, tmp_path: Path) -> None:
    """What was printed before stays, and what is printed afterwards follows; by a link to it as well."""
    link = tmp_path / "link"
    link.symlink_to("/dev/stdout")
    with (tmp_path / "output").open("wb") as file:
        output = subprocess.PIPE if piped else file
        command = [sys.executable, "-c", PRINTED_BETWEEN, str(link)]
        done = subprocess.run(command, stdout=output, check=True, timeout=600)
    assert (done.stdout or (tmp_path / "output").read_bytes()) == b"first\nsecond\nthird\nfourth\n"


def test_what_cannot_be_written_is_named_and_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")
    with pytest.raises(IsADirectoryError, match=tmp_path.name):
        write_atomically(tmp_path, b"")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match=r"No space.*/file'"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    with pytest.raises(OSError, match=r"No space.*/lines'"):
        append_line(tmp_path / "lines", "x")


def test_a_line_cut_short_by_a_kill_is_ended_before_the_next(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    append_line(path, "one")
    with path.open("ab") as file:
        file.write(b"tw")
    append_line(path, "three")
    assert path.read_text().splitlines() == ["one", "tw", "three"]


def test_the_folder_is_flushed_after_a_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[bool] = []
    real = os.fsync

    def seen(descriptor: int) -> None:
        flushed.append(stat.S_ISDIR(os.fstat(descriptor).st_mode))
        real(descriptor)

    monkeypatch.setattr("os.fsync", seen)
    write_atomically(tmp_path / "file", b"x")
    assert flushed == [False, True]
    flushed.clear()
    link_atomically(tmp_path / "file", tmp_path / "second")
    assert flushed == [True]
    for expected in ([False, True], [False]):  # a new name, and one that is there already
        flushed.clear()
        append_line(tmp_path / "lines", "x")
        assert flushed == expected


def test_a_second_name_replaces_the_old_file_and_leaves_nothing(tmp_path: Path) -> None:
    for content in (b"1", b"2"):
        write_atomically(tmp_path / "now", content)
        for _ in range(2):
            link_atomically(tmp_path / "now", tmp_path / "before")
            assert (tmp_path / "before").read_bytes() == content
    assert sorted(path.name for path in tmp_path.iterdir()) == ["before", "now"]


def test_only_our_own_leftovers_are_removed(tmp_path: Path) -> None:
    host = socket.gethostname().replace(".", "-")
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    ours = tmp_path / f".a.{host}+{ended.pid}+0123abcd.alphac4-tmp"
    kept = [
        tmp_path / ".notes.tmp",
        tmp_path / f".a.{host}+{os.getpid()}+0123abcd.alphac4-tmp",
        tmp_path / f".a.elsewhere+{ended.pid}+0123abcd.alphac4-tmp",
    ]
    for path in (ours, *kept):
        path.write_bytes(b"")
    remove_leftovers(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted(kept)


def test_deeply_nested_json_is_refused_in_one_line() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_json("[" * 200_000 + "]" * 200_000)
    assert parse_json('{"a": [[[1]]]}') == {"a": [[[1]]]}


def test_records_are_read_with_their_types() -> None:
    assert read_record(Costs, {"seconds": 1, "games": 2, "evaluations": 3}) == Costs(
        seconds=1.0, games=2, evaluations=3
    )
    for data, message in (
        ({"games": True}, "games must be int"),
        ({"seconds": 10**400}, "seconds must be float, not a number of 401 digits"),
        ({"gaems": 1}, "unknown entry 'gaems'"),
        ([], "must be an object"),
    ):
        with pytest.raises(ValueError, match=message):
            read_record(Costs, data)


HOLD = """
import sys, time
from pathlib import Path
from alphac4.storage.locks import FileLock
lock = FileLock(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(600)
"""
HOLD_SHORTLY = HOLD.replace("time.sleep(600)", "lock.release()")


def test_a_lock_keeps_others_out_until_its_process_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(LockedError, match=f"process {holder.pid} on {socket.gethostname()}"):
        FileLock(path)
    holder.kill()
    holder.wait()
    lock = FileLock(path)
    again = FileLock(path)  # the same process
    again.release()
    assert path.stat().st_size > 0
    lock.release()
    assert not path.exists()


@contextlib.contextmanager
def held_elsewhere(path: Path) -> Iterator[None]:
    """A lock as process 4711 of this machine holds it; afterwards as a kill leaves it."""
    fcntl = pytest.importorskip("fcntl")
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        path.write_text("process 4711 on this machine, since today")
        yield


def test_a_child_holds_nothing_of_its_parent(tmp_path: Path) -> None:
    """Neither does its end remove the lock, nor does it keep others out after its parent has given the lock back."""
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
    lock.release()
    try:
        tried = subprocess.run([sys.executable, "-c", HOLD_SHORTLY, str(path)], capture_output=True, check=False)
        assert tried.returncode == 0, tried.stderr
    finally:
        os.kill(living, signal.SIGKILL)
        os.waitpid(living, 0)


@pytest.mark.parametrize("content", ["", "[" * 5000, '{"pid": "x"}'])
def test_a_damaged_lock_file_blocks_nobody(tmp_path: Path, content: str) -> None:
    path = tmp_path / "lock"
    path.write_text(content)
    FileLock(path).release()
    with held_elsewhere(path):
        path.write_text(content)
        with pytest.raises(LockedError, match="in use by another process"):
            FileLock(path)


def make_folder(path: Path, **files: str) -> Path:
    """A folder with some files."""
    for name, content in files.items():
        file = path / name.replace("__", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    return path


def test_a_sealed_folder_knows_its_own_files(tmp_path: Path) -> None:
    page = make_folder(tmp_path / "page", index="1", static__code="2")
    seal(page)
    assert foreign_file(page) == ""
    (page / "index").write_text("changed by hand")
    assert foreign_file(page) == "index"
    (page / "index").write_text("1")
    (page / "static" / "photo").write_text("")
    assert foreign_file(page) == "static/photo"
    assert foreign_file(make_folder(tmp_path / "mine", index="1", diary="x")) == "diary"


def test_the_old_folder_comes_back_if_the_new_one_cannot_be_put_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = make_folder(tmp_path / "page", index="old"), make_folder(tmp_path / "new", index="new")
    real = Path.rename

    def failing(self: Path, target: Path) -> Path:
        if self == new:
            raise OSError(5, "Input/output error")
        return real(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(OSError, match="Input/output"):
        put_in_place(new, old)
    assert (old / "index").read_text() == "old"
    monkeypatch.undo()
    put_in_place(new, old)
    assert (old / "index").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["page"]


KILLED = """
import os, sys
from pathlib import Path
from alphac4.storage.folders import place_to_build, put_in_place
folder, rename = Path(sys.argv[1]), Path.rename
building = place_to_build(folder)
(building / "static").mkdir(parents=True)
if sys.argv[2:] == ["in place"]:  # when the old folder has been renamed, and the new one has not
    Path.rename = lambda path, to: os._exit(9) if path == building else rename(path, to)
    put_in_place(building, folder)
os._exit(9)
"""


def killed_while_building(folder: Path, *when: str) -> set[str]:
    """The names beside a folder after somebody was killed who was to replace it."""
    subprocess.run([sys.executable, "-c", KILLED, str(folder), *when], check=False)
    return {path.name for path in folder.parent.iterdir()} - {folder.name}


def test_what_a_killed_process_was_building_is_removed(tmp_path: Path) -> None:
    page = make_folder(tmp_path / "page [1]", index="1")
    (left,) = killed_while_building(page)
    host, _, rest = left.removeprefix(".page [1].").partition("+")
    number, _, purpose = rest.partition(".")
    kept = {
        f".page [1].{host}+{os.getppid()}.{purpose}",
        f".page [1].elsewhere+{number}.{purpose}",
        f".page [1].{host}+{number}.notes",
        f".page.{host}+{number}.{purpose}",
    }
    same_number = f".page [1].{host}+{os.getpid()}.{purpose}"  # as in a container that was started again
    for name in (*kept, same_number):
        make_folder(tmp_path / name, index="2")
    building = place_to_build(page)
    assert not building.exists()
    assert {path.name for path in tmp_path.iterdir()} == {page.name, *kept}


def test_the_only_copy_of_a_folder_is_kept(tmp_path: Path) -> None:
    page = make_folder(tmp_path / "page", index="1")
    left = killed_while_building(page, "in place")
    assert not page.exists()
    building = make_folder(place_to_build(page), index="2")
    (old,) = left & {path.name for path in tmp_path.iterdir()}
    assert (tmp_path / old / "index").read_text() == "1"
    put_in_place(building, page)
    building = make_folder(place_to_build(page), index="3")
    put_in_place(building, page)
    assert [path.name for path in tmp_path.iterdir()] == ["page"]
