import base64
import hashlib
import io
import json
import re
import shutil
import socket
import subprocess
import tarfile
import threading
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from alphac4.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from alphac4.cli import main
from alphac4.game import Geometry, Position, make_geometry
from alphac4.mcts import Budget, NetworkSearch
from alphac4.nn.network import PolicyValueNetwork
from alphac4.play.web import static_page
from alphac4.play.web.static_page import RUNTIME_FILES, WEB, export_page, setup

NODE = shutil.which("node")


class Exact:
    """Answers that every computer computes alike: sums of eighths and sixteenths."""

    def __init__(self, geometry: Geometry) -> None:
        rng = np.random.default_rng(3)
        inputs = 2 * geometry.cells
        self.policy = rng.integers(-8, 9, (inputs, geometry.columns)) / 8
        self.value = rng.integers(-4, 5, inputs)

    def evaluate(self, planes: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """See `alphac4.nn.Evaluator.evaluate`."""
        flat = planes.reshape(len(planes), -1)
        lead = (flat @ self.value) % 11 - 5
        wdl = np.stack([(6 + lead) / 16, np.full(len(flat), 4 / 16), (6 - lead) / 16], axis=1)
        return (flat @ self.policy).astype(np.float32), wdl.astype(np.float32)


SCRIPT = """
import { readFileSync } from "node:fs";
import { Search, sample } from "./search.js";
const { setup, policy, value, lines, simulations } = JSON.parse(readFileSync("input.json"));
const evaluate = async (planes) => {
  const logits = policy[0].map((_, a) => planes.reduce((sum, x, i) => sum + x * policy[i][a], 0));
  const sum = planes.reduce((total, x, i) => total + x * value[i], 0);
  const lead = (((sum % 11) + 11) % 11) - 5;
  return { policy: logits, wdl: [(6 + lead) / 16, 4 / 16, (6 - lead) / 16] };
};
const results = [];
for (const line of lines) {
  const search = new Search(setup, evaluate);
  for (let ply = 0; ply <= line.length; ply += line.length || 1) { // the second time from the kept tree
    search.plant(line.slice(0, ply));
    await search.run(simulations);
    results.push({
      visits: [...search.root.visits], best: search.best(), value: search.root.mean(), wdl: search.wdl(),
      variation: search.variation(), proofs: [...search.root.proof], total: search.columns().length,
    });
    if (!line.length) break;
  }
}
const drawn = [0, 0, 0];
const weights = [1, 2, 3].map(Math.log);
for (let i = 0; i < 1400; i++) drawn[sample([0, 1, 2], weights, 0.5, () => (i + 0.5) / 1400)] += 1;
console.log(JSON.stringify({ results, drawn, sure: sample([4, 5], [1, 2], 0) }));
"""


@pytest.mark.skipif(NODE is None, reason="needs node: install Node.js")
@pytest.mark.parametrize("geometry", [make_geometry(), make_geometry(4, 5, 3), make_geometry(5, 6, 4, False)])
def test_the_pages_search_is_ours(geometry: Geometry, tmp_path: Path) -> None:
    """The same visits, moves, proofs, values and variations, with fresh trees and with kept ones."""
    evaluator = Exact(geometry)
    lines = ["", "44", "1122", "1212", "3344", "15254", "4444", "5132"]
    if geometry.run_length == 4:
        lines.append("112233")
    simulations = 150
    for name in ("search.js", "bitboard.js"):
        shutil.copy(WEB / "local" / name, tmp_path)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "script.js").write_text(SCRIPT)
    given = {
        "setup": setup(geometry, "exact"),
        "policy": evaluator.policy.tolist(),
        "value": evaluator.value.tolist(),
        "lines": [[int(digit) - 1 for digit in line] for line in lines],
        "simulations": simulations,
    }
    (tmp_path / "input.json").write_text(json.dumps(given))
    ran = subprocess.run(
        [str(NODE), "script.js"], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stderr
    answer = json.loads(ran.stdout)
    found = iter(answer["results"])
    for line in lines:
        search = NetworkSearch(evaluator, geometry=geometry, rng=np.random.default_rng(0), reuse="trees")
        for start in dict.fromkeys(("", line)):
            expected = search.search([Position.from_moves(start, geometry)], Budget(simulations=simulations))
            result = next(found)
            assert result["visits"] == expected.visits[0].tolist()
            assert result["proofs"] == expected.proofs[0].tolist()
            assert result["best"] == expected.moves[0]
            assert result["variation"][:20] == expected.variations[0]
            assert result["value"] == pytest.approx(expected.value[0], abs=1e-6)
            assert result["wdl"] == pytest.approx(expected.wdl[0], abs=1e-5)
            assert result["total"] == len(Position.from_moves(start, geometry).legal_columns())
    assert next(found, None) is None
    assert answer["drawn"] == [100, 400, 900]
    assert answer["sure"] == 5


def packed_runtime(path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small stand-in for onnxruntime-web as npm packs it, with its digest in place of the real one's."""
    with tarfile.open(path, "w:gz") as archive:
        for name in RUNTIME_FILES:
            member = tarfile.TarInfo(f"package/dist/{name}")
            member.size = len(name)
            archive.addfile(member, io.BytesIO(name.encode()))
    digest = base64.b64encode(hashlib.sha512(path.read_bytes()).digest()).decode()
    monkeypatch.setattr(static_page, "RUNTIME_SHA512", digest)
    return path


@pytest.fixture
def checkpoint(network: PolicyValueNetwork, tmp_path: Path) -> Path:
    """A checkpoint of the standard board."""
    path = tmp_path / "small.safetensors"
    save_checkpoint(path, Checkpoint(network=network))
    return path


@pytest.fixture
def written_without_onnx(monkeypatch: pytest.MonkeyPatch) -> None:
    """The network's file is a stand-in where this is not about it."""
    monkeypatch.setattr(static_page, "export_onnx", lambda _checkpoint, path: path.write_bytes(b"network"))


@pytest.mark.usefixtures("written_without_onnx")
def test_the_page_is_whole_and_servable_from_anywhere(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every file that another one names is there, by a relative address; a second export replaces the first."""
    runtime, folder = packed_runtime(tmp_path / "ort.tgz", monkeypatch), tmp_path / "site" / "page"
    arguments = ["export", str(checkpoint), "--web", str(folder), "--web-runtime", str(runtime)]
    assert main(arguments) == 0
    before = (folder / "setup.json").stat().st_ino
    assert main(arguments) == 0
    assert (folder / "setup.json").stat().st_ino != before
    assert [path.name for path in folder.parent.iterdir()] == ["page"]
    addresses = []
    for path in [folder / "index.html", *folder.glob("static/*.js")]:
        for address in re.findall(r"""(?:href|src)="([^"]+)"|(?:import .* from |URL\()"([^"]+)\"""", path.read_text()):
            addresses.append("".join(address))
            assert not addresses[-1].startswith(("/", "http"))
            assert (path.parent / addresses[-1]).exists(), (path, addresses[-1])
    assert len(addresses) >= 12
    listed = json.loads((folder / "offline.js").read_text().partition("FILES = ")[2].partition(";\n")[0])
    kept = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert set(listed) == kept - {"offline.js", ".alphac4-export.json"} | {"./"}
    both = {path.name for path in (WEB / "static").iterdir()} & {path.name for path in (WEB / "local").iterdir()}
    assert both == {"engine.js"}  # the page's own files are not overwritten by others of the same name
    assert "class Local" in (folder / "static" / "engine.js").read_text()
    described = json.loads((folder / "setup.json").read_text())
    assert described["network"] == "small"
    assert [level["name"] for level in described["levels"]][-1] == "perfect"
    assert {path.name for path in (folder / "static" / "onnxruntime").iterdir()} == set(RUNTIME_FILES)


@pytest.mark.usefixtures("written_without_onnx")
def test_what_is_there_already_is_safe(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another folder is not overwritten; an earlier export outlives an attempt that fails."""
    runtime, other = packed_runtime(tmp_path / "ort.tgz", monkeypatch), tmp_path / "thesis"
    other.mkdir()
    (other / "chapter").write_text("one")
    assert main(["export", str(checkpoint), "--web", str(other), "--web-runtime", str(runtime)]) == 2
    assert "holds chapter, which this program did not write" in capsys.readouterr().err
    (other / "setup.json").write_text("{}")  # of some other program
    assert main(["export", str(checkpoint), "--web", str(other), "--web-runtime", str(runtime)]) == 2
    assert "holds chapter, which this program did not write" in capsys.readouterr().err
    page = tmp_path / "page"
    assert main(["export", str(checkpoint), "--web", str(page), "--web-runtime", str(runtime)]) == 0
    (page / "notes").write_text("mine")
    assert main(["export", str(checkpoint), "--web", str(page), "--web-runtime", str(runtime)]) == 2
    assert "holds notes, which this program did not write" in capsys.readouterr().err
    (page / "notes").unlink()
    runtime.write_bytes(runtime.read_bytes()[:-10])
    assert main(["export", str(checkpoint), "--web", str(page), "--web-runtime", str(runtime)]) == 2
    assert "not the onnxruntime-web expected" in capsys.readouterr().err.splitlines()[-1]
    monkeypatch.setattr(static_page, "RUNTIME_URL", "http://127.0.0.1:9/onnxruntime-web-1.30.0.tgz")
    monkeypatch.delenv("ALPHAC4_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert main(["export", str(checkpoint), "--web", str(page)]) == 2
    assert "give the file by --web-runtime" in capsys.readouterr().err.splitlines()[-1]
    assert (page / "network.onnx").read_bytes() == b"network"
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


def test_a_killed_export_is_in_nobodys_way(checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the next process has the same number, as in a container; what it had written is removed."""
    runtime, folder = packed_runtime(tmp_path / "ort.tgz", monkeypatch), tmp_path / "site" / "page"
    loaded = load_checkpoint(checkpoint)

    class KilledError(Exception):
        pass

    def killed(*_arguments: object) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(static_page, "export_onnx", killed)
        patch.setattr("shutil.rmtree", lambda *_arguments, **_options: None)  # who is killed tidies up nothing
        with pytest.raises(KilledError):
            export_page(loaded, "small", folder, runtime)
    assert list(folder.parent.iterdir())
    monkeypatch.setattr(static_page, "export_onnx", lambda _checkpoint, path: path.write_bytes(b"network"))
    export_page(loaded, "small", folder, runtime)
    assert [path.name for path in folder.parent.iterdir()] == ["page"]


@pytest.mark.usefixtures("written_without_onnx")
def test_the_runtime_is_downloaded_once(checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A damaged copy in the cache is replaced."""
    content = packed_runtime(tmp_path / "ort.tgz", monkeypatch).read_bytes()
    asked = []
    monkeypatch.setattr(static_page, "_download", lambda url: asked.append(url) or content)
    monkeypatch.delenv("ALPHAC4_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    loaded = load_checkpoint(checkpoint)
    for number in range(3):
        export_page(loaded, "small", tmp_path / f"page{number}")
        if number == 1:
            next((tmp_path / "cache" / "alphac4").iterdir()).write_bytes(b"damaged")
    assert len(asked) == 2
    monkeypatch.setenv("ALPHAC4_CACHE", str(tmp_path / "ort.tgz" / "below"))  # nothing can be kept there
    export_page(loaded, "small", tmp_path / "another")
    assert len(asked) == 3


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"nonsense\r\n\r\n", "cannot be downloaded"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\nabc", "cut short after 3 of 9 bytes"),
        (b"HTTP/1.0 404 Not Found\r\n\r\n", "Not Found"),
    ],
)
def test_a_bad_download_is_told_in_one_line(answer: bytes, told: str) -> None:
    """Whatever the server answers, with what to do about it."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(RuntimeError, match=f"{told}.*--web-runtime"):
            static_page._download(f"http://127.0.0.1:{server.getsockname()[1]}/ort.tgz")
        thread.join()
