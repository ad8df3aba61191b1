// The page: whose turn it is, what the buttons and keys do, and which of its two sides, game or puzzles, is shown.

import { Analysis } from "./analysis.js";
import { Board } from "./board.js";
import { $, COLOURS, announce, counted, enable, isEnabled, knock, onPress, recall, remember, tell } from "./dom.js";
import { engine } from "./engine.js";
import { Game } from "./game.js";
import { Puzzles } from "./puzzles.js";
import { Record } from "./record.js";
import { Review } from "./review.js";
import { Rules } from "./rules.js";
import { Share } from "./share.js";
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
const review = new Review({ game, values, engine, offered: setup.review }, {
  onGo: go,
  onBack: (moves) => game.load(rules.read(moves), { paused: false }),
  onChange: () => (show(), analyse()),
  onFail: fail,
});
const record = new Record(rules, (ply) => (review.leave(), go(ply)), (ply) => review.ask(ply));
new Share({ board, text: () => game.text, link: setup.link ?? "" });
let puzzles = null, loading = null; // made when they are first looked at; what promises them until then
let mode = "game", hint = null, message = "", thinking = null;
let left = null; // { moves, values, review } of the game that a new one has displaced, for undo

function drop(column) {
  if (mode === "puzzles") return puzzles.drop(column);
  if (!game.awaitsPerson || (review.isOpen && review.said.get(column)?.closed)) return;
  if (rules.legal(game.shown).includes(column)) return review.isOpen ? review.guess(column) : play(column);
  message = rules.noRoom(column);
  show();
  announce(message);
}

function play(column) {
  const colour = COLOURS[game.side];
  review.leave();
  game.play(column);
  if ($("sound").checked) knock();
  update();
  const ending = game.ending();
  announce(`${colour} played ${rules.name(column)}. ${ending ? `${ending.text}. ${ending.line}` : $("status").textContent}`);
}

function go(ply) {
  if (ply === undefined) return;
  game.go(ply);
  update();
  announce($("status").textContent);
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
  history.replaceState({ moves: rules.write(game.moves), paused: game.paused, shared: game.shared }, "", game.text ? `#${game.text}` : location.pathname);
  if (game.player && !game.waits && !game.result) answer();
  show();
  analyse();
}

const analyse = () => analysis.follow(game, review.isOpen).catch((error) => error.name !== "AbortError" && fail(error));

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
  const { people, side, ply, player } = game, colour = COLOURS[side], [own] = people;
  if (message) return message;
  if (review.question) return review.question;
  if (game.result) return `The game is over after ${counted(ply, "move")}.`;
  if (hint) return `Hint: column ${rules.name(hint.column)} ${hint.outcome}${hint.outcome && " "}(${hint.source}).`;
  if (solver.hinting) return "Looking for a hint …";
  const verdict = solver.verdict(game.text);
  if (verdict) return verdict;
  const you = people.length === 1 && ply < 2 ? `You are ${COLOURS[own]}. ` : ""; // until both have moved
  if (!game.awaitsPerson) return `${you}${colour} (${player}) is thinking …`;
  if (ply < game.moves.length) return `Move ${ply} of ${game.moves.length}. ${colour} to move.`;
  if (side !== own || people.length !== 1) return `${colour} to move.`;
  return `${you}Your move${ply ? "" : `: ${rules.runLength} in a row win`}.`;
}

function show() {
  if (mode === "puzzles") return;
  const { result, player, waits, awaitsPerson, text } = game, { isOpen } = review, live = analysis.live && !isOpen;
  const known = solver.verdicts.has(text) && (live || solver.asked.has(text));
  const said = review.asked !== null && (isOpen || !live) ? review.said
    : known ? solver.said(text) : live && !result ? analysis.said : new Map();
  record.show({ moves: game.moves, ply: game.ply, value: valueAfter, review: review.current, asked: review.asked, isTold: review.isTold });
  board.draw(game.shown, {
    active: awaitsPerson, said, hint: hint?.column ?? null, better: record.better,
    suggested: live && awaitsPerson && !hint && !record.better.length ? analysis.suggested : null, // one mark of what is best
  });
  analysis.show(game, isOpen);
  showResult();
  tell(status());
  const watched = player && !waits && !game.people.length, waiting = player && waits && !isOpen;
  if (document.activeElement === $("resume") && !watched && !waiting) board.focus();
  $("resume").hidden = Boolean(result) || !(watched || waiting);
  $("resume").classList.toggle("strong", !review.current); // which offers something else
  $("resume").textContent = watched ? "Pause" : "Play on";
  $("resume").title = `${watched ? "Stop here" : `${player} moves`} (p)`;
  enable("undo", game.ply > 0 || isNew());
  enable("hint", awaitsPerson && !isOpen);
  enable("exact", solver.busy || (!result && !isOpen && !solver.verdict(text)));
  review.show();
}

// The end of the game where the eyes are, above the winner's line, and what may follow in place of help.
function showResult() {
  const ending = game.ending(), winner = game.result?.winner ?? null, was = $("result").hidden;
  $("result").hidden = !ending;
  $("result").className = winner === null ? "draw" : COLOURS[winner].toLowerCase();
  $("result").textContent = ending?.text ?? "";
  if (was === !ending) return;
  if (ending && ["hint", "exact"].includes(document.activeElement.id)) board.focus();
  for (const id of ["hint", "exact"]) $(id).hidden = Boolean(ending) || (id === "exact" && !setup.exact);
  $("rematch").hidden = !ending;
}

