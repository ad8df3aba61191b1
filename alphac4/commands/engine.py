"""`alphac4 engine`: moves for other programs, over a line protocol."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import tyro

from alphac4.game.rules import make_geometry
from alphac4.play.engine import COMMANDS, DEFAULT_NODES, Engine, EngineOptions


@dataclass(frozen=True, kw_only=True)
class EngineCommandOptions:
    """Where the engine begins."""

    player: str = "best"
    """Who searches: best, fast, a checkpoint's file, or uct with its options."""
    nodes: int = DEFAULT_NODES
    """Simulations where "go" names no limit."""
    rows: int = 6
    """Rows of the board; networks only play the one they were trained for."""
    columns: int = 7
    """Columns of the board."""
    run_length: int = 4
    """Stones in a row that win."""
    diagonals: bool = True
    """Whether diagonal rows win."""


_COMMANDS = "\n".join(f"  {line}" for line in COMMANDS)
DESCRIPTION = f"""\
Read commands from the standard input and answer on the standard output, in the manner of chess's UCI.

{_COMMANDS}

Unknown input is answered by a line that begins with "error"."""


def main(arguments: Sequence[str]) -> int:
    """Parse and run."""
    return run(tyro.cli(EngineCommandOptions, args=arguments, prog="alphac4 engine", description=DESCRIPTION))


def run(options: EngineCommandOptions) -> int:
    """Answer until "quit" or the end of the input."""
    if options.nodes < 1:
        raise ValueError(f"--nodes must be at least 1, not {options.nodes}")
    geometry = make_geometry(options.rows, options.columns, options.run_length, options.diagonals)
    settings = EngineOptions(player=options.player, nodes=options.nodes)
    engine = Engine(lambda line: print(line, flush=True), settings, geometry)
    for line in sys.stdin:
        if not engine.handle(line):
            return 0
    engine.finish()
    return 0
