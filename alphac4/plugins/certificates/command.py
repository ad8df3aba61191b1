"""The command `certificate`."""

import sys
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from alphac4.commands.arguments import ComputeOptions, Device, Moves, OutputFolder, PlayerName, loading, metavar
from alphac4.commands.measure import SHOWN_FAILURES, show_moves
from alphac4.machine import cores
from alphac4.storage.files import check_output
from alphac4.storage.locks import lock_folder
from alphac4.storage.records import CheckedSettings, Range, quote
from alphac4.version import __version__

if TYPE_CHECKING:
    from alphac4.arena.players import NetworkPlayer
    from alphac4.compute.cores import Compute
    from alphac4.evaluation.walks import LevelReport
    from alphac4.game import Board

BATCH = 256  # usual batch size of the network


@dataclass(frozen=True, kw_only=True)
class CertificateCommand(CheckedSettings):
    """Build or verify a certificate: a player's move in every position that any opponent can reach.

        alphac4 certificate verify
        alphac4 certificate build --side second --moves 1 --output runs/after-1

    A certificate claims that the first or the second player wins, or at least draws, from the empty board or after some
    moves.

    The task `build` follows every reply to the player's moves. If a line of play does not reach the claimed result, it
    rejects the player's last move and searches again; if no other move is promising, it also rejects the move before.
    It writes the file once every line of play reaches the result. The player's moves are stored in a folder: if
    interrupted, rerun the command to resume.

    The task `verify` checks a file using only the rules of the game; `scripts/verify_certificate.py` does the same in
    plain Python, without this package. All options are for `build`.
    """

    task: Annotated[Literal["build", "verify"], tyro.conf.Positional]
    """Build or verify a certificate."""
    file: Annotated[Path | None, tyro.conf.Positional, metavar("[FILE]")] = None
    """The certificate; by default all that come with the project (verify), or best.certificate in --output (build)."""
    player: PlayerName = "best@auto"
    """Player that makes the moves: a network and its limit."""
    side: Literal["first", "second"] = "first"
    """Whether the player has the first or the second move of the game."""
    moves: Moves = ""
    """Start after these moves, such as 44."""
    result: Literal["win", "draw"] = "win"
    """Result that the certificate guarantees: a win, or at least a draw."""
    output: OutputFolder = Path("runs/certificate")
    """Folder for the player's moves, and for the certificate unless FILE is given."""
    overwrite: bool = False
    """Replace FILE if it exists."""
    max_stones: Annotated[int, Range(0, 64), metavar("N")] = 64
    """Follow games only up to N stones; if any game is longer, no certificate is written."""
    device: Device = "auto"
    """Device that runs the network. Devices on other machines are only for the games of train, selfplay and arena."""
    backend: Annotated[str, metavar("NAME")] = "auto"
    """Inference backend; auto chooses by a fixed rule for this processor, without 8-bit integers."""

    def _check(self) -> None:
        super()._check()
        if self.task == "verify" and replace(self, task="build", file=None) != CertificateCommand(task="build"):
            raise ValueError("verify takes only a file: all options are for build")

    def __call__(self) -> int:
        """Build a certificate, or verify one or all that come with the project; return 1 if a claim is not proven."""
        if self.task == "verify":
            with loading():
                from alphac4.plugins.certificates.file import shipped_certificates
            return max(map(_verify, [self.file] if self.file else shipped_certificates()))
        with lock_folder(self.output):
            return self._build()

    def _build(self) -> int:
        """Search for the moves and write the certificate; return 1 if the player misses the claimed result.

        Print a line per number of stones when the walk first reaches it: how many positions the rules decide, how many
        the player's search proves, and how many rely on its move.
        """
        with loading():
            from alphac4.arena.players import backends_of
            from alphac4.arena.registry import common_board, player_digest
            from alphac4.bars import Bar
            from alphac4.evaluation.walks import KnownMoves, MoveKind
            from alphac4.game.position import count_of
            from alphac4.game.walk import NO_MOVE
            from alphac4.plugins.certificates.build import build, moves_in_order
            from alphac4.plugins.certificates.file import Certificate, Claim, walk_certificate, write_certificate

        board, path = common_board((self.player,)), self.file or self.output / "best.certificate"
        claim = Claim(board=board, side=self.side, after=self.moves, result=self.result)
        check_output(path, ".certificate", overwrite=self.overwrite or self.file is None)
        journal = self.output / "moves.jsonl"
        compute = ComputeOptions(device=self.device, backend=self.backend).choose(threads=1)
        players = self._players(board, compute)
        about: dict[str, Any] = {
            "player": self.player,
            "network": player_digest(self.player),
            "backend": backends_of(players[:1]),
            "code": __version__,
        }
        known = KnownMoves(board, journal, {**about, "claim": str(claim)})
        levels: list[LevelReport] = []
        printed = -1  # stones of the last line; levels are walked again after a move is rejected
        with Bar(unit="pos") as bar:
            headings = ("stones", "positions", "by rules", "by proof", "by move")
            bar.write(" ".join(f"{heading:>10}" for heading in headings), file=sys.stdout)
            for level in build(players, known, claim, max_stones=self.max_stones, on_moves=partial(show_moves, bar)):
                if level.stones > printed:
                    decided, proven = level.count(NO_MOVE), level.count(MoveKind.PROOF)
                    moved = len(level.keys) - decided - proven
                    numbers = (level.stones, len(level.keys), decided, proven, moved)
                    bar.write(" ".join(f"{number:>10,}" for number in numbers), file=sys.stdout)
                    printed = level.stones
                levels = [*(earlier for earlier in levels if earlier.stones < level.stones), level]
        taken_back = sum(level.taken_back for level in levels)
        if failures := levels[-1].failures:
            shown = "\n".join(map(str, failures[:SHOWN_FAILURES]))
            print(
                f"\n{self.player} does not prove that {claim}. "
                f"It fails in {count_of(len(failures), 'position')}, such as\n{shown}"
            )
            return 1
        answers = self.player + (f", with {count_of(taken_back, 'move')} replaced" if taken_back else "")
        if not levels[-1].is_last:
            limit = count_of(self.max_stones, "stone")
            print(f"\nNo line up to {limit} is lost by {answers}; no certificate was written.")
            return 0
        about |= {"taken_back": taken_back}
        certificate = Certificate(claim=claim, columns=moves_in_order(known, claim), about=about)
        positions = sum(len(level.keys) for level in walk_certificate(certificate))
        write_certificate(path, certificate)
        moves = count_of(len(certificate.columns), "move")
        print(f"\n{path}: {moves} for {count_of(positions, 'position')}, by {answers}: {claim}.")
        return 0

    def _players(self, board: "Board", compute: "Compute") -> "list[NetworkPlayer]":
        """Make one copy of the player per core."""
        import numpy as np

        from alphac4.arena.players import NetworkPlayer
        from alphac4.arena.registry import parse_player, read_player

        players = []
        for _ in range(cores()):
            player = parse_player(
                self.player,
                rng=np.random.default_rng(0),  # a repeatable network draws nothing
                board=board,
                threads=1,
                compute=compute,
                batch_size=BATCH,
                reuse="nothing",
            )
            if not isinstance(player, NetworkPlayer):
                raise ValueError(f"{self.player}: only a network returns proofs; name one, such as best@auto")
            if not read_player(self.player).is_repeatable:
                raise ValueError(
                    f"{quote(self.player)}: limit it by simulations, not by time, and leave out temperature, so that "
                    "its moves are repeatable"
                )
            players.append(player)
        return players


def _verify(path: Path) -> int:
    """Verify a certificate's file and print the verdict; return 1 if it does not hold."""
    from alphac4.game.position import count_of
    from alphac4.plugins.certificates.file import CertificateError, read_certificate, walk_certificate

    certificate = read_certificate(path)
    about = certificate.about
    print(f"{path}: moves of {quote(about['player']) if 'player' in about else 'an unnamed player'}")
    started = time.perf_counter()
    positions = last = 0
    try:
        for last, keys, _ in walk_certificate(certificate):
            print(f"{count_of(last, 'stone'):>9}: {count_of(len(keys), 'position')}")
            positions += len(keys)
    except CertificateError as error:
        print(error)
        return 1
    print(
        f"{count_of(positions, 'position')} ({len(certificate.columns):,} with a stored move), the last with "
        f"{count_of(last, 'stone')}, in {time.perf_counter() - started:.1f} s: {certificate.claim}."
    )
    return 0
