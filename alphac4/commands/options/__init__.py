"""The options of the commands, apart from what the commands do, so that nothing else is loaded to explain them."""

from alphac4.commands.options import judge, play, ship

OPTIONS: dict[str, type] = {
    "play": play.PlayOptions,
    "review": play.ReviewOptions,
    "search": play.SearchOptions,
    "solve": play.SolveOptions,
    "puzzles": play.PuzzlesOptions,
    "players": play.PlayersOptions,
    "curve": judge.CurveOptions,
    "benchmark": judge.BenchmarkOptions,
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
