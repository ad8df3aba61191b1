// The page: turns, buttons and keys, and the panels of plugins.

import { Analysis } from "./analysis.js";
import { Board } from "./board.js";
import { $, COLOURS, announce, counted, element, enable, ignoreHeldKeys, isDialogOpen, isEnabled, playSound, onPress, recall, relabel, remember, showStatus } from "./dom.js";
import { engine } from "./engine.js";
import { Entries } from "./entries.js";
import { Game } from "./game.js";
import { Opener } from "./open.js";
import { Opponents, celebrate } from "./opponents.js";
import { Reasons } from "./reasons.js";
import { Record } from "./record.js";
import { Rules } from "./rules.js";
import { Share } from "./share.js";
import { Solver, longestResistance } from "./solver.js";

const DEFAULT_PLAYERS = ["", "beginner"];
const MIN_ANSWER_MS = 350; // minimum time of an answer, so that the person's stone has fallen
const WATCHED_PAUSE_MS = 900; // time between the moves of two levels

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
const rules = new Rules(setup), game = new Game(rules), entries = new Entries(), reasons = new Reasons(rules);
const board = new Board($("board"), rules, (column) => drop(column));
const values = new Map(); // move string -> value in [-1, 1] for red, from live analyses and panels
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
  onPreview: (columns) => {
    preview = columns;
    show();
  },
});
const record = new Record(rules, { onGo: (ply) => modes[mode].go(ply) });
const opponents = new Opponents(setup.levels, (players) => {
  choosePlayers(players);
  update();
  board.focus();
}, () => game);
new Share({ board, text: () => modes[mode].text, link: setup.link ?? "" });
new Opener({
  rules, text: () => modes[mode].text, problemOf: (name) => (namedMode(name) ? "" : rules.problem(name)),
  onOpen: openNamed, onFail: say,
});
let mode = "game", hint = null, message = "", thinking = null;
let progress = ""; // of a level's move, such as " 5 s"
let preview = []; // moves of a line that are shown after the position
let previous = null; // snapshot of the game before a new one or other sides, for undo: with `from`, its length after that
const games = new Map(); // entry of the browser's history -> snapshot of an earlier game

// A mode decides what the board shows: { keys: ids of buttons by key, help: text about them, drop(column), open(linked),
// go(ply), text }, where `linked` is what follows the mode's name in the address, go(ply) shows the position after `ply`
// moves of the record, and `text` is the move string on the board. Elements with the attribute data-mode belong to one mode.
const modes = {
  game: {
    keys: { u: "undo", h: "hint", e: "exact", s: "swap", n: "new", m: "rematch", p: "resume", a: "analyse", t: "threats", o: "open" },
    help: "← → step, u undo, h hint, e solve, s swap, n new, m rematch, p pause or play on, a analysis, t threats, o open",
    drop: dropInGame,
    open: update,
    go: (ply) => (leave(), go(ply)),
    get text() { return game.text; },
  },
};

// A panel is a module of a plugin that exports `create(page)`. It returns, or resolves to, an object that may have:
//   mode      see above
//   show()    shows the game; called after each change
//   exercise  null, or { text, labels, guess } for the position on the board: a text above it, labels of columns as in
//             board.js, and, while a move is asked for, guess(column); meanwhile analysis and hints are hidden
//   leave()   ends the exercise, because the game continues or another position is shown
//   marks     cells with a ghost stone: { column, row, side }
//   state     what belongs to the game and not to the position, as plain data that the browser stores; it is set after
//             the game is loaded, to undefined for a game without a stored state
const page = { rules, setup, engine, entries, game, board, record, values, update, go, show, fail, analyse, open };
const named = {}; // panels
const created = await Promise.allSettled(setup.panels.map(async (name) => {
  const panel = await (await import(`./${name}/panel.js`)).create(page);
  if (panel.mode) modes[name] = panel.mode;
  named[name] = panel;
}));
const panels = Object.values(named);
const exercise = () => panels.map((panel) => panel.exercise).find(Boolean) ?? {};
const leave = () => panels.forEach((panel) => panel.leave?.());
const states = () => Object.fromEntries(Object.entries(named).map(([name, { state }]) => [name, state]));
const snapshot = (from) => ({ moves: game.moves, players: game.players, helped: game.helped, values: [...values], states: states(), from });

