"""The page's server with sockets: many visitors, disconnections, and its shutdown."""

import asyncio
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("httpx")

from starlette.testclient import TestClient

from alphac4.cli import main
from alphac4.play.web import server
from alphac4.play.web.app import WebApplication
from alphac4.play.web.searches import SearchService, Stop, Stopped
from alphac4.play.web.server import AccessControl, HttpServer

TIMEOUT_S = 120.0
HARD = "22661"  # takes the solver a quarter of a minute


class Answer(NamedTuple):
    status: int  # 0 without an answer
    body: bytes


def request(path: str, body: bytes | None = None) -> bytes:
    """Return an HTTP 1.0 request, whose answer ends with the connection."""
    lines = [f"{'GET' if body is None else 'POST'} {path} HTTP/1.0", "Host: localhost"]
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + (body or b"")


def post(name: str, **body: object) -> bytes:
    return request(f"/api/{name}", json.dumps(body).encode())


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Open a connection, which is reset at the end of the block."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def read_answer(reader: asyncio.StreamReader) -> Answer:
    """Read up to the end of the connection."""
    async with asyncio.timeout(TIMEOUT_S):
        head, _, body = (await reader.read(-1)).partition(b"\r\n\r\n")
    words = head.split()
    return Answer(int(words[1]) if words else 0, body)


async def ask(port: int, data: bytes) -> Answer:
    async with connected(port) as (reader, writer):
        writer.write(data)
        return await read_answer(reader)


@pytest.fixture(scope="module")
def service() -> SearchService:
    return SearchService("quick")


@pytest.fixture
def application(service: SearchService) -> WebApplication:
    """A web application for one server, which closes it."""
    return WebApplication(service)


@contextmanager
def serving(application: WebApplication) -> Iterator[int]:
    """Run a server in a thread and yield its port."""
    listener = server.listen("127.0.0.1", 0)
    running = HttpServer(application, AccessControl(application.starlette, "127.0.0.1", 8000))
    thread = threading.Thread(target=lambda: running.run(sockets=[listener]))
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        running.should_exit = True
        thread.join(TIMEOUT_S)
        listener.close()
        assert not thread.is_alive()


@pytest.mark.parametrize("name", ["exact", "analyze"])
def test_a_search_stops_when_its_visitor_leaves(
    name: str, application: WebApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An analysis is a stream, which has no line yet."""
    began, stopped = threading.Event(), threading.Event()

    def search(*arguments: object) -> None:
        (stop,) = (argument for argument in arguments if isinstance(argument, Stop))
        began.set()
        try:
            while True:
                stop.check()
                time.sleep(0.01)
        except Stopped:
            stopped.set()
            raise

    async def leave(port: int) -> None:
        async with connected(port) as (_, writer):
            writer.write(post(name, moves="44", session="somebody"))
            await asyncio.to_thread(began.wait, TIMEOUT_S)

    monkeypatch.setattr(application.service, name, search)
    with serving(application) as port:
        asyncio.run(leave(port))
        assert stopped.wait(TIMEOUT_S)


def test_connections_above_the_limit_get_status_503(
    application: WebApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A closed connection makes room for another."""
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 3)  # uvicorn counts the requesting connection

    async def status(port: int) -> int:
        return (await ask(port, request("/api/setup"))).status

    async def crowd(port: int) -> None:
        async with connected(port) as (_, first), connected(port):
            assert await status(port) == 503
            first.transport.abort()
            async with asyncio.timeout(TIMEOUT_S):
                while await status(port) != 200:
                    await asyncio.sleep(0.01)

    with serving(application) as port:
        asyncio.run(crowd(port))


@pytest.mark.parametrize(("name", "method"), [("move", "choose"), ("analyze", "analyze")])
def test_shutdown_does_not_wait_for_searches(
    application: WebApplication, monkeypatch: pytest.MonkeyPatch, name: str, method: str
) -> None:
    """Visitors get an error, even if their search does not check whether it should stop."""
    began, released = threading.Event(), threading.Event()
    answers: list[Answer] = []

    def search(*_arguments: object) -> None:
        began.set()
        released.wait(TIMEOUT_S)

    monkeypatch.setattr(application.service, method, search)
    requests = post(name, moves="44", level="club", session="somebody")
    visitor = threading.Thread(target=lambda: answers.append(asyncio.run(ask(port, requests))))
    try:
        with serving(application) as port:
            visitor.start()
            assert began.wait(TIMEOUT_S)
        visitor.join(TIMEOUT_S)
        assert "stopped" in json.loads(answers[0].body)["error"]
    finally:
        released.set()


