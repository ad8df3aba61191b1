"""Line protocol for other programs, similar to UCI in chess; docs/engine-protocol.md describes it."""

import inspect
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from alphac4.game import Board, Position
from alphac4.game.position import column_name, join_moves
from alphac4.game.rules import STANDARD
from alphac4.mcts.results import SearchResult
from alphac4.mcts.search import Budget
from alphac4.play.analysis import Analyst
from alphac4.solver.solver import exact
from alphac4.storage.records import MAX_MESSAGE_LENGTH, MAX_SIMULATIONS, is_whole_number, quote, shorten
from alphac4.version import __version__

MAX_MOVETIME_MS = 24 * 3600 * 1000

COMMANDS = (
    "c4i                        name and options of the engine, then c4iok",
    "isready                    readyok, once everything is loaded",
    "setoption name N value V   set an option that c4i lists",
    "newgame                    empty the board and discard the tree",
    "position startpos [moves 4 4 5]   or: position 445",
    "go [nodes N] [movetime MS] [infinite]   search; ends with bestmove",
    "stop                       stop the search now",
    "exact                      exact score of each column; can be stopped",
    "d                          show the board",
    "help                       this list",
    "quit                       exit",
)


class Engine:
    """Executor of commands, which writes answers; searches run in a thread, so that ``stop`` works.

    ``write`` writes one line of output; it is also called from the search's thread, one call at a time.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        analyst: Analyst,
        board: Board = STANDARD,
    ) -> None:
        self.budget = analyst.budget
        self.board = board
        self.position = Position.from_moves("", board)
        self._write_line = write
        self._write_lock = threading.Lock()
        self._analyst = analyst
        # One thread for all searches, because a network's first search loads state for its thread.
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="search")
        self._search: Future[str] | None = None  # the latest
        self._stop = threading.Event()
        self._endless = False  # the latest search has no limit
        self.output_error: OSError | None = None  # after which nothing is written

    def handle(self, line: str) -> bool:
        """Execute one line; return False after ``quit``. The answer to an invalid line starts with "error"."""
        words = line.removeprefix("\ufeff").split()  # some programs send a byte-order mark first
        if not words:
            return True
        command, arguments = words[0].lower(), words[1:]
        if command == "quit":
            self.close()
            return False
        action = getattr(self, f"_on_{command}", None)
        try:
            if action is None:
                raise ValueError(f"unknown command {quote(words[0])}; help lists the commands")
            takes_arguments = bool(inspect.signature(action).parameters)
            if arguments and not takes_arguments:
                raise ValueError(f"{command} takes no arguments, but {quote(' '.join(arguments))} follows")
            action(*[arguments] * takes_arguments)
        except (ValueError, RuntimeError, OSError) as error:
            self._write(f"error {shorten(' '.join(str(error).split()), MAX_MESSAGE_LENGTH)}")
        return True

    def wait(self) -> None:
        if self._search is not None:
            self._worker.submit(int).result()  # a search answers before its thread takes the next task

    def close(self) -> None:
        """Stop the current search and wait for its answer; no search can follow."""
        self._stop.set()
        self._worker.shutdown()
        self._search = None

    def finish(self) -> None:
        """Wait for the current search if it has a limit, otherwise stop it."""
        if self._endless:
            self._stop.set()
        self.wait()

    def _write(self, line: str) -> None:
        with self._write_lock:
            if self.output_error is None:
                try:
                    self._write_line(line)
                except OSError as error:  # a closed pipe, a full disk
                    self.output_error = error
                    self._stop.set()
                except ValueError:  # a closed stream
                    self.output_error = BrokenPipeError()
                    self._stop.set()

    @property
    def _searching(self) -> bool:
        return self._search is not None and not self._search.done()

    def _require_idle(self) -> None:
        if self._searching:
            raise ValueError("a search is in progress; stop it first")
        self.wait()

    def _on_c4i(self) -> None:
        self._write(f"id name alphac4 {__version__}")
        nodes = self._analyst.budget.simulations
        self._write(f"option name player type string default {self._analyst.specification}")
        self._write(f"option name nodes type spin{'' if nodes is None else f' default {nodes}'} min 1")
        self._write("c4iok")

    def _on_isready(self) -> None:
        if not self._searching:
            self._worker.submit(self._analyst.warm_up, self.board).result()
        self._write("readyok")

    def _on_newgame(self) -> None:
        self._require_idle()
        self._analyst.forget()
        self.position = Position.from_moves("", self.board)

    def _on_setoption(self, arguments: list[str]) -> None:
        self._require_idle()
        if len(arguments) < 4 or arguments[0] != "name" or arguments[2] != "value":
            raise ValueError("expected: setoption name N value V")
        name, value = arguments[1].lower(), " ".join(arguments[3:])
        if name == "player":
            self._analyst = Analyst.named(value, board=self.board)
            self.budget = self._analyst.budget
        elif name == "nodes":
            self.budget = Budget(simulations=_positive(value, "nodes", MAX_SIMULATIONS))
        else:
            raise ValueError(f"unknown option {quote(arguments[1])}; the options are player and nodes")

    def _on_position(self, arguments: list[str]) -> None:
        self._require_idle()
        if not arguments:
            raise ValueError("expected: position startpos moves 4 4 5, or: position 445")
        if arguments[0] == "startpos":
            if len(arguments) > 1 and arguments[1] != "moves":
                raise ValueError(f"expected moves after startpos, not {quote(arguments[1])}")
            arguments = arguments[2:]
        self.position = Position.from_moves(join_moves(arguments), self.board)

    def _on_go(self, arguments: list[str]) -> None:
        self._require_idle()
        if self.position.outcome() is not None:
            raise ValueError("the game is over in this position")
        nodes: int | None = None
        seconds: float | None = None
        endless = False
        words = iter(arguments)
        given = set[str]()
        for word in words:
            if word in given:
                raise ValueError(f"{word} is given twice")
            given.add(word)
            if word == "nodes":
                nodes = _positive(next(words, ""), "nodes", MAX_SIMULATIONS)
            elif word == "movetime":
                seconds = _positive(next(words, ""), "movetime", MAX_MOVETIME_MS) / 1000
            elif word == "infinite":
                endless = True
            else:
                raise ValueError(f"unknown limit {quote(word)}; go takes nodes, movetime and infinite")
        budget = self.budget
        if nodes is not None or seconds is not None or endless:
            budget = Budget(simulations=MAX_SIMULATIONS if nodes is None else nodes, seconds=seconds)
        self._endless = endless
        analyst, position = self._analyst, self.position

        def search() -> str:
            analysis = analyst.analyze(position, budget, stop=self._stop, on_progress=self._inform)
            if endless:  # even if the position is proven, the answer is due at "stop"
                self._stop.wait()
            self._inform(analysis)
            return f"bestmove {column_name(analysis.move)}"

        self._start(search)

    def _start(self, work: Callable[[], str]) -> None:
        """Run a search in the thread and write the line that it returns, or an error."""
        self._stop.clear()

        def run() -> str:
            try:
                return work()
            except Exception as error:
                return f"error {' '.join(str(error).split())}"

        self._search = self._worker.submit(run)
        self._search.add_done_callback(lambda search: self._write(search.result()))  # done before the line is read

    def _inform(self, analysis: SearchResult) -> None:
        rate = analysis.simulations / max(analysis.seconds, 1e-6)
        win, draw = round(1000 * analysis.wdl.win), round(1000 * analysis.wdl.draw)
        self._write(
            f"info nodes {analysis.simulations} nps {rate:.0f} time {1000 * analysis.seconds:.0f} "
            f"score {analysis.value:z.3f} wdl {win} {draw} {1000 - win - draw} "
            f"pv {' '.join(map(column_name, analysis.pv))}"
        )

    def _on_stop(self) -> None:
        self._stop.set()
        self.wait()

    def _on_exact(self) -> None:
        self._require_idle()
        if self.position.outcome() is not None:
            raise ValueError("the game is over in this position")
        self._endless = False
        position = self.position

        def solve() -> str:
            scores = {item.column: str(item.score) for item in exact(position, self._check)}
            return "exact " + " ".join(scores.get(column, ".") for column in range(self.board.columns))

        self._start(solve)

    def _check(self) -> None:
        if self._stop.is_set():
            raise ValueError("the solver was stopped")

    def _on_d(self) -> None:
        for line in str(self.position).splitlines():
            self._write(line)

    def _on_help(self) -> None:
        for line in COMMANDS:
            self._write(line)


def _positive(text: str, name: str, maximum: int) -> int:
    if not is_whole_number(text, 1, maximum):
        raise ValueError(f"{name} needs a number from 1 to {maximum}, not {quote(text)}")
    return int(text)