function restore({ values: stored = [], states = {} }) {
  for (const [moves, value] of stored) values.set(moves, value);
  for (const [name, panel] of Object.entries(named)) panel.state = states[name];
}

function drop(column) { modes[mode].drop(column); }

function dropInGame(column) {
  const { guess, labels } = exercise();
  if (!game.awaitsPerson || (guess && labels.get(column)?.isDisabled)) return;
  if (rules.legal(game.shown).includes(column)) return guess ? guess(column) : play(column);
  say(rules.columnFullMessage(column));
}

// Show a message instead of the status until the position changes, and announce it.
function say(text) {
  message = text;
  show();
  showStatus(text); // in any mode
  announce(text);
}

function play(column) {
  const colour = COLOURS[game.side];
  const isOwn = !game.player || game.waits;
  leave();
  game.play(column);
  if ($("sound").checked) playSound();
  update();
  const ending = game.ending();
  if (isOwn && ending && game.people.includes(game.result.winner)) {
    celebrate($("board"));
    opponents.win(game);
    show();
  }
  announce(`${colour} played ${rules.name(column)}. ${ending ? `${ending.text}. ${ending.line}` : $("status").textContent}`);
}

function go(ply) {
  if (ply === undefined) return;
  game.go(ply);
  update();
  announce($("status").textContent);
}

// Show the changed game, and start the level's move and the analysis.
function update() {
  thinking?.abort();
  thinking = null;
  hint = null;
  preview = [];
  message = progress = "";
  solver.stop();
  analysis.stop();
  $("problem").hidden = true;
  const { paused, shared, helped, players } = game;
  entries.save({ hash: game.text, moves: rules.write(game.moves), paused, shared, helped, players, states: states() });
  if (game.player && !game.waits && !game.result) answer();
  show();
  analyse();
}

function analyse() {
  analysis.follow(game, Boolean(exercise().guess)).catch((error) => error.name !== "AbortError" && fail(error));
}

async function answer() {
  const moves = game.text, controller = (thinking = new AbortController()), started = Date.now();
  const pause = game.people.length ? MIN_ANSWER_MS : WATCHED_PAUSE_MS;
  let solved = "";
  const clock = setInterval(() => {
    if (controller.signal.aborted) return clearInterval(clock);
    progress = ` ${Math.round((Date.now() - started) / 1000)} s${solved}`;
    if (mode === "game") showStatus(status());
  }, 1000);
  try {
    const [{ column }] = await Promise.all([
      engine.move(moves, game.player, controller.signal, (done, total) => (solved = `, ${done} of ${counted(total, "move")} solved`)),
      new Promise((resolve) => setTimeout(resolve, pause)),
    ]);
    if (!controller.signal.aborted && game.text === moves) play(column);
  } catch (error) {
    if (error.name !== "AbortError") fail(error);
  } finally {
    clearInterval(clock);
  }
}

function status() {
  const { people, side, ply, player } = game, colour = COLOURS[side], [own] = people;
  if (message) return message;
  if (exercise().text) return exercise().text;
  if (game.result) return `The game is over after ${counted(ply, "stone")}.`;
  if (hint) return describeHint(hint);
  if (solver.hinting) return "Searching for a hint …";
  const verdict = solver.verdict(game.text);
  if (verdict) return verdict;
  const you = people.length === 1 && ply < 2 ? `You are ${COLOURS[own]}. ` : ""; // until both have moved
  if (!game.awaitsPerson) return `${you}${colour} (${player}) is thinking …${progress}`;
  if (ply < game.moves.length) return `${ply} of ${counted(game.moves.length, "stone")}. ${colour} to move.`;
  if (side !== own || people.length !== 1) return `${colour} to move.`;
  return `${you}Your move${ply ? "" : `: ${rules.runLength} in a row wins`}.`;
}

