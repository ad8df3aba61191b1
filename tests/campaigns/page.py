"""Attacks the page's server with visitors of every kind, hundreds at a time.

Each visitor must get a proper answer in time: the right status, one line of JSON for whatever is wrong, a last line
for each stream. Afterwards the server must have written nothing to its standard error, hold no connection, answer a
friendly visitor at once, and end at the first Ctrl-C. All traffic stays on 127.0.0.1.
"""

import asyncio
import contextlib
import json
import random
import signal
import string
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from campaigns.command import Findings, unfinished_game

PATIENCE = 120.0  # seconds until an answer counts as never given
MAX_PARALLEL = 500

BAD_VALUES = [None, True, -1, 10**400, 1.5, [], {}, ["x"], [[]], "", "\x00", "9", "4x", "1" * 7, "1122334", "ü"]
BAD_VALUES += ["x" * 5000]
BAD_BODIES = (b"[" * 4000, b'{"moves":' * 400, b'{"moves": 1e999}', b"NaN", b"\xff\xfe{}")
LEVELS = ("beginner", "novice", "casual", "club", "strong")
LATE = "1525726145264311536756"  # which the solver knows at once
FOREIGN = [  # headers, and the status that they must be refused with
    ("Origin", ("null", "https://evil.example", "http://localhost:1", "http://localhost.evil"), 403),
    ("host", ("evil.example", "localhost.evil", "", "192.168.1.1", "127.0.0.1.evil:80"), 403),
    ("Content_Type", ("text/plain", "application/x-www-form-urlencoded", "", "application/jsonx"), 415),
]


@dataclass(frozen=True)
class Answer:
    """The answer, up to the end of the connection."""

    status: int
    body: bytes

    @property
    def error(self) -> str:
        """The one line that says what is wrong."""
        return str(json.loads(self.body)["error"])


@dataclass
class Server:
    """A server in a process of its own, and where it is."""

    process: subprocess.Popen[str]
    port: int
    complaints: Path  # its standard error

    @property
    def descriptors(self) -> int:
        """Number of files and sockets that it has open."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))


def start_server(folder: Path, *options: str, program: tuple[str, ...] = ("-m", "alphac4")) -> Server:
    """``alphac4 play web`` on a free port; ``program`` is what Python runs in place of `alphac4`."""
    complaints = folder / "stderr.txt"
    with complaints.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, *program, "play", "web", "--network", "fast", "--port", "0", *options],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    assert process.stdout is not None
    link = process.stdout.readline().split()[2]
    return Server(process, int(link.partition("?")[0].rstrip("/").rpartition(":")[2]), complaints)


def request(path: str, body: bytes | None = None, *, host: str = "localhost", **headers: str) -> bytes:
    """The bytes of a request; HTTP 1.0, so that the end of the connection is the end of the answer."""
    lines = [f"{'GET' if body is None else 'POST'} {path} HTTP/1.0", f"Host: {host}"]
    if body is not None:
        headers = {"Content_Type": "application/json", "Content_Length": str(len(body))} | headers
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + (body or b"")


def post(name: str, **body: object) -> bytes:
    """The bytes of a request to the page's API."""
    return request(f"/api/{name}", json.dumps(body).encode())


