"""The command `alphac4 engine`."""

import sys
from dataclasses import dataclass, field
from typing import Annotated

from alphac4.commands.arguments import NO_PREFIX, PlayerName, loading
from alphac4.storage.records import BoardConfig, CheckedSettings


@dataclass(frozen=True, kw_only=True)
class EngineCommand(CheckedSettings):
    """Answer other programs over a line protocol like UCI: commands on the standard input, answers on the output.

        echo "go nodes 100" | alphac4 engine --player quick

    The commands are c4i, isready, setoption, newgame, position, go, stop, exact, d, help and quit; `help` describes
    them briefly, docs/engine-protocol.md in full. Invalid input is answered by a line that starts with "error".
    """

    player: PlayerName = "best@600"
    """Player that searches: a network such as best@600 or FILE.safetensors@600, or classic MCTS such as uct:10000. Its
    limit applies if "go" gives none."""
    board: Annotated[BoardConfig, NO_PREFIX] = field(default_factory=BoardConfig)

    def __call__(self) -> int:
        """Answer commands until "quit" or the end of the input."""
        with loading():
            from alphac4.play.analysis import Analyst
            from alphac4.plugins.engine.protocol import Engine
        board = self.board.make()
        analyst = Analyst.named(self.player, board=board)
        engine = Engine(lambda line: print(line, flush=True), analyst, board)
        try:
            for line in sys.stdin.buffer:
                if not engine.handle(line.decode(errors="replace")) or engine.output_error is not None:
                    break
            engine.finish()
        finally:
            engine.close()
        if engine.output_error is not None:
            raise engine.output_error
        return 0
