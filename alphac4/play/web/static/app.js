// The page: whose turn it is, what the buttons and keys do, and which of its two sides, game or puzzles, is shown.

import { Analysis } from "./analysis.js";
import { Board } from "./board.js";
import { $, COLOURS, announce, enable, isEnabled, knock, onPress, recall, remember, tell } from "./dom.js";
import { engine } from "./engine.js";
import { Game } from "./game.js";
import { Puzzles } from "./puzzles.js";
import { Record } from "./record.js";
import { Review } from "./review.js";
import { Rules } from "./rules.js";
import { Solver } from "./solver.js";

const NEWCOMERS = ["", "beginner"]; // who play until others are chosen: an opponent that people can beat
const ANSWER_MILLISECONDS = 350; // at least, so that the person's stone has fallen
const WATCHED_MILLISECONDS = 900; // between the moves of two levels

function fail(error, again = update) {
  $("problem").hidden = false;
  $("problem").firstElementChild.textContent = error.message;
  $("retry").onclick = () => {
    $("problem").hidden = true;
    again();
  };
}

const setup = await engine.setup().catch((error) => {
  $("status").textContent = "";
  fail(error, () => location.reload());
  throw error;
});
const rules = new Rules(setup), game = new Game(rules);
const board = new Board($("board"), rules, (column) => drop(column));
const values = new Map(); // move string -> value for red in [-1, 1], as live analyses and reviews have found
const solver = new Solver({ rules, setup, engine }, show, fail);
const analysis = new Analysis({ rules, setup, engine, solver }, {
  onFound: (moves, value) => {
    values.set(moves, value);
    show();
  },
  onPlay: (columns) => {
    for (const column of columns) game.play(column);
    go(game.ply);
  },
});
const record = new Record(rules, (ply) => {
  review.stay();
  go(ply);
});
const review = new Review({ game, values, engine, offered: setup.review }, {
  onAgain: (ply) => {
    go(ply);
    board.focus();
    $("board").scrollIntoView({ block: "nearest" });
    $("status").scrollIntoView({ block: "nearest" }); // it says what is asked
  },
  onBack: (moves, ply) => {
    game.load(rules.read(moves));
    go(ply);
  },
  onChange: show,
  onFail: fail,
});
let puzzles = null, loading = null; // made when they are first looked at; what promises them until then
let mode = "game", hint = null, message = "", thinking = null;
let usual = null; // the players that a puzzle has displaced until the next game
let left = null; // { moves, values } of the game that a new one has displaced, for undo

function drop(column) {
  if (mode === "puzzles") return puzzles.drop(column);
  if (!game.awaitsPerson) return;
  if (rules.legal(game.shown).includes(column)) return play(column);
  message = rules.noRoom(column);
  show();
  announce(message);
}

function play(column) {
  const colour = COLOURS[game.side];
  if (review.again) review.judge(column);
  game.play(column);
  if ($("sound").checked) knock();
  update();
  const ending = game.ending();
  announce(`${colour} played ${rules.name(column)}. ${ending ? `${ending.text} ${ending.line}` : $("status").textContent}`);
}

function go(ply) {
  if (ply === undefined) return;
  game.go(ply);
  update();
  announce(`After ${game.ply} of ${game.moves.length} moves. ${$("status").textContent}`);
}

// Show the game as it is now, and let the others do their part.
function update() {
  thinking?.abort();
  thinking = null;
  hint = null;
  message = "";
  solver.stop();
  analysis.stop();
  $("problem").hidden = true;
  history.replaceState(null, "", game.text ? `#${game.text}` : location.pathname);
  if (game.player && !game.paused && !game.result) answer();
  show();
  analyse();
}

const analyse = () => analysis.follow(game).catch((error) => error.name !== "AbortError" && fail(error));

async function answer() {
  const asked = game.text, controller = (thinking = new AbortController());
  const pause = game.people.length ? ANSWER_MILLISECONDS : WATCHED_MILLISECONDS;
  try {
    const [{ column }] = await Promise.all([
      engine.move(asked, game.player, controller.signal),
      new Promise((resolve) => setTimeout(resolve, pause)),
    ]);
    if (!controller.signal.aborted && game.text === asked) play(column);
  } catch (error) {
    if (error.name !== "AbortError") fail(error);
  }
}

function status() {
  const ending = game.ending();
  if (message || ending) return message || ending.text;
  if (hint) return `Hint: column ${rules.name(hint.column)}${hint.outcome}.`;
  if (solver.hinting) return "Looking for a hint …";
  const verdict = solver.verdict(game.text), colour = COLOURS[game.side];
  if (verdict) return verdict;
  if (review.again) return `Find a better move for ${colour}.`;
  if (!game.awaitsPerson) return `${review.tried}${colour} (${game.player}) is thinking …`;
  if (game.ply < game.moves.length) return `Move ${game.ply} of ${game.moves.length}. ${colour} to move.`;
  if (game.ply) return `${review.tried}${colour} to move.`;
  return `${game.people.length === 1 ? `You are ${colour}` : `${colour} to move`}. ${rules.runLength} in a row wins.`;
}