@contextlib.asynccontextmanager
async def connected(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection, reset at the end if it is still open."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def ask(port: int, data: bytes, patience: float = PATIENCE) -> Answer:
    """Send a request, read the whole answer."""
    async with connected(port) as (reader, writer):
        writer.write(data)
        return await read_answer(reader, patience)


async def read_answer(reader: asyncio.StreamReader, patience: float = PATIENCE) -> Answer:
    """The answer up to the end of the connection; an AssertionError if there is none in time."""
    try:
        async with asyncio.timeout(patience):
            answer = await reader.read(-1)
    except TimeoutError as error:
        raise AssertionError("no answer") from error
    head, _, body = answer.partition(b"\r\n\r\n")
    words = head.split()
    return Answer(int(words[1]) if len(words) > 1 else 0, body)


class Visitors:
    """Makes visitors of every kind, by chance."""

    def __init__(self, port: int, seed: int, found: Findings) -> None:
        self.port, self.random, self.found = port, random.Random(seed), found
        self.kinds = {self._ask: 88, self._speak_no_http: 5, self._leave_early: 10}  # how often which

    async def come(self, count: int, parallel: int) -> None:
        """Let so many visitors come, ``parallel`` at a time."""
        left = iter(range(count))

        async def come_again() -> None:
            for _ in left:
                (kind,) = self.random.choices(list(self.kinds), list(self.kinds.values()))
                self.found.counts[await kind()] += 1

        async with asyncio.TaskGroup() as group:
            for _ in range(parallel):
                group.create_task(come_again())

    def _session(self) -> str:
        """One of a few, so that visitors meet in them, or one of their own."""
        return self.random.choice(["a-session-of-many", "another-of-many", f"own-{self.random.getrandbits(64):x}"])

    def _nonsense(self) -> bytes:
        """A body that is no request: bytes, other JSON, fields of other types, what is out of range."""
        nearly: dict[str, object] = {"level": "club", "session": "abcdefgh", "simulations": 10, "path": []}
        nearly["moves"] = self.random.choice([value for value in BAD_VALUES if value != ""])  # no game is all right
        nearly[self.random.choice(string.ascii_letters)] = self.random.choice(BAD_VALUES)
        bodies = [json.dumps(value).encode() for value in (self.random.choice(BAD_VALUES), nearly)]
        bodies += [self.random.randbytes(self.random.randint(0, 6000)), self.random.choice(BAD_BODIES)]
        return self.random.choice(bodies)

    def _request(self) -> tuple[bytes, set[int]]:
        """Something good, nonsense, or what only another site's page would send; the statuses of its answer."""
        moves, session = unfinished_game(self.random), self._session()
        path = [self.random.randint(-1, 7) for _ in range(self.random.randint(0, 3))]
        header, values, refused = self.random.choice(FOREIGN)
        foreign = {header: self.random.choice(values)}
        requests = [
            (20, post("move", moves=moves, level=self.random.choice(LEVELS)), {200}),
            (20, post("analyze", moves=moves, simulations=self.random.randint(1, 200), session=session), {200}),
            (6, post("exact", moves=moves if len(moves) >= 20 else LATE), {200}),
            (6, post("node", moves=moves, path=path, session=session), {200, 400}),  # of what was analysed last
            (8, request(self.random.choice(["/", "/api/setup", "/static/app.js", "/static/style.css"])), {200}),
            (
                20,
                request(f"/api/{self.random.choice(['move', 'analyze', 'exact', 'node'])}", self._nonsense()),
                {400, 413},
            ),
            (8, request("/api/move", b'{"moves": "", "level": "beginner"}', **foreign), {refused}),
        ]
        ((_, data, statuses),) = self.random.choices(requests, [weight for weight, *_ in requests])
        return data, statuses

    async def _ask(self) -> str:
        data, statuses = self._request()
        answer = await ask(self.port, data)
        assert answer.status in statuses | {503}, f"{answer.status} {answer.body[:200]!r} for {data[:300]!r}"
        if answer.status != 200:
            assert "\n" not in answer.error, f"not one line: {answer.error!r}"
        elif data.startswith(b"POST"):
            assert "error" not in json.loads(answer.body.splitlines()[-1]), f"{answer.body[-200:]!r} for {data[:300]!r}"
        return "were told that the server is busy" if answer.status == 503 else "were answered"

    async def _speak_no_http(self) -> str:
        answer = await ask(self.port, self.random.randbytes(self.random.randint(1, 2000)) + b"\r\n\r\n")
        assert answer.status in (0, 400), f"{answer.status} for bytes that are no HTTP"
        return "spoke no HTTP"

    async def _leave_early(self) -> str:
        """Goes while the request is in progress, while the search runs, or in the middle of the answer."""
        body = {"moves": unfinished_game(self.random, 6), "simulations": 20_000, "level": "perfect"}
        data = post(self.random.choice(["analyze", "exact", "move"]), session=self._session(), **body)
        async with connected(self.port) as (reader, writer):
            writer.write(data[: self.random.randint(1, len(data))] if self.random.random() < 0.4 else data)
            await asyncio.sleep(self.random.random() * 0.3)
            if self.random.random() < 0.3:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(reader.read(200), 0.5)
        return "left early"


def attack(folder: Path, count: int, seed: int) -> Findings:
    """Let ``count`` visitors come to a server of their own, up to 500 at a time."""
    found, server = Findings(), start_server(folder)
    try:
        try:
            visit(server, count, seed, found)
        except* AssertionError as findings:
            found.failures += [str(finding) for finding in findings.exceptions]
        server.process.send_signal(signal.SIGINT)
        if server.process.wait(PATIENCE) not in (0, 130):
            found.failures.append(f"Ctrl-C ended the server with {server.process.returncode}")
        if complaints := server.complaints.read_text():
            found.failures.append(f"the server complained: {complaints[-2000:]}")
    finally:
        server.process.kill()
        server.process.wait()
    return found


def visit(server: Server, count: int, seed: int, found: Findings) -> None:
    """Let them come; a friendly visitor is answered at once afterwards, and no connection is left."""
    friendly = post("move", moves="112233", level="strong")
    asyncio.run(ask(server.port, friendly, 10 * PATIENCE))  # the very first use compiles
    time.sleep(1.5)  # the server looks every second who has gone
    idle = server.descriptors
    asyncio.run(Visitors(server.port, seed, found).come(count, min(MAX_PARALLEL, count // 5 + 1)))
    deadline = time.monotonic() + PATIENCE
    while server.descriptors > idle:
        assert time.monotonic() < deadline, f"{server.descriptors} open files, {idle} at the start"
        time.sleep(0.1)
    answer = asyncio.run(ask(server.port, friendly, 20))
    assert (answer.status, json.loads(answer.body)["column"]) == (200, 3), f"afterwards a friendly visitor got {answer}"
