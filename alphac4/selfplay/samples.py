"""Samples: the positions of finished games with their training targets."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from alphac4.game.planes import PLANES, make_planes
from alphac4.game.position import COLUMN_NAMES, Position
from alphac4.game.rules import STANDARD, Board, play
from alphac4.mcts.results import root_wdl
from alphac4.nn.config import PlanesName
from alphac4.selfplay.config import SelfPlayConfig
from alphac4.selfplay.games import Games, join_finished, make_games
from alphac4.storage.records import checked

COLUMN_TARGET = "column_target"  # prefix of the names of targets per column in files; "target" of the others


class Target(NamedTuple):
    """Values that a function computed from finished games, for the network to learn."""

    values: npt.NDArray[np.float32]  # [G, C, ...] by game and ply, or [S, ...] by sample
    per_column: bool  # whether the last axis is the columns, so that it is reversed when a position is mirrored


@dataclass(frozen=True, kw_only=True)
class Samples:
    """S recorded positions; all fields are for the side to move."""

    board: Board
    own: npt.NDArray[np.uint64]  # [S] bits of the stones of the side to move
    occupied: npt.NDArray[np.uint64]  # [S] bits of all stones
    policy_target: npt.NDArray[np.float16]  # [S, A] policy target, sums to 1
    is_full_search: npt.NDArray[np.bool_]  # [S] whether the policy target is that of a full search
    outcome: npt.NDArray[np.int8]  # [S] the game's result: +1 win, 0 draw, -1 loss
    value: npt.NDArray[np.float32]  # [S] the search's root value in [-1, 1]
    draw: npt.NDArray[np.float32]  # [S] the search's probability of a draw
    value_target: npt.NDArray[np.float16]  # [S, 3] win/draw/loss to learn, by default `lambda_returns`
    final_own: npt.NDArray[np.uint64]  # [S] own stones at the end of the game
    final_occupied: npt.NDArray[np.uint64]  # [S] all stones at the end of the game
    iteration: npt.NDArray[np.int32]  # [S] iteration of the run, from 1; 0 outside a run
    targets: dict[str, Target] = field(default_factory=dict)  # further targets by name

    @classmethod
    def from_arrays(cls, board: Board, arrays: Mapping[str, npt.NDArray[Any]]) -> "Samples":
        """Return samples from `arrays`; raise TypeError if they are not the fields of samples."""
        targets = {name: array for name, array in arrays.items() if "." in name}
        fields: dict[str, Any] = {name: array for name, array in arrays.items() if name not in targets}
        named = {
            name.partition(".")[2]: Target(array, name.partition(".")[0] == COLUMN_TARGET)
            for name, array in targets.items()
        }
        return cls(board=board, targets=named, **fields)

    @classmethod
    @checked
    def from_games(
        cls,
        games: Sequence[str],
        policies: "Sequence[npt.ArrayLike] | None" = None,
        *,
        board: Board = STANDARD,
    ) -> "Samples":
        """Return the positions of finished games, whose value targets are the results.

        Args:
            games: move strings from the empty board, such as "1212121".
            policies: for each game, the policy target of each of its moves [plies, A]. A move with zeros only is not a
                sample. By default, the target is the move played.
            board: the board and the winning condition.

        Raises:
            ValueError: for an illegal or unfinished game, or policies of another shape.
        """
        finished = make_games(len(games), board)
        for number, moves in enumerate(games):
            end = Position.from_moves(moves, board)
            if end.outcome() is None:
                raise ValueError(f"game {number}, {moves}, is not finished")
            columns = [COLUMN_NAMES.index(name) for name in moves.lower()]
            policy = np.eye(board.columns)[columns] if policies is None else np.asarray(policies[number])
            if policy.shape != (len(columns), board.columns):
                expected = [len(columns), board.columns]
                raise ValueError(f"the policies of game {number} are {list(policy.shape)}; expected {expected}")
            position = Position(board=board)
            for ply, column in enumerate(columns):
                finished.own[number, ply], finished.occupied[number, ply] = position.own, position.occupied
                position = position.play(column)
            finished.plies[number] = len(columns)
            finished.moves[number, : len(columns)] = columns
            finished.policy_target[number, : len(columns)] = policy
            finished.outcome[number] = 0 if end.outcome() == 0 else 1 if len(columns) % 2 else -1  # the last move wins
        finished.is_full_search[:] = True
        finished.value[:] = finished.outcome[:, None] * np.where(np.arange(board.cells) % 2 == 0, 1, -1)
        finished.draw[:] = (finished.outcome == 0)[:, None]
        samples = make_samples(board, SelfPlayConfig(td_lambda=1.0), finished)
        return samples.take(np.flatnonzero(samples.policy_target.any(axis=1)))

    @property
    def boards(self) -> npt.NDArray[np.int8]:
        """Boards [S, R, C], bottom row first: 1 for the side to move, -1 for its opponent, 0 for empty cells."""
        planes = self.planes("stones").astype(np.int8)
        boards: npt.NDArray[np.int8] = planes[:, 0] - planes[:, 1]
        return boards

    def planes(self, kind: PlanesName = "stones") -> npt.NDArray[np.float32]:
        """Return a network's input planes [S, P, R, C], bottom row first; "stones" are 2, "lines" 8."""
        return make_planes(self.board, self.own, self.occupied, PLANES[kind])

    def __len__(self) -> int:
        return len(self.own)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return all arrays by name; those of targets have names such as "target.reply"."""
        names = (item.name for item in dataclasses.fields(self) if item.name not in ("board", "targets"))
        targets = {
            f"{COLUMN_TARGET if target.per_column else 'target'}.{name}": target.values
            for name, target in self.targets.items()
        }
        return {name: getattr(self, name) for name in names} | targets

    def take(self, index: slice | npt.NDArray[np.int64]) -> "Samples":
        """Return the samples of a slice or of row numbers."""
        return Samples.from_arrays(self.board, {name: array[index] for name, array in self.arrays().items()})


def concatenate(parts: Sequence[Samples]) -> Samples:
    arrays = [part.arrays() for part in parts]
    joined = {name: np.concatenate([each[name] for each in arrays]) for name in arrays[0]}
    return Samples.from_arrays(parts[0].board, joined)


def content_order(arrays: Sequence[npt.NDArray[Any]]) -> npt.NDArray[np.int64]:
    """Return the order [N] that sorts the rows of arrays [N, ...] by a hash of each row."""
    key = np.zeros(len(arrays[0]), np.uint64)
    for array in arrays:
        bits = np.ascontiguousarray(array).view(f"u{array.itemsize}").reshape(len(array), -1)
        for column in bits.T:
            key = (key ^ column.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
            key ^= key >> np.uint64(29)
    return np.argsort(key, kind="stable")


def sort_by_content(samples: Samples) -> Samples:
    """Sort samples by a hash of all their fields but the iteration, so that their order depends on content only."""
    arrays = samples.arrays()
    del arrays["iteration"]
    return samples.take(content_order(list(arrays.values())))


@dataclass(kw_only=True)
class ActorStats:
    """Statistics of an actor's work since its last block."""

    simulations: int = 0
    evaluations: int = 0  # evaluations by the network
    cached: int = 0  # evaluations found in the cache
    network_seconds: float = 0.0
    tree_seconds: float = 0.0

    def add(self, other: "ActorStats") -> None:
        for name, number in vars(other).items():
            setattr(self, name, getattr(self, name) + number)


