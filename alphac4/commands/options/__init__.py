"""The options of the commands, apart from what the commands do, so that nothing else is loaded to explain them."""

from collections.abc import Sequence

from alphac4.arena.forms import check_players
from alphac4.benchmarks import BenchmarkOptions
from alphac4.commands.arguments import read_arguments
from alphac4.commands.options import judge, play, ship

OPTIONS: dict[str, type] = {
    "play": play.PlayOptions,
    "review": play.ReviewOptions,
    "search": play.SearchOptions,
    "solve": play.SolveOptions,
    "puzzles": play.PuzzlesOptions,
    "players": play.PlayersOptions,
    "curve": judge.CurveOptions,
    "benchmark": BenchmarkOptions,
    "arena": judge.ArenaOptions,
    "evaluate": judge.EvaluateOptions,
    "prove": judge.ProveOptions,
    "certificate": judge.CertificateOptions,
    "positions": judge.PositionsOptions,
    "export": ship.ExportOptions,
    "engine": ship.EngineCommandOptions,
    "doctor": ship.DoctorOptions,
}
"""Those of `train` and `selfplay` are settings, which these commands read themselves."""


def read_options(name: str, arguments: Sequence[str]) -> object:
    """The options of a command in `OPTIONS`.

    Raises:
        SystemExit: after ``--help``, and with code 2 after a complaint on the standard error.
        ValueError: in one line, for what else is seen at once, such as a player's name that is misspelt.
    """
    options: object = read_arguments(OPTIONS[name], arguments, name)
    if isinstance(options, play.PlayOptions):
        options.check()
    for field in ("player", "players", "reference"):
        value = getattr(options, field, ())
        check_players(*([value] if isinstance(value, str) else value), others=[play.NOBODY])
    return options
