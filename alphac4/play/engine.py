"""A line protocol for programs that want moves, in the manner of chess's UCI; see docs/ENGINE.md."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from alphac4.game import Geometry, Position
from alphac4.game.position import column_name, join_moves
from alphac4.game.rules import STANDARD
from alphac4.mcts.results import SearchedPosition
from alphac4.mcts.search import Budget
from alphac4.play.analysis import Analyst
from alphac4.solver.solver import exact
from alphac4.storage.records import MAX_SIMULATIONS
from alphac4.version import __version__

DEFAULT_PLAYER, DEFAULT_NODES = "best", 600
MAX_MILLISECONDS = 24 * 3600 * 1000

COMMANDS = (
    "c4i                        who this is and its options, ended by c4iok",
    "isready                    readyok, once everything is loaded",
    "setoption name N value V   see the options that c4i lists",
    "newgame                    forget the tree",
    "position startpos [moves 4 4 5]   or: position 445",
    "go [nodes N] [movetime MS] [infinite]   search; ends with bestmove",
    "stop                       end the search now",
    "exact                      the solver's score of each column; stop ends it",
    "d                          show the board",
    "help                       this list",
    "quit                       leave",
)


class Engine:
    """Reads commands, writes answers; a search runs in a thread of its own, so that ``stop`` is heard.

    Args:
        write: takes one line of output; called from the search's thread too, one line at a time.
        analyst: searches, until another player is named.
        nodes: simulations where "go" names no limit.
        geometry: the board.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        analyst: Analyst,
        nodes: int = DEFAULT_NODES,
        geometry: Geometry = STANDARD,
    ) -> None:
        self.nodes = nodes
        self.geometry = geometry
        self.position = Position.from_moves("", geometry)
        self._write_line = write
        self._write_lock = threading.Lock()
        self._analyst = analyst
        # One thread for all searches: what a network loads in its first search, it loads for the thread.
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="search")
        self._search: Future[str] | None = None  # the latest
        self._stop = threading.Event()
        self._endless = False  # the latest search has no limit
        self.abandoned = False  # nobody reads the answers any more

    def handle(self, line: str) -> bool:
        """Obey one line; False after ``quit``. Whatever is wrong is answered by a line that begins with "error"."""
        words = line.removeprefix("\ufeff").split()  # some programs begin with a byte-order mark
        if not words:
            return True
        command, arguments = words[0].lower(), words[1:]
        if command == "quit":
            self.close()
            return False
        action = getattr(self, f"_on_{command}", None)
        try:
            if action is None:
                raise ValueError(f"unknown command {words[0][:30]!r}; help lists the commands")
            action(arguments)
        except (ValueError, RuntimeError, OSError) as error:
            self._write(f"error {' '.join(str(error).split())}")
        return True

    def wait(self) -> None:
        """Wait until the search that is in progress has answered."""
        if self._search is not None:
            self._worker.submit(int).result()  # a search answers before its thread takes the next task

    def close(self) -> None:
        """End a search that is in progress, and wait for its answer; none can follow."""
        self._stop.set()
        self._worker.shutdown()
        self._search = None

    def finish(self) -> None:
        """Wait for a search that has a limit; one without is stopped."""
        if self._endless:
            self._stop.set()
        self.wait()

    def _write(self, line: str) -> None:
        with self._write_lock:
            if not self.abandoned:
                try:
                    self._write_line(line)
                except (OSError, ValueError):  # a closed pipe or stream
                    self.abandoned = True
                    self._stop.set()

    @property
    def _searching(self) -> bool:
        return self._search is not None and not self._search.done()

    def _idle(self) -> None:
        """Refuse while a search runs."""
        if self._searching:
            raise ValueError("a search is in progress; stop it first")
        self.wait()

    def _on_c4i(self, _arguments: list[str]) -> None:
        self._write(f"id name alphac4 {__version__}")
        self._write(f"option name player type string default {DEFAULT_PLAYER}")
        self._write(f"option name nodes type spin default {DEFAULT_NODES} min 1")
        self._write("c4iok")

    def _on_isready(self, _arguments: list[str]) -> None:
        if not self._searching:
            self._worker.submit(self._analyst.warm_up, self.geometry).result()
        self._write("readyok")

    def _on_newgame(self, _arguments: list[str]) -> None:
        self._idle()
        self._analyst.forget()
        self.position = Position.from_moves("", self.geometry)

    def _on_setoption(self, arguments: list[str]) -> None:
        self._idle()
        if len(arguments) < 4 or arguments[0] != "name" or arguments[2] != "value":
            raise ValueError("write: setoption name N value V")
        name, value = arguments[1].lower(), " ".join(arguments[3:])
        if name == "player":
            self._analyst = Analyst.named(value, geometry=self.geometry)
        elif name == "nodes":
            self.nodes = _positive(value, "nodes", MAX_SIMULATIONS)
        else:
            raise ValueError(f"no option {arguments[1]!r}; there are player and nodes")

    def _on_position(self, arguments: list[str]) -> None:
        self._idle()
        if not arguments:
            raise ValueError("write: position startpos moves 4 4 5, or: position 445")
        if arguments[0] == "startpos":
            if len(arguments) > 1 and arguments[1] != "moves":
                raise ValueError(f"expected moves after startpos, not {arguments[1]!r}")
            arguments = arguments[2:]
        self.position = Position.from_moves(join_moves(arguments), self.geometry)

    def _on_go(self, arguments: list[str]) -> None:
        self._idle()
        if self.position.outcome() is not None:
            raise ValueError("the game is over in this position")
        nodes: int | None = None
        seconds: float | None = None
        endless = False
        words = iter(arguments)
        for word in words:
            if word == "nodes":
                nodes = _positive(next(words, ""), "nodes", MAX_SIMULATIONS)
            elif word == "movetime":
                seconds = _positive(next(words, ""), "movetime", MAX_MILLISECONDS) / 1000
            elif word == "infinite":
                endless = True
            else:
                raise ValueError(f"go knows nodes, movetime and infinite, not {word!r}")
        if nodes is None:
            nodes = self.nodes if seconds is None and not endless else MAX_SIMULATIONS
        self._endless = endless
        analyst, position = self._analyst, self.position

        def search() -> str:
            budget = Budget(simulations=nodes, seconds=seconds)
            analysis = analyst.analyze(position, budget, stop=self._stop, on_progress=self._inform)
            if endless:  # a proven position is known at once, but the answer is due at "stop"
                self._stop.wait()
            self._inform(analysis)
            return f"bestmove {column_name(analysis.move)}"

        self._start(search)

    def _start(self, work: Callable[[], str]) -> None:
        """Run beside the commands and write the line that it ends with; an error there does not end the engine."""
        self._stop.clear()

        def run() -> str:
            try:
                return work()
            except Exception as error:
                return f"error {' '.join(str(error).split())}"

        self._search = self._worker.submit(run)
        self._search.add_done_callback(lambda search: self._write(search.result()))  # it is over once its line is read

    def _inform(self, analysis: SearchedPosition) -> None:
        rate = analysis.simulations / max(analysis.seconds, 1e-6)
        win, draw = round(1000 * analysis.wdl.win), round(1000 * analysis.wdl.draw)
        self._write(
            f"info nodes {analysis.simulations} nps {rate:.0f} time {1000 * analysis.seconds:.0f} "
            f"score {analysis.value:.3f} wdl {win} {draw} {1000 - win - draw} "
            f"pv {' '.join(map(column_name, analysis.pv))}"
        )

    def _on_stop(self, _arguments: list[str]) -> None:
        self._stop.set()
        self.wait()

    def _on_exact(self, _arguments: list[str]) -> None:
        self._idle()
        if self.position.outcome() is not None:
            raise ValueError("the game is over in this position")
        self._endless = False
        position = self.position

        def solve() -> str:
            scores = {item.column: str(item.score) for item in exact(position, self._check)}
            return "exact " + " ".join(scores.get(column, ".") for column in range(self.geometry.columns))

        self._start(solve)

    def _check(self) -> None:
        if self._stop.is_set():
            raise ValueError("the solver was stopped")

    def _on_d(self, _arguments: list[str]) -> None:
        for line in str(self.position).splitlines():
            self._write(line)

    def _on_help(self, _arguments: list[str]) -> None:
        for line in COMMANDS:
            self._write(line)


def _positive(text: str, name: str, maximum: int) -> int:
    # The length is looked at first: Python refuses numbers of thousands of digits in words of its own.
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(maximum)) and 1 <= int(text) <= maximum):
        shown = text if len(text) <= 30 else f"{text[:27]}..."
        raise ValueError(f"{name} needs a number from 1 to {maximum}, not {shown!r}")
    return int(text)
