// The page: whose turn it is, what the network thinks, the list of moves.

import { Board } from "./board.js";
import { engine } from "./engine.js";
import { Rules } from "./rules.js";

const $ = (id) => document.getElementById(id);
const COLOURS = ["Red", "Yellow"];

const setup = await engine.setup().catch((error) => {
  $("status").textContent = error.message;
  throw error;
});
const rules = new Rules(setup);

const state = {
  moves: [], // of the whole game
  ply: 0, // how many of them are on the board
  hint: null,
  values: new Map(), // move string -> value for red
  searched: null, // the position whose analysis has finished, and whose tree can be shown
  path: [], // in the search tree, from the position shown
  thinking: null, // AbortController of the opponent's move
  analysing: null,
  message: "",
};

for (const [id, chosen] of [["first", ""], ["second", "strong"]]) {
  $(id).append(new Option("you", ""));
  for (const { name, about } of setup.levels) {
    const option = new Option(name, name);
    option.title = about;
    $(id).append(option);
  }
  $(id).value = chosen;
  $(id).addEventListener("change", () => update());
}

$("exact").hidden = !setup.exact;

const board = new Board($("board"), rules, (column) => drop(column));
const now = () => state.moves.slice(0, state.ply);
const player = () => [$("first").value, $("second").value][state.ply % 2];

function play(column) {
  if (state.moves[state.ply] !== column) state.moves = [...now(), column];
  state.ply += 1;
  state.hint = null;
  update();
}

function drop(column) {
  if ((player() && !paused) || !rules.legal(now()).includes(column)) return;
  play(column);
}

function go(ply) {
  state.ply = Math.max(0, Math.min(ply, state.moves.length));
  state.hint = null;
  update({ paused: true });
}

// Against a player, take back or replay until a person is to move.
function step(direction) {
  let ply = state.ply;
  do ply += direction;
  while (ply > 0 && ply < state.moves.length && [$("first").value, $("second").value][ply % 2]);
  go(ply);
}

let paused = false; // after stepping back, opponents wait until a person moves

function update(options = {}) {
  paused = options.paused ?? false;
  state.thinking?.abort();
  state.thinking = null;
  state.message = "";
  state.path = [];
  history.replaceState(null, "", state.moves.length ? `#${rules.write(now())}` : location.pathname);
  show();
  analyse();
  if (player() && !paused && !rules.result(now())) answer();
}

async function answer() {
  const asked = rules.write(now()), controller = (state.thinking = new AbortController());
  show();
  try {
    const [{ column }] = await Promise.all([
      engine.move(asked, player(), controller.signal),
      new Promise((resolve) => setTimeout(resolve, 350)),
    ]);
    if (state.thinking === controller && rules.write(now()) === asked) play(column);
  } catch (error) {
    if (error.name !== "AbortError") fail(error);
  }
}

async function analyse() {
  state.analysing?.abort();
  state.searched = null;
  drawMoves();
  if (!$("analyse").checked || rules.result(now())) return drawAnalysis(null);
  const asked = rules.write(now()), controller = (state.analysing = new AbortController());
  try {
    for await (const analysis of engine.analyze(asked, setup.simulations, controller.signal)) {
      if (state.analysing !== controller) return;
      state.values.set(asked, asked.length % 2 ? -analysis.value : analysis.value);
      drawAnalysis(analysis);
      drawMoves();
      if (analysis.finished) state.searched = asked;
      if (analysis.finished && $("tree").open) showTree([]);
    }
  } catch (error) {
    if (error.name !== "AbortError") fail(error);
  }
}

function fail(error) {
  state.message = error.message;
  show();
}

