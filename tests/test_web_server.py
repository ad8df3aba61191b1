"""The page's server with sockets: visitors who crowd or leave, and its end."""

import asyncio
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
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

PATIENCE = 120.0  # seconds until an answer counts as never given
HARD = "22661"  # takes the solver a quarter of a minute


class Answer(NamedTuple):
    status: int  # 0 without an answer
    body: bytes


def request(path: str, body: bytes | None = None) -> bytes:
    """The bytes of a request; HTTP 1.0, so that the end of the connection is the end of the answer."""
    lines = [f"{'GET' if body is None else 'POST'} {path} HTTP/1.0", "Host: localhost"]
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + (body or b"")


def post(name: str, **body: object) -> bytes:
    return request(f"/api/{name}", json.dumps(body).encode())


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection, reset at the end if it is still open."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def read_answer(reader: asyncio.StreamReader) -> Answer:
    """Read up to the end of the connection; fail if that does not come."""
    async with asyncio.timeout(PATIENCE):
        head, _, body = (await reader.read(-1)).partition(b"\r\n\r\n")
    words = head.split()
    return Answer(int(words[1]) if words else 0, body)


async def ask(port: int, data: bytes) -> Answer:
    async with connected(port) as (reader, writer):
        writer.write(data)
        return await read_answer(reader)


@pytest.fixture(scope="module")
def service() -> SearchService:
    return SearchService("fast")


@pytest.fixture
def application(service: SearchService) -> WebApplication:
    """The page over it, which one server can serve: it ends with that."""
    return WebApplication(service)


@contextmanager
def serving(application: WebApplication) -> Iterator[int]:
    """A server in a thread of this process; its port."""
    listener = server.listen("127.0.0.1", 0)
    running = HttpServer(application, AccessControl(application.starlette, "127.0.0.1", 8000))
    thread = threading.Thread(target=lambda: running.run(sockets=[listener]))
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        running.should_exit = True
        thread.join(PATIENCE)
        listener.close()
        assert not thread.is_alive()


def test_a_search_stops_when_its_visitor_leaves(application: WebApplication, monkeypatch: pytest.MonkeyPatch) -> None:
    began, stopped = threading.Event(), threading.Event()

    def search(_position: object, stop: Stop) -> None:
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
            writer.write(post("exact", moves="44"))
            await asyncio.to_thread(began.wait, PATIENCE)

    monkeypatch.setattr(application.service, "exact", search)
    with serving(application) as port:
        asyncio.run(leave(port))
        assert stopped.wait(PATIENCE)


