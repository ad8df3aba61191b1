"""Create players from specifications: short texts such as "uct:1000" or "best@600,c-init=2"."""

import dataclasses
import hashlib
import math
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import numpy as np

from alphac4.arena.alpha_beta import NegamaxPlayer, SolverPlayer
from alphac4.arena.certificate_player import CertificatePlayer
from alphac4.arena.external import EnginePlayer, OpenSpielPlayer, command_files, make_external_player, module_files
from alphac4.arena.players import (
    AutoPlayer,
    NetworkPlayer,
    Player,
    PlayerError,
    RandomPlayer,
    SearchingPlayer,
    TimeManagement,
    UctPlayer,
    budget_name,
)
from alphac4.arena.pool_players import PlayerFactory, replicate_player
from alphac4.arena.syntax import KINDS, MODULE_FORM, is_whole_number, read_number, unknown_player
from alphac4.certificate.file import read_certificate, shipped_certificates
from alphac4.game import Geometry
from alphac4.game.rules import STANDARD
from alphac4.machine import cores
from alphac4.mcts.classic.uct import UctConfig
from alphac4.mcts.config import PuctConfig, check_puct
from alphac4.mcts.network_search import NetworkParameters, NetworkSearch, SupportsEvaluate
from alphac4.mcts.search import Budget, Reuse
from alphac4.storage.checkpoints import checkpoint_file, checkpoint_geometry
from alphac4.storage.hub import HUB_NAME_PATTERN, HUB_PREFIX, SHIPPED, is_hub_name, short_name
from alphac4.storage.records import MAX_SIMULATIONS, check_ranges, did_you_mean, quote, read_record, read_value

if TYPE_CHECKING:  # PyTorch takes a second to import, and most players do not need it
    from alphac4.compute import Compute, Pool, Shared
    from alphac4.storage.checkpoints import Checkpoint

DEFAULT_SIMULATIONS = "100"
AUTO = "auto"  # limit of an `AutoPlayer`
CERTIFICATE = "certificate"  # limit: as `AUTO`, but with the shipped certificates' moves where they cover the position
LEAVES = 16  # default number of a tree's leaves that a network evaluates together
MAX_LEAVES = 256
CACHE = 2**18  # evaluations that a network player keeps: 16 MiB
ONNX = ".onnx"
NETWORK_FORM = re.compile(
    rf"(?P<network>{'|'.join(SHIPPED)}|{HUB_NAME_PATTERN}|.+\.(?:safetensors|onnx))(?P<limit>@[^,]*)?(?P<options>,.*)?",
    re.DOTALL,
)
UCT_OPTIONS = get_type_hints(UctConfig)
NETWORK_OPTIONS = {**get_type_hints(PuctConfig), "temperature": float, "leaves": int}


def parse_options(text: str, types: Mapping[str, Any]) -> dict[str, Any]:
    """Parse options such as ",exploration=1,final=rate"; ``types`` holds the types of all options by name.

    In the text, names have dashes for underscores, and switches are on or off.

    Raises:
        ValueError: for an unknown, repeated or malformed option.
    """
    known = {name.replace("_", "-"): name for name in types}
    given: dict[str, Any] = {}
    for part in text.split(",")[1:]:
        name, equals, value = part.partition("=")
        if not part:
            raise ValueError("an option is missing before or after a comma")
        if not equals or name not in known:
            raise ValueError(f"unknown option {part!r:.60}; write NAME=VALUE with a name of {', '.join(known)}")
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