function show() {
  if (mode === "puzzles") return;
  const { result, player, paused, awaitsPerson, text } = game, { live } = analysis, current = review.current;
  const known = solver.verdicts.has(text) && (live || solver.asked.has(text));
  record.show({ moves: game.moves, ply: game.ply, value: valueAfter, review: current });
  board.draw(game.shown, {
    active: awaitsPerson, hint: hint?.column ?? null, better: review.again ? [] : record.better,
    suggested: live && awaitsPerson && !hint && !record.better.length ? analysis.suggested : null, // one mark of what is best
    said: known ? solver.said(text) : live && !result ? analysis.said : new Map(),
  });
  analysis.show(game);
  tell(status());
  const watched = player && !paused && !game.people.length, waits = player && paused;
  if (document.activeElement === $("resume") && !watched && !waits) board.focus();
  $("resume").hidden = Boolean(result) || !(watched || waits);
  $("resume").classList.toggle("strong", !current); // which offers something else
  $("resume").textContent = watched ? "Pause" : "Play on";
  $("resume").title = `${watched ? "Stop here" : `${player} moves`} (p)`;
  enable("undo", game.ply > 0 || isNew());
  enable("redo", game.ply < game.moves.length);
  enable("hint", awaitsPerson);
  enable("exact", solver.busy || (!result && !solver.verdict(text)));
  $("record-note").hidden = Boolean(current) || !$("chart").hasAttribute("hidden");
  $("curve-note").hidden = Boolean(current) || $("chart").hasAttribute("hidden");
  review.show();
}

// After so many moves: what is known for red, or undefined. The end of a game needs no opinion.
function valueAfter(ply) {
  const moves = game.moves.slice(0, ply), result = rules.result(moves);
  if (result) return result.winner === null ? 0 : 1 - 2 * result.winner;
  return values.get(rules.write(moves));
}

function resume() {
  if (game.paused) game.paused = false;
  else game.go(game.ply);
  update();
}

async function askForHint() {
  $("problem").hidden = true;
  const searches = !solver.verdicts.has(game.text), sought = solver.hint(game.text);
  hint = null;
  show();
  try {
    hint = await sought;
  } catch (error) {
    if (error.name === "AbortError") return; // another position is shown, or the hint was asked for again
    fail(error, askForHint);
  }
  show();
  announce($("status").textContent);
  if (searches && $("analyse").checked) analyse(); // which the hint's search has ended
}

// Let the solver tell its verdict, or stop it.
function solve() {
  $("problem").hidden = true;
  hint = null;
  solver.toggle(game.text);
}

function choosePlayers(players) {
  game.players = players;
  players.forEach((player, side) => {
    const about = setup.levels.find(({ name }) => name === player)?.about ?? "";
    $(side ? "second" : "first").title = about;
  });
  [$("first").value, $("second").value] = players;
  if (!usual) remember("players", players);
}

function begin() {
  if (game.moves.length) left = { moves: game.moves, values: [...values] };
  values.clear();
  if (usual) {
    const players = usual;
    usual = null;
    choosePlayers(players);
  }
  game.load([]);
  update();
  announce(`A new game. ${$("status").textContent}`);
}

// Whether a new game can be taken back: nobody has played in it, but for a level that begins.
const isNew = () => game.ply === 0 && left !== null && game.moves.length <= (game.player ? 1 : 0);

function undo() {
  if (!isNew()) game.step(-1);
  else {
    game.load(left.moves);
    game.shared = false;
    for (const [moves, value] of left.values) values.set(moves, value);
    left = null;
  }
  update();
}

async function share() {
  const link = (setup.link || location.href.split("#")[0]) + location.hash;
  const copied = await navigator.clipboard?.writeText(link).then(() => true, () => false);
  message = copied ? `Copied: ${link}` : `Link: ${link}`;
  show();
  announce(copied ? "The link is copied." : message);
}

// Show the game or the puzzles, of these the one with such moves if a link names it.
async function choose(chosen, linked) {
  if (chosen === "puzzles" && !puzzles) {
    loading ??= engine.puzzles().finally(() => (loading = null)); // all who press before they are here wait for the same
    const all = await loading.catch((error) => fail(error, () => choose(chosen, linked)));
    if (!all) return;
    puzzles ??= new Puzzles({ rules, engine: setup.exact ? engine : { exact: async () => ({ columns: [] }) }, board, puzzles: all }, (moves, side) => {
      usual ??= game.players;
      choosePlayers(["", ""].map((_, index) => (index === side ? "" : setup.levels.at(-1).name)));
      game.load(moves);
      game.paused = false;
      choose("game");
    });
  }
  mode = chosen;
  for (const name of ["game", "puzzles"]) $(`mode-${name}`).setAttribute("aria-pressed", String(name === mode));
  for (const id of ["game-buttons", "tools", "choices", "now", "game-side"]) $(id).hidden = mode !== "game";
  for (const id of ["puzzle-buttons", "puzzle-side"]) $(id).hidden = mode !== "puzzles";
  $("problem").hidden = true;
  $("keys").textContent = KEYS_TOLD[mode];
  if (mode === "game") return update();
  $("bar").hidden = true;
  thinking?.abort();
  analysis.stop();
  solver.stop();
  puzzles.open(linked);
}

