"""Players from short texts such as "uct:1000", as the command line and configurations write them."""

import dataclasses
import difflib
import math
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from alphac4.arena import foreign
from alphac4.arena.auto_player import AutoPlayer, TimeManagement
from alphac4.arena.certificate_player import CertificatePlayer
from alphac4.arena.engine_player import EnginePlayer
from alphac4.arena.negamax import NegamaxPlayer
from alphac4.arena.networks import NamedNetwork, find_network
from alphac4.arena.openspiel_player import OpenSpielPlayer
from alphac4.arena.options import UctOptions, describe_options, parse_options
from alphac4.arena.players import (
    NetworkPlayer,
    Player,
    PlayerError,
    RandomPlayer,
    SearchingPlayer,
    UctPlayer,
    as_searching,
)
from alphac4.arena.solver_player import SolverPlayer
from alphac4.certificate.file import SHIPPED
from alphac4.game import Geometry
from alphac4.game.rules import STANDARD
from alphac4.machine import cores
from alphac4.mcts.kept_trees import Reuse
from alphac4.mcts.network_search import Evaluate, NetworkParameters, NetworkSearch
from alphac4.mcts.puct import PuctConfig
from alphac4.mcts.search import MOST_SIMULATIONS, Budget, TreeSearch
from alphac4.storage.checkpoints import SHIPPED as SHIPPED_NETWORKS
from alphac4.storage.checkpoints import shipped_file

if TYPE_CHECKING:  # PyTorch takes a second to import, and most players do without
    from alphac4.compute import Compute

DEFAULT_SIMULATIONS = "100"
AUTO = "auto"  # a limit: as long as the player is unsure
CACHE = 2**18  # evaluations that a network player keeps: 16 MiB
SPECIFICATIONS = """\
  FILE.safetensors@600   a checkpoint searching 600 simulations a move (100 if none are given)
  FILE.safetensors@1s    the same for one second a move
  FILE.safetensors@auto  briefly where it is sure, and long, looking at every move, where it is not
  FILE.safetensors@0     its raw policy, without search
  best@600, fast@600     the same with a network that comes with the project: the strongest, or a small one
  hf://OWNER/NAME@600    the same with a network from the Hugging Face hub (needs alphac4[hub]); hf://OWNER/NAME/FILE@600
                         takes another file of that repository than model.safetensors
  best@600,OPTIONS       another search, such as best@600,c-init=2,prior-temperature=1,temperature=0.5
  FILE.onnx@600          an ONNX network, with the same limits and options: `alphac4 export --onnx` or any other that
                         takes planes and gives a policy and a value (needs alphac4[onnx])
  uct:1000               classic MCTS with 1000 random rollouts a move
  uct:1s                 the same for one second a move
  uct:1000,OPTIONS       its variants, such as uct:1000,exploration=1,final=rate,proofs=off; see docs/players.md
  negamax:4              alpha-beta 4 plies deep with a simple evaluation
  solver                 perfect play: the fastest wins, the slowest losses
  solver:outcome         perfect play that may take its time: any move that keeps a win, or else a draw
  certificate            wins every game that it begins: the moves of a certificate that comes with the project, or of
                         certificate:FILE; elsewhere it plays as the player does whose moves they are
  random                 uniformly random moves
  openspiel:1000         OpenSpiel's C++ MCTS bot with 1000 simulations (needs alphac4[openspiel])
  engine:COMMAND         any program that speaks the protocol of `alphac4 engine`, such as "engine:other --nodes 600"
  MODULE:CLASS           a player of one's own: a class or function that can be imported, which is called with those of
                         rng, geometry and threads that it has parameters for; MODULE:CLASS@600 adds a budget,
                         MODULE:CLASS,NAME=VALUE other arguments"""
FORMS = ", ".join(line.split()[0].rstrip(",") for line in SPECIFICATIONS.splitlines() if line[2] != " ")