@dataclass(frozen=True, kw_only=True)
class NamedNetwork:
    """Network of a specification such as "runs/mine/best.safetensors@600,c-init=2"."""

    specification: str
    written: str  # "runs/mine/best.safetensors"
    name: str  # for people: "best", or the file's name without its suffix; "mine/best" for runs/mine/checkpoints/best
    path: Path
    limit: str  # "600", "1s", "auto" or "certificate"; empty without a limit
    rule: NetworkParameters  # parameters of the search
    temperature: float  # temperature of the choice among moves; see `NetworkPlayer`
    leaves: int  # the most leaves of a tree that it evaluates together

    @property
    def is_onnx(self) -> bool:
        """Whether the file is an ONNX network instead of a checkpoint."""
        return self.path.suffix == ONNX

    @property
    def geometry(self) -> Geometry:
        """The network's board.

        Raises:
            ValueError: if the file cannot be used.
        """
        if not self.is_onnx:
            return checkpoint_geometry(self.path)
        from alphac4.nn.foreign import onnx_geometry

        return onnx_geometry(self.path)

    @property
    def budget(self) -> Budget:
        """The budget per move.

        Raises:
            PlayerError: for an invalid limit.
        """
        if self.limit not in (AUTO, CERTIFICATE):
            return _parse_budget(self.limit or DEFAULT_SIMULATIONS, self.specification, (AUTO, CERTIFICATE))
        if self.temperature:
            raise PlayerError(f"{quote(self.specification)}: @{self.limit} plays the best move; leave out temperature")
        return Budget(simulations=TimeManagement().simulations)

    @property
    def player_name(self) -> str:
        """The player's name: the network's name with the limit and the options that differ from the defaults."""
        limit = self.limit if self.limit in (AUTO, CERTIFICATE) else budget_name(self.budget)
        return f"{self.name}@{limit}{self.options}"

    @property
    def options(self) -> str:
        """The options that differ from the defaults, as in a specification."""
        if not isinstance(self.rule, PuctConfig):
            return f",{type(self.rule).__name__}"
        defaults = {**PuctConfig._field_defaults, "temperature": 0.0, "leaves": LEAVES}
        options = {**self.rule._asdict(), "temperature": self.temperature, "leaves": self.leaves}
        return describe_options(options, defaults)

    def check(self, geometry: Geometry) -> None:
        """Check that the network can play on this board, without loading its weights.

        Raises:
            ValueError: for a network of another board, a file that cannot be read, or an invalid limit.
        """
        if self.geometry != geometry:
            raise PlayerError(f"{self.written}: plays on {describe(self.geometry)}, not on {describe(geometry)}")
        _ = self.budget

    def load(self) -> "Checkpoint":
        """Load the checkpoint.

        Raises:
            ValueError: if the file cannot be used.
        """
        from alphac4.storage.checkpoints import load_checkpoint

        return load_checkpoint(self.path)


def find_network(specification: str) -> NamedNetwork | None:
    """Return the network of a specification; None for any other player.

    The name of a shipped network has precedence over a file of that name in the current folder.

    Raises:
        PlayerError: for an unknown or invalid option.
    """
    found = NETWORK_FORM.fullmatch(specification)
    if found is None or specification.startswith("engine:") or MODULE_FORM.fullmatch(specification):
        return None  # an argument of another program or of a user's own player may name a network file
    written = found["network"]
    try:
        if found["limit"] == "@":
            raise ValueError("a limit is missing after @")
        given = parse_options(found["options"] or "", NETWORK_OPTIONS)
        given = {name: read_value(NETWORK_OPTIONS[name], value, name) for name, value in given.items()}
        temperature, leaves = given.pop("temperature", 0.0), given.pop("leaves", LEAVES)
        if not 0 <= temperature < math.inf:
            raise ValueError(f"temperature must be at least 0 and finite, not {temperature:g}")
        if not 1 <= leaves <= MAX_LEAVES:
            raise ValueError(f"leaves must be from 1 to {MAX_LEAVES}, not {leaves}")
        rule = check_puct(PuctConfig(**given))
        path = checkpoint_file(Path(written))
    except ValueError as error:
        raise PlayerError(f"{quote(specification)}: {error}") from error
    return NamedNetwork(
        specification=specification,
        written=written,
        name=written if written in SHIPPED else short_name(written) if is_hub_name(written) else _shown_name(path),
        path=path,
        limit=(found["limit"] or "@")[1:],
        rule=rule,
        temperature=temperature,
        leaves=leaves,
    )


def unlimited_network(specification: str) -> NamedNetwork | None:
    """Return the checkpoint of a specification without a limit; None for any other player."""
    network = find_network(specification)
    return None if network is None or network.limit or network.is_onnx else network


def _shown_name(path: Path) -> str:
    """Return a file's name without its suffix, preceded by its run's name if a shipped network has the same name."""
    if path.stem not in SHIPPED:
        return path.stem
    folders = [name for name in path.absolute().parts[1:-1] if name != "checkpoints"]
    return "/".join((*folders[-1:], path.stem))


