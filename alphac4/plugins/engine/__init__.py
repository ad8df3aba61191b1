"""A line protocol like UCI: `alphac4 engine` answers other programs, and `engine:COMMAND` plays against them."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from alphac4.arena.registry import PlayerKind, register
from alphac4.commands import register_command

if TYPE_CHECKING:
    from alphac4.arena.players import BuildOptions, Player


@register
class EngineKind(PlayerKind):
    """Another program."""

    forms = {
        "engine:COMMAND": 'any program with the protocol of `alphac4 engine`, such as "engine:other --nodes 600"',
    }
    names = ("engine",)

    @property
    def files(self) -> Sequence[Path]:
        from alphac4.plugins.engine.player import command_files

        return command_files(self.text.partition(":")[2])

    def build(self, options: "BuildOptions") -> "Player":  # noqa: ARG002 - the program has its own
        from alphac4.plugins.engine.player import EnginePlayer

        return EnginePlayer(self.text.partition(":")[2])


register_command(
    "engine",
    group="Export",
    summary="answer other programs over a line protocol",
    target="alphac4.plugins.engine.command:EngineCommand",
)