INTERRUPTED = """
import os, signal, sys, threading
from alphac4.cli import main
start, searches = threading.Thread.start, []
def interrupted_start(thread):
    if "ThreadPoolExecutor" in thread.name:
        searches.append(thread)
        if len(searches) == 2:
            os.kill(os.getpid(), signal.SIGINT)
    start(thread)
threading.Thread.start = interrupted_start
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_ctrl_c_stops_the_server_during_searches(tmp_path: Path) -> None:
    """The signal arrives while the queue is locked. Every visitor is answered, without output on the standard error."""
    stderr = tmp_path / "stderr.txt"
    command = [sys.executable, "-c", INTERRUPTED, "play", "web", "--checkpoint", "quick", "--port", "0"]
    with stderr.open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    assert process.stdout is not None
    port = int(process.stdout.readline().split()[2].rstrip("/").rpartition(":")[2])
    requests = [
        post("exact", moves=HARD),
        post("move", moves=HARD, level="perfect"),
        post("move", moves="", level="club"),
    ]

    async def visit() -> list[Answer]:
        async with connected(port) as one, connected(port) as two, connected(port) as three:
            for (_, writer), data in zip((one, two, three), requests, strict=True):
                writer.write(data)
            return await asyncio.gather(*(read_answer(reader) for reader, _ in (one, two, three)))

    try:
        answers = asyncio.run(visit())
        assert process.wait(TIMEOUT_S) in (0, 130)
        lines = stderr.read_text().splitlines()
        assert not [line for line in lines if not line.startswith("backend ")]  # unsupported by the processor
        assert [answer.status for answer in answers[:2]] == [503, 503]
        assert answers[2].status in (200, 503)  # 200 if the search finished before the signal
    finally:
        process.kill()
        process.wait()


def test_unavailable_port_is_reported(tmp_path: Path, error_line: Callable[..., str]) -> None:
    """The port is checked first; loading the network would report a damaged file."""
    network = tmp_path / "damaged.safetensors"
    network.write_bytes(b"no network")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for port in (str(taken.getsockname()[1]), "99999"):
            assert port in error_line(f"play web --checkpoint {network} --port {port}")


def test_browser_is_opened_only_on_a_desktop(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CI", "SSH_CONNECTION", "SSH_TTY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DISPLAY", ":0")
    assert not server.at_desktop()  # the output is not a terminal
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert server.at_desktop()
    monkeypatch.setattr("sys.platform", "linux")
    for name, value in (("CI", "true"), ("SSH_CONNECTION", "10.0.0.1 1 10.0.0.2 22"), ("DISPLAY", "")):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            assert not server.at_desktop()


def test_link_has_a_token_if_the_network_can_connect(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its address is not 0.0.0.0. With --token never it has none, and a warning is printed."""
    output: list[str] = []

    def visit(running: HttpServer, sockets: list[socket.socket]) -> None:
        assert [listener.getsockname()[0] for listener in sockets] == ["0.0.0.0"]
        output[:] = capsys.readouterr().out.splitlines()
        link = output[0].split()[2]
        with TestClient(running.config.app, base_url=link.partition("?")[0]) as browser:
            assert browser.get(link).status_code == 200
            assert browser.get("/api/setup").json()["link"] == link  # the start of links that the page copies

    monkeypatch.setattr(HttpServer, "run", visit)
    for options in ([], ["--token", "never"]):
        arguments = ["play", "web", "--checkpoint", "quick", "--port", "0", "--host", "0.0.0.0", *options]
        assert main(arguments) == 0
        assert "0.0.0.0" not in output[0]
        assert "localhost" not in output[0]
        assert ("?token=" in output[0]) is not bool(options)
        assert any("everybody on the network" in line for line in output) is bool(options)
