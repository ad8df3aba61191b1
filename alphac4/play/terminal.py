"""A game in the terminal: its moves, the board, a prompt, and what the network thinks."""

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from alphac4.arena.players import Player, PlayerError
from alphac4.game import IllegalMove, Position
from alphac4.game.position import COLUMN_NAMES, column_name, signed
from alphac4.mcts.results import SearchedPosition
from alphac4.play.analysis import Analyst
from alphac4.play.games import Session
from alphac4.play.levels import LEVELS, Level, find_level
from alphac4.play.opponents import certificates
from alphac4.play.screen import Screen
from alphac4.solver.solver import TimeIsUp, Verdict, deadline, exact, shared_solver
from alphac4.storage.records import did_you_mean

HELP = """\
  1 to 7       drop a stone into that column
  undo, redo   take back your last move with its answer; play it again
  hint         a good move: a certain one where that is soon known
  analysis     show after each move who stands better, or not any more
  level [N]    show the levels, or play another: 1 beginner to 8 perfect
  swap         change sides
  solve        how each move ends with best play (early ones take long)
  review       judge every move so far by exact play
  moves        the game as a move string
  load MOVES   go to a position, such as load 4455, or load a file
  save FILE    write the moves to a file
  new          begin again
  quit         leave
Ctrl-C stops a hint, an analysis, solve and a review."""
SOON = 1.0  # seconds for which a hint or an analysis waits for the solver

cached_certificates = functools.cache(certificates)  # whose longest games take seconds to count


