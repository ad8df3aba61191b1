"""Attacks the page's server with visitors of every kind, hundreds at a time.

``PYTHONPATH=tests python -m campaigns.page --count 20000 --parallel 500``

Each visitor must get a proper answer in time: the right status, one line of JSON for whatever is wrong, a last line
for each stream. Afterwards the server must have written nothing to its standard error, hold no connection, answer a
friendly visitor at once, and end at the first Ctrl-C. All traffic stays on 127.0.0.1.
"""

import argparse
import asyncio
import contextlib
import json
import random
import signal
import string
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from alphac4.game import Position

PATIENCE = 120.0  # seconds until an answer counts as never given

BAD_VALUES = (
    None,
    True,
    -1,
    10**400,
    1.5,
    [],
    {},
    ["x"],
    [[]],
    "",
    "\x00",
    "9",
    "4x",
    "1" * 7,
    "1122334",
    "ü",
    "x" * 5000,
)


class Broken(AssertionError):  # noqa: N818 - a finding, not an error
    """What the server did wrong."""


@dataclass(frozen=True)
class Answer:
    """What came back, up to the end of the connection."""

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
        """How many files and sockets it has open."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))


def start_server(folder: Path, *options: str, program: tuple[str, ...] = ("-m", "alphac4.cli")) -> Server:
    """``alphac4 play --web`` on a free port; ``program`` is what Python runs in place of `alphac4`."""
    complaints = folder / "stderr.txt"
    with complaints.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, *program, "play", "--web", "--network", "fast", "--port", "0", *options],
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
    """The answer up to the end of the connection.

    Raises:
        Broken: if there is none in time.
    """
    try:
        async with asyncio.timeout(patience):
            answer = await reader.read(-1)
    except TimeoutError as error:
        raise Broken("no answer") from error
    head, _, body = answer.partition(b"\r\n\r\n")
    words = head.split()
    return Answer(int(words[1]) if len(words) > 1 else 0, body)


class Visitors:
    """Makes visitors of every kind, by chance but the same for the same seed."""

    def __init__(self, port: int, seed: int) -> None:
        self.port = port
        self.random = random.Random(seed)
        self.busy = 0  # answers that said so
        self.kinds: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (20, self.moves),
            (20, self.analyses),
            (6, self.solves),
            (6, self.looks_at_the_tree),
            (8, self.loads_the_page),
            (20, self.writes_nonsense),
            (5, self.speaks_no_http),
            (8, self.comes_from_elsewhere),
            (10, self.leaves_early),
            (2, self.stalls),
        ]

    async def visit(self) -> str:
        """One visitor; its kind."""
        kind = self.random.choices([k for _, k in self.kinds], [weight for weight, _ in self.kinds])[0]
        await kind()
        return kind.__name__

    def position(self, least: int = 0, most: int = 41) -> str:
        """The moves of an unfinished game."""
        while True:
            position = Position()
            for _ in range(self.random.randint(least, most)):
                following = position.play(self.random.choice(position.legal_columns()))
                if following.outcome() is not None:
                    break
                position = following
            if position.plies >= least:
                return position.moves or ""

    def session(self) -> str:
        """One of a few, so that visitors meet in them, or one of their own."""
        return self.random.choice(["a-session-of-many", "another-of-many", f"own-{self.random.getrandbits(64):x}"])

    async def expect(self, data: bytes, *statuses: int) -> Answer:
        """The answer, which must have one of these statuses, or say that the server is busy."""
        answer = await ask(self.port, data)
        self.busy += answer.status == 503
        if answer.status not in (*statuses, 503):
            raise Broken(f"{answer.status} {answer.body[:200]!r} for {data[:300]!r}")
        if answer.status not in (200, 404, 405) and "\n" in answer.error:
            raise Broken(f"not one line: {answer.error!r}")
        return answer

    async def post(self, name: str, body: object, *statuses: int) -> Answer:
        """`expect` for an object."""
        return await self.expect(request(f"/api/{name}", json.dumps(body).encode()), *statuses)

    async def moves(self) -> None:
        """Asks for a level's move, which must be legal."""
        moves, level = self.position(), self.random.choice(["beginner", "novice", "casual", "club", "strong"])
        answer = await self.post("move", {"moves": moves, "level": level}, 200)
        if answer.status == 200 and json.loads(answer.body)["column"] not in Position.from_moves(moves).legal_columns():
            raise Broken(f"illegal move after {moves}")

    async def analyses(self) -> None:
        """Follows an analysis to its last line: finished, or cut short as another began in the same session."""
        body = {"moves": self.position(), "simulations": self.random.randint(1, 200), "session": self.session()}
        answer = await self.post("analyze", body, 200)
        if answer.status == 200:
            last = json.loads(answer.body.splitlines()[-1])
            if "error" in last or not (last["finished"] or body["session"].endswith("many")):
                raise Broken(f"the analysis ended with {last}")

    async def solves(self) -> None:
        """Asks the solver about a late position."""
        moves = self.position(20)
        answer = await self.post("exact", {"moves": moves}, 200)
        if answer.status == 200:
            columns = [item["column"] for item in json.loads(answer.body)["columns"]]
            if columns != Position.from_moves(moves).legal_columns():
                raise Broken(f"columns {columns} after {moves}")

    async def looks_at_the_tree(self) -> None:
        """Asks for a node, which is there only if this position was analysed last."""
        path = [self.random.randint(-1, 7) for _ in range(self.random.randint(0, 3))]
        await self.post("node", {"moves": self.position(), "path": path, "session": self.session()}, 200, 400)

    async def loads_the_page(self) -> None:
        """Reads what a browser reads first."""
        path = self.random.choice(["/", "/api/setup", "/static/app.js", "/static/style.css", "/static/../app.py"])
        await self.expect(request(path), 404 if ".." in path else 200)

    async def writes_nonsense(self) -> None:
        """Sends a body that is no request: bytes, other JSON, fields of other types, what is out of range."""
        name = self.random.choice(["move", "analyze", "exact", "node"])
        answer = await self.expect(request(f"/api/{name}", self.nonsense()), 200, 400, 413)
        if answer.status == 200:
            raise Broken(f"nonsense was accepted: {answer.body[:200]!r}")

    def nonsense(self) -> bytes:
        """A body that cannot be right."""
        kind = self.random.randrange(4)
        if kind == 0:
            return self.random.randbytes(self.random.randint(0, 6000))
        if kind == 1:
            return json.dumps(self.random.choice(BAD_VALUES)).encode()
        if kind == 2:
            return self.random.choice([b"[" * 4000, b'{"moves":' * 400, b'{"moves": 1e999}', b"NaN", b"\xff\xfe{}"])
        good = {"moves": "44", "level": "club", "session": "abcdefgh", "simulations": 10, "path": []}
        good["moves"] = self.random.choice([value for value in BAD_VALUES if value != ""])  # no game is all right
        good[self.random.choice(string.ascii_letters)] = self.random.choice(BAD_VALUES)
        return json.dumps(good).encode()

    async def speaks_no_http(self) -> None:
        """Sends bytes that are no HTTP; the connection ends with 400 or nothing."""
        data = self.random.randbytes(self.random.randint(1, 2000)) + b"\r\n\r\n"
        answer = await ask(self.port, data)
        if answer.status not in (0, 400):
            raise Broken(f"{answer.status} for bytes that are no HTTP")

    async def comes_from_elsewhere(self) -> None:
        """Another site's page, another name for this machine, a type that needs no permission."""
        body = json.dumps({"moves": "", "level": "beginner"}).encode()
        kind = self.random.randrange(3)
        if kind == 0:
            origin = self.random.choice(["null", "https://evil.example", "http://localhost:1", "http://localhost.evil"])
            await self.expect(request("/api/move", body, Origin=origin), 403)
        elif kind == 1:
            host = self.random.choice(["evil.example", "localhost.evil", "", "192.168.1.1", "127.0.0.1.evil:80"])
            await self.expect(request("/api/move", body, host=host), 403)
        else:
            form = self.random.choice(["text/plain", "application/x-www-form-urlencoded", "", "application/jsonx"])
            await self.expect(request("/api/move", body, Content_Type=form), 415)

    async def leaves_early(self) -> None:
        """Goes while the request is under way, while the search runs, or in the middle of the answer."""
        name = self.random.choice(["analyze", "exact", "move"])
        body = {"moves": self.position(4, 6), "simulations": 20_000, "session": self.session(), "level": "perfect"}
        data = request(f"/api/{name}", json.dumps(body).encode())
        async with connected(self.port) as (reader, writer):
            writer.write(data[: self.random.randint(1, len(data))] if self.random.random() < 0.4 else data)
            await asyncio.sleep(self.random.random() * 0.3)
            if self.random.random() < 0.3:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(reader.read(200), 0.5)

    async def stalls(self) -> None:
        """Sends a part of a request and no more; the server ends that, with an answer or without."""
        data = request("/api/move", b'{"moves": "", "level": "beginner"}')
        async with connected(self.port) as (reader, writer):
            writer.write(data[: self.random.randint(1, len(data) - 1)])
            answer = await read_answer(reader)
            if answer.status not in (0, 400, 408):
                raise Broken(f"{answer.status} for half a request")


