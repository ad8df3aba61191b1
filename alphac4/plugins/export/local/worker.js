// Worker of the network and the searches, so that they do not block the page.

import * as ort from "./onnxruntime/ort.wasm.bundle.min.mjs";
import { Search, sample } from "./search.js";

const MILLISECONDS_BETWEEN_REPORTS = 100;
const MOVE_SECONDS = 3; // maximum time for a level's move
const RANK_ROUNDS = [[64, 50], [2, 300]]; // [number of moves, simulations of a separate search after each]
const RANK_SECONDS = 2;
const MESSAGE_INTERVAL_MS = 50; // time between pauses in which messages, such as a stop, can arrive

ort.env.wasm.numThreads = 1; // more would need headers that a plain file server does not send
ort.env.wasm.wasmPaths = { wasm: new URL("./onnxruntime/ort-wasm-simd-threaded.wasm", import.meta.url).href };

const stopped = new Set(); // ids of stopped requests

async function load(name) {
  const response = await fetch(new URL(`../${name}`, import.meta.url));
  if (!response.ok) throw new Error(`${name} cannot be loaded (${response.status}).`);
  return response;
}

const setup = await (await load("setup.json")).json();
const network = await (await load("network.onnx")).arrayBuffer();
const session = await ort.InferenceSession.create(network, { executionProviders: ["wasm"] });

let last = Promise.resolve(), lastPause = performance.now();

// Evaluate one position at a time; several searches take turns.
function evaluate(planes) {
  const run = async () => {
    if (performance.now() - lastPause > MESSAGE_INTERVAL_MS) { // messages do not arrive while only the runtime is awaited
      await new Promise((resolve) => setTimeout(resolve));
      lastPause = performance.now();
    }
    const input = new ort.Tensor("float32", planes, [1, 2, setup.rows, setup.columns]);
    const { policy, wdl } = await session.run({ planes: input });
    return { policy: policy.data, wdl: wdl.data };
  };
  return (last = last.then(run, run));
}

const analyst = new Search(setup, evaluate);
let analysing = Promise.resolve();

async function analyze(id, { moves, simulations }) {
  const started = performance.now();
  const before = analysing;
  let done;
  analysing = new Promise((resolve) => (done = resolve));
  await before;
  try {
    analyst.plant(moves);
    for (let ran = 0, slice = 16; !stopped.has(id);) {
      const size = Math.min(slice, simulations - ran), visits = analyst.root.total(), begun = performance.now();
      await analyst.run(size, () => stopped.has(id));
      ran += analyst.root.total() - visits;
      const finished = analyst.root.total() - visits < size || ran >= simulations;
      const [win, draw, loss] = analyst.wdl();
      postMessage({ id, analysis: {
        moves: analyst.board.write(moves), columns: analyst.columns(), move: analyst.best(),
        value: analyst.root.mean(), win, draw, loss, pv: analyst.variation(), simulations: ran,
        seconds: (performance.now() - started) / 1000, finished,
      } });
      if (finished) return;
      slice = Math.max(8, Math.round((size * MILLISECONDS_BETWEEN_REPORTS) / (performance.now() - begun)));
    }
  } finally {
    done();
  }
}

async function move(id, { moves, level }) {
  const { simulations, temperature } = setup.levels.find(({ name }) => name === level);
  const search = new Search(setup, evaluate);
  search.plant(moves);
  if (simulations) {
    const end = performance.now() + 1000 * MOVE_SECONDS;
    await search.run(simulations, () => stopped.has(id) || performance.now() > end);
    return search.draw(temperature);
  }
  const { policy } = await evaluate(search.board.planes(search.root.position));
  const legal = search.columns().map(({ column }) => column);
  return sample(legal, legal.map((column) => policy[column]), temperature);
}

// The moves of a position, best first. Each has a separate search, because the policy may miss the best one; see
// TimeManagement in alphac4/arena/players.py.
async function rank(id, { moves }) {
  const end = performance.now() + 1000 * RANK_SECONDS, halt = () => stopped.has(id) || performance.now() > end;
  const root = new Search(setup, evaluate);
  root.plant(moves);
  await root.run(1);
  let order = root.columns().map(({ column, proof }) => {
    const search = new Search(setup, evaluate);
    search.plant([...moves, column]);
    return { column, search, value: proof.startsWith("wins") ? 1 : proof.startsWith("loses") ? -1 : 0, proof };
  });
  for (const [count, simulations] of RANK_ROUNDS) {
    for (const each of order.slice(0, count).filter(({ proof }) => !proof)) {
      await each.search.run(simulations, halt);
      each.value = -each.search.root.mean();
    }
    order = order.sort((a, b) => b.value - a.value);
  }
  return order.map(({ column }) => column);
}

// The value and move of a search.
async function opinion(id, { moves, simulations }) {
  const search = new Search(setup, evaluate);
  search.plant(moves);
  await search.run(simulations, () => stopped.has(id));
  return { value: search.root.mean(), column: search.best() };
}

function node({ moves, path }) {
  if (String(analyst.moves) !== String(moves)) throw new Error("Analyse this position first.");
  let found = analyst.root;
  for (const column of path) found = found?.children[column];
  if (!found) throw new Error("The search did not reach this position.");
  return { value: found.mean(), columns: analyst.columns(found) };
}

addEventListener("message", async ({ data: { id, kind, ...request } }) => {
  if (kind === "stop") return stopped.add(id);
  try {
    let answer = {};
    if (kind === "analyze") await analyze(id, request);
    if (kind === "move") answer = { column: await move(id, request), player: request.level };
    if (kind === "rank") answer = await rank(id, request);
    if (kind === "opinion") answer = await opinion(id, request);
    if (kind === "node") answer = node(request);
    postMessage({ id, answer });
  } catch (error) {
    postMessage({ id, error: error.message });
  } finally {
    stopped.delete(id);
  }
});
postMessage({ ready: true });
