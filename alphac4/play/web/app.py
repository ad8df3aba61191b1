"""Routes of the web application: moves, live analysis, search tree, exact results, and those of plugins."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict
from functools import partial
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from alphac4.game import Board, Position
from alphac4.machine import cores
from alphac4.mcts.results import SearchResult
from alphac4.play.levels import LEVELS, find_level
from alphac4.play.registry import find_panels
from alphac4.play.web.pages import STATIC, describe_search, index_page, page_setup
from alphac4.play.web.searches import EXACT_SECONDS, Busy, SearchService, Stop, Stopped, WorkQueue
from alphac4.solver.solver import TimeIsUp

MAX_SEARCHES = 32  # running or waiting; further ones are rejected
MAX_EXACT = 8  # the same for the solver, whose own queue and thread keep it from delaying other searches
MAX_SIMULATIONS = 20_000
SIMULATIONS = 2000  # default of an analysis
MAX_BYTES = 4_096  # size of a request's body
SESSION = re.compile(r"[A-Za-z0-9_-]{8,64}")
STOPPED = "the search was stopped"
ERRORS = {  # status and message of an exception; another ValueError is a bad request, described by its text
    Busy: (503, "the server is busy; try again in a moment"),
    Stopped: (503, STOPPED),
    TimeIsUp: (504, f"no answer within {EXACT_SECONDS:g} seconds"),
}

T = TypeVar("T")
WriteLine = Callable[[dict[str, Any]], None]  # sends a line of JSON; thread-safe


class WebApplication:
    """Routes over one `SearchService`. Searches run in threads. Analyses and the solver stop when their visitor leaves.

    Args:
        service: the state that all visitors share.
        link: address of the page for other machines; empty if only this machine can connect.
    """

    def __init__(self, service: SearchService, link: str = "") -> None:
        self.service = service
        self.searches = WorkQueue(max(2, cores()), MAX_SEARCHES)  # at least two, so that one analysis delays no move
        self.exact_searches = WorkQueue(1, MAX_EXACT)
        self.proof_reads = WorkQueue(1, MAX_SEARCHES)  # separate, because loading proofs takes seconds
        self._link, self._panels = link, find_panels(service.board)
        self._analyses = WeakValueDictionary[str, Stop]()  # running analyses by session
        handlers = (self._move, self._exact, self._hint, self._proof, self._node, self._analyze)
        self.starlette = Starlette(
            routes=[
                Route("/", self._page),
                Route("/api/setup", self._setup),
                *(Route(f"/api/{handler.__name__[1:]}", handler, methods=["POST"]) for handler in handlers),
                *(
                    Route(f"/api/{panel.name}", partial(panel.load_handler(), self), methods=["POST"])
                    for panel in self._panels
                    if panel.handler
                ),
                *(Mount(f"/static/{panel.name}", StaticFiles(directory=panel.folder)) for panel in self._panels),
                Mount("/static", StaticFiles(directory=STATIC)),
            ],
            exception_handlers=dict.fromkeys((*ERRORS, ValueError, HTTPException), _explain),
        )

    def close(self) -> None:
        self.searches.close()
        self.exact_searches.close()
        self.proof_reads.close()
        self.service.close()

    async def _page(self, _request: Request) -> Response:
        return HTMLResponse(index_page(self._panels))

    async def _setup(self, _request: Request) -> Response:
        service = self.service
        setup = page_setup(
            service.board,
            service.name,
            LEVELS,
            simulations=SIMULATIONS,
            exact=True,
            provenance=service.provenance,
        )
        return JSONResponse(setup | {"link": self._link})

    async def _move(self, request: Request) -> Response:
        body = await read_object(request)
        position = _unfinished_position(body, self.service.board)
        level, column = find_level(read_text(body, "level")), None
        if level.proven:
            column = await _run(request, self.proof_reads, lambda _stop: self.service.proven_move(position))
        if column is None:
            queue = self.exact_searches if level.perfect else self.searches
            column = await _run(request, queue, partial(self.service.choose, level, position))
        return JSONResponse({"column": column, "player": level.name})

    async def _exact(self, request: Request) -> Response:
        position = _unfinished_position(await read_object(request), self.service.board)
        verdict = await _run(request, self.exact_searches, partial(self.service.exact, position))
        columns = [{"column": v.column, "score": v.score, "outcome": v.text, "best": v.is_best} for v in verdict]
        return JSONResponse({"columns": columns})

    async def _hint(self, request: Request) -> Response:
        position = _unfinished_position(await read_object(request), self.service.board)
        return JSONResponse(asdict(await _run(request, self.exact_searches, partial(self.service.hint, position))))

    async def _proof(self, request: Request) -> Response:
        """Return the proven result, or null.

        The result has the side that does not lose (0: the first player), the maximum number of plies to that side's win
        (null if only a draw is proven), and its move (null if unknown or the other side is to move).
        """
        position = _unfinished_position(await read_object(request), self.service.board)
        known = await _run(request, self.proof_reads, lambda _stop: self.service.proven_result(position))
        result = known and {"side": 0 if known.first else 1, "plies": known.plies, "column": known.column}
        return JSONResponse({"result": result})

    async def _node(self, request: Request) -> Response:
        """Return a node of the session's tree from the last analysis, which must be of this position."""
        body = await read_object(request)
        position = _unfinished_position(body, self.service.board)
        path = body.get("path")
        if not isinstance(path, list) or not all(type(step) is int for step in path):
            raise ValueError("path must be a list of columns")
        view = self.service.node(_session(body), position, path)
        columns = [asdict(item) for item in view.columns]
        return JSONResponse({"moves": view.position.moves, "value": view.value, "columns": columns})

    async def _analyze(self, request: Request) -> Response:
        """Stream JSON lines with the state of the search; the last one is ``finished`` unless the search was stopped.

        A session has one tree, so a new analysis stops the previous one.
        """
        body = await read_object(request)
        position = _unfinished_position(body, self.service.board)
        simulations = body.get("simulations", SIMULATIONS)
        if type(simulations) is not int or not 1 <= simulations <= MAX_SIMULATIONS:
            raise ValueError(f"simulations must be from 1 to {MAX_SIMULATIONS}")
        session, stop = _session(body), Stop()

        def search(write: WriteLine) -> dict[str, Any]:
            def report(found: SearchResult) -> None:
                write(describe_search(found))

            return describe_search(self.service.analyze(session, position, simulations, stop, report))

        response = stream_lines(self.searches, search, stop)
        if session in self._analyses:
            self._analyses[session].set()
        self._analyses[session] = stop
        return response