function changeTheme() {
  const style = document.documentElement.style, dark = getComputedStyle(document.documentElement).colorScheme === "dark"
    || (!style.colorScheme && matchMedia("(prefers-color-scheme: dark)").matches);
  remember("theme", (style.colorScheme = dark ? "light" : "dark"));
}

const actions = {
  resume, undo, redo: () => (game.step(1), update()), hint: askForHint,
  swap: () => (choosePlayers([...game.players].reverse()), (game.paused = false), update()), new: begin, share,
  exact: solve, theme: changeTheme, "mode-game": () => choose("game"), "mode-puzzles": () => choose("puzzles"),
};
for (const [id, action] of Object.entries(actions)) onPress(id, action);

const KEYS_TOLD = {
  game: `Keys: 1-${Math.min(9, rules.columns)} drop, ← → step, u undo, r redo, h hint, e solve, s swap, n new, p pause or play on, a analysis.`,
  puzzles: `Keys: 1-${Math.min(9, rules.columns)} drop, h hint, s solution, n next, p play it out.`,
};
const KEYS = {
  game: { u: "undo", r: "redo", h: "hint", e: "exact", s: "swap", n: "new", p: "resume" },
  puzzles: { n: "puzzle-next", h: "puzzle-hint", s: "puzzle-solution", p: "puzzle-play" },
};
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const listens = event.target.tagName === "SELECT"; // to what its options begin with: letters, or of one list digits
  const column = event.target.id === "difficulty" ? -1 : "123456789".indexOf(event.key);
  if (column >= 0 && column < rules.columns) {
    drop(column);
    event.preventDefault();
  } else if (event.key === "Escape" && solver.busy) {
    solver.toggle();
  } else if (!listens && event.key in KEYS[mode]) {
    const id = KEYS[mode][event.key];
    if (isEnabled(id)) $(id).click();
  } else if (!listens && mode === "game" && event.key === "a") {
    $("analyse").click();
  }
});

function prepare() {
  for (const id of ["first", "second"]) {
    $(id).append(new Option("you", ""));
    for (const { name, about } of setup.levels) $(id).append(Object.assign(new Option(name, name), { title: about }));
    // Chosen with the mouse, the keyboard goes back to the board; with the keyboard, one may want to choose on.
    let pointed = false;
    $(id).addEventListener("pointerdown", () => (pointed = true));
    $(id).addEventListener("keydown", () => (pointed = false));
    $(id).addEventListener("change", () => {
      usual = null;
      choosePlayers([$("first").value, $("second").value]);
      update();
      if (pointed) board.focus();
    });
  }
  const names = ["", ...setup.levels.map(({ name }) => name)], remembered = recall("players", NEWCOMERS);
  choosePlayers(remembered.length === 2 && remembered.every((name) => names.includes(name)) ? remembered : NEWCOMERS);
  for (const id of ["shapes", "large", "sound", "analyse"]) {
    const apply = () => {
      remember(id, $(id).checked);
      document.body.classList.toggle(id, $(id).checked);
      if (id === "analyse") analyse();
    };
    $(id).checked = recall(id, false);
    document.body.classList.toggle(id, $(id).checked);
    $(id).addEventListener("change", apply);
  }
  $("exact").hidden = !setup.exact;
  $("modes").hidden = !setup.puzzles;
  $("keys").textContent = KEYS_TOLD[mode];
  addEventListener("hashchange", load);
  addEventListener("resize", () => tell($("status").textContent));
  for (const id of ["settings", "menu"]) {
    document.addEventListener("click", ({ target }) => ($(id).contains(target) && target.tagName !== "BUTTON") || ($(id).open = false));
    $(id).addEventListener("keydown", ({ key }) => {
      if (key !== "Escape") return;
      $(id).open = false;
      $(id).firstElementChild.focus();
    });
  }
  document.documentElement.style.colorScheme = recall("theme", "");
  document.body.classList.remove("loading");
}

function load() {
  const text = location.hash.slice(1);
  const [shown, linked] = text.split("/");
  if (shown === "puzzles" && setup.puzzles) return choose(shown, linked);
  const moves = rules.read(text);
  if (moves && rules.write(moves) !== game.text) game.load(moves);
  if (moves === null) game.paused = true; // or else a level's move would take away what is said of it
  if (mode === "game") update();
  else choose("game");
  if (moves === null) {
    message = `The link's moves ${text} break the rules.`;
    show();
  }
}

prepare();
load();