function describeHint({ column, outcome, source, reason }) {
  const name = rules.name(column);
  if (outcome === "loses") return `Hint: every move loses; try ${name} (${source}).`; // the distance is unknown
  if (outcome.startsWith("loses")) return `Hint: every move loses; ${longestResistance(name, outcome)} (${source}).`;
  return `Hint: ${name} ${outcome}${outcome && " "}(${source}).${reason}`;
}

function show() {
  if (mode !== "game") return;
  const { result, player, waits, awaitsPerson, text } = game, { guess, labels: asked } = exercise(), isOpen = Boolean(guess);
  const live = analysis.live && !isOpen, marks = panels.flatMap((panel) => panel.marks ?? []);
  const known = solver.verdicts.has(text) && (live || solver.requested.has(text));
  const labels = asked && !live ? asked : known ? solver.labels(text) : live && !result ? analysis.labels : new Map();
  game.helped ||= Boolean(labels.size || hint);
  record.show({ moves: game.moves, ply: game.ply, value: valueAfter });
  if (preview.length) board.draw([...game.shown, ...preview], { active: false });
  else board.draw(game.shown, {
    active: awaitsPerson, labels, hint: hint?.column ?? null, better: marks,
    threats: $("threats").checked && !isOpen ? rules.threats(game.shown) : [],
    suggested: live && awaitsPerson && !hint && !marks.length ? analysis.suggested : null, // only one kind of mark
  });
  $("threat-note").hidden = !$("threats").checked || isOpen;
  analysis.show(game, isOpen);
  opponents.show();
  $("story").hidden = !setup.story || game.moves.length > 0;
  showResult();
  showStatus(status());
  const watched = player && !waits && !game.people.length, waiting = player && waits;
  if (document.activeElement === $("resume") && !(watched || (waiting && !isOpen))) board.focus();
  $("resume").hidden = Boolean(result) || !(watched || waiting);
  $("resume").disabled = waiting && isOpen; // but shown, so that the other buttons keep their places
  relabel("resume", watched ? "Pause" : "Play on");
  $("resume").title = `${watched ? "Pause the game" : `${player} moves`} (p)`;
  enable("undo", game.ply > 0 || isNew());
  enable("hint", awaitsPerson && !isOpen);
  enable("exact", solver.busy || (!result && !isOpen && !solver.verdict(text)));
  for (const panel of panels) panel.show?.();
}

// Show the result of the game above the board, and buttons for the next game instead of hints.
function showResult() {
  const ending = game.ending(), winner = game.result?.winner ?? null;
  $("result").hidden = !ending;
  $("result").className = winner === null ? "draw" : COLOURS[winner].toLowerCase();
  $("result").textContent = ending?.text ?? "";
  if ((ending ? ["hint", "exact"] : ["rematch", "climb"]).includes(document.activeElement.id)) board.focus();
  for (const id of ["hint", "exact"]) $(id).hidden = Boolean(ending) || (id === "exact" && !setup.exact);
  $("rematch").hidden = !ending;
  $("climb").hidden = !opponents.above || game.shared;
  if (opponents.above) relabel("climb", `Next: ${opponents.above.find(Boolean)}`);
}

// The value in [-1, 1] for red after `ply` moves, or undefined; at the end of a game its outcome.
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
  const request = solver.hint(game.text);
  hint = null;
  show();
  try {
    const found = await request, reason = reasons.strength(game.shown, found.column);
    hint = { ...found, reason: reason.replace(rules.name(found.column), " It") };
  } catch (error) {
    if (error.name === "AbortError") return; // another position is shown, or another hint was requested
    fail(error, askForHint);
  }
  show();
  announce($("status").textContent);
}

// Start or stop the solver.
function solve() {
  $("problem").hidden = true;
  hint = null;
  solver.toggle(game.text);
}