@dataclass(frozen=True, kw_only=True)
class Block:
    """G finished games of one actor."""

    games: Games  # [G] rows
    stats: ActorStats = field(default_factory=ActorStats)

    @property
    def sample_count(self) -> int:
        """Number of samples in the games."""
        return int(recorded_plies(self.games).sum())


def join_blocks(blocks: Sequence[Block]) -> Block:
    """Join blocks to one whose games are sorted by content, so that their order does not depend on the actors' speed.

    The fields `left` and `simulations`, which depend on the speed, become 0.
    """
    games, stats = join_finished([block.games for block in blocks]), ActorStats()
    for block in blocks:
        stats.add(block.stats)
    games = games._replace(left=np.zeros_like(games.left), simulations=np.zeros_like(games.simulations))
    order = content_order(games)
    return Block(games=Games._make(array[order] for array in games), stats=stats)


def recorded_plies(games: Games) -> npt.NDArray[np.bool_]:
    """Return whether each ply is a sample [G, C]: those from the first search to the end of the game are."""
    ply = np.arange(games.moves.shape[1])
    return (ply >= games.opening_plies[:, None]) & (ply < games.plies[:, None])


def make_samples(
    board: Board,
    config: SelfPlayConfig,
    games: Games,
    *,
    policy: npt.NDArray[np.floating] | None = None,  # [G, C, A] instead of the recorded policy targets
    value_target: npt.NDArray[np.floating] | None = None,  # [G, C, 3] instead of `lambda_returns`
    targets: Mapping[str, Target] | None = None,  # further targets [G, C, ...]
) -> Samples:
    """Return the samples of finished games with their targets."""
    mask = recorded_plies(games)
    ply = np.broadcast_to(np.arange(board.cells), mask.shape)
    to_move = np.where(ply % 2 == 0, 1, -1).astype(np.int8)
    final_own, final_occupied = final_stones(board, games)
    policy = games.policy_target if policy is None else policy
    if value_target is None:
        value_target = lambda_returns(games, config.td_lambda, config.td_max_regret).astype(np.float32)
    return Samples(
        board=board,
        own=games.own[mask],
        occupied=games.occupied[mask],
        policy_target=policy[mask].astype(np.float16),
        is_full_search=games.is_full_search[mask],
        outcome=(games.outcome[:, None] * to_move)[mask].astype(np.int8),
        value=games.value[mask],
        draw=games.draw[mask],
        value_target=value_target[mask].astype(np.float16),
        final_own=final_own[mask],
        final_occupied=final_occupied[mask],
        iteration=np.zeros(int(mask.sum()), np.int32),
        targets={name: target._replace(values=target.values[mask]) for name, target in (targets or {}).items()},
    )


