"""Serves the page until it is interrupted."""

import contextlib
import errno
import secrets
import socket
import webbrowser
from typing import Literal

MOST_PORT = 65_535


def serve(
    network: str,
    host: str,
    port: int,
    *,
    token: Literal["auto", "always", "never"] = "auto",
    names: tuple[str, ...] = (),
    open_browser: bool = False,
) -> None:
    """Listen on ``host``, by default the loopback address only.

    Args:
        network: the network of the levels and the analysis.
        host: the address to listen on.
        port: 0 takes a free one.
        token: whether the link carries a secret word without which nothing is answered; "auto" where others on the
            network could connect.
        names: further names under which the server is known.
        open_browser: whether to open the page.

    Raises:
        RuntimeError: if the extra is not installed.
        ValueError: if there is no such network.
        OSError: naming the address, if it cannot be listened on.
    """
    try:
        from alphac4.play.web.access import is_loopback, rules_for
        from alphac4.play.web.app import WebApplication
        from alphac4.play.web.http_server import HttpServer
        from alphac4.play.web.search_service import SearchService
    except ImportError as error:
        raise RuntimeError(f"the page needs {error.name}: pip install 'alphac4[web]'") from error
    listener = _listen(host, port)
    with contextlib.closing(listener):
        port = listener.getsockname()[1]
        loopback = is_loopback(host)
        word = secrets.token_urlsafe(16) if token == "always" or (token == "auto" and not loopback) else None
        link = f"http://{_shown_name(host)}:{port}/" + (f"?token={word}" if word else "")
        rules = rules_for(host, port, token=word, names=names)
        application = WebApplication(SearchService(network), rules, "" if loopback else link)
        print(f"playing at {link} (Ctrl-C ends)", flush=True)
        if not loopback and word is None:
            print("everybody on the network can use it: --token never", flush=True)
        if open_browser:
            webbrowser.open(link)
        with contextlib.suppress(KeyboardInterrupt):  # uvicorn ends in order, then raises it again
            HttpServer(application).run(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
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
    """What to write into the link: where the server listens everywhere, the address that a phone can open."""
    if host in ("127.0.0.1", "::1", "localhost"):
        return "localhost" if host != "::1" else "[::1]"
    if host in ("", "0.0.0.0", "::"):
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(("192.0.2.1", 9))  # sends nothing, but tells which address faces the network
            return str(probe.getsockname()[0])
        return "localhost"
    return f"[{host}]" if ":" in host else host
