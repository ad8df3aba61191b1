"""`alphac4 curve`: how the networks of runs improved, measured against exact play."""

from dataclasses import asdict, replace

from tqdm import tqdm

from alphac4.commands.evaluate import parse_budgets
from alphac4.commands.options import CurveOptions
from alphac4.compute import choose
from alphac4.evaluation.curves import (
    check_common,
    check_comparable,
    find_checkpoints,
    find_runs,
    judge_network,
    open_figures,
)
from alphac4.evaluation.pictures import check_picture, draw_curves
from alphac4.evaluation.positions import choose_sets
from alphac4.game.rules import STANDARD
from alphac4.storage.checkpoints import checkpoint_geometry, load_checkpoint
from alphac4.storage.files import check_output, write_atomically
from alphac4.storage.locks import own_file


def run(options: CurveOptions) -> int:
    """Judge, print, draw."""
    check_picture(options.picture)
    check_output(options.picture)
    budgets = parse_budgets([options.simulations])
    runs, points = find_runs(options.runs)
    found = [
        (name, folder, path)
        for name, folders in runs.items()
        for folder in folders
        for path in find_checkpoints(folder, options.every)
    ]
    check_common(found, points)
    networks = [path for _, _, path in found]
    geometries = {checkpoint_geometry(path) for path in networks} or {STANDARD}
    if len(geometries) > 1:
        raise ValueError("networks of different boards cannot be drawn beside each other")
    sets = choose_sets(geometries.pop(), options.positions, options.count)
    compute = choose(backend=options.backend)
    with own_file(options.output), tqdm(total=len(networks), desc="networks", disable=None) as bar:
        journal, known = open_figures(options.output)
        check_comparable([*points, *known], sets if networks else ())
        for name, folder, path in found:
            checkpoint = load_checkpoint(path)
            judged = {point.simulations: point for point in known if point.is_of(folder, checkpoint)}
            missing = [budget for budget in budgets if budget not in judged]
            for point in judge_network(checkpoint, name, folder, sets, missing, compute):
                judged[point.simulations] = point
                errors = "  ".join(f"{part} {share:.1%}" for part, share in point.errors.items())
                spent = f"{point.minutes:.1f} min, {point.simulations} simulations"
                print(f"{folder}: iteration {point.iteration}, {spent}: {errors}")
                journal.add(asdict(point))
            points += [replace(judged[budget], run=name) for budget in budgets]
            bar.update()
    write_atomically(options.picture, draw_curves(points, options.picture))
    print(f"curves drawn to {options.picture}")
    return 0
