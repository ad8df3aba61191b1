"""Serves the page until it is interrupted."""

import contextlib
import socket
import webbrowser


def serve(network: str, host: str, port: int, *, open_browser: bool = False) -> None:
    """Listen on ``host``, by default the loopback address only.

    Raises:
        RuntimeError: if the extra is not installed.
        ValueError: if there is no such network.
        OSError: naming the address, if it cannot be listened on.
    """
    try:
        import uvicorn

        from alphac4.play.web.app import Table, WebApplication
    except ImportError as error:
        raise RuntimeError(f"the page needs {error.name}: pip install 'alphac4[web]'") from error
    table = Table(network)
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen()  # so that who reads the address can connect at once
    except OSError as error:
        listener.close()
        raise OSError(error.errno, error.strerror, f"{host}:{port}") from error
    port = listener.getsockname()[1]
    loopback = host in ("127.0.0.1", "::1", "localhost")
    application = WebApplication(table, ["127.0.0.1", "localhost", "[::1]"] if loopback else ["*"])
    shown = f"http://{'localhost' if loopback else host}:{port}/"
    print(f"playing at {shown} (Ctrl-C ends)", flush=True)
    if open_browser:
        webbrowser.open(shown)
    config = uvicorn.Config(application.starlette, log_level="warning", lifespan="off", timeout_graceful_shutdown=2)
    with contextlib.suppress(KeyboardInterrupt):  # uvicorn ends in order, then raises it again
        uvicorn.Server(config).run(sockets=[listener])
