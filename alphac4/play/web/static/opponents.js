// The levels as cards: who they are, how strong, and whether they are beaten, which this browser remembers.

import { $, counted, element, makeButton, recall, remember, svg } from "./dom.js";

const DISCS = 28; // of a celebration

// A face that is the more determined the stronger the level is.
function face(index, count) {
  const picture = svg("svg", { viewBox: "0 0 40 40", "aria-hidden": "true" }), will = index / (count - 1);
  picture.style.setProperty("--level", index);
  svg("circle", { class: "face-skin", cx: 20, cy: 20, r: 19 }, picture);
  for (const side of [-1, 1]) {
    svg("circle", { class: "face", cx: 20 + 6.5 * side, cy: 18, r: 3.4 - 1.2 * will }, picture);
    svg("path", { class: "face-line", d: `M${20 + 11 * side} ${12 - 2 * will}L${20 + 4 * side} ${10.5 + 4 * will}` }, picture);
  }
  svg("path", { class: "face-line", d: `M${13 + 2 * will} 27q${7 - 2 * will} ${7 - 8 * will} ${14 - 4 * will} 0` }, picture);
  return picture;
}

export class Opponents {
  // onChoose(players) is called for a card; game() returns the game.
  constructor(levels, onChoose, game) {
    Object.assign(this, { levels, game });
    this.isOpen = null; // whether all cards are shown; null: before the first move
    this.cards = levels.map((level, index) => makeButton("", () => {
      const { players } = game();
      this.isOpen = null;
      onChoose(players[0] && !players[1] ? [level.name, ""] : [players[0], level.name]);
    }));
    this.cards.forEach((card, index) => {
      const { name, about, simulations } = levels[index], search = simulations ? ` · ${counted(simulations, "simulation")}` : "";
      const pips = element("small", "pips", element("span", "hidden", `Level ${index + 1} of ${levels.length}`));
      pips.style.setProperty("--share", `${(100 * (index + 1)) / levels.length}%`);
      card.append(face(index, levels.length), element("b", "", name), element("span", "beaten"), element("small", "", about, search), pips);
    });
    $("opponents").append(...this.cards);
    $("choose").addEventListener("click", () => {
      this.isOpen = !this.shown;
      this.show();
    });
  }

  // Whether all cards are shown.
  get shown() {
    return this.isOpen ?? !this.game().moves.length;
  }

  get beaten() {
    const stored = recall("beaten", []);
    return Array.isArray(stored) ? stored : [];
  }

  show() {
    const { players } = this.game(), { shown, beaten } = this;
    $("opponents").classList.toggle("closed", !shown);
    $("choose").setAttribute("aria-expanded", String(shown));
    this.cards.forEach((card, index) => {
      const { name } = this.levels[index];
      card.setAttribute("aria-pressed", String(players.includes(name)));
      card.querySelector(".beaten").textContent = beaten.includes(name) ? "✓ beaten" : "";
    });
  }

  // The players of a game against the level above the one that a person has just beaten; else null.
  get above() {
    const { players, people, result } = this.game(), [person] = people;
    const next = this.levels[this.levels.findIndex(({ name }) => name === players[1 - person]) + 1];
    return people.length === 1 && result?.winner === person && next ? players.map((player) => player && next.name) : null;
  }

  // Remember the level that a person has beaten without help.
  win({ players, people, helped }) {
    const level = players.find(Boolean);
    if (people.length === 1 && !helped && !this.beaten.includes(level)) remember("beaten", [...this.beaten, level]);
  }
}

// Throw some stones into the air.
export function celebrate(host) {
  for (let index = 0; index < DISCS; index++) {
    const disc = element("i", "confetti");
    for (const [name, value] of [["--x", `${(index * 61) % 97}%`], ["--drift", `${((index * 37) % 31) - 15}px`], ["--delay", `${300 + (index * 23) % 300}ms`]]) disc.style.setProperty(name, value);
    disc.addEventListener("animationend", () => disc.remove());
    host.append(disc);
  }
}
