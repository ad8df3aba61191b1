"""Time the page's exact solver, compiled to WebAssembly, on random positions; needs Node.js.

    python experiments/page_solver.py [--stones 6,7,8,10,12] [--positions 8]

It prints the median and the maximum of the CPU time to solve all moves of a position in one thread, for each
number of stones.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from alphac4.game import Position
from alphac4.game.rules import STANDARD
from alphac4.play.web.pages import STATIC
from alphac4.plugins.export import web

SCRIPT = """
import { readFileSync } from "node:fs";
import { ExactSolver } from "./exact.js";
import { Judge } from "./judge.js";
const { setup, book, games } = JSON.parse(readFileSync("input.json"));
class InOneThread extends Judge {
  async score(position) { return this.solver.score(position); }
}
for (const moves of games) {
  const judge = new InOneThread(setup, book);
  judge.solver = new ExactSolver(new WebAssembly.Module(readFileSync("solver.wasm")), setup, book);
  const before = process.cpuUsage();
  await judge.columns(moves);
  console.log(process.cpuUsage(before).user / 1e6);
}
"""


def random_position(stones: int, rng: np.random.Generator) -> str:
    """Return a move string of random moves that do not end the game."""
    while True:
        position = Position()
        while position.plies < stones and position.outcome() is None:
            position = position.play(int(rng.choice(position.legal_columns())))
        if position.outcome() is None:
            return position.moves or ""


def main() -> int:
    """Time all positions and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stones", default="6,7,8,10,12")
    parser.add_argument("--positions", type=int, default=8)
    options = parser.parse_args()
    node = shutil.which("node")
    if node is None:
        sys.exit("page_solver.py: Node.js was not found; install it")
    rng = np.random.default_rng(0)
    for stones in map(int, options.stones.split(",")):
        games = [random_position(stones, rng) for _ in range(options.positions)]
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for path in (*web.LOCAL.iterdir(), STATIC / "rules.js"):
                shutil.copy(path, folder)
            (folder / "package.json").write_text('{"type": "module"}')
            (folder / "script.js").write_text(SCRIPT)
            inputs = {
                "setup": web.exported_setup(STANDARD, "network", {}),
                "book": web.book(),
                "games": [[int(column) - 1 for column in game] for game in games],
            }
            (folder / "input.json").write_text(json.dumps(inputs))
            output = subprocess.run([node, "script.js"], cwd=folder, capture_output=True, text=True, check=True).stdout
        seconds = [float(line) for line in output.split()]
        print(f"{stones:2d} stones: median {np.median(seconds):.2f} s, maximum {max(seconds):.2f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
