"""The page's HTTP server: where it listens and whose requests it answers.

A page from anywhere can make the visitor's browser send requests to this machine. The browser sends the name that it
asks (Host) and the page that asks (Origin). Requests under a foreign name (DNS rebinding) or from a foreign page are
refused. Where others on the network can connect, the link carries a token, which the browser then keeps in a cookie.
"""

import contextlib
import errno
import ipaddress
import os
import secrets
import socket
import sys
import webbrowser
from collections.abc import Sequence
from typing import Literal
from urllib.parse import parse_qs

import uvicorn
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from alphac4.play.web.app import WebApplication
from alphac4.play.web.searches import SearchService

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
MAX_CONNECTIONS = 512  # beyond, uvicorn answers 503


def serve(
    network: str,
    host: str,
    port: int,
    *,
    token: Literal["auto", "always", "never"] = "auto",
    names: tuple[str, ...] = (),
    open_browser: bool = False,
) -> None:
    """Serve the page until Ctrl-C.

    Args:
        network: the network of the levels and the analysis.
        host: the address to listen on.
        port: 0 takes a free one.
        token: whether the link carries a secret word without which nothing is answered; "auto" where others on the
            network could connect.
        names: further names under which the server is known.
        open_browser: whether to open the page where a person sits at a desktop.

    Raises:
        ValueError: if there is no such network.
        OSError: naming the address, if it cannot be listened on.
    """
    with contextlib.closing(listen(host, port)) as listener:
        port = listener.getsockname()[1]
        loopback = is_loopback(host)
        word = secrets.token_urlsafe(16) if token == "always" or (token == "auto" and not loopback) else None
        link = f"http://{_shown_name(host)}:{port}/" + (f"?token={word}" if word else "")
        service = SearchService(network)
        application = WebApplication(service, "" if loopback else link)
        server = HttpServer(application, AccessControl(application.starlette, host, port, token=word, names=names))
        print(f"playing at {link} (Ctrl-C ends)", flush=True)
        if not loopback and word is None:
            print("everybody on the network can use it: --token never", flush=True)
        if open_browser and at_desktop():
            webbrowser.open(link)
        service.prepare()
        with contextlib.suppress(KeyboardInterrupt):  # uvicorn ends in order, then raises it again
            server.run(sockets=[listener])


def at_desktop() -> bool:
    """Return whether a person has started this at this machine's desktop: not over ssh, in CI, or by a program."""
    if any(os.environ.get(name) for name in ("CI", "SSH_CONNECTION", "SSH_TTY")) or not sys.stdout.isatty():
        return False
    return sys.platform in ("win32", "darwin") or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def is_loopback(host: str) -> bool:
    """Return whether an address to listen on can be reached from this machine only."""
    address = _address(host)
    return host.lower() == "localhost" or (address is not None and address.is_loopback)


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


class AccessControl:
    """Lets only such requests through to ``app`` as may come, and adds `HEADERS` to every answer.

    Args:
        app: what answers them.
        host: the address that the server listens on, which it may be called as well.
        port: and the port; browsers share cookies between ports, so that each has a cookie of its own.
        token: the word that the link must carry.
        names: further names of the server.
    """

    def __init__(
        self, app: ASGIApp, host: str, port: int, *, token: str | None = None, names: Sequence[str] = ()
    ) -> None:
        self._app = app
        self._token = token
        self._cookie = f"alphac4-{port}"
        self._any_address = not is_loopback(host)  # a rebound name is never an address
        own = socket.gethostname().lower()
        self._names = {*LOOPBACK, host.lower(), *map(str.lower, names)}
        self._names |= {own, f"{own}.local"} if self._any_address else set()

    def accepts_host(self, host: str) -> bool:
        """Whether a Host header names this server."""
        name = (host[1:].partition("]") if host.startswith("[") else host.partition(":"))[0].lower()
        return name in self._names or (self._any_address and _address(name) is not None)

    def _accepts_token(self, token: str) -> bool:
        """Whether a token is the right one, compared in constant time."""
        return self._token is None or secrets.compare_digest(token.encode(), self._token.encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, redirect, or hand on."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", ()), *own]}
            await send(message)

        await (self._refusal(scope) or self._app)(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        """The answer to a request that is not handed on."""
        if scope["type"] != "http":  # the server's own start and end
            return None
        request = HTTPConnection(scope)
        host = request.headers.get("host", "")
        if not self.accepts_host(host):
            return _forbid("this server is not known under that name")
        # The scheme is not compared: behind a proxy it may be https where this server speaks http.
        origin = request.headers.get("origin")
        if origin is not None and origin.partition("://")[2].lower() != host.lower():
            return _forbid("this server answers its own page only")
        if self._token is None:
            return None
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token")
        if given is not None and scope["path"] == "/" and self._accepts_token(given[0]):
            response = RedirectResponse("/", 303)
            response.set_cookie(self._cookie, self._token, httponly=True, samesite="lax", max_age=30 * 24 * 3600)
            return response
        if not self._accepts_token(request.cookies.get(self._cookie, "")):
            return _forbid("open the link that the server has printed: it carries the token")
        return None


def _forbid(message: str) -> Response:
    return JSONResponse({"error": message}, 403)


class HttpServer(uvicorn.Server):
    """uvicorn with an application whose searches end at the first Ctrl-C."""

    def __init__(self, application: WebApplication, access: AccessControl) -> None:
        config = uvicorn.Config(
            access,
            http="h11",
            ws="none",
            log_level="error",
            lifespan="off",
            proxy_headers=False,
            limit_concurrency=MAX_CONNECTIONS,
            timeout_graceful_shutdown=2,
        )
        super().__init__(config)
        self._application = application

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Called in the event loop soon after Ctrl-C, or when the process is asked to end.

        Not in `handle_exit`, which a signal calls wherever this thread is: perhaps between two lines that put a search
        into its queue.
        """
        self._application.close()
        await super().shutdown(sockets)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, so that who reads the printed address can connect at once."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(512)
    except OSError as error:
        listener.close()
        advice = ": another --port, or 0 for a free one, will do" if error.errno == errno.EADDRINUSE else ""
        raise OSError(error.errno, f"{error.strerror}{advice}", f"{host}:{port}") from error
    return listener


def _shown_name(host: str) -> str:
    """The host in the link: where the server listens everywhere, the address that a phone can open."""
    if host in ("127.0.0.1", "localhost"):
        return "localhost"
    if host in ("", "0.0.0.0", "::"):
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(("192.0.2.1", 9))  # sends nothing, but tells which address faces the network
            return str(probe.getsockname()[0])
        return "localhost"
    return f"[{host}]" if ":" in host else host
