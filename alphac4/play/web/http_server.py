"""The HTTP server: it waits for nobody, neither for a visitor who stalls nor, when it ends, for a search."""

import asyncio
import socket
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from alphac4.play.web.app import WebApplication


def most_connections() -> int:
    """How many connections there may be at a time, so that the process never runs out of files to open."""
    try:
        import resource
    except ImportError:  # Windows
        return 400
    return min(2000, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)


STALL_SECONDS = 10.0  # without a whole request head, or without reading what was sent
CHECK_SECONDS = 1.0
MOST_CONNECTIONS = most_connections()


class ImpatientProtocol(H11Protocol):
    """uvicorn's HTTP, which on its own waits for ever for the rest of a request, and for a reader who does not read."""

    _next_check: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to watch, unless there are too many connections already."""
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
            return
        self._stalled = 0.0  # seconds, as far as the checks have seen them
        self._next_check = self.loop.call_later(CHECK_SECONDS, self._check)

    def connection_lost(self, exc: Exception | None) -> None:
        """Watch no longer."""
        if self._next_check is not None:
            self._next_check.cancel()
        super().connection_lost(exc)

    def _check(self) -> None:
        """End the connection if it has stalled for long; what the application is at is not the visitor's fault."""
        cycle: Any = self.cycle
        between_requests = cycle is None or cycle.response_complete
        if not between_requests and not self.flow.write_paused:
            self._stalled = 0.0
        else:
            # Not by the clock: on a busy machine seconds may pass in which nobody has looked at what arrived.
            self._stalled += CHECK_SECONDS
        if self._stalled > STALL_SECONDS:
            self.transport.abort()  # `close` would wait until everything is read
            return
        self._next_check = self.loop.call_later(CHECK_SECONDS, self._check)


class HttpServer(uvicorn.Server):
    """uvicorn with an application whose searches end at the first Ctrl-C."""

    def __init__(self, application: WebApplication) -> None:
        super().__init__(
            uvicorn.Config(
                application.starlette,
                http=ImpatientProtocol,
                ws="none",
                log_level="error",
                lifespan="off",
                timeout_graceful_shutdown=2,
            )
        )
        self._application = application

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Called in the event loop soon after Ctrl-C, or when the process is asked to end.

        Not in `handle_exit`: a signal may come while this thread puts a search into its queue, and whoever then closes
        the queue waits for ever for locks that the thread itself has taken.
        """
        self._application.close()
        await super().shutdown(sockets)