def parse_player(
    specification: str,
    *,
    rng: np.random.Generator,
    geometry: Geometry = STANDARD,
    threads: int | None = None,
    compute: "Compute | None" = None,
    batch_size: int = 64,
    reuse: Reuse | None = None,
    puct: PuctConfig | NetworkParameters | None = None,
) -> Player:
    """Make a player from a short specification such as "uct:1000"; see `SPECIFICATIONS`.

    ``threads`` is how many cores it may use, by default all; ``compute`` is where networks run, by default wherever
    they are fastest; ``batch_size`` is how many positions a network will usually be asked about at once; ``reuse`` is
    what a search keeps for positions that follow, where it is not left to the player; ``puct`` is how a network is
    searched with, in place of what the specification says.

    Raises:
        PlayerError: for an unknown form, a bad number, or a checkpoint that cannot be used.
    """
    threads = threads or cores()
    network = find_network(specification)
    if network is not None:
        budget, options = check_network(network, specification, geometry), network.options
        if isinstance(puct, PuctConfig):
            options, puct = dataclasses.replace(options, config=puct), None
        label = describe_options(options) + ("" if puct is None else f",{type(puct).__name__}")
        rule = puct or options.config
        reuse = reuse or "proofs"
        evaluator: Evaluate
        search_of: Callable[..., TreeSearch]
        if network.is_onnx:
            evaluator = network.load_onnx(threads)
            search_of = partial(NetworkSearch, evaluator)
        else:
            from alphac4.compute import choose

            compute = compute or choose(threads=threads)
            size = batch_size if budget.seconds is None else 1
            evaluator = loaded = compute.evaluator(network.load().network, batch_size=size)
            search_of = partial(compute.search, loaded)
        search_of = partial(search_of, rule, geometry=geometry, rng=rng, cache=CACHE)
        name = f"{network.name}@{network.limit or DEFAULT_SIMULATIONS}{label}"
        player = NetworkPlayer(
            name, evaluator, budget, rng, temperature=options.temperature, search=search_of(reuse=reuse)
        )
        if network.limit != AUTO:
            return player
        return AutoPlayer(name, player, search_of(reuse="trees"), TimeManagement())
    kind, _, argument = specification.partition(":")
    if specification == "random":
        return RandomPlayer(rng)
    if specification in ("solver", "solver:outcome"):
        return SolverPlayer(rng, geometry, fastest=not argument, threads=threads)
    if kind == "uct":
        limit, _, written = argument.partition(",")
        try:
            uct_options = parse_options(written, UctOptions)
        except ValueError as error:
            raise PlayerError(f"{specification!r}: {error}") from error
        return UctPlayer(_parse_budget(limit, specification), rng, geometry, uct_options, threads=threads, reuse=reuse)
    if kind == "certificate":
        make = partial(
            parse_searching_player, rng=rng, geometry=geometry, threads=threads, compute=compute, reuse=reuse
        )
        return CertificatePlayer(Path(argument) if argument else shipped_file(SHIPPED), geometry, make)
    if kind == "negamax":
        return NegamaxPlayer(_parse_count(argument, specification), rng)
    if kind == "openspiel":
        if geometry != STANDARD:
            raise PlayerError(f"{specification!r}: openspiel only plays on the standard board")
        return OpenSpielPlayer(_parse_count(argument, specification), rng)
    if kind == "engine":
        return EnginePlayer(argument)
    found = foreign.FORM.fullmatch(specification)
    if found is not None and kind not in ("random", "solver"):
        budget_given = {} if found["limit"] is None else {"budget": _parse_budget(found["limit"], specification)}
        return foreign.make_foreign_player(found, rng=rng, geometry=geometry, threads=threads, **budget_given)
    raise PlayerError(f"unknown player {specification!r}{_similar(specification)}; players are written {FORMS}")


def parse_searching_player(
    specification: str,
    *,
    rng: np.random.Generator,
    geometry: Geometry = STANDARD,
    threads: int | None = None,
    compute: "Compute | None" = None,
    reuse: Reuse | None = None,
) -> SearchingPlayer:
    """`parse_player` for one position at a time, by a player that can say what it thinks.

    Raises:
        PlayerError: as `parse_player` does, and for a player that only chooses moves.
    """
    player = parse_player(
        specification,
        rng=rng,
        geometry=geometry,
        threads=threads,
        compute=compute,
        batch_size=1,
        reuse=reuse,
    )
    searching = as_searching(player)
    if searching is None:
        raise PlayerError(f"{specification!r} searches no tree; take a network such as best@600, or uct:10000")
    return searching


def network_budget(network: NamedNetwork, specification: str) -> Budget:
    """What a network may spend on a move.

    Raises:
        PlayerError: for a limit that is no budget.
    """
    if network.limit == AUTO:
        if network.options.temperature:
            raise PlayerError(f"{specification!r}: with @auto the best move is played, and temperature has no place")
        return Budget(simulations=TimeManagement().simulations)
    return _parse_budget(network.limit or DEFAULT_SIMULATIONS, specification)


def check_network(network: NamedNetwork, specification: str, geometry: Geometry) -> Budget:
    """What a network may spend on a move, if it plays on this board; quick, as nothing is loaded.

    Raises:
        PlayerError: for a network of another board, one that cannot be read, or a limit that is no budget.
    """
    if network.geometry != geometry:
        raise PlayerError(f"{network.path}: plays on {describe(network.geometry)}, not on {describe(geometry)}")
    return network_budget(network, specification)


def common_geometry(specifications: tuple[str, ...], otherwise: Geometry = STANDARD) -> Geometry:
    """The board of the first network among the players; ``otherwise`` if there is none."""
    for specification in specifications:
        network = find_network(specification)
        if network is not None:
            return network.geometry
    return otherwise


def describe(geometry: Geometry) -> str:
    """A board in words."""
    diagonals = "" if geometry.diagonals else " without diagonals"
    return f"{geometry.rows} x {geometry.columns} with runs of {geometry.run_length}{diagonals}"


def _similar(specification: str) -> str:
    """What an unknown player was perhaps meant to be."""
    kind = re.split("[@:,]", specification, maxsplit=1)[0]
    known = {*SHIPPED_NETWORKS, *(re.split("[@:,]", form)[0] for form in FORMS.split(", ") if form[0].islower())}
    found = difflib.get_close_matches(kind, known, n=1)
    return f" (is it {found[0] + specification[len(kind) :]}?)" if found else ""


def _parse_budget(text: str, specification: str) -> Budget:
    try:
        if text.endswith("s"):
            seconds = float(text[:-1])
            if not math.isfinite(seconds):
                raise ValueError("endless")
            return Budget(seconds=seconds)
        if not text.isdecimal():
            raise ValueError("no number")
        simulations = int(text)
    except ValueError as error:
        raise PlayerError(f"{specification!r}: {text!r} is no budget; write 1000 (simulations) or 1.5s") from error
    if simulations > MOST_SIMULATIONS:
        raise PlayerError(f"{specification!r}: a search may have {MOST_SIMULATIONS:,} simulations at most")
    return Budget(simulations=simulations)


def _parse_count(text: str, specification: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST_SIMULATIONS:
        kind = specification.partition(":")[0]
        raise PlayerError(f"{specification!r}: {text!r} is no positive number; write {kind}:4 or so")
    return int(text)
