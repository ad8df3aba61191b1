// The game so far: the chart of chances, and the list of moves with what a review says of them.

import { $, COLOURS, makeButton, percent, svg } from "./dom.js";

const LEFT = 52, RIGHT = 400, TOP = 8, HEIGHT = 84, STRIP = 104;

export class Record {
  // onGo(ply) shows the position after so many moves.
  constructor(game, onGo) {
    Object.assign(this, { game, onGo });
    this.values = new Map(); // move string -> value for red
    $("chart").addEventListener("click", (event) => {
      const { left, width } = $("chart").getBoundingClientRect();
      const ply = Math.round((this.plies * (((event.clientX - left) / width) * 420 - LEFT)) / (RIGHT - LEFT));
      onGo(Math.max(0, Math.min(ply, game.moves.length)));
    });
  }

  get plies() { return Math.max(this.game.moves.length, 10); }

  // After so many moves: what is known, or undefined. The end of a game needs no opinion.
  value(ply) {
    const moves = this.game.moves.slice(0, ply), result = this.game.rules.result(moves);
    if (result) return result.winner === null ? 0 : 1 - 2 * result.winner;
    return this.values.get(this.game.rules.write(moves));
  }

  draw(reviewed = []) {
    const { game } = this;
    $("moves").replaceChildren(...game.moves.map((column, index) => {
      const item = document.createElement("li"), told = reviewed[index], name = game.rules.name(column);
      item.append(makeButton(name + (told?.mark ?? ""), () => this.onGo(index + 1), {
        "aria-label": `Move ${index + 1}: ${COLOURS[index % 2]} ${name}${told ? `, ${told.comment}` : ""}`,
        "aria-current": String(index + 1 === game.ply),
        class: told?.grade ?? "",
      }));
      return item;
    }));
    this.drawChart(reviewed);
  }

  drawChart(reviewed) {
    const chart = $("chart"), x = (ply) => LEFT + ((RIGHT - LEFT) * ply) / this.plies, y = (value) => TOP + (HEIGHT * (1 - value)) / 2;
    const text = (words, at) => (svg("text", { x: 0, y: at }, chart).textContent = words);
    chart.replaceChildren();
    for (const [words, value] of [["Red", 1], ["even", 0], ["Yellow", -1]]) {
      svg("line", { class: "axis", x1: LEFT, x2: RIGHT, y1: y(value), y2: y(value) }, chart);
      text(words, y(value) + 4);
    }
    const points = [...Array(this.game.moves.length + 1).keys()].map((ply) => [ply, this.value(ply)]).filter(([, value]) => value !== undefined);
    const known = reviewed.length > 0 || points.some(([ply]) => ply < this.game.moves.length || !this.game.rules.result(this.game.moves)); // the end alone says nothing
    $("chart").toggleAttribute("hidden", !known);
    $("record-note").hidden = known;
    $("legend").hidden = !reviewed.length;
    svg("path", { class: "curve", d: points.map(([ply, value], i) => `${i ? "L" : "M"}${x(ply).toFixed(1)} ${y(value).toFixed(1)}`).join("") }, chart);
    for (const [ply, value] of points) svg("circle", { class: "dot", r: ply === this.game.ply ? 5 : 2.5, cx: x(ply), cy: y(value) }, chart);
    svg("line", { class: "cursor", x1: x(this.game.ply), x2: x(this.game.ply), y1: TOP, y2: STRIP + 16 }, chart);
    if (reviewed.length) text("exact", STRIP + 12);
    reviewed.forEach((move, index) => {
      if (!move.played) return;
      const sign = Math.sign(move.played.score) * (move.side ? -1 : 1), width = (RIGHT - LEFT) / this.plies;
      svg("rect", { class: `outcome ${["yellow", "draw", "red"][sign + 1]}`, x: x(index + 1) - width / 2, y: STRIP + (sign ? 0 : 5), width, height: sign ? 16 : 6 }, chart);
      if (move.slips) svg("path", { class: "flag", d: `M${x(index + 1) - 5} ${STRIP + 27}h10l-5 -9z` }, chart);
    });
    const chances = points.map(([ply, value]) => `${ply}: ${percent((1 + value) / 2)}`).join(", ");
    chart.setAttribute("aria-label", `Chances of Red after each move${chances ? `. ${chances}` : ": none known yet"}`);
  }
}
