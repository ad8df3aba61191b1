"""The exported page, for tests in a browser."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from alphac4.plugins.export.web import export_page, read_runtime
from alphac4.storage.checkpoints import load_checkpoint


@pytest.fixture(scope="session")
def static_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The exported page, below the folder of a web site."""
    pytest.importorskip("onnxruntime", reason="needs pip install 'alphac4[onnx]'")
    folder = tmp_path_factory.mktemp("site") / "below" / "connect-four"
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("ALPHAC4_CACHE")  # use the user's cache, which may have the download of 33 MB
        try:
            runtime = read_runtime(None)
        except RuntimeError as error:
            pytest.skip(str(error))
        export_page(load_checkpoint(Path("quick")), "quick", folder, runtime)
    return folder


@pytest.fixture(scope="session")
def static_address(static_folder: Path) -> Iterator[str]:
    """The exported page on a plain file server."""
    site = str(static_folder.parent.parent)
    command = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", site]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        port = server.stdout.readline().split("port ")[1].split()[0]
        yield f"http://127.0.0.1:{port}/below/connect-four/"
        server.kill()