def player_networks(specification: str) -> list[NamedNetwork]:
    """Return the networks that a player may use: its own, or those that made its certificates."""
    if (network := find_network(specification)) is not None:
        return [network]
    authors = {str(read_certificate(path).about.get("player", "")) for path in certificate_files(specification)}
    return [network for network in map(find_network, sorted(authors)) if network is not None]


def certificate_files(specification: str) -> list[Path]:
    """Return the certificates of a player such as "certificate", "certificate:FILE" or "best@certificate".

    Raises:
        PlayerError: if a name is missing.
    """
    network = find_network(specification)
    kind, colon, argument = specification.partition(":")
    if network is None and kind == CERTIFICATE and colon:
        if not all(argument.split(",")):
            raise PlayerError(
                f"{quote(specification)}: a file's name is missing; write certificate:FILE or certificate:FILE,FILE"
            )
        return [Path(name) for name in argument.split(",")]
    is_shipped = specification == CERTIFICATE or (network is not None and network.limit == CERTIFICATE)
    return shipped_certificates() if is_shipped else []


def player_digest(specification: str) -> str | None:
    """Return the SHA-256 of the files that decide a player's moves; None for a player without files.

    For a network it is the digest of its file, for certificates a digest over those of their files and networks, for
    MODULE:CLASS that of the module's file, and for engine:COMMAND a digest over those of the files in the command.
    """
    paths = [*certificate_files(specification), *(network.path for network in player_networks(specification))]
    digests = [_file_digest(path) for path in paths or _external_files(specification)]
    return hashlib.sha256("".join(digests).encode()).hexdigest() if len(digests) > 1 else next(iter(digests), None)


def _external_files(specification: str) -> list[Path]:
    """Return the files of a player of another author: those of its module or of its command."""
    kind, _, argument = specification.partition(":")
    if kind == "engine":
        return command_files(argument)
    found = MODULE_FORM.fullmatch(specification)
    return module_files(found["module"]) if found is not None and kind not in KINDS else []


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_network(specification: str) -> bytes | None:
    """Return the content of the network's file; None for a player that is not a network."""
    network = find_network(specification)
    return None if network is None else network.path.read_bytes()


def choose_backend(compute: "Compute", specifications: Sequence[str], batch_size: int) -> str:
    """Return the backend of the players' networks, choosing the fastest one if it is still "auto".

    Moves may differ between backends, so the choice is made once, before it is recorded. Players with certificates load
    their network only when they need it.
    """
    networks = [network for name in specifications for network in player_networks(name) if not network.is_onnx]
    if networks and compute.backend == "auto":
        compute.evaluator(networks[0].load().network, batch_size=batch_size)
    return compute.backend


def is_repeatable(specification: str) -> bool:
    """Return whether a player is known to play the same move whenever it meets a position.

    A network does if simulations limit it and it has no temperature, and so does the player of the shipped
    certificates. Any other player may use random numbers or a clock.
    """
    network = find_network(specification)
    if network is None:
        return specification == CERTIFICATE  # the shipped ones, which a network made
    return network.temperature == 0 and network.budget.seconds is None


def named_checkpoint(specification: str) -> NamedNetwork:
    """Return the network of a checkpoint such as "best" or FILE.safetensors; a limit is ignored.

    Raises:
        PlayerError: for any other specification.
    """
    network = find_network(specification)
    if network is None or network.is_onnx:
        names = f"{', '.join(SHIPPED)}, FILE.safetensors or {HUB_PREFIX}OWNER/NAME"
        raise PlayerError(f"{quote(specification)} is not a network; write {names}")
    return network


