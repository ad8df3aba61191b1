"""`alphac4 engine`: moves for other programs, over a line protocol."""

import sys

import numpy as np

from alphac4.arena.specifications import find_network, parse_searching_player
from alphac4.commands.options import EngineOptions
from alphac4.play.engine import Engine


def run(options: EngineOptions) -> int:
    """Answer until "quit" or the end of the input."""
    geometry = options.board.geometry()
    network = find_network(options.player)
    if network is not None:  # a bad player is reported now, though it is loaded at the first need
        _ = network.budget
        network.load()
    else:
        parse_searching_player(options.player, rng=np.random.default_rng(0), geometry=geometry)
    engine = Engine(lambda line: print(line, flush=True), options.player, options.nodes, geometry)
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