function show() {
  const moves = now(), result = rules.result(moves), side = moves.length % 2;
  const person = !player() || paused;
  board.draw(moves, { active: !result && person, hint: state.hint });
  let text = state.message;
  if (!text && result) text = result.winner === null ? "A draw." : `${COLOURS[result.winner]} wins.`;
  if (!text && state.hint !== null) text = `Hint: column ${rules.name(state.hint)}.`;
  if (!text) text = `${moves.length ? `${COLOURS[1 - side]} played ${rules.name(moves.at(-1))}. ` : ""}${person ? `${COLOURS[side]} to move.` : `${COLOURS[side]} (${player()}) is thinking …`}`;
  $("resume").hidden = !paused || !player() || Boolean(result);
  $("resume").textContent = `Let ${player() || "it"} play`;
  $("status").textContent = text;
  $("undo").disabled = state.ply === 0;
  $("redo").disabled = state.ply === state.moves.length;
  $("hint").disabled = Boolean(result);
  $("exact").disabled = Boolean(result);
}

const percent = (share) => `${Math.round(100 * share)} %`;
const signed = (value) => (value === null ? "–" : (value >= 0 ? "+" : "−") + Math.abs(value).toFixed(2));

function bar(share, kind = "") {
  const cell = document.createElement("td"), fill = document.createElement("span");
  fill.className = `bar ${kind}`;
  fill.style.width = `${Math.round(36 * share)}%`;
  cell.append(fill, percent(share));
  return cell;
}

function drawAnalysis(analysis) {
  const body = $("columns").tBodies[0];
  body.replaceChildren();
  $("truth").textContent = "proof";
  const [win, draw, loss] = analysis ? [analysis.win, analysis.draw, analysis.loss] : [0, 0, 0];
  [win, draw, loss].forEach((share, index) => ($("wdl").children[index].style.width = `${100 * share}%`));
  if (!analysis) {
    $("outlook").textContent = rules.result(now()) ? "The game is over." : "Analysis is off.";
    $("variation").textContent = "";
    return;
  }
  const side = COLOURS[analysis.moves.length % 2];
  $("outlook").textContent = `${side}: win ${percent(win)}, draw ${percent(draw)}, loss ${percent(loss)}`;
  $("variation").textContent = `Best line ${analysis.variation.map((c) => rules.name(c)).join(" ")} · ${analysis.simulations.toLocaleString("en")} simulations, ${analysis.seconds.toFixed(1)} s`;
  for (const item of analysis.columns) {
    const row = body.insertRow();
    if (item.column === analysis.best) row.className = "best";
    row.dataset.column = item.column;
    row.insertCell().textContent = rules.name(item.column);
    row.append(bar(item.share), bar(item.prior, "prior"));
    row.insertCell().textContent = signed(item.value);
    row.insertCell().textContent = item.proof;
  }
}

function drawMoves() {
  const list = $("moves");
  list.replaceChildren(...state.moves.map((column, index) => {
    const item = document.createElement("li"), button = document.createElement("button");
    button.textContent = rules.name(column);
    button.setAttribute("aria-label", `Move ${index + 1}: ${COLOURS[index % 2]} ${rules.name(column)}`);
    button.setAttribute("aria-current", String(index + 1 === state.ply));
    button.addEventListener("click", () => go(index + 1));
    item.append(button);
    return item;
  }));
  drawChart();
}

function drawChart() {
  const chart = $("chart"), last = Math.max(state.moves.length, 10);
  const x = (ply) => 30 + (380 * ply) / last, y = (value) => 55 - 45 * value;
  const points = [];
  for (let ply = 0; ply <= state.moves.length; ply++) {
    const value = state.values.get(rules.write(state.moves.slice(0, ply)));
    if (value !== undefined) points.push([x(ply), y(value), ply]);
  }
  const lines = [1, 0, -1].map((v) => `<line class="axis" x1="30" x2="410" y1="${y(v)}" y2="${y(v)}"/><text x="2" y="${y(v) + 4}">${v > 0 ? "red" : v < 0 ? "yel" : "0"}</text>`);
  const path = points.map(([px, py], i) => `${i ? "L" : "M"}${px.toFixed(1)} ${py.toFixed(1)}`).join("");
  const dots = points.map(([px, py, ply]) => `<circle class="dot" r="${ply === state.ply ? 5 : 2.5}" cx="${px.toFixed(1)}" cy="${py.toFixed(1)}"/>`);
  chart.innerHTML = `${lines.join("")}<path class="curve" d="${path}"/>${dots.join("")}`;
}