def parse_player(
    specification: str,
    *,
    rng: np.random.Generator,
    geometry: Geometry = STANDARD,
    threads: int | None = None,
    compute: "Compute | None" = None,
    batch_size: int = 64,
    reuse: Reuse | None = None,
    puct: NetworkParameters | None = None,
) -> Player:
    """Create a player from a specification such as "uct:1000"; `alphac4.arena.syntax` lists all forms.

    Args:
        specification: the player.
        rng: the player's random numbers.
        geometry: the board.
        threads: cores to use; by default all.
        compute: the device and backend of networks; by default the fastest.
        batch_size: the usual number of positions that a network evaluates together.
        reuse: trees that a search keeps for later positions; by default the player's own choice.
        puct: parameters of a network's search, instead of those in the specification.

    Raises:
        PlayerError: for an unknown or invalid specification, or a file that cannot be used.
    """
    threads = threads or cores()
    settings: dict[str, Any] = {"rng": rng, "geometry": geometry, "threads": threads, "compute": compute}
    network = find_network(specification)
    if network is not None:
        network.check(geometry)
        if puct is not None:
            network = dataclasses.replace(network, rule=puct)
        settings |= {"batch_size": batch_size, "reuse": reuse}
        if network.limit != CERTIFICATE:
            return _load_player(network, **settings)
        other = dataclasses.replace(network, limit=AUTO)
        files = shipped_certificates()
        return CertificatePlayer(
            files, geometry, lambda _author: _load_player(other, **settings), name=network.player_name
        )
    kind, _, argument = specification.partition(":")
    if specification == "random":
        return RandomPlayer(rng)
    if specification in ("solver", "solver:outcome"):
        return SolverPlayer(rng, geometry, fastest=not argument, threads=threads)
    if kind == "uct":
        limit, comma, written = argument.partition(",")
        try:
            config = read_record(UctConfig, parse_options(comma + written, UCT_OPTIONS))
        except ValueError as error:
            raise PlayerError(f"{quote(specification)}: {error}") from error
        budget = _parse_budget(limit, specification)
        return UctPlayer(
            budget,
            rng,
            geometry,
            config,
            threads=threads,
            reuse=reuse,
            name=f"uct:{budget_name(budget)}{describe_options(vars(config), vars(UctConfig()))}",
        )
    if kind == "certificate":
        files = certificate_files(specification)

        def make(author: str) -> SearchingPlayer:
            if not author.startswith("uct:") and find_network(author) is None:
                # Other specifications run programs or import modules, which an untrusted file must not do.
                raise PlayerError(f"the certificate's player {quote(author)} is neither a network nor uct")
            return parse_searching_player(author, reuse=reuse, **settings)

        return CertificatePlayer(files, geometry, make)
    if kind == "negamax":
        return NegamaxPlayer(_parse_count(argument, specification), rng)
    if kind == "openspiel":
        if geometry != STANDARD:
            raise PlayerError(f"{quote(specification)}: openspiel only plays on the standard board")
        return OpenSpielPlayer(_parse_count(argument, specification), rng)
    if kind == "engine":
        return EnginePlayer(argument)
    found = MODULE_FORM.fullmatch(specification)
    if found is not None and kind not in ("random", "solver"):
        budget_given = {} if found["limit"] is None else {"budget": _parse_budget(found["limit"], specification)}
        return make_external_player(found, rng=rng, geometry=geometry, threads=threads, **budget_given)
    raise PlayerError(unknown_player(specification))


def _load_player(
    network: NamedNetwork, *, threads: int, compute: "Compute | None", batch_size: int, **settings: Any
) -> SearchingPlayer:
    """Load the network and return its player; see `parse_player`."""
    evaluator: SupportsEvaluate
    if network.is_onnx:
        from alphac4.nn.foreign import OnnxEvaluator

        evaluator = OnnxEvaluator(network.path, threads)
    else:
        from alphac4.compute import choose_compute

        compute = compute or choose_compute(threads=threads)
        size = batch_size if network.budget.seconds is None else 1
        evaluator = compute.evaluator(network.load().network, batch_size=max(size, network.leaves))
    return network_player(network, evaluator, **settings)


def network_player(
    network: NamedNetwork,
    evaluator: SupportsEvaluate,
    *,
    rng: np.random.Generator,
    geometry: Geometry,
    reuse: Reuse | None = None,
    cache: int = CACHE,
) -> SearchingPlayer:
    """Create the player of a network that is loaded as ``evaluator``; see `parse_player`.

    ``cache`` is the number of evaluations that its search keeps.
    """
    name = network.player_name
    search_of = partial(
        NetworkSearch, evaluator, network.rule, geometry=geometry, rng=rng, cache=cache, leaves=network.leaves
    )
    search = search_of(reuse=reuse or "proofs")
    if network.limit == AUTO:
        return AutoPlayer(name, evaluator, search, search_of(reuse="trees"), TimeManagement())
    return NetworkPlayer(name, evaluator, network.budget, rng, temperature=network.temperature, search=search)


