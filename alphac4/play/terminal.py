"""Game in the terminal: board, prompt, commands, and the analysis of positions."""

import contextlib
import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from alphac4.arena import PlayerError
from alphac4.arena.players import Player, checked_moves
from alphac4.game import IllegalMove, Position
from alphac4.game.position import COLUMN_NAMES, chance, column_name, count_of, describe_bound
from alphac4.game.reasons import strength, weakness
from alphac4.mcts.results import SearchResult
from alphac4.play.analysis import Analyst
from alphac4.play.games import Session
from alphac4.play.levels import LEVELS, LEVELS_BY_NAME, Level
from alphac4.play.proofs import Bounds, load_proofs
from alphac4.play.registry import TerminalCommand, find_terminal_commands
from alphac4.play.screen import Screen
from alphac4.solver.solver import ExactColumn, TimeIsUp, Verdict, deadline, exact, shared_solver
from alphac4.storage.records import MAX_MESSAGE_LENGTH, did_you_mean, quote, shorten

HELP = """\
  1 to 7       drop a stone into that column
  undo, redo   take back your last move and its answer; play them again
  hint         suggest a move: a proven one if the solver is quick
  analysis     turn the analysis after each move on or off
  level [N]    list the levels, or play against another one: 1 beginner to
               8 perfect, or any other player, such as level best@600
  swap         change sides
  solve        exact result of each move (slow in the opening)
  moves        print the game as a move string
  load MOVES   go to a position, such as load 4455, or load a file
  save FILE    write the moves to a file
  resign       give up the game
  new          start a new game
  quit         leave"""
STOP_HELP = "Ctrl-C stops a hint, an analysis and other searches."
SOLVER_TIMEOUT_S = 1.0  # time for the exact result that a hint or an analysis shows first

cached_proofs = functools.cache(load_proofs)  # they take seconds at their first use