async function showTree(path) {
  state.path = path;
  try {
    const node = await engine.node(rules.write(now()), path);
    const total = node.columns.reduce((sum, item) => sum + item.visits, 0) || 1;
    $("nodes").replaceChildren(...node.columns.filter((item) => item.visits).sort((a, b) => b.visits - a.visits).map((item) => {
      const entry = document.createElement("li"), button = document.createElement("button");
      button.textContent = `${rules.name(item.column)}: ${item.visits} visits (${percent(item.visits / total)}), value ${signed(item.value)}, prior ${percent(item.prior)} ${item.proof}`;
      button.addEventListener("click", () => showTree([...path, item.column]));
      entry.append(button);
      return entry;
    }));
    $("path").replaceChildren(...["position", ...path.map((c) => rules.name(c))].map((label, index) => {
      const button = document.createElement("button");
      button.textContent = label;
      button.addEventListener("click", () => showTree(path.slice(0, index)));
      return button;
    }));
  } catch (error) {
    if (path.length) return showTree(path.slice(0, -1));
    $("nodes").textContent = error.message;
  }
}

async function askSolver() {
  const asked = rules.write(now());
  $("truth").textContent = "solving …";
  try {
    const { columns } = await engine.exact(asked);
    if (rules.write(now()) !== asked) return;
    $("truth").textContent = "exact";
    for (const row of $("columns").tBodies[0].rows) {
      const item = columns.find(({ column }) => column === Number(row.dataset.column));
      if (item) row.cells[4].textContent = `${item.outcome}${item.best ? " ★" : ""}`;
    }
    const best = columns.filter((item) => item.best);
    $("outlook").textContent = `The solver: ${best[0].outcome} with ${best.map((item) => rules.name(item.column)).join(" or ")}`;
  } catch (error) {
    fail(error);
  }
}

async function hint() {
  const asked = rules.write(now());
  try {
    let best = null;
    for await (const analysis of engine.analyze(asked, setup.simulations)) best = analysis.best;
    if (rules.write(now()) === asked) {
      state.hint = best;
      show();
    }
  } catch (error) {
    fail(error);
  }
}

function swap() {
  [$("first").value, $("second").value] = [$("second").value, $("first").value];
  update();
}

function begin() {
  state.moves = [];
  state.ply = 0;
  state.values.clear();
  update();
}

async function share() {
  await navigator.clipboard?.writeText(location.href).catch(() => {});
  state.message = `Link: ${location.href}`;
  show();
}

const actions = { resume: () => update(), undo: () => step(-1), redo: () => step(1), hint, swap, new: begin, share, exact: askSolver };
for (const [id, action] of Object.entries(actions)) $(id).addEventListener("click", action);
$("analyse").addEventListener("change", analyse);
$("tree").addEventListener("toggle", () => {
  if (!$("tree").open) return;
  if (state.searched === rules.write(now())) showTree([]);
  else $("nodes").textContent = "The tree is shown when the analysis has finished.";  // showTree is called then
});
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || ["SELECT", "INPUT"].includes(event.target.tagName)) return;
  const column = "123456789".indexOf(event.key);
  const shortcut = { u: "undo", r: "redo", h: "hint", s: "swap", n: "new", p: "resume" }[event.key];
  if (column >= 0 && column < rules.columns) drop(column);
  else if (shortcut) $(shortcut).click();
  else if (event.key === "a") $("analyse").click();
});
addEventListener("hashchange", () => load());

function load() {
  const text = location.hash.slice(1);
  const moves = rules.read(text);
  if (moves && rules.write(moves) !== rules.write(now())) {
    state.moves = moves;
    state.ply = moves.length;
  }
  update({ paused: Boolean(moves?.length) });
  if (moves === null) fail(new Error(`The link's moves ${text} break the rules.`));
}

load();
