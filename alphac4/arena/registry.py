"""Kinds of players, which read specifications: short texts that name a player, such as "uct:1000".

A kind is a class. Each instance is one specification, with its board, its files and its player. `register` adds a kind
to all commands, their help and their suggestions. This module and the kinds load nothing slow until a player is read,
because every command first checks its players' kinds.
"""

import hashlib
import os
import re
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from alphac4.arena import PlayerError
from alphac4.discovery import load_plugins
from alphac4.storage.records import MAX_SIMULATIONS, did_you_mean, is_whole_number, quote, shorten

if TYPE_CHECKING:
    from alphac4.arena.kinds import NetworkKind
    from alphac4.arena.players import BuildOptions, Player, SearchingPlayer
    from alphac4.game import Board


class PlayerKind(ABC):
    """Base class of player kinds. An instance is one specification; creating it checks the text.

    Args:
        text: the specification, for which `matches` is true.

    Raises:
        PlayerError: from subclasses, for an invalid text; the message quotes it.
    """

    forms: ClassVar[Mapping[str, str]]
    """The ways to write such a player, each with a description."""
    names: ClassVar[tuple[str, ...]] = ()
    """Words before the first "@", ":" or "," of its specifications."""
    rank: ClassVar[int] = 0
    """If several kinds match a specification, the one with the highest rank reads it."""
    runs_network: ClassVar[bool] = False
    """Whether device, backend and batch size apply."""
    is_fixed: ClassVar[bool] = False
    """Whether `forms` are the only specifications."""

    def __init__(self, text: str) -> None:
        self.text = text

    @classmethod
    def matches(cls, text: str) -> bool:
        """Return whether a text has the form of this kind's specifications; its details may be invalid."""
        return text in cls.forms if cls.is_fixed else first_word(text) in cls.names

    @property
    def network(self) -> "NetworkKind | None":
        """The network that the player runs."""
        return None

    @property
    def board(self) -> "Board | None":
        """The only board that the player can play on; None for a player of any board."""
        return None if self.network is None else self.network.board

    @property
    def files(self) -> Sequence[Path]:
        """The files that decide the player's moves."""
        return [] if self.network is None else [self.network.path]

    @property
    def is_repeatable(self) -> bool:
        """Whether the player is known to play the same move whenever it meets a position."""
        return False

    def check(self, board: "Board") -> None:
        """Check that the player can play on this board, without creating it.

        Raises:
            OSError: for a network's file that cannot be read.
            ValueError: for a player of another board, or a network's file that is missing or damaged.
        """
        from alphac4.game.rules import describe

        if self.board is not None and self.board != board:
            raise PlayerError(f"{shorten(self.text)}: plays on {describe(self.board)}, not on {describe(board)}")

    @abstractmethod
    def build(self, options: "BuildOptions") -> "Player":
        """Create the player, for a board that was checked.

        Raises:
            PlayerError: if it needs a package or a file that cannot be used.
        """


