"""The web application: moves, live analysis, the search tree, the solver's verdict."""

import asyncio
import json
import re
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from alphac4.arena.networks import load_network
from alphac4.arena.players import NetworkPlayer, Player
from alphac4.arena.solver_player import SolverPlayer
from alphac4.game import Geometry, Position
from alphac4.machine import cores
from alphac4.mcts.search import Budget, Reuse
from alphac4.nn.evaluator import Evaluator
from alphac4.play.analysis import Analysis, Analyst, exact
from alphac4.play.levels import LEVELS, find_level

STATIC = Path(__file__).parent / "static"
MOST_SESSIONS = 64  # search trees kept at a time; the one longest unused goes first
MOST_WAITING = 32  # searches running or queued; beyond, the server says that it is busy
MOST_SIMULATIONS = 20_000
SIMULATIONS = 2000  # of an analysis
MOST_BYTES = 4_096  # of a request
SESSION = re.compile(r"[A-Za-z0-9_-]{8,64}")
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


T = TypeVar("T")


class RequestError(ValueError):
    """What is wrong with a request, in one line."""


class Busy(Exception):  # noqa: N818 - a state, not an error
    """Too many searches wait already."""


class Table:
    """What all visitors share: the network, and a search tree for each session. Safe to call from several threads."""

    def __init__(self, network: str) -> None:
        self.name, checkpoint = load_network(network)
        self.geometry: Geometry = checkpoint.geometry
        self._evaluator = Evaluator(checkpoint.network, batch_size=1, threads=1)
        self._analysts: OrderedDict[str, Analyst] = OrderedDict()
        self._lock = threading.Lock()
        self._rng = np.random.default_rng()

    def analyst(self, session: str) -> Analyst:
        """The session's own, with its tree."""
        with self._lock:
            if session not in self._analysts:
                self._analysts[session] = Analyst(self._network(1, reuse="trees"))
                while len(self._analysts) > MOST_SESSIONS:
                    self._analysts.popitem(last=False)
            self._analysts.move_to_end(session)
            return self._analysts[session]

    def choose(self, level_name: str, position: Position) -> tuple[int, str]:
        """A level's move, 0-based, and the player's name."""
        level = find_level(level_name)
        player: Player = SolverPlayer(np.random.default_rng(self._seed()), self.geometry)
        if not level.perfect:
            player = self._network(level.simulations, level.temperature)
        return player.choose([position])[0], level.name

    def _network(self, simulations: int, temperature: float = 0.0, reuse: Reuse = "nothing") -> NetworkPlayer:
        budget, rng = Budget(simulations=simulations), np.random.default_rng(self._seed())
        return NetworkPlayer(
            self.name, self._evaluator, budget, rng, self.geometry, temperature=temperature, reuse=reuse
        )

    def _seed(self) -> int:
        return int(self._rng.integers(2**63))