// After so many moves: what is known for red, or undefined. The end of a game needs no opinion.
function valueAfter(ply) {
  const moves = game.moves.slice(0, ply), result = rules.result(moves);
  if (result) return result.winner === null ? 0 : 1 - 2 * result.winner;
  return values.get(rules.write(moves));
}

function resume() {
  if (game.waits) game.resume();
  else game.paused = true;
  update();
}

async function askForHint() {
  $("problem").hidden = true;
  const sought = solver.hint(game.text);
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
    const id = side ? "second" : "first";
    $(id).value = player;
    $(`${id}-about`).textContent = setup.levels.find(({ name }) => name === player)?.about ?? "";
  });
  remember("players", players);
}

function begin() {
  if (game.moves.length) left = { moves: game.moves, values: [...values], review: review.found };
  values.clear();
  review.forget();
  game.load([]);
  update();
  announce(`A new game. ${$("status").textContent}`);
}

// Whether a new game can be taken back: nobody has played in it, but for a level that begins.
const isNew = () => game.ply === 0 && left !== null && game.moves.length <= (game.player ? 1 : 0);

function undo() {
  review.leave();
  if (!isNew()) game.undo();
  else {
    game.load(left.moves, { paused: true, shared: false });
    for (const [moves, value] of left.values) values.set(moves, value);
    review.found = left.review;
    left = null;
  }
  update();
}

function swap() {
  choosePlayers([...game.players].reverse());
  game.paused = false;
  update();
}

function rematch() {
  choosePlayers([...game.players].reverse());
  begin();
}

// Show the game or the puzzles, of these the one with such moves if a link names it.
async function choose(chosen, linked) {
  if (chosen === "puzzles" && !puzzles) {
    loading ??= engine.puzzles().finally(() => (loading = null)); // all who press before they are here wait for the same
    const all = await loading.catch((error) => fail(error, () => choose(chosen, linked)));
    if (!all) return;
    puzzles ??= new Puzzles({ rules, engine, board, puzzles: all });
  }
  mode = chosen;
  for (const name of ["game", "puzzles"]) $(`mode-${name}`).setAttribute("aria-pressed", String(name === mode));
  for (const id of ["game-buttons", "tools", "choices", "game-side"]) $(id).hidden = mode !== "game";
  for (const id of ["puzzle-buttons", "puzzle-side"]) $(id).hidden = mode !== "puzzles";
  $("problem").hidden = true;
  $("keys").textContent = KEYS_TOLD[mode];
  if (mode === "game") return update();
  $("bar").classList.add("off");
  $("result").hidden = true;
  thinking?.abort();
  analysis.stop();
  solver.stop();
  puzzles.open(linked);
}

// The browser's way back leads from the one to the other.
function turnTo(chosen) {
  if (chosen === mode) return;
  history.pushState(null, "", chosen === "puzzles" ? "#puzzles" : location.pathname);
  choose(chosen);
}

function changeTheme() {
  const style = document.documentElement.style, dark = getComputedStyle(document.documentElement).colorScheme === "dark"
    || (!style.colorScheme && matchMedia("(prefers-color-scheme: dark)").matches);
  remember("theme", (style.colorScheme = dark ? "light" : "dark"));
}

const actions = {
  resume, undo, hint: askForHint, swap, rematch, new: begin,
  exact: solve, theme: changeTheme, "mode-game": () => turnTo("game"), "mode-puzzles": () => turnTo("puzzles"),
};
for (const [id, action] of Object.entries(actions)) onPress(id, action);

const KEYS_TOLD = {
  game: `Keys: 1-${Math.min(9, rules.columns)} drop, ← → step, u undo, h hint, e solve, s swap, n new, m rematch, p pause or play on, a analysis.`,
  puzzles: `Keys: 1-${Math.min(9, rules.columns)} drop, h hint, s solution, n next.`,
};
const KEYS = {
  game: { u: "undo", h: "hint", e: "exact", s: "swap", n: "new", m: "rematch", p: "resume" },
  puzzles: { n: "puzzle-next", h: "puzzle-hint", s: "puzzle-solution" },
};
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || $("share-dialog").open) return;
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
      tell($("status").textContent); // large type fits less of it
    };
    $(id).checked = recall(id, false);
    document.body.classList.toggle(id, $(id).checked);
    $(id).addEventListener("change", apply);
  }
  $("exact").hidden = !setup.exact;
  $("modes").hidden = !setup.puzzles;
  $("keys").textContent = KEYS_TOLD[mode];
  addEventListener("popstate", load); // also where another link is typed in
  addEventListener("resize", () => tell($("status").textContent));
  document.addEventListener("click", ({ target }) => $("settings").contains(target) || ($("settings").open = false));
  $("settings").addEventListener("keydown", ({ key }) => {
    if (key !== "Escape") return;
    $("settings").open = false;
    $("settings").firstElementChild.focus();
  });
  document.documentElement.style.colorScheme = recall("theme", "");
  document.body.classList.remove("loading");
}

function load() {
  const text = location.hash.slice(1);
  const [shown, linked] = text.split("/");
  review.leave();
  if (shown === "puzzles" && setup.puzzles) return choose(shown, linked);
  const moves = rules.read(text), kept = history.state; // of a reload, or the way back; a link has none
  if (moves && kept?.moves?.startsWith(text) && rules.read(kept.moves)) game.load(rules.read(kept.moves), { ...kept, ply: moves.length });
  else if (moves && rules.write(moves) !== game.text) game.load(moves);
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
