"""HTTP server of the page, with access control.

Any web page can make the visitor's browser send requests to this machine. The browser sends the requested host name
(Host) and the requesting page (Origin). Requests with another host name (DNS rebinding) or from another page are
refused. If other machines can connect, the link carries a token, which the browser stores in a cookie.
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
MAX_CONNECTIONS = 512  # above this, uvicorn answers 503


def serve(
    network: str,
    host: str,
    port: int,
    *,
    token: Literal["auto", "always", "never"] = "auto",
    allowed_hosts: tuple[str, ...] = (),
    open_browser: bool = False,
) -> None:
    """Serve the page until Ctrl-C.

    Args:
        network: the network of the levels and the analysis.
        host: the address to listen on.
        port: the port; 0 takes a free one.
        token: whether the link carries a secret token that every visitor needs; "auto": if other
            machines can connect.
        allowed_hosts: additional host names to accept.
        open_browser: whether to open the page, if started from a terminal of this machine's desktop.

    Raises:
        ValueError: for an unknown network.
        OSError: if the address cannot be listened on; the message names it.
    """
    with contextlib.closing(listen(host, port)) as listener:
        port = listener.getsockname()[1]
        loopback = is_loopback(host)
        secret = secrets.token_urlsafe(16) if token == "always" or (token == "auto" and not loopback) else None
        link = f"http://{_shown_name(host)}:{port}/" + (f"?token={secret}" if secret else "")
        service = SearchService(network)
        application = WebApplication(service, "" if loopback else link)
        access = AccessControl(application.starlette, host, port, token=secret, allowed_hosts=allowed_hosts)
        server = HttpServer(application, access)
        print(f"playing at {link} (Ctrl-C stops)", flush=True)
        if not loopback and secret is None:
            print("warning: everybody on the network can use it (--token never)", flush=True)
        if open_browser and at_desktop():
            webbrowser.open(link)
        service.prepare()
        with contextlib.suppress(KeyboardInterrupt):  # uvicorn shuts down, then raises it again
            server.run(sockets=[listener])


def at_desktop() -> bool:
    """Return whether a person started this process on the machine's desktop: not over ssh, in CI, or by a program."""
    if any(os.environ.get(name) for name in ("CI", "SSH_CONNECTION", "SSH_TTY")) or not sys.stdout.isatty():
        return False
    return sys.platform in ("win32", "darwin") or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def is_loopback(host: str) -> bool:
    """Return whether an address is only reachable from this machine."""
    address = _address(host)
    return host.lower() == "localhost" or (address is not None and address.is_loopback)


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


class AccessControl:
    """ASGI middleware that rejects forbidden requests and adds `HEADERS` to every response.

    Args:
        app: the application that answers allowed requests.
        host: the address that the server listens on; also an accepted host name.
        port: the port; it names the cookie, because browsers share cookies between ports.
        token: the secret that visitors need; None for none.
        allowed_hosts: additional host names to accept.
    """

    def __init__(
        self, app: ASGIApp, host: str, port: int, *, token: str | None = None, allowed_hosts: Sequence[str] = ()
    ) -> None:
        self._app = app
        self._token = token
        self._cookie = f"alphac4-{port}"
        self._accepts_any_address = not is_loopback(host)  # safe, because DNS rebinding needs a name
        own = socket.gethostname().lower()
        self._names = {*LOOPBACK, host.lower(), *map(str.lower, allowed_hosts)}
        self._names |= {own, f"{own}.local"} if self._accepts_any_address else set()

    def accepts_host(self, host: str) -> bool:
        """Return whether a Host header names this server."""
        name = (host[1:].partition("]") if host.startswith("[") else host.partition(":"))[0].lower()
        return name in self._names or (self._accepts_any_address and _address(name) is not None)

    def _accepts_token(self, token: str) -> bool:
        """Return whether a token is correct, comparing in constant time."""
        return self._token is None or secrets.compare_digest(token.encode(), self._token.encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reject or redirect a request, or pass it to the application."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", ()), *own]}
            await send(message)

        await (self._refusal(scope) or self._app)(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        """Return the response to a rejected or redirected request; None for one to pass on."""
        if scope["type"] != "http":  # lifespan events
            return None
        request = HTTPConnection(scope)
        host = request.headers.get("host", "")
        if not self.accepts_host(host):
            return _forbid("unknown host name; start the server with --allowed-hosts NAME")
        # The scheme may differ: https before a proxy, http behind it.
        origin = request.headers.get("origin")
        if origin is not None and origin.partition("://")[2].lower() != host.lower():
            return _forbid("requests from other pages are not allowed")
        if self._token is None:
            return None
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token")
        if given is not None and scope["path"] == "/" and self._accepts_token(given[0]):
            response = RedirectResponse("/", 303)
            response.set_cookie(self._cookie, self._token, httponly=True, samesite="lax", max_age=30 * 24 * 3600)
            return response
        if not self._accepts_token(request.cookies.get(self._cookie, "")):
            return _forbid("open the link that the server printed, which contains the token")
        return None


def _forbid(message: str) -> Response:
    return JSONResponse({"error": message}, 403)


class HttpServer(uvicorn.Server):
    """Uvicorn server that stops the application's searches at the first Ctrl-C."""

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
        """Stop the application; called in the event loop after Ctrl-C or a termination signal.

        `handle_exit` would be too early: the signal may arrive while a search is being put into its queue.
        """
        self._application.close()
        await super().shutdown(sockets)


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket, which accepts connections before the address is printed.

    Raises:
        OSError: if the address cannot be listened on; the message names it.
    """
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(512)
    except OSError as error:
        listener.close()
        advice = ": choose another --port, or 0 for a free one" if error.errno == errno.EADDRINUSE else ""
        raise OSError(error.errno, f"{error.strerror}{advice}", f"{host}:{port}") from error
    return listener


def _shown_name(host: str) -> str:
    """Return the host for the link; for a server on all addresses, one that other devices can reach."""
    if host in ("127.0.0.1", "localhost"):
        return "localhost"
    if host in ("", "0.0.0.0", "::"):
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(("192.0.2.1", 9))  # sends nothing, but selects the address that faces the network
            return str(probe.getsockname()[0])
        return "localhost"
    return f"[{host}]" if ":" in host else host
