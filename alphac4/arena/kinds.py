"""The kinds of players: networks, classic MCTS, alpha-beta search, and other authors' players."""

import copy
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, get_args, get_type_hints

from alphac4.arena import PlayerError
from alphac4.arena.registry import (
    CountedKind,
    PlayerKind,
    find_network,
    first_word,
    player_kinds,
    register,
)
from alphac4.storage.networks import SHIPPED
from alphac4.storage.records import (
    MAX_NUMBER,
    MAX_SIMULATIONS,
    Range,
    did_you_mean,
    quote,
    read_number,
    read_record,
    read_value,
)

if TYPE_CHECKING:  # each takes a second to import
    from alphac4.arena.players import BuildOptions, Player, SearchingPlayer
    from alphac4.game import Board
    from alphac4.mcts.network_search import SupportsEvaluate
    from alphac4.mcts.search import Budget, Reuse
    from alphac4.mcts.simulation import Selection
    from alphac4.storage.checkpoints import Checkpoint

DEFAULT_SIMULATIONS = "100"
AUTO = "auto"  # limit of an `AutoPlayer`
CACHE = 2**18  # evaluations that each search of a network player keeps: 16 MiB on the standard board
MODULE_FORM = re.compile(
    r"(?P<module>[A-Za-z_]\w+(?:\.\w+)*):(?P<name>[A-Za-z_]\w*)(?:@(?P<limit>[^,]*))?(?:,(?P<arguments>.*))?", re.DOTALL
)
SEARCH_OPTIONS = {
    "temperature": Annotated[float, Range(0, MAX_NUMBER)],
    "proofs": bool,
    "mirror": bool,
}
SEARCH_DEFAULTS = {"proofs": True, "mirror": True}  # arguments of `NetworkSearch`


def network_form(names: str) -> re.Pattern[str]:
    """Return the pattern of a network's specification: a name like ``names``, optionally a limit and options."""
    return re.compile(rf"(?P<network>{names})(?P<limit>@[^,]*)?(?P<options>,.*)?", re.DOTALL)


NETWORK_FORM = network_form(rf".+\.safetensors|{'|'.join(SHIPPED)}")


def parse_options(text: str, types: Mapping[str, Any]) -> dict[str, Any]:
    """Parse options such as ",exploration=1,final=rate"; ``types`` holds the types of all options by name.

    In the text, names have dashes for underscores, and switches are on or off.
    """
    known = {name.replace("_", "-"): name for name in types}
    given: dict[str, Any] = {}
    for part in text.split(",")[1:]:
        name, equals, value = part.partition("=")
        if not part:
            raise ValueError("an option is missing before or after a comma")
        if not equals or name not in known:
            guess = did_you_mean(name, known)
            raise ValueError(f"unknown option {part!r:.60}{guess}; write NAME=VALUE with a name of {', '.join(known)}")
        if known[name] in given:
            raise ValueError(f"{name} is given twice")
        given[known[name]] = _read_option(name, value, types[known[name]])
    return given


def _read_option(name: str, text: str, hint: Any) -> Any:
    """Return an option's value: a switch, a number, or otherwise the text itself."""
    if hint is bool:
        if text not in ("on", "off"):
            raise ValueError(f"{name} must be on or off, not {text!r:.60}")
        return text == "on"
    if {int, float} & {hint, *get_args(hint)}:
        try:
            return read_number(text)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
    return text


