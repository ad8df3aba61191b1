import asyncio
import json
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from campaigns import page
from campaigns.page import PATIENCE, ask, connected, read_answer, request, start_server

from alphac4.cli import main
from alphac4.play.web import http_server, requests
from alphac4.play.web.access import AccessRules
from alphac4.play.web.app import WebApplication
from alphac4.play.web.http_server import HttpServer
from alphac4.play.web.search_service import SearchService
from alphac4.play.web.server import _listen
from alphac4.solver import shared_solver

HARD = "22661"  # takes the solver a quarter of a minute


@pytest.fixture(scope="module")
def service() -> SearchService:
    """The small network."""
    return SearchService("fast")


@pytest.fixture
def application(service: SearchService) -> WebApplication:
    """The page over it, which one server can serve: it ends with that."""
    return WebApplication(service, AccessRules())


@contextmanager
def serving(application: WebApplication) -> Iterator[int]:
    """A server in a thread of this process; its port."""
    listener = _listen("127.0.0.1", 0)
    server = HttpServer(application)
    thread = threading.Thread(target=lambda: server.run(sockets=[listener]))
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(20)
        listener.close()


def post(name: str, **body: object) -> bytes:
    """A request to the page's API."""
    return request(f"/api/{name}", json.dumps(body).encode())


def test_two_hundred_analyses_at_once_are_all_answered(application: WebApplication) -> None:
    """Those beyond the places get status 503 before their answer begins; nobody gets a 200 and no more."""

    async def crowd(port: int) -> list[page.Answer]:
        body = {"moves": "4", "simulations": 50}
        return await asyncio.gather(*(ask(port, post("analyze", **body, session=f"visitor-{i}")) for i in range(200)))

    with serving(application) as port:
        answers = asyncio.run(crowd(port))
    assert {answer.status for answer in answers} == {200, 503}
    for answer in answers:
        if answer.status == 200:
            assert json.loads(answer.body.splitlines()[-1])["finished"]
        else:
            assert "busy" in answer.error


def test_the_solver_stops_when_its_visitor_leaves(application: WebApplication) -> None:
    """The place is free again within a moment, though the position would take minutes."""

    async def leave(port: int) -> None:
        async with connected(port) as (_, writer):
            writer.write(post("exact", moves=HARD))
            deadline = time.monotonic() + 30
            while not application._exact_searches._stops:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.05)

    shared_solver().forget()
    with serving(application) as port:
        asyncio.run(leave(port))
        deadline = time.monotonic() + 5
        while application._exact_searches._stops:
            assert time.monotonic() < deadline
            time.sleep(0.02)