class TerminalGame:
    """Plays one game after another until the input ends.

    Args:
        session: where to begin.
        players: who moves first, and who second; None is a person.
        screen: where to draw.
        read: asks for a line; raises EOFError at the end of the input.
        make_level: the player of a level, for the command ``level``.
        make_analyst: makes the analyst, at the first need.
        review: judges a game and says so as text.
        level: the level of the player, if it has one.
        show_analysis: whether to analyse after each move.
        show_exact: whether to show the solver's verdict with it.
    """

    def __init__(
        self,
        session: Session,
        players: tuple[Player | None, Player | None],
        screen: Screen,
        read: Callable[[str], str],
        make_level: Callable[[Level], Player],
        make_analyst: Callable[[], Analyst],
        review: Callable[[str], str],
        *,
        level: Level | None = None,
        show_analysis: bool = False,
        show_exact: bool = False,
    ) -> None:
        self.level = level
        self.session = session
        self.players = list(players)
        self.screen = screen
        self.show_analysis = show_analysis
        self.show_exact = show_exact
        self._read = read
        self._make_level = make_level
        self._make_analyst = make_analyst
        self._review = review
        self._analyst: Analyst | None = None
        self._waiting = False  # for a word from the person, though it is the other's turn

    def run(self) -> None:
        """Play until "quit" or the end of the input; games between two players end by themselves.

        However it ends, the moves of an unfinished game are told.
        """
        try:
            self._play()
        finally:
            if self.session.moves and self.session.position.outcome() is None:
                self.screen.line(f"\nThe game so far: {self.session.moves}")

    def _play(self) -> None:
        self.screen.line("; ".join(f"{self.screen.side(index)}: {self._name(index)}" for index in (0, 1)))
        self._show()
        while True:
            position = self.session.position
            player = self.players[0 if position.first_to_move else 1]
            over = position.outcome() is not None
            if over and all(self.players):
                return
            if player and not over and not self._waiting:
                does = "thinking" if getattr(player, "ready", True) else "being loaded"
                with self.screen.waiting(f"{player.name} is {does}"):
                    column = player.choose([position])[0]
                self.screen.line(f"\n{player.name} plays {column_name(column)}")
                self.session.play(column)
                self._show()
                continue
            try:
                text = self._read(self._prompt(position))
            except EOFError:
                self.screen.line()
                return
            if text.strip().lower() in ("quit", "q", "exit"):
                return
            waited, self._waiting = self._waiting, False
            players = list(self.players)
            self._obey(text.strip())
            if waited and text.strip() and position is self.session.position:  # it was only asked for something
                self._waiting = players == self.players

    def _name(self, index: int) -> str:
        player = self.players[index]
        return player.name if player else "you"

    def _prompt(self, position: Position) -> str:
        if position.outcome() is not None:
            return "review, new, undo or quit? "
        return f"{self._mover()} to move (help explains): "

    def _mover(self) -> str:
        """The side to move."""
        return self.screen.side(0 if self.session.position.first_to_move else 1)

    def _show(self) -> None:
        position = self.session.position
        self.screen.board(position)
        with self.screen.waiting("getting ready, which takes longer before the first game"):
            outcome = position.outcome()  # waits while the other side's network is loaded
        if outcome is not None:
            winner = 1 if position.first_to_move else 0
            name = self._name(winner)
            stones = self.screen.side(winner)
            if outcome == 0:
                text = "A draw."
            elif name == "you":
                text = "You win!" if self._name(1 - winner) != "you" else f"{stones} wins."
            else:
                text = f"{stones} ({name}) wins."
            self.screen.line(f"\n{text}  Game: {self.session.moves}")
            return
        if self.show_analysis:
            self._show_analysis()
        if self.show_exact:
            self._show_verdict()

    def _show_analysis(self) -> None:
        with self._stoppable("analysis"):
            self.screen.analysis(self._look())

    def _look(self) -> SearchedPosition:
        """Show what is certain, by exact play, a certificate or a proof, and then what the network thinks."""
        known = self._show_best() or self._show_certified() or self._show_book()
        analysis = self._analysis()
        best = analysis.columns[analysis.move]
        if not known and (best.proof.startswith("wins") or all(item.proof for item in analysis.columns.values())):
            self.screen.line(f"proven: {column_name(best.column)} {best.proof}")
        return analysis

    def _show_best(self) -> bool:
        """Show the best moves by exact play; returns False where they take long, or are shown anyway."""
        if self.show_exact:
            return False
        try:
            best = [item for item in exact(self.session.position, deadline(SOON)) if item.best]
        except TimeIsUp:
            return False
        names = " or ".join(column_name(item.column) for item in best)
        self.screen.line(f"by exact play {names}: {best[0].text}")
        return True

    def _show_book(self) -> bool:
        """Show the solver's opening book on the position itself; returns whether it holds the position."""
        position = self.session.position
        solver = shared_solver(position.geometry)
        if self.show_exact or position.plies > solver.book.plies:
            return False
        verdict = Verdict.of(position, solver.solve(position))
        self.screen.line(f"by exact play {self._mover()} {verdict.text if verdict.score else 'draws'}")
        return True

    def _show_certified(self) -> bool:
        """Show the result that a certificate knows of; returns whether it is a win."""
        position, known = self.session.position, None
        with self.screen.waiting("the certificates are being checked"), contextlib.suppress(PlayerError):
            shipped = cached_certificates(position.geometry)
            known = shipped.proven_result(position) if shipped else None
        if known is None:
            return False
        side = self.screen.side(0 if known.first else 1)
        move = "" if known.column is None else f" {column_name(known.column)}"
        result = "does not lose" if known.plies is None else f"wins in at most {(known.plies + 1) // 2} moves"
        self.screen.line(f"by the certificate{move}: {side} {result}")
        return known.plies is not None

    def _analysis(self) -> SearchedPosition:
        if self._analyst is None:
            with self.screen.waiting("the network is being loaded"):
                self._analyst = self._make_analyst()
        with self.screen.waiting(f"{self._analyst.name} is thinking"):
            return self._analyst.analyze(self.session.position)

    @contextlib.contextmanager
    def _stoppable(self, what: str) -> Iterator[None]:
        """Let Ctrl-C end what may take long, and the game go on."""
        try:
            yield
        except KeyboardInterrupt:
            self.screen.line(f"\nThe {what} was stopped.")

    def _obey(self, text: str) -> None:
        """One command; whatever is wrong with it is one line, and the game stays as it was."""
        word, _, rest = text.partition(" ")
        rest = rest.strip()
        try:
            if not word:
                return
            if len(word) == 1 and word.lower() in COLUMN_NAMES[: self.session.geometry.columns]:
                if rest:
                    raise ValueError(f"one column at a time; `load {text.replace(' ', '')}` goes to a position")
                self._drop(COLUMN_NAMES.index(word.lower()))
                return
            command = getattr(self, f"_do_{word.lower()}", None)
            if command is None:
                last = column_name(self.session.geometry.columns - 1)
                guess = did_you_mean(word.lower(), [name[4:] for name in dir(self) if name.startswith("_do_")])
                raise ValueError(
                    f"{word!r} is no column from 1 to {last} and no command{guess}; help lists the commands"
                )
            command(rest)
        except OSError as error:
            self.screen.line(f"{error.filename or rest}: {error.strerror or error}")
        except ValueError as error:
            self.screen.line(str(error))

    def _drop(self, column: int) -> None:
        try:
            self.session.play(column)
        except IllegalMove as error:  # its moves are on the board before the player
            raise ValueError(error.reason) from error
        self._show()

    def _do_help(self, _rest: str) -> None:
        self.screen.line(HELP)

    def _do_undo(self, _rest: str) -> None:
        """Back to the person's own last move, if the other side is a player."""
        people = [index for index, player in enumerate(self.players) if player is None]
        taken = self.session.undo(1)
        while taken and len(people) == 1 and self.session.position.plies % 2 != people[0]:
            if not self.session.undo(1):
                self._waiting = True  # the player would only move again
                break
        self._show() if taken else self.screen.line("nothing to take back")

    def _do_redo(self, _rest: str) -> None:
        played = self.session.redo(2 if self.players.count(None) == 1 else 1)
        self._show() if played else self.screen.line("nothing to play again")

    def _do_hint(self, _rest: str) -> None:
        self._unfinished()
        with self._stoppable("hint"):
            analysis = self._look()
            self.screen.line(f"{analysis.player} would play {column_name(analysis.move)} ({signed(analysis.value)})")

    def _do_analysis(self, _rest: str) -> None:
        self.show_analysis = not self.show_analysis
        self.screen.line(f"analysis {'on' if self.show_analysis else 'off'}")
        if self.show_analysis and self.session.position.outcome() is None:
            self._show_analysis()

    def _do_solve(self, _rest: str) -> None:
        self._unfinished()
        self._show_verdict()

    def _show_verdict(self) -> None:
        with self._stoppable("solver"):
            self.screen.verdict(self.session.position)

    def _do_review(self, _rest: str) -> None:
        if not self.session.moves:
            raise ValueError("there is no move to review yet")
        with self._stoppable("review"):
            self.screen.line(self._review(self.session.moves))

    def _do_level(self, rest: str) -> None:
        if not rest:
            for number, level in enumerate(LEVELS, start=1):
                mark = "  <- now" if level == self.level else ""
                self.screen.line(f"  {number} {level.name:<9} {level.about}{mark}")
            return
        level = find_level(rest)
        player = self._make_level(level)
        self.level = level
        self.players[0 if self.players[0] else 1] = player
        self.screen.line(f"now against {player.name}")

    def _do_swap(self, _rest: str) -> None:
        self.players.reverse()
        self.screen.line(" and ".join(f"{self.screen.side(index)} is {self._name(index)}" for index in (0, 1)))

    def _do_moves(self, _rest: str) -> None:
        self.screen.line(self.session.moves or "(no moves yet)")

    def _do_load(self, rest: str) -> None:
        if not rest:
            raise ValueError("load needs moves such as 4455, or the name of a file")
        self.session.open(rest)
        self._show()

    def _do_save(self, rest: str) -> None:
        if not rest:
            raise ValueError("save needs the name of a file")
        self.session.save(Path(rest))
        self.screen.line(f"saved to {rest}")

    def _do_new(self, _rest: str) -> None:
        self.session.load("")
        self._show()

    def _unfinished(self) -> None:
        if self.session.position.outcome() is not None:
            raise ValueError("the game is over")


def read_line(prompt: str) -> str:
    """Ask on a terminal; in a pipe, read without a prompt."""
    if sys.stdin is None:  # closed
        raise EOFError
    if sys.stdin.isatty():
        return input(prompt)
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line
