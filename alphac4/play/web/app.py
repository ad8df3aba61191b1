"""The web application's routes: moves, live analysis, the search tree, the solver's verdicts, reviews, puzzles."""

import asyncio
import json
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from alphac4.game import Position
from alphac4.machine import cores
from alphac4.play.analysis import Analysis
from alphac4.play.levels import LEVELS, find_level
from alphac4.play.web import requests
from alphac4.play.web.access import AccessControl, AccessRules
from alphac4.play.web.page_setup import page_puzzles, page_setup
from alphac4.play.web.requests import RequestError
from alphac4.play.web.search_service import SearchService
from alphac4.play.web.work_queue import Busy, Stop, Stopped, WorkQueue
from alphac4.review import Review

STATIC = Path(__file__).parent / "static"
MOST_SEARCHES = 32  # running or waiting; beyond, the server says that it is busy
MOST_EXACT = 8  # the same for the solver, which has a queue and a thread of its own: nobody's search waits for it
EXACT_SECONDS = 60.0
REVIEW_SECONDS = 40.0  # for the solver, and half as long again for better moves
MOST_SIMULATIONS = 20_000
SIMULATIONS = 2000  # of an analysis, where the page does not say
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}

STOPPED = "the search was stopped"

T = TypeVar("T")


class WebApplication:
    """The routes over one `SearchService`; a search runs in a thread, and ends when its visitor leaves.

    Args:
        service: what all visitors share.
        rules: who may ask.
        link: under which address others reach the page; empty if only this machine does.
    """

    def __init__(self, service: SearchService, rules: AccessRules, link: str = "") -> None:
        self.service = service
        self._link = link
        self._searches = WorkQueue(max(2, cores()), MOST_SEARCHES)  # a move waits for no analysis, on one core too
        self._exact_searches = WorkQueue(1, MOST_EXACT)
        self._analyses: dict[str, Stop] = {}  # the one under way in each session
        self.starlette = Starlette(
            routes=[
                Route("/", self._page),
                Route("/api/setup", _answering(self._setup), methods=["GET"]),
                Route("/api/puzzles", _answering(self._puzzles), methods=["GET"]),
                Route("/api/move", _answering(self._move), methods=["POST"]),
                Route("/api/exact", _answering(self._exact), methods=["POST"]),
                Route("/api/certificate", _answering(self._certificate), methods=["POST"]),
                Route("/api/node", _answering(self._node), methods=["POST"]),
                Route("/api/analyze", _answering(self._analyze), methods=["POST"]),
                Route("/api/review", _answering(self._review), methods=["POST"]),
                Mount("/static", StaticFiles(directory=STATIC)),
            ],
            middleware=[Middleware(AccessControl, rules=rules)],
        )

    def close(self) -> None:
        """Stop every search; the server is about to end."""
        self._searches.close()
        self._exact_searches.close()
        self.service.close()

    async def _page(self, _request: Request) -> Response:
        return FileResponse(STATIC / "index.html", headers=HEADERS)

    async def _setup(self, _request: Request) -> Response:
        service = self.service
        setup = page_setup(service.geometry, service.name, LEVELS, simulations=SIMULATIONS, exact=True, review=True)
        return JSONResponse(setup | {"link": self._link})

    async def _puzzles(self, _request: Request) -> Response:
        return JSONResponse(page_puzzles(self.service.geometry))

    async def _move(self, request: Request) -> Response:
        body = await requests.read_object(request)
        position = requests.unfinished_position(body, self.service.geometry)
        level = find_level(requests.text(body, "level"))
        queue, stop = (self._exact_searches if level.perfect else self._searches), Stop(EXACT_SECONDS)
        column = await _while_connected(
            request, queue.submit(partial(self.service.choose, level, position, stop), stop), stop
        )
        return JSONResponse({"column": column, "player": level.name})

    async def _exact(self, request: Request) -> Response:
        position = requests.unfinished_position(await requests.read_object(request), self.service.geometry)
        stop = Stop(EXACT_SECONDS)
        verdict = await _while_connected(
            request, self._exact_searches.submit(partial(self.service.exact, position, stop), stop), stop
        )
        columns = [{"column": v.column, "score": v.score, "outcome": v.outcome, "best": v.best} for v in verdict]
        return JSONResponse({"columns": columns})

    async def _certificate(self, request: Request) -> Response:
        """In how many plies the first player wins at the latest, where the certificate says so."""
        position = requests.unfinished_position(await requests.read_object(request), self.service.geometry)
        stop = Stop()
        plies = await _while_connected(
            request, self._searches.submit(partial(self.service.plies_to_win, position), stop), stop
        )
        return JSONResponse({"plies": plies})

    async def _node(self, request: Request) -> Response:
        """A node of the session's tree, which the last analysis of this position has grown."""
        body = await requests.read_object(request)
        position = requests.unfinished_position(body, self.service.geometry)
        view = self.service.node(requests.session(body), position, requests.columns(body, "path"))
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
        """Lines of JSON as the search goes on, the last one with ``finished``.

        A session has one tree, so a second analysis ends the first one early.
        """
        body = await requests.read_object(request)
        position = requests.unfinished_position(body, self.service.geometry)
        simulations = requests.whole_number(body, "simulations", SIMULATIONS, MOST_SIMULATIONS)
        session, stop = requests.session(body), Stop()
        found = _Lines()
        search = self._searches.submit(
            lambda: self.service.analyze(session, position, simulations, stop, lambda a: found.add(a.to_dict())), stop
        )
        if session in self._analyses:
            self._analyses[session].event.set()
        self._analyses[session] = stop
        search.add_done_callback(lambda _search: self._forget(session, stop))
        return LinesResponse(found, search, stop)

    async def _review(self, request: Request) -> Response:
        """Lines of JSON with how many positions are solved, the last one with the review."""
        body = await requests.read_object(request)
        moves = Position.from_moves(requests.text(body, "moves"), self.service.geometry).moves or ""
        stop, found = Stop(), _Lines()
        review = self._exact_searches.submit(
            lambda: self.service.review(
                moves, REVIEW_SECONDS, stop, lambda done, total: found.add({"done": done, "total": total})
            ),
            stop,
        )
        return LinesResponse(found, review, stop)

    def _forget(self, session: str, stop: Stop) -> None:
        if self._analyses.get(session) is stop:
            del self._analyses[session]


