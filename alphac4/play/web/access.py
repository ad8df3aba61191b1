"""Who may ask the server: the page that it has served itself, and nobody else's.

A page from anywhere can make the visitor's browser send requests to this machine. The browser tells under what name it
asks (Host) and whose page it is (Origin): under a stranger's name (DNS rebinding) or for a stranger's page nothing is
done. Where others on the network could connect as well, the link carries a token, which the browser then keeps in a
cookie.
"""

import ipaddress
import secrets
import socket
from dataclasses import dataclass
from urllib.parse import parse_qs

from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, kw_only=True)
class AccessRules:
    """Under which names the server may be asked, and by whom.

    Attributes:
        names: host names that are the server's own.
        any_address: whether any IP address will do as well: a rebound name is never one.
        token: the word that the link must carry; None if there is none.
        cookie: the name of the cookie that keeps it, different for each port: browsers share cookies between ports.
    """

    names: frozenset[str] = LOOPBACK
    any_address: bool = False
    token: str | None = None
    cookie: str = "alphac4"

    def accepts_host(self, host: str) -> bool:
        """Whether a Host header names this server."""
        name = host_name(host)
        if name in self.names:
            return True
        return self.any_address and _is_address(name)

    def accepts_token(self, token: str) -> bool:
        """Whether a token is the right one, compared in constant time."""
        return self.token is None or secrets.compare_digest(token.encode(), self.token.encode())


def rules_for(host: str, port: int, *, token: str | None, names: tuple[str, ...] = ()) -> AccessRules:
    """The rules of a server that listens on ``host``, which may also be called one of ``names``."""
    cookie = f"alphac4-{port}"
    if is_loopback(host):
        return AccessRules(names=LOOPBACK | {host.lower(), *names}, token=token, cookie=cookie)
    own = socket.gethostname().lower()
    known = {host.lower(), own, f"{own}.local", *(name.lower() for name in names)}
    return AccessRules(names=LOOPBACK | known, any_address=True, token=token, cookie=cookie)


def is_loopback(host: str) -> bool:
    """Whether an address to listen on can be reached from this machine only."""
    if host.lower() == "localhost":
        return True
    return _is_address(host) and ipaddress.ip_address(host).is_loopback


def host_name(host: str) -> str:
    """A Host header's name in small letters, without the port and an IPv6 address's brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class AccessControl:
    """Lets only such requests through to ``app`` as the rules accept."""

    def __init__(self, app: ASGIApp, rules: AccessRules) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, redirect, or hand on."""
        answer = self._answer(scope) if scope["type"] == "http" else None  # else the server's own start and end
        if answer is None:
            await self._app(scope, receive, send)
        else:
            await answer(scope, receive, send)

    def _answer(self, scope: Scope) -> Response | None:
        """What to say instead of handing the request on."""
        rules, request = self._rules, HTTPConnection(scope)
        headers = request.headers
        host = headers.get("host", "")
        if not rules.accepts_host(host):
            return _refusal("this server is not known under that name")
        # The scheme is not compared: behind a proxy it may be https where this server speaks http.
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2].lower() != host.lower():
            return _refusal("this server answers its own page only")
        if rules.token is None:
            return None
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token")
        if given is not None and scope["path"] == "/" and rules.accepts_token(given[0]):
            response = RedirectResponse("/", 303)
            response.set_cookie(rules.cookie, rules.token, httponly=True, samesite="lax", max_age=30 * 24 * 3600)
            return response
        if not rules.accepts_token(request.cookies.get(rules.cookie, "")):
            return _refusal("open the link that the server has printed: it carries the token")
        return None


def _refusal(message: str) -> Response:
    return JSONResponse({"error": message}, 403)
