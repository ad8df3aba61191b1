// Analysis of the position on the board: the proven result, then the network's evaluation.

import { $, COLOURS, chance, counted, element, makeButton, onHover, percents } from "./dom.js";
import { drawTree, mostVisited } from "./tree.js";

function bar(share, text, kind = "") {
  if (share === null) return element("td", "", "–");
  const fill = element("span", `bar ${kind}`), cell = element("td", "", element("div", "share", fill, text));
  fill.style.setProperty("--share", share);
  return cell;
}

export class Analysis {
  // onFound(moves, value) receives the search's value in [-1, 1] for red; onPlay(columns) plays the moves of a line,
  // and onPreview(columns) shows them until onPreview([]).
  constructor({ rules, setup, engine, solver }, { onFound, onPlay, onPreview }) {
    Object.assign(this, { rules, setup, engine, solver, onFound, onPlay, onPreview });
    this.found = null; // latest analysis of the position shown
    this.searched = null; // position whose tree can be shown
    $("tree").addEventListener("toggle", () => $("tree").open && this.showTree([]));
  }

  get live() { return $("analyse").checked; }

  // Search the game's position while it is shown, if the analysis is on; `hidden` during an exercise.
  async follow(game, hidden) {
    this.stop();
    this.show(game, hidden);
    if ($("tree").open) this.showTree([]);
    if (!this.live || hidden || game.result) return;
    const position = game.text, controller = (this.running = new AbortController());
    this.solver.findProof(position);
    for await (const found of this.engine.analyze(position, this.setup.simulations, controller.signal)) {
      if (this.running !== controller) return;
      this.found = found;
      if (found.finished) for (const { column, proof } of found.columns) this.solver.learnOutcome(position, column, proof);
      if (found.finished) this.searched = position;
      this.onFound(position, position.length % 2 ? -found.value : found.value);
      if (found.finished && $("tree").open) await this.showTree([]);
    }
  }

  // Stop the search, and discard its results.
  stop() {
    this.running?.abort();
    this.running = this.found = this.searched = null;
  }

  // Labels above the columns: chances, such as "62 %", or proven outcomes; "win ≤5" is a win within 5 moves.
  get labels() {
    const { columns, move } = this.found ?? { columns: [] };
    return new Map(columns.filter(({ value, proof }) => proof || value !== null).map(({ column, value, proof }) => {
      const [verb, , number] = proof.split(" "), within = number === "1" ? "1" : `≤${number}`;
      const short = { wins: `win ${within}`, loses: `loss ${within}`, draws: "draw" }[verb];
      const tone = { wins: "win", loses: "loss", draws: "draw" }[verb] ?? (value > 0.2 ? "win" : value < -0.2 ? "loss" : "draw");
      return [column, { text: short ?? chance(value), spoken: `the network: ${proof || chance(value)}`, tone, strong: column === move, opinion: !proof }];
    }));
  }

  // The proven best move, otherwise the searched one, null before the first result.
  get suggested() {
    return this.found && (this.solver.move(this.found.moves) ?? this.found.move);
  }

  show(game, hidden) {
    const { result } = game, live = this.live && !hidden && !result, proven = live ? this.solver.provenResult(game.text) : null;
    $("bar").classList.toggle("off", !this.live || hidden); // keeps its space, so that the board does not move
    $("analysis").hidden = !live;
    $("verdict").hidden = !proven;
    if (proven) $("verdict").replaceChildren(element("b", "", `${proven.text}`), ` (${proven.source})`);
    const winner = result ? result.winner : proven?.winner;
    if (winner !== undefined) this.showBar(winner === null ? 0 : 1 - 2 * winner);
    else if (this.found) this.showBar(this.found.moves.length % 2 ? -this.found.value : this.found.value);
    else this.showBar(null);
    $("viewpoint").replaceChildren(...(live ? ["for ", element("span", `dot ${COLOURS[game.side].toLowerCase()}`), ` ${COLOURS[game.side]}`] : []));
    $("outlook").textContent = !this.live || live && this.found ? "" : result ? "The game is over." : hidden ? "Hidden while you look for the best move." : "Thinking …";
    $("analysis").classList.toggle("waiting", !this.found); // it still shows another position
    if (live && this.found) this.showFound(this.found);
  }

