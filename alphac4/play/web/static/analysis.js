// What the network thinks: live bars, the best line, the search tree.

import { $, COLOURS, counted, makeButton, percent } from "./dom.js";
import { drawTree, mostVisited } from "./tree.js";

const signed = (value) => (value === null ? "–" : (value >= 0 ? "+" : "−") + Math.abs(value).toFixed(2));

function bar(share, kind = "") {
  const cell = document.createElement("td"), both = document.createElement("div"), fill = document.createElement("span");
  both.className = "share";
  fill.className = `bar ${kind}`;
  fill.style.setProperty("--share", share);
  both.append(fill, percent(share));
  cell.append(both);
  return cell;
}

export class Analysis {
  // onValue(moves, value) tells what the search thinks, in [-1, 1] for red.
  constructor({ rules, setup, engine }, onValue) {
    Object.assign(this, { rules, setup, engine, onValue });
    this.searched = null; // the position whose tree can be shown
    $("tree").addEventListener("toggle", () => $("tree").open && this.showTree([]));
  }

  // Search the game's position while it is shown, if that is wanted; say so where it is not.
  async follow(game) {
    const began = !this.running;
    this.running?.abort();
    this.running = this.searched = null;
    const wanted = $("analyse").checked, { result } = game;
    $("analysis").hidden = !wanted || Boolean(result);
    if (result) {
      this.showChances([result.winner === 0, result.winner === null, result.winner === 1].map(Number));
      $("outlook").textContent = "The game is over.";
    } else if (!wanted) {
      this.showChances([0, 0, 0]);
      $("outlook").textContent = "Switch “live” on to see the network's chances and plans while you play.";
    } else if (began) {
      $("outlook").textContent = "Thinking …";
    }
    if ($("tree").open) this.showTree([]);
    $("certified").hidden = true;
    if (!wanted || result) return;
    const asked = game.text, controller = (this.running = new AbortController());
    this.tellCertified(asked, controller).catch(() => {}); // a lost server is told by the analysis
    for await (const found of this.engine.analyze(asked, this.setup.simulations, controller.signal)) {
      if (this.running !== controller) return;
      this.onValue(asked, asked.length % 2 ? -found.value : found.value);
      this.show(found);
      if (found.finished) {
        this.searched = asked;
        if ($("tree").open) await this.showTree([]);
      }
    }
  }

  // Whether the position is one of a certificate's, which proves that red wins it. The exported page has none.
  async tellCertified(moves, controller) {
    const { plies } = (await this.engine.certificate?.(moves, controller.signal)) ?? { plies: null };
    if (plies === null || this.running !== controller) return;
    $("certified").firstElementChild.textContent = `Proven win for Red, at most ${counted(Math.ceil(plies / 2), "more move")}`;
    $("certified").hidden = false;
  }

  show(found) {
    const side = found.moves.length % 2, chances = [found.win, found.draw, found.loss];
    this.showChances(side ? chances.reverse() : chances);
    $("outlook").textContent = `${COLOURS[side]}: win ${percent(found.win)}, draw ${percent(found.draw)}, loss ${percent(found.loss)}`;
    const line = found.variation.map((column) => this.rules.name(column)).join(" ");
    $("variation").textContent = `Best line ${line} · ${counted(found.simulations, "simulation")}, ${found.seconds.toFixed(1)} s`;
    $("columns").tBodies[0].replaceChildren(...found.columns.map((item) => {
      const row = document.createElement("tr");
      row.className = item.column === found.best ? "best" : "";
      row.insertCell().textContent = this.rules.name(item.column);
      row.append(bar(item.share), bar(item.prior, "prior"));
      row.insertCell().textContent = signed(item.value);
      row.insertCell().textContent = item.proof;
      return row;
    }));
  }

  // The bar: red's share, draws, yellow's share; none while nothing is known.
  showChances(shares) {
    $("wdl").hidden = !shares.some(Boolean);
    shares.forEach((share, index) => ($("wdl").children[index].style.width = `${100 * share}%`));
  }

  async showTree(path) {
    const showing = (this.showing = {}), isWanted = () => this.showing === showing; // a later call takes over
    if (!this.searched) {
      for (const id of ["picture", "path", "nodes"]) $(id).replaceChildren();
      $("tree-note").textContent = "The tree is shown when the analysis has finished.";
      return;
    }
    $("tree-note").textContent = "";
    try {
      const node = await this.engine.node(this.searched, path);
      if (!isWanted()) return;
      const visited = mostVisited(node), asked = this.searched;
      const total = visited.reduce((sum, item) => sum + item.visits, 0);
      $("nodes").replaceChildren(...visited.map((item) => {
        const entry = document.createElement("li");
        const told = `${counted(item.visits, "visit")} (${percent(item.visits / total)}), value ${signed(item.value)}, prior ${percent(item.prior)}`;
        entry.append(makeButton(`${this.rules.name(item.column)}: ${told} ${item.proof}`, () => this.showTree([...path, item.column])));
        return entry;
      }));
      $("path").replaceChildren(...["position", ...path.map((column) => this.rules.name(column))].map((label, index) =>
        makeButton(label, () => this.showTree(path.slice(0, index)))));
      await drawTree($("picture"), {
        rules: this.rules, moves: this.rules.read(asked), path, node,
        ask: (below) => this.engine.node(asked, below), onGo: (below) => this.showTree(below), isWanted,
      });
    } catch (error) {
      if (!isWanted()) return;
      if (path.length) return this.showTree(path.slice(0, -1));
      $("tree-note").textContent = error.message;
    }
  }
}
