"""A small server that answers as the Hugging Face hub does when a file of a model is downloaded."""

import hashlib
import http.server
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class _Answers(http.server.BaseHTTPRequestHandler):
    """Answers HEAD and GET of /OWNER/NAME/resolve/REVISION/FILE."""

    def do_HEAD(self) -> None:
        self._answer(content=False)

    def do_GET(self) -> None:
        self._answer(content=True)

    def _answer(self, content: bool) -> None:
        server: Any = self.server
        server.requests.append(f"{self.command} {self.path}")
        repository, found, file = self.path.lstrip("/").partition("/resolve/")
        files = server.repositories.get(repository)
        data = None if files is None or not found else files.get(file.partition("/")[2])
        if data is None:
            code = "RepoNotFound" if files is None else "EntryNotFound"
            self.send_response(404)
            self.send_header("X-Error-Code", code)
            self.send_header("Content-Length", "0")
            if files is not None:
                self.send_header("X-Repo-Commit", COMMIT)
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.end_headers()
        if content:
            self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Keep silent."""


@contextmanager
def serve_hub(repositories: Mapping[str, Mapping[str, bytes]]) -> Iterator[tuple[str, list[str]]]:
    """The address of a hub with these files by repository, and the requests that it has had."""
    server: Any = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    server.repositories, server.requests = repositories, []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", server.requests
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
