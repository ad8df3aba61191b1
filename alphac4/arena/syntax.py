"""Syntax of player specifications, for the help and for a first check before anything is loaded."""

import ast
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from alphac4.storage.hub import SHIPPED, is_hub_name
from alphac4.storage.records import did_you_mean, quote, shorten

SPECIFICATIONS = """\
  FILE.safetensors@600   a checkpoint with 600 simulations per move (by default 100)
  FILE.safetensors@1s    a checkpoint with one second per move
  FILE.safetensors@auto  a brief search where it is sure, and a long search of every move where it is not
  FILE.safetensors@0     the checkpoint's raw policy, without search
  best@600, quick@600    a network that comes with the project: the strongest, a small and fast one, or standard or
                         gpu-best, which the presets of these names train
  hf://OWNER/NAME@600    a network from the Hugging Face hub (needs alphac4[hub]); hf://OWNER/NAME/FILE@600 uses another
                         file of that repository than model.safetensors
  best@600,OPTIONS       other settings of the search, such as best@600,c-init=2,prior-temperature=1,temperature=0.5
  FILE.onnx@600          an ONNX network, with the same limits and options: from `alphac4 export --onnx`, or any other
                         that maps planes to a policy and a value (needs alphac4[onnx])
  uct:1000               classic MCTS with 1000 random rollouts per move
  uct:1s                 classic MCTS with one second per move
  uct:1000,OPTIONS       variants of it, such as uct:1000,exploration=1,final=rate,proofs=off; see docs/players.md
  negamax:4              alpha-beta search to a depth of 4 plies with a simple evaluation
  solver                 perfect play: the fastest wins, the slowest losses
  solver:outcome         perfect play at any speed: any move that keeps a win, otherwise a draw
  best@certificate       the moves of the certificates that come with the project, and best@auto in all other positions:
                         wins every game as first player, and loses as second only after 4; also written certificate
  certificate:FILE,...   the moves of your own certificates, and their author's moves in all other positions
  random                 uniformly random moves
  openspiel:1000         OpenSpiel's C++ MCTS bot with 1000 simulations (needs alphac4[openspiel])
  engine:COMMAND         any program with the protocol of `alphac4 engine`, such as "engine:other --nodes 600"
  MODULE:CLASS           your own player: an importable class or function, called with those of rng, geometry and
                         threads that it has parameters for; MODULE:CLASS@600 adds a budget, MODULE:CLASS,NAME=VALUE
                         other arguments"""
MODULE_FORM = re.compile(
    r"(?P<module>[A-Za-z_]\w+(?:\.\w+)*):(?P<name>[A-Za-z_]\w*)(?:@(?P<limit>[^,]*))?(?:,(?P<arguments>.*))?", re.DOTALL
)
MAX_NUMBER_LENGTH = 30  # characters
NUMBER_FORM = re.compile(r"-?([0-9]+|[0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
FIXED_FORMS = ("random", "solver", "solver:outcome")  # without a limit or options
KINDS = (*SHIPPED, *(re.split("[@:, ]", line[2:])[0] for line in SPECIFICATIONS.splitlines() if line[2].islower()))


def check_players(*specifications: str, others: Sequence[str] = ()) -> None:
    """Reject texts that are not player specifications; an empty text, a command's default, is valid.

    ``others`` are further words that the command accepts.

    Raises:
        ValueError: for an unknown player; the message suggests a similar one.
    """
    for text in filter(None, set(specifications) - set(others)):
        network = text.startswith("hf://") or ".safetensors" in text or ".onnx" in text
        if re.split("[@:,]", text)[0] not in KINDS and not network and not MODULE_FORM.fullmatch(text):
            raise ValueError(unknown_player(text, others))


def check_network(name: str) -> None:
    """Check that a network's file exists.

    Raises:
        ValueError: if not; the message suggests a similar shipped network.
    """
    if name not in SHIPPED and not is_hub_name(name) and (not Path(name).exists() or Path(name).is_dir()):
        problem = "is a folder, not a network's file" if Path(name).exists() else "no such file"
        raise ValueError(f"{shorten(name)}: {problem}{did_you_mean(name, SHIPPED)}")


def read_literal(text: str) -> Any:
    """Return the value of a Python literal, such as a number; any other text as it is."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def read_number(text: str) -> int | float:
    """Return a number written in ASCII digits, such as 600, 0.5 or 1e-3.

    `int` and `float` would also take spaces, underscores, plus signs and the digits of other scripts.

    Raises:
        ValueError: for any other text.
    """
    if len(text) > MAX_NUMBER_LENGTH or not NUMBER_FORM.fullmatch(text):
        raise ValueError(f"{text!r:.60} is not a number; write 600 or 0.5")
    return float(text) if set(text) & set(".eE") else int(text)


def is_whole_number(text: str, minimum: int, maximum: int) -> bool:
    """Return whether a text is a whole number from ``minimum`` to ``maximum`` in ASCII digits.

    The length is checked first, because `int` raises its own error for thousands of digits.
    """
    is_short = text.isascii() and text.isdecimal() and len(text) <= len(str(maximum))
    return is_short and minimum <= int(text) <= maximum


def unknown_player(specification: str, others: Sequence[str] = ()) -> str:
    """Return the message for an unknown player, with the most similar name of a player or of ``others``."""
    kind = re.split("[@:,]", specification, maxsplit=1)[0]
    rest = specification[len(kind) :]
    best = Path(kind) / "checkpoints" / "best.safetensors"
    if not specification:
        return "the player's name is empty; `alphac4 players` lists all players, such as best@600 or uct:1000"
    if os.path.exists(best):  # noqa: PTH110 - no error for very long names
        guess = f" (is it {best}{rest}?)"
    elif kind in (*KINDS, *others):  # so the rest is wrong
        guess = did_you_mean(specification, (*FIXED_FORMS, *others))
    elif "/" in kind:
        guess = ""
    else:
        guess = did_you_mean(kind, (*KINDS, *others)).replace("?)", f"{rest}?)")
    return f"unknown player {quote(specification)}{shorten(guess)}; `alphac4 players` lists them"