async def _run(request: Request, queue: WorkQueue, work: Callable[[Stop], T]) -> T:
    """Run a search and return its result; set its `Stop` when the visitor leaves."""
    stop = Stop()
    search = queue.submit(partial(work, stop), stop)

    async def wait_for_leaving() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    leaving = asyncio.ensure_future(wait_for_leaving())
    try:
        await asyncio.wait((search, leaving), return_when=asyncio.FIRST_COMPLETED)
        stop.set()
        await asyncio.wait((search,))
        if search.cancelled():
            raise Stopped
        return search.result()
    finally:
        stop.set()
        leaving.cancel()


def stream_lines(queue: WorkQueue, work: Callable[[WriteLine], dict[str, Any]], stop: Stop) -> Response:
    """Stream the lines of JSON that a search writes, then its result; stop it when the visitor leaves."""
    loop, lines = asyncio.get_running_loop(), asyncio.Queue[dict[str, Any] | None]()

    def write(line: dict[str, Any] | None) -> None:
        loop.call_soon_threadsafe(lines.put_nowait, line)

    def end(search: "asyncio.Future[Any]") -> None:
        if not search.cancelled():
            search.exception()  # mark it as retrieved, or asyncio logs it if the visitor has left
        write(None)

    search = queue.submit(partial(work, write), stop)
    search.add_done_callback(end)

    async def encoded() -> AsyncIterator[bytes]:
        while (line := await lines.get()) is not None:
            yield json.dumps(line).encode() + b"\n"
        error = STOPPED if search.cancelled() else search.exception()
        # Errors go into the stream, because the status has been sent.
        last = search.result() if error is None else {"error": str(error) or STOPPED}
        yield json.dumps(last).encode() + b"\n"

    return _StoppingResponse(encoded(), stop)


class _StoppingResponse(StreamingResponse):
    def __init__(self, lines: AsyncIterator[bytes], stop: Stop) -> None:
        super().__init__(lines, media_type="application/x-ndjson")
        self._stop = stop

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:  # even if the visitor leaves before the first line
            self._stop.set()


async def _explain(_request: Request, error: Exception) -> Response:
    """Return an exception's message as one line of JSON."""
    if isinstance(error, HTTPException):
        return JSONResponse({"error": error.detail}, error.status_code)
    status, message = ERRORS.get(type(error), (400, str(error)))
    return JSONResponse({"error": message}, status)


async def read_object(request: Request) -> dict[str, Any]:
    """Read the JSON object in a request's body.

    Raises:
        HTTPException: if the content type is not JSON or the body is too long.
        ValueError: if the body is not a JSON object.
    """
    # Other sites' pages can send forms and plain text without a preflight request, but not this type (CORS).
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "the request's type must be application/json")
    data = b""
    try:
        async for part in request.stream():
            data += part
            if len(data) > MAX_BYTES:
                raise HTTPException(413, "the request is too long")
    except ClientDisconnect as error:
        raise ValueError("the visitor has disconnected") from error
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ValueError("the request is not JSON") from error
    if not isinstance(body, dict):
        raise ValueError("the request must be a JSON object")
    return body


def read_text(body: dict[str, Any], name: str) -> str:
    """Return a field of a request; raise a `ValueError` unless it is a text."""
    value = body.get(name)
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a string")
    return value


def _session(body: dict[str, Any]) -> str:
    """Return the name of the visitor's session, which has a search tree."""
    value = read_text(body, "session")
    if not SESSION.fullmatch(value):
        raise ValueError("session must be 8 to 64 letters, digits, - or _")
    return value


def _unfinished_position(body: dict[str, Any], board: Board) -> Position:
    """Return the position after the request's moves; the game must not be over."""
    position = Position.from_moves(read_text(body, "moves"), board)
    if position.outcome() is not None:
        raise ValueError("the game is over")
    return position