@pytest.mark.parametrize("part", [0, 10, -5], ids=["nothing", "half the head", "half the body"])
def test_a_visitor_who_stalls_is_shown_out(
    application: WebApplication, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection ends, after a word about it where the request's head was whole."""
    monkeypatch.setattr(http_server, "STALL_SECONDS", 0.3)
    monkeypatch.setattr(http_server, "CHECK_SECONDS", 0.1)
    monkeypatch.setattr(requests, "BODY_SECONDS", 0.3)

    async def stall(port: int) -> page.Answer:
        async with connected(port) as (reader, writer):
            writer.write(post("move", moves="", level="club")[:part])
            try:
                return await read_answer(reader)
            except ConnectionResetError:
                return page.Answer(0, b"")

    with serving(application) as port:
        started = time.monotonic()
        answer = asyncio.run(stall(port))
    assert answer.status == (408 if part < 0 else 0)
    assert time.monotonic() - started < 5


def test_a_visitor_who_never_reads_is_shown_out(application: WebApplication, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many requests on one connection, whose answers fill every buffer on the way."""
    monkeypatch.setattr(http_server, "STALL_SECONDS", 0.5)
    monkeypatch.setattr(http_server, "CHECK_SECONDS", 0.1)

    ask_again = request("/static/app.js").replace(b"HTTP/1.0", b"HTTP/1.1")

    def never_read(port: int) -> None:
        with socket.create_connection(("127.0.0.1", port), timeout=15) as visitor:
            while True:
                visitor.sendall(ask_again)

    with serving(application) as port, pytest.raises(ConnectionError):
        never_read(port)


def test_there_are_only_so_many_connections(application: WebApplication, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more is closed at once; when another goes there is room again."""
    monkeypatch.setattr(http_server, "MOST_CONNECTIONS", 2)

    async def crowd(port: int) -> None:
        async with connected(port) as (_, first), connected(port):
            async with connected(port) as (reader, _):
                assert await reader.read(1) == b""
            first.transport.abort()
            await asyncio.sleep(0.2)
            assert (await ask(port, request("/api/setup"))).status == 200

    with serving(application) as port:
        asyncio.run(crowd(port))


@pytest.mark.slow
def test_ctrl_c_ends_the_server_while_it_solves_and_searches(tmp_path: Path) -> None:
    """Within seconds, without a word on the standard error, and every visitor gets an answer."""
    server = start_server(tmp_path)
    answers: list[page.Answer] = []

    async def visit() -> None:
        long = [post("exact", moves=HARD), post("move", moves=HARD, level="perfect")]
        long.append(post("analyze", moves="", simulations=20_000, session="somebody"))
        long.append(post("certificate", moves="44"))  # which is read first
        answers.extend(await asyncio.gather(*(ask(server.port, data) for data in long)))

    thread = threading.Thread(target=lambda: asyncio.run(visit()))
    try:
        thread.start()
        time.sleep(1.5)
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(60) in (0, 130)
        thread.join(60)
        assert server.complaints.read_text() == ""
        assert [answer.status for answer in answers[:2]] == [503, 503]
        assert answers[2].status in (200, 503)  # where it had not begun yet
        assert answers[3].status in (200, 503)
    finally:
        server.process.kill()


@pytest.mark.parametrize(
    ("name", "method"), [("certificate", "plies_to_win"), ("move", "choose"), ("analyze", "analyze")]
)
def test_a_server_that_ends_waits_for_no_search(
    application: WebApplication, monkeypatch: pytest.MonkeyPatch, name: str, method: str
) -> None:
    """Its visitors are told, also of one that does not hear that it should stop."""
    began, released = threading.Event(), threading.Event()
    answers: list[page.Answer] = []

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
        assert "stopped" in answers[0].error
    finally:
        released.set()


INTERRUPTED_WHILE_A_SEARCH_BEGINS = """
import os, signal, sys, threading
from alphac4.cli import main
start = threading.Thread.start
def interrupted_start(thread):
    if thread.name.startswith("search"):
        os.kill(os.getpid(), signal.SIGINT)
    start(thread)
threading.Thread.start = interrupted_start
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_ctrl_c_ends_the_server_while_a_search_is_put_into_its_queue(tmp_path: Path) -> None:
    """The signal comes in the middle of that, while the queue is locked; the visitor gets an answer."""
    server = start_server(tmp_path, program=("-c", INTERRUPTED_WHILE_A_SEARCH_BEGINS))
    try:
        answer = asyncio.run(ask(server.port, post("move", moves="", level="club")))
        assert server.process.wait(60) in (0, 130)
        assert answer.status in (200, 503)
        assert server.complaints.read_text() == ""
    finally:
        server.process.kill()


@pytest.mark.slow
def test_the_command_serves_and_a_taken_port_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A second server on the same port ends with one line and exit code 2, and before it loads a network."""
    server = start_server(tmp_path)
    try:
        with urllib.request.urlopen(f"http://localhost:{server.port}/api/setup", timeout=30) as response:
            assert json.load(response)["columns"] == 7
        for port in (str(server.port), "99999", "-1"):
            assert main(["play", "--web", "--network", "fast", "--port", port]) == 2
            error = capsys.readouterr().err
            assert port in error
            assert len(error.strip().splitlines()) == 1
    finally:
        server.process.kill()
        server.process.wait()


@pytest.mark.slow
def test_where_others_can_connect_the_link_has_a_token() -> None:
    """And names an address that they can open, not 0.0.0.0; with --token never it has none, and that is told."""
    for options, told in (([], "?token="), (["--token", "never"], "everybody on the network")):
        command = [sys.executable, "-m", "alphac4.cli", "play", "--web", "--network", "fast", "--port", "0"]
        server = subprocess.Popen([*command, "--host", "0.0.0.0", *options], stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            first = server.stdout.readline()
            link = first.split()[2]
            assert "0.0.0.0" not in first
            assert "localhost" not in first
            assert ("?token=" in first) is (options == [])
            assert told in (first if not options else server.stdout.readline())
            browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
            browser.open(link, timeout=30).read()
            with browser.open(link.partition("?")[0] + "api/setup", timeout=30) as response:
                assert json.load(response)["link"] == link  # which the page's copied links begin with
        finally:
            server.kill()
            server.wait()
