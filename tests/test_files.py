import json
import os
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

import pytest

from alphac4 import locks
from alphac4.files import append_line, link_atomically, read_lines, remove_leftovers, write_atomically
from alphac4.json_files import parse_json, read_record, read_signed_line, sign_line
from alphac4.locks import STALE_SECONDS, FileLock, Holder, LockedError
from alphac4.owned_folders import MARKER, foreign_file, place_to_build, put_in_place, seal
from alphac4.training.costs import Costs


def test_a_link_stays_and_what_it_names_is_written(tmp_path: Path) -> None:
    """Whether the file is there already or not."""
    (tmp_path / "real").mkdir()
    for name in ("old", "new"):
        (tmp_path / name).symlink_to(tmp_path / "real" / name)
    (tmp_path / "real" / "old").write_bytes(b"before")
    for name in ("old", "new"):
        write_atomically(tmp_path / name, b"after")
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / "real" / name).read_bytes() == b"after"


def test_what_is_replaced_keeps_its_permissions(tmp_path: Path) -> None:
    """What was nobody else's to read stays so."""
    path = tmp_path / "mine"
    write_atomically(path, b"before")
    for mode in (0o600, 0o640):
        path.chmod(mode)
        write_atomically(path, b"after")
        assert stat.S_IMODE(path.stat().st_mode) == mode


def test_devices_and_pipes_are_written_through(tmp_path: Path) -> None:
    """A named pipe stays one and its reader gets everything; /dev/stdout is the process's own output."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE)
    write_atomically(pipe, b"through")
    assert reader.communicate(timeout=30)[0] == b"through"
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    script = "from pathlib import Path; from alphac4.files import write_atomically as w; w(Path('/dev/stdout'), b'out')"
    for output in (subprocess.PIPE, (tmp_path / "file").open("wb")):
        done = subprocess.run([sys.executable, "-c", script], stdout=output, check=True, timeout=60)
        assert (done.stdout or (tmp_path / "file").read_bytes()) == b"out"


def test_files_of_a_file_system_below_dev_are_files(tmp_path: Path) -> None:
    """Shared memory is a folder like others: its files are replaced as a whole, and read back."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else tmp_path) as folder:
        path = Path(folder) / "file"
        write_atomically(path, b"1\n")
        with path.open("rb") as before:
            write_atomically(path, b"2\n")
            assert before.read() == b"1\n"
        append_line(path, "3")
        assert read_lines(path) == ["2", "3", ""]


@pytest.mark.parametrize("linked", [False, True])
def test_a_standard_output_that_is_a_file_is_gone_on_with(linked: bool, tmp_path: Path) -> None:
    """What was printed before stays, and what is printed afterwards follows."""
    place = tmp_path / "link" if linked else Path("/dev/stdout")
    if linked:
        place.symlink_to("/dev/stdout")
    script = (
        "from pathlib import Path; from alphac4.files import append_line, write_atomically; print('first'); "
        f"write_atomically(Path({str(place)!r}), b'second\\n'); append_line(Path({str(place)!r}), 'third'); "
        "print('fourth')"
    )
    with (tmp_path / "output").open("wb") as output:
        subprocess.run([sys.executable, "-c", script], stdout=output, check=True, timeout=600)
    assert (tmp_path / "output").read_text() == "first\nsecond\nthird\nfourth\n"


def test_a_folder_is_no_file_to_write(tmp_path: Path) -> None:
    """The error names it."""
    with pytest.raises(IsADirectoryError) as caught:
        write_atomically(tmp_path, b"")
    assert caught.value.filename == str(tmp_path)


