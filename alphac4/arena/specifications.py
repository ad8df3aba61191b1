"""Players from short texts such as "uct:1000", as the command line and configurations write them."""

import math
from pathlib import Path

import numpy as np

from alphac4.arena.players import (
    NegamaxPlayer,
    NetworkPlayer,
    OpenSpielPlayer,
    Player,
    PlayerError,
    RandomPlayer,
    UctPlayer,
)
from alphac4.arena.solver_player import SolverPlayer
from alphac4.arena.uct_options import parse_uct_options
from alphac4.checkpoint import SHIPPED, Checkpoint, CheckpointError, load_checkpoint, shipped_checkpoint
from alphac4.game import Geometry
from alphac4.game.rules import STANDARD
from alphac4.machine import cores
from alphac4.mcts.search import Budget
from alphac4.nn.evaluator import Evaluator

DEFAULT_SIMULATIONS = "100"
SUFFIX = ".safetensors"
SPECIFICATIONS = """\
  FILE.safetensors@600   a checkpoint searching 600 simulations a move (100 if none are given)
  FILE.safetensors@1s    the same for one second a move
  FILE.safetensors@0     its raw policy, without search
  best@600, fast@600     the same with a network that comes with the project: the strongest, or a small one
  uct:1000               classic MCTS with 1000 random rollouts a move
  uct:1s                 the same for one second a move
  uct:1000,OPTIONS       its variants, such as uct:1000,exploration=1,final=rate,proofs=off,tree=keep; see the README
  negamax:4              alpha-beta 4 plies deep with a simple evaluation
  solver                 perfect play: the fastest wins, the slowest losses
  solver:outcome         perfect play that may take its time: any move that keeps a win, or else a draw
  random                 uniformly random moves
  openspiel:1000         OpenSpiel's C++ MCTS bot with 1000 simulations (needs alphac4[openspiel])"""
FORMS = ", ".join(line.split()[0] for line in SPECIFICATIONS.splitlines())


def parse_player(
    specification: str,
    *,
    rng: np.random.Generator,
    geometry: Geometry = STANDARD,
    threads: int | None = None,
    backend: str = "auto",
    device: str = "auto",
    batch_size: int = 64,
) -> Player:
    """Make a player from a short specification such as "uct:1000"; see `SPECIFICATIONS`.

    ``threads`` is how many cores it may use, by default all; ``batch_size`` how many positions a network will
    usually be asked about at once.

    Raises:
        PlayerError: for an unknown form, a bad number, or a checkpoint that cannot be used.
    """
    threads = threads or cores()
    path, limit = split_checkpoint(specification)
    if path is not None:
        checkpoint = load_player_checkpoint(path)
        if checkpoint.geometry != geometry:
            raise PlayerError(f"{path}: plays on {describe(checkpoint.geometry)}, not on {describe(geometry)}")
        budget = None if limit == "0" else _parse_budget(limit, specification)
        if budget is not None and budget.seconds is not None:
            batch_size = 1
        evaluator = Evaluator(
            checkpoint.network, batch_size=batch_size, device=device, backend=backend, threads=threads
        )
        return NetworkPlayer(f"{path.stem}@{limit}", evaluator, budget, rng, geometry)
    kind, _, argument = specification.partition(":")
    if specification == "random":
        return RandomPlayer(rng)
    if specification in ("solver", "solver:outcome"):
        return SolverPlayer(rng, geometry, fastest=not argument, threads=threads)
    if kind == "uct":
        limit, _, written = argument.partition(",")
        try:
            options = parse_uct_options(written)
        except ValueError as error:
            raise PlayerError(f"{specification!r}: {error}") from error
        return UctPlayer(_parse_budget(limit, specification), rng, geometry, options, threads=threads)
    if kind == "negamax":
        return NegamaxPlayer(_parse_count(argument, specification), rng)
    if kind == "openspiel":
        if geometry != STANDARD:
            raise PlayerError(f"{specification!r}: openspiel only plays on the standard board")
        return OpenSpielPlayer(_parse_count(argument, specification), rng)
    raise PlayerError(f"unknown player {specification!r}; players are written {FORMS}")


def split_checkpoint(specification: str) -> tuple[Path | None, str]:
    """The checkpoint's path and its limit, "600", "1s" or "0"; the path is None for any other player."""
    name, _, limit = specification.partition("@")
    if name in SHIPPED:
        try:
            return shipped_checkpoint(name), limit or DEFAULT_SIMULATIONS
        except CheckpointError as error:
            raise PlayerError(str(error)) from error
    path, at, limit = specification.rpartition("@")
    if specification.endswith(SUFFIX):
        path, at, limit = specification, "@", DEFAULT_SIMULATIONS
    return (Path(path), limit) if at and path.endswith(SUFFIX) else (None, "")


def common_geometry(specifications: tuple[str, ...], otherwise: Geometry = STANDARD) -> Geometry:
    """The board of the first checkpoint among the players; ``otherwise`` if there is none."""
    for specification in specifications:
        path, _ = split_checkpoint(specification)
        if path is not None:
            return load_player_checkpoint(path).geometry
    return otherwise


def describe(geometry: Geometry) -> str:
    """A board in words."""
    diagonals = "" if geometry.diagonals else " without diagonals"
    return f"{geometry.rows} x {geometry.columns} with runs of {geometry.run_length}{diagonals}"


def load_player_checkpoint(path: Path) -> Checkpoint:
    """`load_checkpoint` with its errors as `PlayerError`."""
    try:
        return load_checkpoint(path)
    except CheckpointError as error:
        raise PlayerError(str(error)) from error


def _parse_budget(text: str, specification: str) -> Budget:
    try:
        if not text.endswith("s"):
            return Budget(simulations=int(text))
        if math.isfinite(seconds := float(text[:-1])):
            return Budget(seconds=seconds)
        raise ValueError("endless")
    except ValueError as error:
        raise PlayerError(f"{specification!r}: {text!r} is no budget; write 1000 (simulations) or 1.5s") from error


def _parse_count(text: str, specification: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        kind = specification.partition(":")[0]
        raise PlayerError(f"{specification!r}: {text!r} is no positive number; write {kind}:4 or so")
    return int(text)
