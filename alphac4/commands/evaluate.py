"""`alphac4 evaluate`: how good a network or any player is, measured against exact play."""

import contextlib
import sys
from collections.abc import Sequence

from alphac4.arena.specifications import common_geometry
from alphac4.commands.options import EvaluateOptions
from alphac4.evaluation.positions import choose_sets
from alphac4.machine import wrapped
from alphac4.storage.files import check_output
from alphac4.storage.records import MAX_SIMULATIONS


def run(options: EvaluateOptions) -> int:
    """Measure, then print the tables or JSON."""
    sets = choose_sets(common_geometry((options.player,)), options.positions, options.count)
    budgets = parse_budgets(options.simulations)
    if options.picture is not None:
        from alphac4.evaluation.pictures import check_picture, save_picture  # with Matplotlib

        check_picture(options.picture)
    check_output(options.picture)
    from alphac4.evaluation.measurement import Measurement, measure_strength  # with PyTorch, which takes seconds

    with options.place.pool() as pool, contextlib.redirect_stdout(sys.stderr):  # players of the user's own may print
        compute = options.place.compute()
        measurement = Measurement(sets=sets, budgets=budgets, seed=options.seed, compute=compute, pool=pool)
        report = measure_strength(options.player, measurement, options.reference, twin=options.twin)
    if options.picture is not None:
        save_picture(report, options.picture)
    if options.json:
        print(report.to_json())
    else:
        tables, newline, summary = str(report).rpartition("\n")
        print(tables + newline + wrapped(summary, sys.stdout))
    return 0


def parse_budgets(written: Sequence[str]) -> list[int]:
    """Numbers of simulations, ascending, from words such as "0" and "100", or "0,100"."""
    text = ",".join(written)
    words = text.split(",")
    if not all(word.strip().isdecimal() for word in words):
        raise ValueError(f"--simulations takes numbers such as 0 100 or 0,100, not {text!r:.60}")
    budgets = sorted(set(map(int, words)))
    if budgets[-1] > MAX_SIMULATIONS:
        raise ValueError(f"--simulations takes numbers up to {MAX_SIMULATIONS:,}, not {text!r:.60}")
    return budgets