def test_the_folder_is_flushed_after_a_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or else a power failure could take the new name back: first the file, then the folder."""
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
    """Also when both names are the same file already, where renaming does nothing."""
    for content in (b"1", b"2"):
        write_atomically(tmp_path / "now", content)
        for _ in range(2):
            link_atomically(tmp_path / "now", tmp_path / "before")
            assert (tmp_path / "before").read_bytes() == content
    assert sorted(path.name for path in tmp_path.iterdir()) == ["before", "now"]


def test_only_our_own_leftovers_are_removed(tmp_path: Path) -> None:
    """A killed process's; not a stranger's, not those of a process that runs, not in folders below, no links."""
    host = socket.gethostname().replace(".", "-")
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    ours = tmp_path / f".a.{host}+{ended.pid}+0123abcd.alphac4-tmp"
    kept = [
        tmp_path / ".notes.tmp",
        tmp_path / ".a.123.tmp",
        tmp_path / f".a.{host}+{os.getpid()}+0123abcd.alphac4-tmp",
        tmp_path / f".a.elsewhere+{ended.pid}+0123abcd.alphac4-tmp",
        tmp_path / "below" / ours.name,
    ]
    (tmp_path / "below").mkdir()
    for path in (ours, *kept):
        path.write_bytes(b"")
    link = tmp_path / f".b.{host}+{ended.pid}+0123abcd.alphac4-tmp"
    link.symlink_to(kept[0])
    remove_leftovers(tmp_path)
    assert not ours.exists()
    assert all(path.exists() for path in (*kept, link))


def test_signed_lines_tell_any_change() -> None:
    """Every altered character is noticed; lines without a checksum are told apart."""
    line = sign_line({"name": "a", "seconds": 1.5, "list": [1, "x"]})
    assert read_signed_line(line) == ({"name": "a", "seconds": 1.5, "list": [1, "x"]}, True)
    assert read_signed_line('{"name": "a"}') == ({"name": "a"}, False)
    noticed = 0
    for index in range(len(line)):
        changed = line[:index] + chr(ord(line[index]) ^ 1) + line[index + 1 :]
        try:
            data, signed = read_signed_line(changed)
        except ValueError:
            noticed += 1
        else:  # without its checksum the line can only hold an entry that nobody knows
            assert not signed
            assert any(name not in ("name", "seconds", "list") for name in data)
    assert noticed > 0.8 * len(line)


def test_deeply_nested_json_is_refused_in_one_line() -> None:
    """Below and above the depth at which Python gives up."""
    for depth in (60, 900, 200_000):
        with pytest.raises(ValueError, match="nested too deeply"):
            parse_json("[" * depth + "]" * depth)
    assert parse_json('{"a": [[[1]]]}') == {"a": [[[1]]]}


def test_records_are_read_with_their_types() -> None:
    """A wrong, a missing and an unknown entry are named; whole numbers are numbers."""
    assert read_record(Costs, {"seconds": 1, "games": 2, "evaluations": 3}) == Costs(
        seconds=1.0, games=2, evaluations=3
    )
    for data, message in (
        ({"games": 2.5}, "games must be int"),
        ({"games": True}, "games must be int"),
        ({"seconds": "1"}, "seconds must be float"),
        ({"seconds": 10**400}, "seconds must be float, not a number of 401 digits"),
        ({"gaems": 1}, "unknown entry 'gaems'"),
        ([], "must be an object"),
    ):
        with pytest.raises(ValueError, match=message):
            read_record(Costs, data)
    with pytest.raises(ValueError, match="host is missing"):
        read_record(_Needs, {})


@dataclass(frozen=True)
class _Needs:
    """A record without defaults."""

    host: str


HOLD = """
import sys, time
from pathlib import Path
from alphac4.locks import FileLock
lock = FileLock(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(600)
"""


def test_a_lock_keeps_others_out_until_its_process_is_killed(tmp_path: Path) -> None:
    """The second is told who holds it; after kill -9 the next one gets it at once."""
    path = tmp_path / "lock"
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(LockedError, match=f"process {holder.pid} on {socket.gethostname()}") as caught:
        FileLock(path)
    assert "\n" not in str(caught.value)
    holder.kill()
    holder.wait()
    lock = FileLock(path)
    again = FileLock(path)  # the same process
    again.release()
    assert path.stat().st_size > 0
    lock.release()
    assert not path.exists()


def test_a_holder_that_has_not_yet_said_its_name_is_waited_for(tmp_path: Path) -> None:
    """Between taking the operating system's lock and writing down whose it is, some time passes."""
    fcntl = pytest.importorskip("fcntl")
    lock = tmp_path / "lock"
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        naming = threading.Timer(0.2, lambda: lock.write_text(json.dumps(asdict(Holder(pid=4711)))))
        naming.start()
        with pytest.raises(LockedError, match="in use by process 4711 on"):
            FileLock(lock)
        naming.join()
        lock.write_text("")
        with pytest.raises(LockedError, match="in use by another process"):
            FileLock(lock)


def test_a_lock_removed_while_another_waits_for_it_is_not_taken_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or else the second would hold a file without a name, and a third the next one of the same name."""
    path = tmp_path / "lock"
    real, calls = locks._lock, []

    def slow(file: IO[bytes]) -> bool | None:
        calls.append(1)
        if len(calls) == 1:
            path.unlink()  # by the one that held it until now
        return real(file)

    monkeypatch.setattr(locks, "_lock", slow)
    lock = FileLock(path)
    assert len(calls) == 2
    monkeypatch.undo()
    with path.open("a+b") as other:
        assert locks._lock(other) is False
    lock.release()
    assert not path.exists()


def test_a_lock_of_another_machine_holds_while_it_is_touched(tmp_path: Path) -> None:
    """On a shared disk the system's lock may not reach it: what its file says, and how old it is, decides."""
    path = tmp_path / "lock"
    path.write_text(json.dumps(asdict(Holder(host="elsewhere", boot="another", pid=7))))
    with pytest.raises(LockedError, match=r"process 7 on elsewhere.*wait 2 minutes"):
        FileLock(path)
    long_ago = path.stat().st_mtime - STALE_SECONDS - 1
    os.utime(path, (long_ago, long_ago))
    FileLock(path).release()


def test_a_lock_that_another_machine_has_taken_over_is_left_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """This one slept for longer than its lock was good for: it neither keeps it young nor removes it."""
    monkeypatch.setattr(locks, "TOUCH_SECONDS", 0.1)
    path = tmp_path / "lock"
    lock = FileLock(path)
    theirs = json.dumps(asdict(Holder(host="elsewhere", boot="another", pid=7)))
    path.write_text(theirs)
    for _ in range(600):
        if "another machine has taken this lock over" in caplog.text:
            break
        time.sleep(0.1)
    else:
        pytest.fail("the lock is still held")
    os.utime(path, (1000, 1000))
    time.sleep(0.3)
    assert path.stat().st_mtime == 1000
    lock.release()
    assert path.read_text() == theirs


@pytest.mark.parametrize("content", ["", "{", "[" * 5000, '{"pid": "x"}', "\0\xff"])
def test_a_damaged_lock_file_blocks_nobody(tmp_path: Path, content: str) -> None:
    """The system's lock decides."""
    (tmp_path / "lock").write_text(content)
    FileLock(tmp_path / "lock").release()


def make_folder(path: Path, **files: str) -> Path:
    """A folder with some files."""
    for name, content in files.items():
        file = path / name.replace("__", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    return path


def test_a_sealed_folder_knows_its_own_files(tmp_path: Path) -> None:
    """Anything added or changed is a stranger's; so is a folder without a seal that holds other names."""
    page = make_folder(tmp_path / "page", index="1", static__code="2")
    seal(page)
    assert foreign_file(page, page) == ""
    (page / "index").write_text("changed by hand")
    assert foreign_file(page, page) == "index"
    (page / "index").write_text("1")
    (page / "static" / "photo").write_text("")
    assert foreign_file(page, page) == "static/photo"
    (page / "static" / "photo").unlink()
    (page / MARKER).write_text('{"format": "alphac4 export 1", "files": {"index": ""}}')
    assert foreign_file(page, page) == MARKER
    (page / MARKER).unlink()
    assert foreign_file(page, page) == ""  # as earlier versions left it
    assert foreign_file(make_folder(tmp_path / "mine", index="1", diary="x"), page) == "diary"


def test_the_old_folder_comes_back_if_the_new_one_cannot_be_put_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second rename fails."""
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
from alphac4.owned_folders import place_to_build, put_in_place
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
    """By who builds next; not what others build, or have under similar names."""
    page = make_folder(tmp_path / "page [1]", index="1")
    (left,) = killed_while_building(page)
    host, _, rest = left.removeprefix(".page [1].").partition("+")
    number, _, purpose = rest.partition(".")
    kept = {
        f".page [1].{host}+{os.getppid()}.{purpose}",
        f".page [1].elsewhere+{number}.{purpose}",
        f".page [1].{host}+{number}.notes",
        f".page.{host}+{number}.{purpose}",
        f"page [1].{host}+{number}.{purpose}",
    }
    same_number = f".page [1].{host}+{os.getpid()}.{purpose}"  # as in a container that was started again
    for name in (*kept, same_number):
        make_folder(tmp_path / name, index="2")
    building = place_to_build(page)
    assert not building.exists()
    assert {path.name for path in tmp_path.iterdir()} == {page.name, *kept}


def test_the_only_copy_of_a_folder_is_kept(tmp_path: Path) -> None:
    """Where a process was killed between two renames; it goes once there is a folder again."""
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


def test_a_line_that_cannot_be_appended_names_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a full disk."""

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space") as caught:
        append_line(tmp_path / "lines", "x")
    assert caught.value.filename == str(tmp_path / "lines")
