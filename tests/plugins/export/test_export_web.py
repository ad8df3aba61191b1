"""`alphac4 export --web`: the files of the page, and the download of the runtime."""

import base64
import hashlib
import http.client
import io
import json
import re
import tarfile
from pathlib import Path
from unittest.mock import Mock

import pytest

from alphac4.cli import main
from alphac4.game import make_board
from alphac4.play.levels import LEVELS
from alphac4.play.web.pages import STATIC, page_setup
from alphac4.plugins.export import web
from alphac4.plugins.export.web import LOCAL, RUNTIME_FILES


@pytest.fixture(autouse=True)
def written_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the content of two files that only tests in a browser use."""
    monkeypatch.setattr(web, "export_onnx", lambda _checkpoint, path: path.write_bytes(b"network"))
    monkeypatch.setattr(web, "load_proofs", lambda _board: None)


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small npm package in place of onnxruntime-web, with a matching digest."""
    path = tmp_path / "ort.tgz"
    with tarfile.open(path, "w:gz") as archive:
        for name in RUNTIME_FILES:
            member = tarfile.TarInfo(f"package/dist/{name}")
            member.size = len(name)
            archive.addfile(member, io.BytesIO(name.encode()))
    digest = base64.b64encode(hashlib.sha512(path.read_bytes()).digest()).decode()
    monkeypatch.setattr(web, "RUNTIME_SHA512", digest)
    return path


def test_exported_page_is_complete_and_uses_relative_addresses(
    checkpoint: Path, runtime: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "site" / "page"
    assert main(["export", str(checkpoint), "--web", str(folder), "--web-runtime", str(runtime)]) == 0
    assert f"python -m http.server --directory {folder}" in caplog.text
    assert [path.name for path in folder.parent.iterdir()] == ["page"]
    addresses = []
    for path in [folder / "index.html", *folder.glob("static/**/*.js")]:
        for address in re.findall(r"""(?:href|src)="([^"#]+)"|(?:import .* from |URL\()"([^"]+)\"""", path.read_text()):
            addresses.append("".join(address))
            assert not addresses[-1].startswith(("/", "http"))
            assert (path.parent / addresses[-1]).exists(), (path, addresses[-1])
    assert len(addresses) >= 12
    listed = json.loads((folder / "offline.js").read_text().partition("FILES = ")[2].partition(";\n")[0])
    kept = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert set(listed) == kept - {"offline.js", "README.md"} | {"./"}
    both = {path.name for path in STATIC.iterdir()} & {path.name for path in LOCAL.iterdir()}
    assert both == {"engine.js"}  # the only file that the export replaces
    assert {path.name for path in (folder / "static" / "onnxruntime").iterdir()} == set(RUNTIME_FILES)


def test_exported_folder_is_a_hugging_face_space(checkpoint: Path, runtime: Path, tmp_path: Path) -> None:
    """The hub's client reads its metadata, which has the documented form of a static Space."""
    hub = pytest.importorskip("huggingface_hub", reason="needs pip install 'alphac4[hub]'")
    folder = tmp_path / "page"
    assert main(["export", str(checkpoint), "--web", str(folder), "--web-runtime", str(runtime)]) == 0
    data = hub.SpaceCard.load(folder / "README.md").data.to_dict()
    colours = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}
    assert {data["colorFrom"], data["colorTo"]} <= colours
    assert data["sdk"] == "static"
    assert (folder / data["app_file"]).is_file()
    assert len(data["short_description"]) <= 60
    assert not data["emoji"].isascii()


def test_settings_of_server_and_export_agree() -> None:
    """The export adds the settings of the search, and leaves out the solver's level on other boards."""
    board = make_board(5, 10, 4, False)
    exported = web.exported_setup(board, "network", {})
    served = page_setup(board, "network", LEVELS, simulations=2000, exact=True, provenance={})
    assert {name for name in served if exported[name] != served[name]} == {"levels", "simulations", "exact"}
    assert set(exported) - set(served) == {"search"}
    assert exported["simulations"] == 800


def test_export_overwrites_nothing_and_removes_incomplete_pages(
    checkpoint: Path,
    runtime: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page, other = tmp_path / "page", tmp_path / "thesis"

    def assert_error(folder: Path, message: str, *options: str) -> None:
        assert main(["export", str(checkpoint), "--web", str(folder), *options]) == 2
        assert message in capsys.readouterr().err.splitlines()[-1]

    options = ("--web-runtime", str(runtime))
    other.mkdir()
    (other / "chapter").write_text("one")
    assert_error(other, f"{other} exists already: remove it, or choose a new folder", *options)
    runtime.write_bytes(runtime.read_bytes()[:-10])
    assert_error(page, "is not the expected onnxruntime-web: use onnxruntime-web-", *options)
    monkeypatch.setattr(web, "RUNTIME_URL", "http://127.0.0.1:9/onnxruntime-web-1.30.0.tgz")
    assert_error(page, "give the file with --web-runtime")
    invalid = Mock(side_effect=http.client.BadStatusLine("nonsense"))
    monkeypatch.setattr("urllib.request.urlopen", invalid)
    assert_error(page, "cannot be downloaded (nonsense); give the file with --web-runtime")
    assert not page.exists()
    assert not list(tmp_path.glob(".*"))


def test_runtime_is_downloaded_once(runtime: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A damaged copy in the cache is replaced."""
    content, urls = runtime.read_bytes(), []
    monkeypatch.setattr(web, "_download", lambda url: urls.append(url) or content)
    monkeypatch.setenv("ALPHAC4_CACHE", str(tmp_path / "cache"))
    assert web.read_runtime(None) == web.read_runtime(None) == content
    assert len(urls) == 1
    (kept,) = (tmp_path / "cache").iterdir()
    kept.write_bytes(b"damaged")
    assert web.read_runtime(None) == web.read_runtime(None) == content
    assert len(urls) == 2
    monkeypatch.setenv("ALPHAC4_CACHE", str(runtime / "cache"))  # in a file
    with pytest.raises(RuntimeError, match="ALPHAC4_CACHE names another folder"):
        web.read_runtime(None)
