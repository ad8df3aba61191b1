"""The modules of the exported page in Node.js, for tests that compare them with Python."""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from helpers import SumsOfEighths, random_game

from alphac4.game import Board, Position
from alphac4.game.rules import STANDARD
from alphac4.play.registry import find_panels

NODE = shutil.which("node")
RunInNode = Callable[..., Any]
BROWSER = """ // a browser's interfaces, in the main thread and in workers
import { readFile } from "node:fs/promises";
import { Worker as Thread, parentPort, workerData } from "node:worker_threads";
globalThis.fetch = async (url) => new Response(await readFile(url));
globalThis.Worker = class extends Thread {
  constructor(url) {
    super(new URL(import.meta.url), { workerData: url.href, execArgv: [] });
    this.on("message", (data) => this.onmessage?.({ data }));
  }
  addEventListener(kind, listener) { this.on(kind, (data) => listener(kind === "error" ? data : { data })); }
};
Object.defineProperty(globalThis, "navigator", { value: { hardwareConcurrency: 2 } });
if (workerData) {
  globalThis.postMessage = (data) => parentPort.postMessage(data);
  globalThis.addEventListener = (kind, listener) => parentPort.on(kind, (data) => listener({ data }));
  await import(workerData);
}
"""
RUNTIME = """ // ONNX Runtime with the evaluator `SumsOfEighths`, whose weights are the network's file
export const env = { wasm: {} };
export class Tensor { constructor(type, data) { this.data = data; } }
export function evaluator({ policy, value }) {
  return async (planes) => {
    const logits = policy[0].map((_, a) => planes.reduce((sum, x, i) => sum + x * policy[i][a], 0));
    const sum = planes.reduce((total, x, i) => total + x * value[i], 0);
    const lead = (((sum % 11) + 11) % 11) - 5;
    return { policy: logits, wdl: [(6 + lead) / 16, 4 / 16, (6 - lead) / 16] };
  };
}
export const InferenceSession = {
  async create(bytes) {
    const evaluate = evaluator(JSON.parse(new TextDecoder().decode(bytes)));
    return {
      async run({ planes }) {
        const { policy, wdl } = await evaluate(planes.data);
        return { policy: { data: policy }, wdl: { data: wdl } };
      },
    };
  },
};
"""
START = """
import { readFileSync } from "node:fs";
const given = JSON.parse(readFileSync(0)), { setup, games } = given;
const tell = (found) => console.log(JSON.stringify(found));
"""
SOLVER = """
import { Rules } from "./rules.js";
import { ExactSolver } from "./exact.js";
const solver = new ExactSolver(new WebAssembly.Module(readFileSync("solver.wasm")), setup, given.book);
const board = new Rules(setup);
"""


ENGINE = """
import "./browser.js";
import { engine } from "./engine.js";
await engine.setup();
const { signal } = new AbortController(), last = async (lines) => {
  let found;
  for await (found of lines);
  return found;
};
const play = async (moves, level) => (await engine.move(moves, level, signal)).column;
const answers = [];
"""


@pytest.fixture(scope="module")
def run_in_node(tmp_path_factory: pytest.TempPathFactory) -> RunInNode:
    """Runs a script with the page's modules; it reads its arguments as ``given`` and returns JSON by ``tell``."""
    web = pytest.importorskip("alphac4.plugins.export.web")
    folder = tmp_path_factory.mktemp("page") / "static"
    web.copy_scripts(find_panels(STANDARD), folder)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "browser.js").write_text(BROWSER)
    (folder / "onnxruntime").mkdir()
    (folder / "onnxruntime" / "ort.wasm.bundle.min.mjs").write_text(RUNTIME)

    def run(script: str, board: Board = STANDARD, files: dict[str, Any] | None = None, **given: Any) -> Any:
        setup = web.exported_setup(board, "network", {})
        for name, content in {"setup.json": setup, **(files or {})}.items():
            (folder.parent / name).write_text(json.dumps(content))
        ran = subprocess.run(
            [str(NODE), "--input-type=module", "--eval", START + script],
            input=json.dumps(given | {"setup": setup}),
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)

    return run


def random_positions(lengths: Iterable[int], board: Board = STANDARD) -> list[Position]:
    """Make positions after these numbers of random moves, or at the end of the game if that comes first."""
    rng = np.random.default_rng(8)
    return [random_game(length, rng, board) for length in lengths]


def columns_of(games: Iterable[str]) -> list[list[int]]:
    return [[int(name) - 1 for name in game] for game in games]


def weights(evaluator: SumsOfEighths) -> dict[str, Any]:
    return {"policy": evaluator.policy.tolist(), "value": evaluator.value.tolist()}
