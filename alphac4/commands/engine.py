"""`alphac4 engine`: moves for other programs, over a line protocol."""

import sys

from alphac4.commands.options import EngineOptions
from alphac4.play.analysis import Analyst
from alphac4.play.engine import Engine


def run(options: EngineOptions) -> int:
    """Answer until "quit" or the end of the input."""
    geometry = options.board.geometry()
    analyst = Analyst.named(options.player, geometry=geometry)
    engine = Engine(lambda line: print(line, flush=True), analyst, options.nodes, geometry)
    try:
        for line in sys.stdin.buffer:
            if not engine.handle(line.decode(errors="replace")) or engine.abandoned:
                break
        engine.finish()
    finally:
        engine.close()
    if engine.abandoned:
        raise BrokenPipeError
    return 0
