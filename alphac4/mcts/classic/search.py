"""Classic MCTS over batches of positions, with several threads and root-parallel trees."""

import contextlib
import dataclasses
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from alphac4.game import STANDARD, Board, Position
from alphac4.machine import check_block, worker_threads
from alphac4.mcts.classic.uct import UctConfig, final_move, run_uct, scores_use_heuristics
from alphac4.mcts.results import SearchResults
from alphac4.mcts.search import TIMED_NODES, Budget, Reuse, TreeSearch
from alphac4.mcts.tree import ROOT, UNPROVEN, Trees, proof_value

NODES_PER_SECOND = 3_000_000  # upper bound on the speed of classic search on one core
MAX_NODES = 4_000_000  # nodes of a tree whose search is limited by time


class UctSearch(TreeSearch):
    """Classic MCTS with random rollouts."""

    def __init__(
        self,
        config: UctConfig | None = None,
        *,
        board: Board = STANDARD,
        rng: np.random.Generator,
        reuse: Reuse | None = None,  # by default as ``config`` says
        threads: int = 1,  # trees searched at the same time
    ) -> None:
        self.config = config or UctConfig()
        self.selection = self.config.selection()
        super().__init__(
            board,
            rng,
            reuse or ("trees" if self.config.tree == "keep" else "nothing"),
            proofs=self.config.proofs,
            look_ahead=self.config.decisive_moves,
            heuristics=scores_use_heuristics(self.selection),
        )
        self.threads = threads
        self.roots = self.config.roots

    def search(self, positions: Sequence[Position], budget: Budget) -> SearchResults:
        if self.roots == 1:
            return super().search(positions, budget)
        share = None if budget.simulations is None else -(-budget.simulations // self.roots)
        each = Budget(simulations=share, seconds=budget.seconds)
        return self._merged(super().search([p for p in positions for _ in range(self.roots)], each))

    def _example(self) -> "UctSearch":
        config = dataclasses.replace(self.config, roots=1)
        return UctSearch(config, board=self.board, rng=np.random.default_rng(0))

    def _timed_nodes(self, budget: Budget) -> int:
        return min(MAX_NODES, int(TIMED_NODES + NODES_PER_SECOND * (budget.seconds or 0.0)))

    def _run(self, trees: Trees, count: int, deadline: float | None) -> None:
        # Simulations of a tree between two checks for Ctrl-C, which are at most some tenths of a second apart.
        chunk = 256 if deadline is not None else min(2**16, 1 + 2**18 // max(count, 1))
        visits = trees.visits[:count, ROOT]  # [count, A] view, updated by the search
        left = [t for t in range(count) if visits[t].sum() < trees.budget[t]]
        is_parallel = min(self.threads, len(left)) > 1
        with worker_threads(self.threads) if is_parallel else contextlib.nullcontext() as pool:
            search_all = map if pool is None else pool.map
            while left:  # one chunk per tree in turn, so that each tree gets its share of the time
                check_block()
                goals = [min(int(visits[t].sum()) + chunk, int(trees.budget[t])) for t in left]
                before = time.perf_counter()
                list(search_all(lambda t, goal: run_uct(trees, t, goal, self.selection), left, goals))
                spent = time.perf_counter() - before
                if deadline is not None:  # the clock is read about once per millisecond
                    chunk = chunk * 2 if spent < 0.0005 else max(1, chunk // 2) if spent > 0.002 else chunk
                left = [  # without the trees that are proven, full or done
                    t for t, goal in zip(left, goals, strict=True) if goal <= visits[t].sum() < trees.budget[t]
                ]
                if deadline is not None and time.perf_counter() > deadline:
                    return

    def _moves(self, moves: npt.NDArray[np.int64], statistics: dict[str, npt.NDArray[Any]]) -> npt.NDArray[np.int64]:
        """Apply ``config.final``; with several trees per position, `_merged` does so instead."""
        if self.roots > 1 or (self.config.final == "visits" and self.config.proofs):
            return moves
        return self._final_moves(statistics)

    def _final_moves(self, of: dict[str, npt.NDArray[Any]]) -> npt.NDArray[np.int64]:
        rows = zip(of["visits"], of["values"], of["scores"], of["proofs"], strict=True)
        return np.array([final_move(*row, rule=self.config.final) for row in rows], np.int64)

    def _merged(self, parts: SearchResults) -> SearchResults:
        arrays = {name: array for name, array in vars(parts).items() if isinstance(array, np.ndarray)}
        of = {name: array.reshape(-1, self.roots, *array.shape[1:]) for name, array in arrays.items()}
        visits, scores = of["visits"], of["scores"]
        with np.errstate(invalid="ignore", divide="ignore"):
            values = np.nansum(of["values"] * visits, axis=1) / visits.sum(axis=1)  # NaN where a move has no visits
            known = np.isfinite(scores)
            scores = np.where(known, scores, 0.0).sum(axis=1) / known.sum(axis=1)
        proofs = np.where(of["proofs"] == UNPROVEN, -129, of["proofs"]).max(axis=1)  # a proof in one tree holds for all
        per_tree = visits.sum(axis=2) + 1
        total = per_tree.sum(axis=1)
        value = (of["value"] * per_tree).sum(axis=1) / total
        wdl = (of["wdl"] * per_tree[:, :, None]).sum(axis=1) / total[:, None]
        merged = dataclasses.replace(
            parts,
            moves=of["moves"][:, 0],
            visits=visits.sum(axis=1),
            values=values,
            priors=of["priors"].mean(axis=1),
            scores=scores,
            proofs=np.where(proofs == -129, UNPROVEN, proofs),
            value=value,
            wdl=wdl,
            simulations=of["simulations"].sum(axis=1),
        )
        moves = self._final_moves(vars(merged))
        for row in range(len(moves)):
            if (proof := merged.root_proof(row)) != UNPROVEN:
                value[row] = proof_value(proof)
                wdl[row] = value[row] > 0, value[row] == 0, value[row] < 0
        variations = []
        for index, move in enumerate(moves):
            lines = parts.variations[index * self.roots : (index + 1) * self.roots]
            variations.append(max((line for line in lines if line[:1] == [move]), key=len, default=[int(move)]))
        return dataclasses.replace(merged, moves=moves, variations=variations)
