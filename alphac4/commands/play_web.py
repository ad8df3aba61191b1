"""`alphac4 play web`: a page to play on in the browser."""

from alphac4.commands.options import PlayWebOptions
from alphac4.machine import install_advice


def run(options: PlayWebOptions) -> int:
    """Serve the page until Ctrl-C."""
    try:
        from alphac4.play.web.server import serve
    except ImportError as error:
        raise RuntimeError(f"the page needs {error.name}: {install_advice('web')}") from error
    place = options.host, options.port
    serve(options.network, *place, token=options.token, names=options.names, open_browser=options.open)
    return 0
