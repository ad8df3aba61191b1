"""`alphac4 engine`: moves for other programs, over a line protocol."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from alphac4.arena.specifications import find_network, network_budget, parse_searching_player
from alphac4.commands.arguments import Board, BoardOptions, read_arguments
from alphac4.mcts.search import MAX_SIMULATIONS
from alphac4.play.engine import COMMANDS, DEFAULT_NODES, DEFAULT_PLAYER, Engine
from alphac4.storage.records import check_ranges


@dataclass(frozen=True, kw_only=True)
class EngineCommandOptions:
    """Where the engine begins."""

    player: str = DEFAULT_PLAYER
    """Who searches: best, fast, a checkpoint's file, or uct with its options."""
    nodes: int = DEFAULT_NODES
    """Simulations where "go" names no limit."""
    board: Board = field(default_factory=BoardOptions)
    """The board."""

    def __post_init__(self) -> None:
        check_ranges(self, nodes=(1, MAX_SIMULATIONS))


_COMMANDS = "\n".join(f"  {line}" for line in COMMANDS)
DESCRIPTION = f"""\
Read commands from the standard input and answer on the standard output, in the manner of chess's UCI.

{_COMMANDS}

Unknown input is answered by a line that begins with "error"."""


def main(arguments: Sequence[str]) -> int:
    """Parse and run."""
    return run(read_arguments(EngineCommandOptions, arguments, "engine", description=DESCRIPTION))


def run(options: EngineCommandOptions) -> int:
    """Answer until "quit" or the end of the input."""
    geometry = options.board.geometry()
    network = find_network(options.player)
    if network is not None:  # a bad player is reported now, though it is loaded at the first need
        network_budget(network, options.player)
        network.load()
    else:
        parse_searching_player(options.player, rng=np.random.default_rng(0), geometry=geometry)
    engine = Engine(lambda line: print(line, flush=True), options.player, options.nodes, geometry)
    try:
        for line in sys.stdin.buffer if sys.stdin is not None else ():
            if not engine.handle(line.decode(errors="replace")) or engine.abandoned:
                break
        engine.finish()
    finally:
        engine.close()
    if engine.abandoned:
        raise BrokenPipeError
    return 0