def describe_options(options: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
    """Return the options that differ from the defaults as text; the inverse of `parse_options`."""
    text = ""
    for name, value in options.items():
        if value != defaults[name]:
            shown = {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value).removesuffix(".0")
            text += f",{name.replace('_', '-')}={shown}"
    return text


def read_budget(text: str, specification: str, words: Sequence[str] = ()) -> "Budget":
    """Read a budget such as "600" or "1.5s"; an error quotes the ``specification`` and suggests one of ``words``."""
    from alphac4.mcts.search import Budget

    try:
        number = read_number(text.removesuffix("s"))
        if text.endswith("s"):
            return Budget(seconds=number)
        budget = Budget(simulations=number)  # type: ignore[arg-type] # 1e3 is whole as well
        Range(0, MAX_SIMULATIONS).check("simulations", budget.simulations)
    except ValueError as error:
        expected = f"write 1000 (simulations, {MAX_SIMULATIONS:,} at most) or 1.5s"
        raise PlayerError(
            f"{quote(specification)}: {text!r:.60} is not a budget{did_you_mean(text, words)}; {expected}"
        ) from error
    return budget


@register
class NetworkKind(PlayerKind):
    """A network in a file, with the limit and the options of its search.

    The name of a shipped network has precedence over a file of that name in the current folder.
    """

    forms = {
        "FILE.safetensors@600": "a checkpoint with 600 simulations per move (by default 100)",
        "FILE.safetensors@1s": "a checkpoint with one second per move",
        "FILE.safetensors@auto": "a brief search; where it is not sure, a long search of every unproven move",
        "FILE.safetensors@0": "the checkpoint's raw policy, without search",
        "best@600, quick@600": "a network that comes with the project: the strongest, or a small and fast one",
        "best@600,OPTIONS": "other settings of the search, such as "
        "best@600,c-init=2,prior-temperature=1,temperature=0.5",
    }
    form: ClassVar[re.Pattern[str]] = NETWORK_FORM
    is_checkpoint: ClassVar[bool] = True  # whether `load` can read the file
    names = tuple(SHIPPED)
    rank = 1  # an existing file's path may look like another player's specification
    runs_network = True

    def __init__(self, text: str) -> None:
        from alphac4.mcts.puct import Puct, check_selection
        from alphac4.storage.checkpoints import checkpoint_file

        super().__init__(text)
        found = self.form.fullmatch(text)
        assert found is not None, text
        self.written: str = found["network"]  # such as "runs/mine/best.safetensors"
        self.limit = (found["limit"] or "@")[1:]  # "600", "1s" or "auto"; empty without a limit
        try:
            if found["limit"] == "@":
                raise ValueError("a limit is missing after @")
            types = {**get_type_hints(Puct), **SEARCH_OPTIONS}
            given = parse_options(found["options"] or "", types)
            given = {name: read_value(types[name], value, name) for name, value in given.items()}
            self.temperature = given.pop("temperature", 0.0)  # of the choice among moves; see `NetworkPlayer`
            self.search_options = {name: given.pop(name, default) for name, default in SEARCH_DEFAULTS.items()}
            self.selection: Selection = check_selection(Puct(**given))
            self.path = checkpoint_file(Path(self.written))
        except ValueError as error:
            raise PlayerError(f"{quote(text)}: {error}") from error
        self.budget = self._read_budget()  # per move

    @classmethod
    def matches(cls, text: str) -> bool:
        """Return whether a text names a network, not another player with a network in its arguments."""
        found = cls.form.fullmatch(text)
        if found is None:
            return False
        is_argument = re.match(r"[\w.]{2,}:(?!//)", text) is not None  # of another kind, such as "module:Class"
        return not is_argument or os.path.exists(found["network"])  # noqa: PTH110 - no error for very long names

    @property
    def network(self) -> "NetworkKind":
        return self

    @property
    def name(self) -> str:
        """Name for people: "best", the file's name without its suffix, or the part of a name after its scheme.

        If the file is named like a shipped network, the run's name comes first: "mine/best" for
        runs/mine/checkpoints/best.safetensors.
        """
        if self.written in SHIPPED:
            return self.written
        if "://" in self.written:
            return self.written.partition("://")[2].removesuffix(self.path.suffix)
        if self.path.stem not in SHIPPED:
            return self.path.stem
        folders = [name for name in self.path.absolute().parts[1:-1] if name != "checkpoints"]
        return "/".join((*folders[-1:], self.path.stem))

    @property
    def board(self) -> "Board":
        """The network's board."""
        from alphac4.storage.checkpoints import checkpoint_board

        return checkpoint_board(self.path)

    def _read_budget(self) -> "Budget":
        if self.limit != AUTO:
            limits = (form.partition("@")[2] for kind in player_kinds() for form in kind.forms)
            words = [limit for limit in limits if limit.isalpha()]
            return read_budget(self.limit or DEFAULT_SIMULATIONS, self.text, words)
        if self.temperature:
            raise PlayerError(f"{quote(self.text)}: @{AUTO} plays the best move; leave out temperature")
        from alphac4.arena.players import TimeManagement
        from alphac4.mcts.search import Budget

        return Budget(simulations=TimeManagement().simulations)

    @property
    def options(self) -> str:
        """The options that differ from the defaults, as in a specification."""
        from alphac4.mcts.puct import Puct

        others = {"temperature": self.temperature, **self.search_options}
        text = describe_options(others, {"temperature": 0.0, **SEARCH_DEFAULTS})
        if not isinstance(self.selection, Puct):
            return f",{type(self.selection).__name__}{text}"
        return describe_options(self.selection._asdict(), Puct._field_defaults) + text

    @property
    def is_repeatable(self) -> bool:
        """Whether the search has no time limit, and the temperature is 0."""
        return self.temperature == 0 and self.budget.seconds is None

    def load(self) -> "Checkpoint":
        from alphac4.storage.checkpoints import load_checkpoint

        return load_checkpoint(self.path)

    def evaluator(self, options: "BuildOptions") -> "SupportsEvaluate":
        from alphac4.compute import choose_compute
        from alphac4.mcts.network_search import PREFETCH

        compute = options.compute or choose_compute(threads=options.threads)
        size = options.batch_size if self.budget.seconds is None else 1
        return compute.evaluator(self.load().network, batch_size=max(size, PREFETCH))

    def build(self, options: "BuildOptions") -> "SearchingPlayer":
        return self.player(self.evaluator(options), options)

    def player(self, evaluator: "SupportsEvaluate", options: "BuildOptions", cache: int = CACHE) -> "SearchingPlayer":
        """Create the player with the network loaded as ``evaluator``; each search keeps ``cache`` evaluations."""
        from alphac4.arena.players import AutoPlayer, NetworkPlayer, TimeManagement
        from alphac4.mcts.network_search import PREFETCH, NetworkSearch

        network = copy.copy(self)
        network.selection = options.selection or self.selection

        def search(reuse: "Reuse") -> NetworkSearch:
            return NetworkSearch(
                evaluator,
                network.selection,
                board=options.board,
                rng=options.rng,
                cache=cache,
                prefetch=PREFETCH,
                reuse=reuse,
                **self.search_options,
            )

        first = search(options.reuse or "proofs")
        if self.limit == AUTO:
            name = f"{self.name}@{AUTO}{network.options}"
            return AutoPlayer(name, first, search("trees"), TimeManagement())
        name = f"{self.name}@{self.budget}{network.options}"
        return NetworkPlayer(name, first, self.budget, options.rng, temperature=self.temperature)


def unlimited_network(text: str) -> NetworkKind | None:
    """Return the checkpoint of a specification without a limit; None for any other player."""
    network = find_network(text)
    return network if network is not None and network.is_checkpoint and not network.limit else None


def named_checkpoint(text: str) -> NetworkKind:
    """Return the network of a checkpoint such as "best" or FILE.safetensors; a limit is ignored."""
    network = find_network(text)
    if network is None or not network.is_checkpoint:
        raise PlayerError(f"{quote(text)} is not a checkpoint; write {', '.join(SHIPPED)} or FILE.safetensors")
    return network


@register
class UctKind(PlayerKind):
    """Classic MCTS with random rollouts."""

    forms = {
        "uct:1000": "classic MCTS with 1000 simulations per move",
        "uct:1s": "classic MCTS with one second per move",
        "uct:1000,OPTIONS": "variants of it, such as uct:1000,exploration=1,final=rate,proofs=off; see docs/players.md",
    }
    names = ("uct",)

    def build(self, options: "BuildOptions") -> "SearchingPlayer":
        from alphac4.arena.players import UctPlayer
        from alphac4.mcts.classic.uct import UctConfig

        limit, comma, written = self.text.removeprefix("uct").removeprefix(":").partition(",")
        try:
            config = read_record(UctConfig, parse_options(comma + written, get_type_hints(UctConfig)))
        except ValueError as error:
            raise PlayerError(f"{quote(self.text)}: {error}") from error
        budget = read_budget(limit, self.text)
        return UctPlayer(
            budget,
            options.rng,
            options.board,
            config,
            threads=options.threads,
            reuse=options.reuse,
            name=f"uct:{budget}{describe_options(vars(config), vars(UctConfig()))}",
        )


@register
class NegamaxKind(CountedKind):
    """Alpha-beta search of a fixed depth."""

    forms = {"negamax:4": "alpha-beta search to a depth of 4 plies with a simple evaluation"}
    names = ("negamax",)

    def build(self, options: "BuildOptions") -> "Player":
        from alphac4.arena.alpha_beta import NegamaxPlayer

        return NegamaxPlayer(self.number, options.rng)


@register
class SolverKind(PlayerKind):
    """The exact solver."""

    forms = {
        "solver": "perfect play: the fastest wins, the slowest losses",
        "solver:outcome": "perfect play at any speed: any move that keeps a win, otherwise a draw",
    }
    names = ("solver",)
    is_fixed = True

    def build(self, options: "BuildOptions") -> "Player":
        from alphac4.arena.alpha_beta import SolverPlayer

        return SolverPlayer(options.rng, options.board, fastest=self.text == "solver", threads=options.threads)


@register
class RandomKind(PlayerKind):
    """Random moves."""

    forms = {"random": "uniformly random moves"}
    names = ("random",)
    is_fixed = True

    def build(self, options: "BuildOptions") -> "Player":
        from alphac4.arena.players import RandomPlayer

        return RandomPlayer(options.rng)


@register
class ModuleKind(PlayerKind):
    """A user's own player."""

    forms = {
        "MODULE:CLASS": "your own player: an importable class or function, called with those of rng, board and "
        "threads that it has parameters for; MODULE:CLASS@600 adds a budget, MODULE:CLASS,NAME=VALUE other arguments",
    }

    @classmethod
    def matches(cls, text: str) -> bool:
        names = {name for kind in player_kinds() for name in kind.names}
        return MODULE_FORM.fullmatch(text) is not None and first_word(text) not in names

    @property
    def files(self) -> Sequence[Path]:
        from alphac4.arena.external import module_files

        return module_files(self.text.partition(":")[0])

    def build(self, options: "BuildOptions") -> "Player":
        from alphac4.arena.external import make_external_player

        found = MODULE_FORM.fullmatch(self.text)
        assert found is not None, self.text
        budget = {} if found["limit"] is None else {"budget": read_budget(found["limit"], self.text)}
        settings = {"rng": options.rng, "board": options.board, "threads": options.threads}
        return make_external_player(found, **settings, **budget)