class TerminalGame:
    """Games in a terminal, one after another until the input ends."""

    def __init__(
        self,
        session: Session,
        players: tuple[Player | None, Player | None],  # first and second; None for a person
        screen: Screen,
        read: Callable[[str], str],  # reads a line after a prompt; raises EOFError at the end of the input
        make_opponent: Callable[[str], Player],  # from a level's name or number, or a specification
        make_analyst: Callable[[], Analyst],  # called when the analyst is first needed
        *,
        level: Level | None = None,  # of one of the players, if any
        show_analysis: bool = False,  # where a person is to move
        show_exact: bool = False,  # whether to show the solver's result for each move as well
    ) -> None:
        self.level = level
        self.session = session
        self.players = list(players)
        self.screen = screen
        self.show_analysis = show_analysis
        self.show_exact = show_exact
        self._read = read
        self._make_opponent = make_opponent
        self._make_analyst = make_analyst
        self._added = find_terminal_commands()
        self._analyst: Analyst | None = None
        self._bounds = Bounds()
        self._waiting = False  # the player to move waits for a command
        self._drawn: Position | None = None  # the position whose board was drawn last
        self._resigned: Position | None = None  # the position in which a person resigned

    def run(self) -> None:
        """Play until "quit" or the end of the input; without a person, stop at the end of the game.

        The moves of an unfinished game are printed at the end, even after an error.
        """
        try:
            self._play()
        finally:
            if self.session.moves and not self._is_over():
                self.screen.line(f"\nThe game so far: {self.session.moves}")

    def _play(self) -> None:
        self.screen.line("; ".join(f"{self.screen.side(index)}: {self._name(index)}" for index in (0, 1)))
        self._show()
        while True:
            position = self.session.position
            player = self._player_to_move()
            over = self._is_over()
            if over and all(self.players):
                return
            if player and not over and not self._waiting:
                action = "thinking" if getattr(player, "ready", True) else "being loaded"
                undrawn = None if self._drawn is position else position
                with self.screen.waiting(f"{player.name} is {action}", undrawn):
                    (column,) = checked_moves(player, [position])
                self.screen.line(f"\n{player.name} plays {column_name(column)}")
                self.session.play(column)
                self._show()
                continue
            try:
                text = self._read(self._prompt())
            except EOFError:
                self.screen.line()
                return
            if text.strip().lower() in ("quit", "q", "exit"):
                return
            waited, self._waiting = self._waiting, False
            players = list(self.players)
            self._run_command(text.strip())
            if waited and text.strip() and position is self.session.position:  # the command only showed something
                self._waiting = players == self.players

    def _name(self, index: int) -> str:
        player = self.players[index]
        return player.name if player else "you"

    def _player_to_move(self) -> Player | None:
        return self.players[0 if self.session.position.first_to_move else 1]

    def _is_over(self) -> bool:
        return self.session.position.outcome() is not None or self.session.position is self._resigned

    def _prompt(self) -> str:
        if self._is_over():
            return f"{', '.join([*self._added, 'new', 'undo'])} or quit? "
        return f"{self._side_to_move()} to move (help lists the commands): "

    def _side_to_move(self) -> str:
        return self.screen.side(0 if self.session.position.first_to_move else 1)

    def _is_answered_at_once(self) -> bool:
        """Return whether a player answers the move that a person has just made."""
        return None in self.players and self._player_to_move() is not None and not self._waiting

    def _show(self) -> None:
        """Show the board, and the result of a finished game or the analysis of an unfinished one."""
        position = self.session.position
        self.screen.board(position)
        self._drawn = position
        with self.screen.waiting("getting ready, which takes longer before the first game"):
            outcome = position.outcome()  # the first call waits while the player's network is loaded
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
        if self._is_answered_at_once():
            return  # the position after the answer is analysed
        if self.show_analysis:
            self._show_analysis()
        if self.show_exact:
            self._show_verdict()

    def _show_analysis(self) -> None:
        with self._stoppable("analysis"):
            _, analysis = self._show_proven()
            if analysis is not None:
                self.screen.analysis(analysis)

    def _show_proven(self) -> tuple[int, SearchResult | None]:
        """Show what exact play, other proofs or the search prove; return the best move and the search's findings.

        If exact play shows that every move loses, there is no search, because only the longest resistance matters.
        """
        if best := self._exact_best():
            self.screen.line(f"exact: {self._describe_best(best)}")
            middle = (self.session.board.columns - 1) / 2
            central = min((item.column for item in best), key=lambda column: abs(column - middle))
            if best[0].score < 0:
                return central, None
        is_win, column = (True, central) if best else self._show_proof()
        known = is_win or self._show_book()
        analysis = self._analysis()
        chosen = analysis.columns[analysis.move]
        if not known and (chosen.proof.startswith("wins") or all(item.proof for item in analysis.columns.values())):
            text = f"every move {chosen.proof}"
            if not chosen.proof.startswith("loses"):
                text = f"{self._side_to_move()} {chosen.proof} with {column_name(chosen.column)}"
            self.screen.line(f"proven by the search: {text}")
        return analysis.move if column is None else column, analysis

    def _describe_best(self, best: list[ExactColumn]) -> str:
        """Describe the best moves, by the exact solver, such as "x wins in 5 moves with 6 or 7"."""
        verdict, columns = best[0], [item.column for item in best]
        names = " or ".join(map(column_name, columns))
        is_any = columns == self.session.position.legal_columns()
        if verdict.score >= 0:
            does = verdict.text if verdict.score else "draws"
            return f"{self._side_to_move()} {does} with {'any move' if is_any else names}"
        if is_any:
            return f"every move {verdict.text}"
        holds = "hold out" if len(columns) > 1 else "holds out"
        return f"every move loses; {names} {holds} longest, for {count_of(verdict.moves, 'move')}"

    def _exact_best(self) -> list[ExactColumn]:
        """Return the best moves by the exact solver; none if that takes too long, or they are shown anyway."""
        if self.show_exact:
            return []
        position = self.session.position
        try:
            columns = exact(position, deadline(SOLVER_TIMEOUT_S))
        except TimeIsUp:
            return []
        for item in columns:
            self._bounds.add_verdict(position, item.column, item)
        return [item for item in columns if item.is_best]

    def _show_book(self) -> bool:
        """Show the position's exact result if it is in the opening book; return whether it was shown."""
        position = self.session.position
        solver = shared_solver(position.board)
        if self.show_exact or position.plies > solver.book.plies:
            return False
        verdict = Verdict.of(position, solver.solve(position))
        self.screen.line(f"exact: {self._side_to_move()} {verdict.text if verdict.score else 'draws'}")
        return True

    def _show_proof(self) -> tuple[bool, int | None]:
        """Show what other proofs or earlier positions prove; return whether a side wins, and the known move, if any."""
        position, known = self.session.position, None
        with self.screen.waiting("checking the proofs"), contextlib.suppress(PlayerError):
            proofs = cached_proofs(position.board)
            known = proofs.proven_result(position) if proofs else None
        if known is not None:
            self._bounds.add(position, known)
        best = self._bounds.find(position) or known
        if best is None:
            return False, None
        if known is None or known.plies is None:
            known = best
        result = "does not lose" if best.plies is None else describe_bound(1, (best.plies + 1) // 2)
        move = ""
        if known.column is not None:
            name = column_name(known.column)
            move = f" with {name}" if known.column == best.column else f"; {name} wins too"
        self.screen.line(f"proven: {self.screen.side(0 if best.first else 1)} {result}{move}")
        return best.plies is not None, known.column

    def _analysis(self) -> SearchResult:
        if self._analyst is None:
            with self.screen.waiting("the network is being loaded"):
                self._analyst = self._make_analyst()
        with self.screen.waiting(f"{self._analyst.name} is thinking"):
            return self._analyst.analyze(self.session.position)

    @contextlib.contextmanager
    def _stoppable(self, what: str) -> Iterator[None]:
        """Let Ctrl-C end the block, but not the game."""
        try:
            yield
        except KeyboardInterrupt:
            self.screen.line(f"\nThe {what} was stopped.")

    def _run_command(self, text: str) -> None:
        """Run one command; an invalid one prints one line and leaves the game as it was."""
        word, _, rest = text.partition(" ")
        rest = rest.strip()
        try:
            if not word:
                return
            if len(word) == 1 and word.lower() in COLUMN_NAMES[: self.session.board.columns]:
                if rest:
                    moves = shorten(text.replace(" ", ""))
                    raise ValueError(f"one column at a time; `load {moves}` goes to a position")
                self._drop(COLUMN_NAMES.index(word.lower()))
                return
            command = getattr(self, f"_do_{word.lower()}", None)
            if added := self._added.get(word.lower()):
                command = functools.partial(self._run_added, word.lower(), added)
            if command is None:
                last = column_name(self.session.board.columns - 1)
                guess = did_you_mean(
                    word.lower(), [*self._added, *(name[4:] for name in dir(self) if name.startswith("_do_"))]
                )
                raise ValueError(
                    f"{quote(word)} is neither a column from 1 to {last} nor a command{guess}; help lists the commands"
                )
            takes_argument = bool(inspect.signature(command).parameters)
            if rest and not takes_argument:
                raise ValueError(f"{word.lower()} takes no argument, but {quote(rest)} follows")
            command(*[rest] * takes_argument)
        except OSError as error:
            self.screen.line(f"{shorten(str(error.filename or rest))}: {error.strerror or error}")
        except ValueError as error:
            self.screen.line(shorten(str(error), MAX_MESSAGE_LENGTH))

    def _drop(self, column: int) -> None:
        if self._is_over():
            raise ValueError("the game is over; new starts another one, undo takes back the last move")
        try:
            self.session.play(column)
        except IllegalMove as error:  # the board shows the moves that its message repeats
            raise ValueError(error.reason) from error
        if self.session.position.outcome() is not None or not self._is_answered_at_once():
            self._show()  # otherwise the board is drawn after the answer

    def _run_added(self, name: str, command: TerminalCommand) -> None:
        with self._stoppable(name):
            command.load()(self.session, self.screen)

    def _do_help(self) -> None:
        added = [f"  {name:<12} {command.summary}" for name, command in self._added.items()]
        self.screen.line("\n".join([HELP, *added, STOP_HELP]))

    def _do_undo(self) -> None:
        """Take back a move; against a player, take back more until the person is to move."""
        people = [index for index, player in enumerate(self.players) if player is None]
        taken = self.session.undo(1)
        while taken and len(people) == 1 and self.session.position.plies % 2 != people[0]:
            if not self.session.undo(1):
                self._waiting = True  # otherwise the player would move again
                break
        self._show() if taken else self.screen.line("nothing to take back")

    def _do_redo(self) -> None:
        played = self.session.redo(2 if self.players.count(None) == 1 else 1)
        self._show() if played else self.screen.line("nothing to play again")

    def _do_hint(self) -> None:
        self._require_unfinished()
        with self._stoppable("hint"):
            column, analysis = self._show_proven()
            if analysis is not None:
                move = column_name(analysis.move)
                self.screen.line(f"{analysis.player} would play {move} ({chance(analysis.value)})")
            position, names = self.session.position, (self.screen.side(0), self.screen.side(1))
            if reason := strength(position, column, names) or weakness(position, column, names):
                self.screen.line(reason)

    def _do_analysis(self) -> None:
        self.show_analysis = not self.show_analysis
        self.screen.line(f"analysis {'on' if self.show_analysis else 'off'}")
        if self.show_analysis and self.session.position.outcome() is None:
            self._show_analysis()

    def _do_solve(self) -> None:
        self._require_unfinished()
        self._show_verdict()

    def _show_verdict(self) -> None:
        with self._stoppable("solver"):
            for item in self.screen.verdict(self.session.position):
                self._bounds.add_verdict(self.session.position, item.column, item)

    def _do_level(self, rest: str) -> None:
        if not rest:
            for number, level in enumerate(LEVELS, start=1):
                mark = "  <- now" if level == self.level else ""
                self.screen.line(f"  {number} {level.name:<9} {level.about}{mark}")
            return
        player = self._make_opponent(rest)
        self.level = LEVELS_BY_NAME.get(rest.lower())
        self.players[0 if self.players[0] else 1] = player
        self.screen.line(f"now playing against {player.name}")

    def _do_swap(self) -> None:
        self.players.reverse()
        self.screen.line(" and ".join(f"{self.screen.side(index)} is {self._name(index)}" for index in (0, 1)))

    def _do_moves(self) -> None:
        self.screen.line(self.session.moves or "(no moves yet)")

    def _do_load(self, rest: str) -> None:
        if not rest:
            raise ValueError("give the moves, such as `load 4455`, or the name of a file")
        self.session.open(rest)
        self._show()

    def _do_save(self, rest: str) -> None:
        if not rest:
            raise ValueError("give the name of a file, such as `save game.txt`")
        self.session.save(Path(rest))
        self.screen.line(f"saved to {rest}")

    def _do_resign(self) -> None:
        """End the game; against a player the person loses, between two people the side to move."""
        if self._is_over():
            raise ValueError("the game is over")
        people = [index for index, player in enumerate(self.players) if player is None]
        loser = people[0] if len(people) == 1 else 0 if self.session.position.first_to_move else 1
        who = "You resign" if len(people) == 1 else f"{self.screen.side(loser)} resigns"
        name = self._name(1 - loser)
        winner = self.screen.side(1 - loser) + ("" if name == "you" else f" ({name})")
        self._resigned = self.session.position
        self.screen.line(f"\n{who}: {winner} wins.  Game: {self.session.moves or '(no moves)'}")

    def _do_new(self) -> None:
        self.session.load("")
        self._show()

    def _require_unfinished(self) -> None:
        if self.session.position.outcome() is not None:
            raise ValueError("the game is over")


def read_line(prompt: str) -> str:
    """Read a line of the standard input; the prompt appears only on a terminal. A byte-order mark is removed."""
    if sys.stdin is None:  # closed
        raise EOFError
    if sys.stdin.isatty():
        return input(prompt)
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.removeprefix("\ufeff")  # some programs write it first
