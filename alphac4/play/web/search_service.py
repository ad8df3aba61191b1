"""What all visitors of the page share: the network, the solver, and a search tree for each session."""

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NoReturn

import numpy as np

from alphac4.arena.certificate_player import CertificatePlayer
from alphac4.arena.players import NetworkPlayer, PlayerError
from alphac4.arena.specifications import load_network
from alphac4.certificate.file import SHIPPED
from alphac4.compute import choose
from alphac4.game import Geometry, Position
from alphac4.mcts.kept_trees import Reuse
from alphac4.mcts.results import NodeView
from alphac4.mcts.search import Budget
from alphac4.play.analysis import Analysis, Analyst
from alphac4.play.levels import Level
from alphac4.play.web.work_queue import Stop
from alphac4.review import Review, review_game
from alphac4.solver.verdict import ExactColumn, exact
from alphac4.storage.checkpoints import shipped_file

REVIEW_SIMULATIONS = 100  # for the network's opinion of each position of a reviewed game
MOST_SESSIONS = 64  # search trees kept at a time; the one longest unused goes first


class SearchService:
    """Moves, analyses and exact verdicts for the visitors of the page. Safe to call from several threads."""

    def __init__(self, network: str) -> None:
        self.name, checkpoint = load_network(network)
        self.geometry: Geometry = checkpoint.geometry
        self._compute = choose(threads=1)
        self._evaluator = self._compute.evaluator(checkpoint.network, batch_size=1)
        self._analysts: OrderedDict[str, Analyst] = OrderedDict()
        self._lock = threading.Lock()
        self._certificate = _Certificate(self.geometry)
        self._rng = np.random.default_rng()

    def close(self) -> None:
        """End what is read for all visitors, whoever waits for it; the server is about to end."""
        self._certificate.close()

    def choose(self, level: Level, position: Position, stop: Stop) -> int:
        """A level's move, 0-based."""
        if level.perfect:
            best = [item.column for item in self.exact(position, stop) if item.best]
            return int(self._make_rng().choice(best))
        return self._network(level.simulations, level.temperature).choose([position])[0]

    def exact(self, position: Position, stop: Stop) -> list[ExactColumn]:
        """The solver's verdict on each move."""
        return exact(position, stop.check)

    def review(self, moves: str, seconds: float, stop: Stop, on_move: Callable[[int, int], None]) -> Review:
        """Judge every move of a game; see `review_game`."""
        player = self._network(REVIEW_SIMULATIONS)
        return review_game(moves, self.geometry, player=player, seconds=seconds, on_pause=stop.check, on_move=on_move)

    def plies_to_win(self, position: Position) -> int | None:
        """In how many plies the first player wins at the latest, by the certificate; None where it does not say."""
        return self._certificate.plies_to_win(position)

    def analyze(
        self, session: str, position: Position, simulations: int, stop: Stop, on_progress: Callable[[Analysis], None]
    ) -> Analysis:
        """Search with the session's tree; see `Analyst.analyze`."""
        budget = Budget(simulations=simulations)
        return self._analyst(session).analyze(position, budget, stop=stop.event, on_progress=on_progress)

    def node(self, session: str, position: Position, path: Sequence[int]) -> NodeView:
        """A node of the session's tree; see `Analyst.node`."""
        return self._analyst(session).node(position, path)

    def _analyst(self, session: str) -> Analyst:
        with self._lock:
            analyst = self._analysts.get(session)
        if analyst is None:
            analyst = Analyst(self._network(1, reuse="trees"))
        with self._lock:
            analyst = self._analysts.setdefault(session, analyst)
            self._analysts.move_to_end(session)
            while len(self._analysts) > MOST_SESSIONS:
                self._analysts.popitem(last=False)
        return analyst

    def _network(self, simulations: int, temperature: float = 0.0, reuse: Reuse = "nothing") -> NetworkPlayer:
        budget, rng = Budget(simulations=simulations), self._make_rng()
        search = self._compute.search(self._evaluator, geometry=self.geometry, rng=rng, reuse=reuse)
        return NetworkPlayer(self.name, self._evaluator, budget, rng, temperature=temperature, search=search)

    def _make_rng(self) -> np.random.Generator:
        with self._lock:
            return np.random.default_rng(self._rng.integers(2**63))


class _Certificate:
    """The certificate that comes with the project, read and checked at the first question, which takes seconds."""

    def __init__(self, geometry: Geometry) -> None:
        self._geometry = geometry
        self._lock = threading.Lock()
        self._stop = Stop()  # not that of a visitor, as what has been read stays for the others

    def close(self) -> None:
        """Read no further."""
        self._stop.event.set()

    def plies_to_win(self, position: Position) -> int | None:
        """See `CertificatePlayer.plies_to_win`.

        Raises:
            Stopped: if it was not read when it was closed.
        """
        with self._lock:
            player = self._player
            return None if player is None else player.plies_to_win(position)

    @functools.cached_property
    def _player(self) -> CertificatePlayer | None:
        try:
            return CertificatePlayer(shipped_file(SHIPPED), self._geometry, _nobody, self._stop.check)
        except (PlayerError, OSError):  # of another board, or not there
            return None


def _nobody(name: str) -> NoReturn:
    raise PlayerError(f"{name} is not asked here")