  // value: in [-1, 1] for red, null before it is known. The number is for the side that leads, which the bar's height shows.
  showBar(value) {
    $("bar").style.setProperty("--red-share", `${50 * (1 + value)}%`);
    $("bar").classList.toggle("yellow-leads", value < 0);
    $("bar-text").textContent = value === null ? "" : chance(Math.abs(value)).replace("\u00a0", ""); // the bar is narrow
    $("bar").setAttribute("aria-label", `Chances of Red: ${chance(value)}`);
  }

  showFound(found) {
    const [win, draw, loss] = percents([found.win, found.draw, found.loss]), { columns } = found;
    const visits = percents(columns.map((item) => item.visit_share)), priors = percents(columns.map((item) => item.prior ?? 0));
    $("outlook").textContent = `The network's opinion: ${chance(found.value)} (wins ${win}, draws ${draw}, loses ${loss})`;
    this.showLine(found.moves, found.pv.slice(0, 10));
    $("effort").textContent = `${counted(found.simulations, "simulation")}, ${found.seconds.toFixed(1)} s`;
    $("columns").tBodies[0].replaceChildren(...columns.map((item, index) => {
      const row = document.createElement("tr");
      row.className = item.column === found.move ? "best" : "";
      row.insertCell().textContent = this.rules.name(item.column);
      row.append(bar(item.visit_share, visits[index]), bar(item.prior, priors[index], "prior"));
      row.insertCell().textContent = item.value === null ? "–" : chance(item.value);
      row.insertCell().textContent = item.proof;
      return row;
    }));
  }

  // Keep the buttons of unchanged moves, because replacing a button under the mouse or the focus would lose a click.
  showLine(moves, line) {
    const before = this.line?.moves === moves ? this.line.columns : [], box = $("variation");
    const changed = line.findIndex((column, index) => column !== before[index]);
    const kept = changed < 0 ? line.length : changed;
    if (!box.firstChild) box.append("Its best line: ");
    for (const button of [...box.querySelectorAll("button")].slice(kept)) button.remove();
    if (kept < before.length) queueMicrotask(() => this.onPreview([])); // the mouse does not leave a removed button
    box.append(...line.slice(kept).map((column, index) => {
      const moves = line.slice(0, kept + index + 1), name = this.rules.name(column);
      const button = makeButton(name, () => this.onPlay(moves), { "aria-label": `Play the line up to ${name}, stone ${moves.length} of it` });
      return onHover(button, () => this.onPreview(moves), () => this.onPreview([]));
    }));
    this.line = { moves, columns: line };
  }

  async showTree(path) {
    const showing = (this.showing = {}), isWanted = () => this.showing === showing; // false after a later call
    if (!this.searched) {
      for (const id of ["picture", "path", "nodes"]) $(id).replaceChildren();
      $("tree-note").textContent = "The tree is shown when the analysis has finished.";
      return;
    }
    try {
      const position = this.searched, node = await this.engine.node(position, path);
      // Draw the picture first, because it requests more nodes; until then, path and picture belong to the old node.
      await drawTree($("picture"), {
        rules: this.rules, moves: this.rules.read(position), path, node,
        ask: (below) => this.engine.node(position, below), onGo: (below) => this.showTree(below), isWanted,
      });
      if (!isWanted()) return;
      $("tree-note").textContent = `Moves of ${COLOURS[(position.length + path.length) % 2]}, with chances for this side:`;
      const visited = mostVisited(node), total = visited.reduce((sum, item) => sum + item.visits, 0);
      const visits = percents(visited.map((item) => item.visits / total)), priors = percents(visited.map((item) => item.prior ?? 0));
      $("nodes").replaceChildren(...visited.map((item, index) => {
        const prior = item.prior === null ? "" : `, prior ${priors[index]}`, proof = item.proof && `, ${item.proof}`;
        const text = `${counted(item.visits, "visit")} (${visits[index]}), chance ${chance(item.value)}${prior}${proof}`;
        return element("li", "", makeButton(`${this.rules.name(item.column)}: ${text}`, () => this.showTree([...path, item.column])));
      }));
      $("path").replaceChildren(...["position", ...path.map((column) => this.rules.name(column))].map((label, index) =>
        makeButton(label, () => this.showTree(path.slice(0, index)))));
    } catch (error) {
      if (!isWanted()) return;
      if (path.length) return this.showTree(path.slice(0, -1));
      $("tree-note").textContent = error.message;
    }
  }
}
