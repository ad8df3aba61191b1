// The page of `alphac4 review --html`: one or several games to step through.

import { $, COLOURS, counted, ignoreHeldKeys } from "../dom.js";
import { Board } from "../board.js";
import { Record } from "../record.js";
import { Rules } from "../rules.js";
import { Notes, betterCells } from "./notes.js";

const REVIEWS = JSON.parse($("reviews").textContent);
const rules = new Rules(REVIEWS[0]), board = new Board($("board"), rules, () => {});
const record = new Record(rules, { onGo: (ply) => go(ply) }), notes = new Notes(record, { onMistake: go, onLine: showLine });
let game = REVIEWS[0];

function go(ply) {
  const moves = rules.read(game.moves), move = game.reviewed[ply - 1];
  record.show({ moves, ply, value: (at) => game.values[at] });
  notes.show({ review: game, described: ply });
  board.draw(moves.slice(0, ply), { active: false, better: move ? betterCells(rules, moves, move) : [] });
}

// Show the first `shown` moves of a line on the board; the text and its buttons stay.
function showLine(ply, line, shown) {
  board.draw([...record.moves.slice(0, ply - 1), ...line.slice(0, shown)], { active: false });
  [...document.querySelectorAll(".line button")].forEach((button, index) => button.setAttribute("aria-current", String(index + 1 === shown)));
}

function open(index) {
  game = REVIEWS[index];
  const { outcome, moves, mistakes: points } = game;
  const ending = outcome === null ? "Unfinished" : outcome === 0 ? "A draw" : `${COLOURS[outcome < 0 ? 1 : 0]} wins`;
  $("result").textContent = `${ending} · ${counted(moves.length, "stone")}`;
  go(points[0] ?? moves.length);
}

REVIEWS.forEach(({ moves }, index) => $("game").append(new Option(`Game ${index + 1}: ${moves.slice(0, 14)}…`, index)));
$("game").hidden = REVIEWS.length < 2;
$("game").addEventListener("change", () => open(Number($("game").value)));
ignoreHeldKeys();
open(0);