class CountedKind(PlayerKind):
    """A kind whose specifications have a ``number`` after the colon, such as "negamax:4"."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        kind, _, number = text.partition(":")
        if not is_whole_number(number, 1, MAX_SIMULATIONS):
            expected = f"a number from 1 to {MAX_SIMULATIONS:,}; write {kind}:4"
            raise PlayerError(f"{text!r:.200}: {number!r:.60} is not {expected}")
        self.number = int(number)


_kinds: list[type[PlayerKind]] = []
_Kind = TypeVar("_Kind", bound=type[PlayerKind])


def register(kind: _Kind) -> _Kind:
    """Add a kind, as a decorator."""
    _kinds.append(kind)
    return kind


def player_kinds() -> Sequence[type[PlayerKind]]:
    """Return all kinds, those of the core before those of plugins."""
    import alphac4.arena.kinds  # noqa: F401 - registers the core's kinds

    load_plugins()
    return sorted(_kinds, key=lambda kind: kind.__module__ != "alphac4.arena.kinds")


def describe_players(width: int) -> str:
    """Return a list of all forms with their descriptions, in lines of at most ``width`` characters."""
    lines = [
        textwrap.fill(f"  {form:<22} {about}", width, subsequent_indent=" " * 25, break_on_hyphens=False)
        for kind in player_kinds()
        for form, about in kind.forms.items()
    ]
    return "\n".join(lines)


def first_word(text: str) -> str:
    """Return the part of a specification before the first "@", ":" or ","."""
    return re.split("[@:,]", text, maxsplit=1)[0]


def find_kind(text: str) -> type[PlayerKind] | None:
    """Return the kind of a specification; None for an unknown player."""
    return max((kind for kind in player_kinds() if kind.matches(text)), key=lambda kind: kind.rank, default=None)


def read_player(text: str) -> PlayerKind:
    """Read a specification; raise PlayerError for an unknown player."""
    kind = find_kind(text)
    if kind is None:
        raise PlayerError(unknown_player(text))
    return kind(text)


def find_network(text: str) -> "NetworkKind | None":
    """Return the network that a specification names, or None; raise PlayerError for an invalid specification."""
    kind = find_kind(text)
    return None if kind is None else kind(text).network


def check_players(*texts: str, others: Sequence[str] = ()) -> None:
    """Reject texts that are not player specifications; an empty text, a command's default, is valid.

    ``others`` are further words that the command accepts. Only the kind is checked, because the rest takes longer.
    """
    for text in sorted(texts):
        if text and text not in others and find_kind(text) is None:
            raise PlayerError(unknown_player(text, others))


def unknown_player(text: str, others: Sequence[str] = ()) -> str:
    """Return the message for an unknown player, with the most similar name of a player or of ``others``."""
    if not text:
        return "the player's name is empty; `alphac4 players` lists all players, such as best@600 or uct:1000"
    names = [*(name for kind in player_kinds() for name in kind.names), *others]
    word = first_word(text)
    rest = text.removeprefix(word)
    best = Path(word) / "checkpoints" / "best.safetensors"
    guess = ""
    if os.path.exists(best):  # noqa: PTH110 - no error for very long names
        guess = f" (is it {best}{rest}?)"
    elif word in names:  # so the rest is wrong
        guess = did_you_mean(
            text, [*(form for kind in player_kinds() if kind.is_fixed for form in kind.forms), *others]
        )
    elif "/" not in word:
        guess = did_you_mean(word, names).replace("?)", f"{rest}?)")
    return f"unknown player {quote(text)}{shorten(guess)}; `alphac4 players` lists them"


def parse_player(text: str, **options: Any) -> "Player":
    """Create a player from a specification; ``options`` are the fields of `BuildOptions`."""
    from alphac4.arena.players import BuildOptions

    specification, build_options = read_player(text), BuildOptions(**options)
    specification.check(build_options.board)
    return specification.build(build_options)


def parse_searching_player(text: str, **options: Any) -> "SearchingPlayer":
    """Create a `SearchingPlayer`, by default for one position at a time; see `parse_player`."""
    from alphac4.arena.players import SearchingPlayer

    player = parse_player(text, **({"batch_size": 1} | options))
    if not isinstance(player, SearchingPlayer):
        raise PlayerError(f"{quote(text)} searches no tree; use a network such as best@600, or uct:10000")
    return player


def common_board(texts: Sequence[str], requested: "Board | None" = None) -> "Board":
    """Return the board of the first player that has one; otherwise the requested board, by default the standard one.

    If that player's board differs from a requested board that is not the standard one, raise PlayerError.
    """
    from alphac4.game.rules import STANDARD

    for player in map(read_player, texts):
        if player.board is not None:
            if requested not in (None, STANDARD):
                player.check(requested)
            return player.board
    return requested or STANDARD


def player_digest(text: str) -> str | None:
    """Return the SHA-256 of the files that decide a player's moves; None for a player without files.

    For several files, this is a digest of their digests.
    """
    digests = []
    for path in read_player(text).files:
        with path.open("rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").hexdigest())
    return hashlib.sha256("".join(digests).encode()).hexdigest() if len(digests) > 1 else next(iter(digests), None)