def test_there_are_only_so_many_connections(application: WebApplication, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one is told to come back; when one goes there is room again."""
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 3)  # uvicorn counts the connection that asks

    async def status(port: int) -> int:
        return (await ask(port, request("/api/setup"))).status

    async def crowd(port: int) -> None:
        async with connected(port) as (_, first), connected(port):
            assert await status(port) == 503
            first.transport.abort()
            async with asyncio.timeout(PATIENCE):
                while await status(port) != 200:
                    await asyncio.sleep(0.01)

    with serving(application) as port:
        asyncio.run(crowd(port))


@pytest.mark.parametrize(("name", "method"), [("move", "choose"), ("analyze", "analyze")])
def test_a_server_that_ends_waits_for_no_search(
    application: WebApplication, monkeypatch: pytest.MonkeyPatch, name: str, method: str
) -> None:
    """Its visitors are told, also of one that does not hear that it should stop."""
    began, released = threading.Event(), threading.Event()
    answers: list[Answer] = []

    def deaf(*_arguments: object) -> None:
        began.set()
        released.wait(PATIENCE)

    monkeypatch.setattr(application.service, method, deaf)
    asked = post(name, moves="44", level="club", session="somebody")
    visitor = threading.Thread(target=lambda: answers.append(asyncio.run(ask(port, asked))))
    try:
        with serving(application) as port:
            visitor.start()
            assert began.wait(PATIENCE)
        visitor.join(PATIENCE)
        assert "stopped" in json.loads(answers[0].body)["error"]
    finally:
        released.set()


INTERRUPTED = """
import os, signal, sys, threading
from alphac4.cli import main
start, searches = threading.Thread.start, []
def interrupted_start(thread):
    if thread.name.startswith("search"):
        searches.append(thread)
        if len(searches) == 2:
            os.kill(os.getpid(), signal.SIGINT)
    start(thread)
threading.Thread.start = interrupted_start
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_ctrl_c_ends_the_server_while_it_solves_and_a_search_is_put_into_its_queue(tmp_path: Path) -> None:
    """The signal comes while the queue is locked; nothing goes to the standard error, and every visitor is answered."""
    complaints = tmp_path / "stderr.txt"
    command = [sys.executable, "-c", INTERRUPTED, "play", "web", "--network", "fast", "--port", "0"]
    with complaints.open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    assert process.stdout is not None
    port = int(process.stdout.readline().split()[2].rstrip("/").rpartition(":")[2])
    asked = [post("exact", moves=HARD), post("move", moves=HARD, level="perfect"), post("move", moves="", level="club")]

    async def visit() -> list[Answer]:
        async with connected(port) as one, connected(port) as two, connected(port) as three:
            for (_, writer), data in zip((one, two, three), asked, strict=True):
                writer.write(data)
            return await asyncio.gather(*(read_answer(reader) for reader, _ in (one, two, three)))

    try:
        answers = asyncio.run(visit())
        assert process.wait(PATIENCE) in (0, 130)
        said = complaints.read_text().splitlines()
        assert not [line for line in said if not line.startswith("backend ")]  # which may not work on a processor
        assert [answer.status for answer in answers[:2]] == [503, 503]
        assert answers[2].status in (200, 503)  # where it was found before it was stopped
    finally:
        process.kill()
        process.wait()


def test_a_port_that_cannot_be_had_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before a network is loaded: of this one it would be said that it is damaged."""
    network = tmp_path / "damaged.safetensors"
    network.write_bytes(b"no network")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for port in (str(taken.getsockname()[1]), "99999"):
            assert main(["play", "web", "--network", str(network), "--port", port]) == 2
            assert port in capsys.readouterr().err


def test_the_browser_is_opened_at_a_desktop_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CI", "SSH_CONNECTION", "SSH_TTY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DISPLAY", ":0")
    assert not server.at_desktop()  # another program reads what is printed
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert server.at_desktop()
    monkeypatch.setattr("sys.platform", "linux")
    for name, value in (("CI", "true"), ("SSH_CONNECTION", "10.0.0.1 1 10.0.0.2 22"), ("DISPLAY", "")):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            assert not server.at_desktop()


def test_where_others_can_connect_the_link_has_a_token(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And names an address that they can open, not 0.0.0.0; with --token never it has none, and that is told."""
    told: list[str] = []

    def visit(running: HttpServer, sockets: list[socket.socket]) -> None:
        assert [listener.getsockname()[0] for listener in sockets] == ["0.0.0.0"]
        told[:] = capsys.readouterr().out.splitlines()
        link = told[0].split()[2]
        with TestClient(running.config.app, base_url=link.partition("?")[0]) as browser:
            assert browser.get(link).status_code == 200
            assert browser.get("/api/setup").json()["link"] == link  # which the page's copied links begin with

    monkeypatch.setattr(HttpServer, "run", visit)
    for options in ([], ["--token", "never"]):
        arguments = ["play", "web", "--network", "fast", "--port", "0", "--host", "0.0.0.0", *options]
        assert main(arguments) == 0
        assert "0.0.0.0" not in told[0]
        assert "localhost" not in told[0]
        assert ("?token=" in told[0]) is not bool(options)
        assert any("everybody on the network" in line for line in told) is bool(options)