class WebApplication:
    """The routes over one `Table`; searches run in threads, as many at a time as there are cores."""

    def __init__(self, table: Table, hosts: list[str]) -> None:
        self.table = table
        self._running = asyncio.Semaphore(cores())
        self._waiting = 0
        self.starlette = Starlette(
            routes=[
                Route("/", self._page),
                Route("/api/setup", self._answering(self._setup), methods=["GET"]),
                Route("/api/move", self._answering(self._move), methods=["POST"]),
                Route("/api/exact", self._answering(self._exact), methods=["POST"]),
                Route("/api/node", self._answering(self._node), methods=["POST"]),
                Route("/api/analyze", self._answering(self._analyze), methods=["POST"]),
                Mount("/static", StaticFiles(directory=STATIC)),
            ],
            middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=hosts)],
        )

    def _answering(self, action: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        """Whatever is wrong with a request becomes one line of JSON."""

        async def answer(request: Request) -> Response:
            try:
                response = await action(request)
            except Busy:
                response = JSONResponse({"error": "the server is busy, try again in a moment"}, 503)
            except ValueError as error:
                response = JSONResponse({"error": str(error)}, 400)
            response.headers.update(HEADERS)
            return response

        return answer

    async def _page(self, _request: Request) -> Response:
        return FileResponse(STATIC / "index.html", headers=HEADERS)

    async def _setup(self, _request: Request) -> Response:
        geometry = self.table.geometry
        levels = [{"name": level.name, "about": level.about} for level in LEVELS]
        return JSONResponse(
            {
                "rows": geometry.rows,
                "columns": geometry.columns,
                "run_length": geometry.run_length,
                "levels": levels,
                "network": self.table.name,
                "simulations": SIMULATIONS,
                "exact": True,
            }
        )

    async def _move(self, request: Request) -> Response:
        body = await _read(request)
        position = self._unfinished(body)
        level = _text(body, "level")
        find_level(level)
        column, name = await self._search(lambda: self.table.choose(level, position))
        return JSONResponse({"column": column, "player": name})

    async def _exact(self, request: Request) -> Response:
        position = self._unfinished(await _read(request))
        verdict = await self._search(lambda: exact(position))
        columns = [{"column": v.column, "score": v.score, "outcome": v.outcome, "best": v.best} for v in verdict]
        return JSONResponse({"columns": columns})

    async def _node(self, request: Request) -> Response:
        """A node of the session's tree, which the last analysis of this position has grown."""
        body = await _read(request)
        position = self._unfinished(body)
        analyst = self.table.analyst(_session(body))
        path = body.get("path")
        if not isinstance(path, list) or not all(isinstance(step, int) for step in path):
            raise RequestError("path must be a list of columns")
        if analyst.searched != position:
            raise RequestError("analyse this position first")
        view = analyst.node(path)
        columns = [
            {
                "column": column,
                "visits": int(view.visits[column]),
                "value": _finite(view.values[column]),
                "prior": float(view.priors[column]),
                "proof": view.describe_proof(column),
            }
            for column in view.position.legal_columns()
        ]
        return JSONResponse({"moves": view.position.moves, "value": view.value, "columns": columns})

    async def _analyze(self, request: Request) -> Response:
        """Lines of JSON as the search goes on, the last one with ``finished``."""
        body = await _read(request)
        position = self._unfinished(body)
        simulations = body.get("simulations", 800)
        if not isinstance(simulations, int) or not 1 <= simulations <= MOST_SIMULATIONS:
            raise RequestError(f"simulations must lie between 1 and {MOST_SIMULATIONS}")
        analyst = self.table.analyst(_session(body))
        if self._waiting >= MOST_WAITING:
            raise Busy
        stop = threading.Event()
        loop = asyncio.get_running_loop()
        lines: asyncio.Queue[Analysis | BaseException | None] = asyncio.Queue()

        def put(item: Analysis | BaseException | None) -> None:
            loop.call_soon_threadsafe(lines.put_nowait, item)

        def work() -> None:
            try:
                put(analyst.analyze(position, Budget(simulations=simulations), stop=stop, on_progress=put))
            except BaseException as error:  # carried to the stream
                put(error)
            put(None)

        async def stream() -> AsyncIterator[bytes]:
            task = asyncio.ensure_future(self._search(work))
            try:
                while (item := await lines.get()) is not None:
                    data = {"error": str(item)} if isinstance(item, BaseException) else item.to_dict()
                    yield json.dumps(data).encode() + b"\n"
            finally:  # also when the visitor has gone
                stop.set()
                await task

        return StreamingResponse(stream(), media_type="application/x-ndjson")

    async def _search(self, work: Callable[[], T]) -> T:
        """Run in a thread once a core is free."""
        if self._waiting >= MOST_WAITING:
            raise Busy
        self._waiting += 1
        try:
            async with self._running:
                return await run_in_threadpool(work)
        finally:
            self._waiting -= 1

    def _unfinished(self, body: dict[str, Any]) -> Position:
        position = Position.from_moves(_text(body, "moves"), self.table.geometry)
        if position.outcome() is not None:
            raise RequestError("the game is over")
        return position


async def _read(request: Request) -> dict[str, Any]:
    """The request's JSON object."""
    data = b""
    async for part in request.stream():
        data += part
        if len(data) > MOST_BYTES:
            raise RequestError("the request is too long")
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise RequestError("the request is not JSON") from error
    if not isinstance(body, dict):
        raise RequestError("the request must be a JSON object")
    return body


def _text(body: dict[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str):
        raise RequestError(f"{name} must be a string")
    return value


def _session(body: dict[str, Any]) -> str:
    session = _text(body, "session")
    if not SESSION.fullmatch(session):
        raise RequestError("session must be 8 to 64 letters, digits, - or _")
    return session


def _finite(number: float) -> float | None:
    return float(number) if np.isfinite(number) else None