async def attack(port: int, requests: int, parallel: int, seed: int) -> Counter[str]:
    """Let so many visitors come, ``parallel`` at a time; how many came of each kind."""
    visitors, seen, left = Visitors(port, seed), Counter[str](), iter(range(requests))

    async def come_again() -> None:
        for _ in left:
            seen[await visitors.visit()] += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(parallel):
            group.create_task(come_again())
    seen["told that the server is busy"] = visitors.busy
    return seen


def run(requests: int, parallel: int, seed: int) -> Counter[str]:
    """The whole attack on a server of its own.

    Raises:
        Broken: naming what went wrong.
    """
    with tempfile.TemporaryDirectory() as folder:
        server = start_server(Path(folder))
        try:
            friendly = request("/api/move", b'{"moves": "112233", "level": "strong"}')
            asyncio.run(ask(server.port, friendly, 10 * PATIENCE))  # the very first use compiles
            time.sleep(1.5)  # the server looks every second who has gone
            idle = server.descriptors
            try:
                seen = asyncio.run(attack(server.port, requests, parallel, seed))
            except* Broken as findings:
                time.sleep(1)
                state = f"exit code {server.process.poll()}, standard error: {server.complaints.read_text()[-2000:]!r}"
                raise Broken(f"{findings.exceptions[0]}; the server: {state}") from None
            time.sleep(1.5)
            started = time.perf_counter()
            answer = asyncio.run(ask(server.port, friendly))
            if answer.status != 200 or json.loads(answer.body)["column"] != 3:
                raise Broken(f"afterwards a friendly visitor got {answer}")
            if time.perf_counter() - started > 5:
                raise Broken(f"afterwards a friendly visitor waited {time.perf_counter() - started:.1f} s")
            if server.descriptors > idle:
                raise Broken(f"{server.descriptors} open files, {idle} at the start")
            server.process.send_signal(signal.SIGINT)
            if server.process.wait(20) not in (0, 130):
                raise Broken(f"Ctrl-C ended the server with {server.process.returncode}")
            if complaints := server.complaints.read_text():
                raise Broken(f"the server complained: {complaints[-2000:]}")
        finally:
            server.process.kill()
            server.process.wait()
    return seen


def main() -> None:
    """Attack as the options say, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20_000, help="requests")
    parser.add_argument("--parallel", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    started = time.perf_counter()
    seen = run(options.count, options.parallel, options.seed)
    busy = seen["told that the server is busy"]
    print(
        f"{options.count:,} requests, {options.parallel} at a time, in {time.perf_counter() - started:.0f} s: "
        f"{seen['stalls']:,} stalled, {seen['leaves_early']:,} left early, {busy:,} were told that the server is busy; "
        "none hung, and nothing broke"
    )


if __name__ == "__main__":
    main()