def parse_player_with(network: bytes | None, specification: str, **settings: Any) -> Player:
    """Call `parse_player` in a process that may lack the network's file, whose content is ``network``."""
    found = NETWORK_FORM.fullmatch(specification)
    if network is None or found is None:
        return parse_player(specification, **settings)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("network.onnx" if found["network"].endswith(ONNX) else "network.safetensors")
        path.write_bytes(network)
        return parse_player(f"{path}{specification[found.end('network') :]}", **settings)


def parse_searching_player(specification: str, **settings: Any) -> SearchingPlayer:
    """Create a `SearchingPlayer`, by default for one position at a time; see `parse_player`.

    Raises:
        PlayerError: as for `parse_player`, and for a player that only chooses moves.
    """
    player = parse_player(specification, **({"batch_size": 1} | settings))
    if not isinstance(player, SearchingPlayer):
        raise PlayerError(f"{quote(specification)} searches no tree; use a network such as best@600, or uct:10000")
    return player


def pool_players(
    pool: "Pool",
    specification: str,
    model: Player,
    *,
    geometry: Geometry,
    backend: str,
    seed: int = 0,
    reuse: Reuse | None = None,
    network: bytes | None = None,
) -> list[Player]:
    """Create a player in each process of a pool, with its own random numbers.

    Args:
        pool: the processes.
        specification: the player.
        model: the same player in this process.
        geometry: the board.
        backend: backend of networks.
        seed: seed of the random numbers.
        reuse: trees that a search keeps for later positions.
        network: content of the network's file; by default it is read.
    """
    network = network or read_network(specification)
    parse = partial(_parse_in_pool, specification, pool.share(network), backend, geometry=geometry, reuse=reuse)
    factories = [
        PlayerFactory(
            (specification, geometry, backend, reuse, hash(network), seed, index),
            partial(parse, rng=np.random.default_rng((seed, index))),
        )
        for index in range(pool.cores)
    ]
    return replicate_player(pool, factories, model)


def _parse_in_pool(specification: str, network: "Shared[bytes | None]", backend: str, **settings: Any) -> Player:
    """Create a player that uses one core, in a process of a pool."""
    from alphac4.compute import choose_compute
    from alphac4.nn.backends import require_backend
    from alphac4.nn.evaluator import BATCH

    compute = choose_compute("cpu", require_backend(backend), threads=1)
    return parse_player_with(network.get(), specification, threads=1, compute=compute, batch_size=BATCH, **settings)


def common_geometry(specifications: tuple[str, ...], requested: Geometry = STANDARD) -> Geometry:
    """Return the board of the first network among the players; without a network, the requested board.

    Raises:
        PlayerError: if a board other than the standard one is requested and the network has another board.
    """
    for specification in specifications:
        network = find_network(specification)
        if network is not None:
            if requested != STANDARD:
                network.check(requested)
            return network.geometry
    return requested


def describe(geometry: Geometry) -> str:
    """Return a board in words."""
    diagonals = "" if geometry.diagonals else " without diagonals"
    return f"{geometry.rows} x {geometry.columns} with runs of {geometry.run_length}{diagonals}"


def _parse_budget(text: str, specification: str, words: Sequence[str] = ()) -> Budget:
    """Parse a budget such as "600" or "1.5s"; an error may suggest one of ``words``."""
    try:
        number = read_number(text.removesuffix("s"))
        if text.endswith("s"):
            return Budget(seconds=number)
        budget = Budget(simulations=number)  # type: ignore[arg-type] # 1e3 is whole as well
        check_ranges(budget, simulations=(0, MAX_SIMULATIONS))
    except ValueError as error:
        expected = f"write 1000 (simulations, {MAX_SIMULATIONS:,} at most) or 1.5s"
        raise PlayerError(
            f"{quote(specification)}: {text!r:.60} is not a budget{did_you_mean(text, words)}; {expected}"
        ) from error
    return budget


def _parse_count(text: str, specification: str) -> int:
    """Parse the number after the colon of a specification such as "negamax:4"."""
    if not is_whole_number(text, 1, MAX_SIMULATIONS):
        kind = specification.partition(":")[0]
        expected = f"a number from 1 to {MAX_SIMULATIONS:,}; write {kind}:4"
        raise PlayerError(f"{specification!r:.200}: {text!r:.60} is not {expected}")
    return int(text)