// Whether these are two players of the lists; others may have been stored by another version of the page.
const areOffered = (players) => Array.isArray(players) && players.length === 2 && players.every((player) => !player || setup.levels.some(({ name }) => name === player));

function choosePlayers(players) {
  game.helped ||= game.moves.length > 0; // another level may have played the moves
  game.players = players;
  [$("first").value, $("second").value] = players;
  remember("players", players);
}

function begin(players = game.players) {
  if (game.moves.length) {
    previous = snapshot(0);
    games.set(entries.id, previous);
    entries.push();
  }
  choosePlayers(players);
  values.clear();
  leave();
  game.load([]);
  restore({});
  update();
  announce(`A new game. ${$("status").textContent}`);
}

// Whether undo returns to the previous game: no person has moved in the new one, and a level at most once.
const isNew = () => {
  if (!previous || game.ply < previous.from) return false;
  return game.moves.length <= previous.from + (game.players[previous.from % 2] ? 1 : 0);
};

function undo() {
  leave();
  if (!isNew()) game.undo();
  else {
    const { moves, players, helped } = previous;
    choosePlayers(players);
    game.load(moves, { paused: true, shared: false, helped });
    restore(previous);
    previous = null;
  }
  update();
  announce($("status").textContent);
}

function swap() {
  previous = snapshot(game.moves.length);
  choosePlayers([...game.players].reverse());
  game.paused = false;
  update();
  announce($("status").textContent);
}

function rematch() {
  begin([...game.players].reverse());
}

// Change to another mode.
function choose(chosen, linked) {
  mode = chosen;
  for (const name of Object.keys(modes)) $(`mode-${name}`).setAttribute("aria-pressed", String(name === mode));
  for (const part of document.querySelectorAll("[data-mode]")) part.hidden = part.dataset.mode !== mode;
  $("problem").hidden = $("result").hidden = true;
  $("bar").classList.add("off");
  thinking?.abort();
  analysis.stop();
  solver.stop();
  modes[mode].open(linked);
}

// Change to another mode, as a step of the browser's history.
function turnTo(chosen) {
  if (chosen === mode) return;
  entries.push(chosen === "game" ? game.text : chosen);
  choose(chosen);
}

// The mode that a link names, such as "puzzles" of "puzzles/4455"; undefined for a game.
function namedMode(name) {
  const [first] = name.split("/");
  return first !== "game" && Object.hasOwn(modes, first) ? first : undefined;
}

// Show what the part of a link after its "#" names, as a step of the browser's history.
function openNamed(name) {
  const named = namedMode(name);
  if (!named) return open(rules.read(name));
  leave();
  entries.push(name);
  choose(named, name.split("/")[1]);
}

// Show other moves as the game, as a step of the browser's history.
function open(moves, ply) {
  leave();
  entries.push();
  game.load(moves, { ply });
  restore({});
  choose("game");
  announce($("status").textContent);
}

// List the keys of the mode, from texts such as "← → step, u undo".
function showKeys() {
  const keys = [`1-${Math.min(9, rules.columns)} drop a stone`, ...modes[mode].help.split(", "), "? these keys"];
  $("key-list").replaceChildren(...keys.flatMap((text) => {
    const [, names = "", meaning = text] = text.match(/^((?:\S |1-\d )+)(.+)$/) ?? [];
    return [element("dt", "", ...names.split(" ").filter(Boolean).map((name) => element("kbd", "", name))), element("dd", "", meaning)];
  }));
  $("keys-dialog").showModal();
}

function changeTheme() {
  const style = document.documentElement.style, dark = getComputedStyle(document.documentElement).colorScheme === "dark"
    || (!style.colorScheme && matchMedia("(prefers-color-scheme: dark)").matches);
  remember("theme", (style.colorScheme = dark ? "light" : "dark"));
}