class _Lines:
    """What a search in a thread has found so far, for the loop that made this object."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue = asyncio.Queue[dict[str, Any] | None]()

    def add(self, line: dict[str, Any] | None) -> None:
        """Called by the search; None says that it has ended."""
        self._loop.call_soon_threadsafe(self._queue.put_nowait, line)

    async def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        """Line by line until the end."""
        while (line := await self._queue.get()) is not None:
            yield line


class LinesResponse(StreamingResponse):
    """Lines of JSON as a search finds them.

    Args:
        found: what has been found so far.
        search: its result is the last line.
        stop: ends it when the visitor has gone, also before the first line could be sent.
    """

    def __init__(self, found: _Lines, search: "asyncio.Future[Analysis] | asyncio.Future[Review]", stop: Stop) -> None:
        super().__init__(self._lines(found, search), media_type="application/x-ndjson")
        self._stop = stop
        search.add_done_callback(lambda _search: found.add(None))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send all lines."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._stop.event.set()

    @staticmethod
    async def _lines(
        found: _Lines, search: "asyncio.Future[Analysis] | asyncio.Future[Review]"
    ) -> AsyncIterator[bytes]:
        async for line in found:
            yield _line(line)
        error = STOPPED if search.cancelled() else search.exception()
        # An error goes into the stream: the status has been sent long ago.
        yield _line(search.result().to_dict() if error is None else {"error": str(error) or STOPPED})


def _answering(action: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """Whatever is wrong with a request becomes one line of JSON."""

    async def answer(request: Request) -> Response:
        try:
            response = await action(request)
        except Busy:
            response = _error("the server is busy, try again in a moment", 503)
        except Stopped:
            response = _error(STOPPED, 503)
        except TimeoutError as error:
            response = _error(str(error), 504)
        except RequestError as error:
            response = _error(str(error), error.status)
        except ValueError as error:
            response = _error(str(error), 400)
        response.headers.update(HEADERS)
        return response

    return answer


async def _while_connected(request: Request, search: "asyncio.Future[T]", stop: Stop) -> T:
    """The result of a search, which is stopped as soon as the visitor has left."""

    async def wait_for_leaving() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    leaving = asyncio.ensure_future(wait_for_leaving())
    either: list[asyncio.Future[Any]] = [search, leaving]
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not search.done():
            stop.event.set()
            await asyncio.wait([search])
        if search.cancelled():
            raise Stopped
        return search.result()
    finally:
        stop.event.set()
        leaving.cancel()


def _error(message: str, status: int) -> Response:
    return JSONResponse({"error": message}, status)


def _line(data: object) -> bytes:
    return json.dumps(data).encode() + b"\n"


def _finite(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None