def lambda_returns(games: Games, td_lambda: float, max_regret: float) -> npt.NDArray[np.float64]:
    """Return win/draw/loss [G, C, 3] for the side to move at each of C plies, the board's cells, of G finished games.

    Plies that are no samples have undefined values.

    TD(lambda) backwards from the result (Sutton 1988): the return of a position is its search's value, moved by
    ``td_lambda`` towards the next position's return for the same side. The trace is cut where the regret of the move
    played exceeds ``max_regret``: the game after an exploring move tells little about the position before it, and would
    teach that sound positions are lost (off-policy targets as in Willemsen et al. 2020, "Value targets in off-policy
    AlphaZero"). ``td_lambda`` 1 with a ``max_regret`` of 2 gives the game's outcome.
    """
    cells = games.value.shape[1]
    returns = root_wdl(games.value, games.draw)
    to_move = np.where(games.plies % 2 == 0, 1, -1)  # +1: the first player would move after the last ply
    following = np.stack([games.outcome == to_move, games.outcome == 0, games.outcome == -to_move], axis=-1) * 1.0
    for ply in range(cells - 1, -1, -1):
        inside = ply < games.plies
        last = ply == games.plies - 1
        weight = np.where(last, 1.0, np.where(games.regret[:, ply] > max_regret, 0.0, td_lambda))[:, None]
        mixed = (1 - weight) * returns[:, ply] + weight * following[:, ::-1]
        returns[:, ply] = mixed
        following = np.where(inside[:, None], mixed, following)
    return returns


def final_stones(board: Board, games: Games) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Return the stones at the end of G games: those of the side to move at each ply, and all stones; [G, C] each."""
    row, last = np.arange(len(games.plies)), games.plies - 1
    before = zip(games.own[row, last], games.occupied[row, last], games.moves[row, last].tolist(), strict=True)
    after = [play(board, *stones_and_column) for stones_and_column in before]
    theirs, occupied = np.array(after, np.uint64).reshape(-1, 2).T  # stones of the side that would move next
    own = theirs ^ occupied
    ply = np.arange(games.own.shape[1])
    same_side = (last[:, None] - ply) % 2 == 0
    everything = np.broadcast_to(occupied[:, None], same_side.shape)
    return np.where(same_side, own[:, None], (own ^ occupied)[:, None]), everything