const actions = {
  resume, undo, hint: askForHint, swap, rematch, new: () => begin(), climb: () => begin(opponents.above), keys: showKeys,
  exact: solve, theme: changeTheme,
};
for (const [id, action] of Object.entries(actions)) onPress(id, action);
for (const name of Object.keys(modes)) onPress(`mode-${name}`, () => turnTo(name));

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || isDialogOpen()) return;
  if (event.key === "?") return showKeys();
  // Lists select options by their first character.
  const options = event.target.tagName === "SELECT" ? [...event.target.options] : null;
  const column = options?.some(({ text }) => text.startsWith(event.key)) ? -1 : "123456789".indexOf(event.key);
  const id = options ? undefined : modes[mode].keys[event.key];
  if (column >= 0 && column < rules.columns) {
    drop(column);
    event.preventDefault();
  } else if (event.key === "Escape" && solver.busy) {
    solver.toggle();
  } else if (id && isEnabled(id)) {
    event.preventDefault(); // a dialog's field would receive the character
    $(id).click();
  }
});

function prepare() {
  for (const id of ["first", "second"]) {
    $(id).append(new Option("you", ""));
    for (const { name, about } of setup.levels) $(id).append(Object.assign(new Option(name, name), { title: about }));
    // After a choice with the mouse, the focus returns to the board; with the keyboard, it stays in the list.
    let pointed = false;
    $(id).addEventListener("pointerdown", () => (pointed = true));
    $(id).addEventListener("keydown", () => (pointed = false));
    $(id).addEventListener("change", () => {
      choosePlayers([$("first").value, $("second").value]);
      update();
      if (pointed) board.focus();
    });
  }
  const remembered = recall("players", DEFAULT_PLAYERS);
  choosePlayers(areOffered(remembered) ? remembered : DEFAULT_PLAYERS);
  for (const id of ["shapes", "large", "sound", "analyse", "threats"]) {
    const apply = () => {
      remember(id, $(id).checked);
      document.body.classList.toggle(id, $(id).checked);
      if (id === "analyse") analyse();
      if (id === "threats") show();
      showStatus($("status").textContent); // large type fits less of it
    };
    $(id).checked = recall(id, false);
    document.body.classList.toggle(id, $(id).checked);
    $(id).addEventListener("change", apply);
  }
  $("exact").hidden = !setup.exact;
  $("parity").hidden = rules.rows % 2 > 0;
  $("story").textContent = setup.story;
  $("modes").hidden = Object.keys(modes).length < 2;
  addEventListener("popstate", () => load(false)); // even if another link is typed in
  addEventListener("resize", () => showStatus($("status").textContent));
  document.addEventListener("click", ({ target }) => $("settings").contains(target) || ($("settings").open = false));
  $("settings").addEventListener("keydown", ({ key }) => {
    if (key !== "Escape") return;
    $("settings").open = false;
    $("settings").firstElementChild.focus();
  });
  document.documentElement.style.colorScheme = recall("theme", "");
  document.body.classList.remove("loading");
}

// Show what the address names: a position or another mode, with the game that belongs to it after a reload or a step back.
function load(isReload) {
  const kept = entries.find(isReload), text = kept?.hash ?? location.hash.slice(1), named = namedMode(text);
  leave();
  if (named) return choose(named, text.split("/")[1]);
  const moves = rules.read(text), earlier = games.get(entries.id);
  if (kept && areOffered(kept.players)) choosePlayers(kept.players);
  if (earlier) previous = null;
  if (moves && kept?.moves?.startsWith(text) && rules.read(kept.moves)) {
    const { paused, shared, helped } = kept;
    game.load(rules.read(kept.moves), { paused, shared, helped, ply: moves.length });
  } else if (moves && rules.write(moves) !== game.text) game.load(moves);
  restore(earlier ?? kept ?? {});
  if (moves === null) game.paused = true; // so that no level's move replaces the message
  choose("game");
  if (moves === null) say(`The link has illegal moves: ${text}. ${rules.problem(text)}`);
  else announce($("status").textContent);
}

ignoreHeldKeys();
prepare();
load(performance.getEntriesByType("navigation")[0]?.type === "reload");
for (const { reason } of created) if (reason) fail(reason, () => location.reload());
