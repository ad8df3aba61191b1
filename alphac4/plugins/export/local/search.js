// Monte Carlo tree search guided by a network (PUCT) with proven outcomes, as in alphac4/mcts.
//
// Statistics are stored on edges, for the side to move in the node. A proven win in d plies is WIN - d, a loss d - WIN,
// a draw 0, so that larger is better.

import { describeBound } from "./dom.js";
import { Rules } from "./rules.js";

const WIN = 100, DRAW = 0, ILLEGAL = -128, UNPROVEN = 127;
const outcome = (proof) => Math.sign(proof);
const parentProof = (proof) => (proof === DRAW ? DRAW : proof > 0 ? 1 - proof : -proof - 1);

// A proven outcome as text. A search proves an upper bound on the distance, because it need not find the fastest win.
export function describeProof(proof) {
  if (proof === ILLEGAL || proof === UNPROVEN) return "";
  if (proof === DRAW) return "draws";
  const moves = Math.floor((WIN - Math.abs(proof) + 1) / 2); // those of the winner
  return describeBound(proof > 0 ? "wins" : "loses", moves);
}

class Node {
  constructor(board, position, parent = null, action = -1) {
    Object.assign(this, { position, parent, action, value: 0, draw: 0, evaluated: false });
    this.visits = new Int32Array(board.columns);
    this.sum = new Float32Array(board.columns); // sums of values
    this.prior = new Float32Array(board.columns);
    this.proof = new Int8Array(board.columns);
    this.children = Array(board.columns).fill(null);
    const { own, occupied } = position, landing = (occupied + board.bottom) & board.full;
    const wins = board.winning(own, occupied), threats = board.winning(own ^ occupied, occupied);
    for (let a = 0; a < board.columns; a++) {
      const cell = board.landing(occupied, a);
      this.proof[a] = UNPROVEN;
      if (!cell) this.proof[a] = ILLEGAL;
      else if (wins & cell) this.proof[a] = WIN - 1;
      else if ((occupied | cell) === board.full) this.proof[a] = DRAW;
      else if (threats & landing & ~cell || threats & (cell << 1n)) this.proof[a] = 2 - WIN; // the opponent wins next
    }
  }

  // The proven outcome for the side to move: that of the best action, once one wins or all are proven.
  proven() {
    let best = ILLEGAL, open = false;
    for (const proof of this.proof) {
      if (proof === UNPROVEN) open = true;
      else if (proof > best) best = proof;
    }
    return open && best <= DRAW ? UNPROVEN : best;
  }

  total() {
    return this.visits.reduce((sum, count) => sum + count, 0);
  }

  mean() {
    const proof = this.proven();
    if (proof !== UNPROVEN) return outcome(proof);
    return (this.value + this.sum.reduce((sum, value) => sum + value, 0)) / (1 + this.total());
  }

  // Add this node's value, for its side to move, to every edge on the way to the root.
  backup(value) {
    for (let node = this; node.parent; node = node.parent) {
      value = -value;
      node.parent.visits[node.action] += 1;
      node.parent.sum[node.action] += value;
    }
  }

  // Pass a proven outcome to the parents as long as it proves them.
  propagate() {
    for (let node = this; node.parent; node = node.parent) {
      const proof = node.proven();
      if (proof === UNPROVEN) return;
      node.parent.proof[node.action] = parentProof(proof);
    }
  }
}

export class Search {
  // evaluate(planes) resolves to { policy: logits, wdl: probabilities } for one position.
  constructor(setup, evaluate) {
    this.board = new Rules(setup);
    this.options = setup.search;
    this.evaluate = evaluate;
    this.moves = null;
  }

  // Make the position after these moves the root, and reuse its part of the tree.
  plant(moves) {
    const follows = this.moves && this.moves.every((column, ply) => moves[ply] === column);
    let node = follows ? this.root : null;
    for (const column of follows ? moves.slice(this.moves.length) : []) node = node?.children[column];
    this.root = node ?? new Node(this.board, this.board.at(moves));
    this.root.parent = null;
    this.moves = [...moves];
    this.draws = this.root.draw;
    this.drawCount = Number(this.root.evaluated);
  }

  // Add simulations until the root has that many more visits, is proven, or stopped() returns true.
  async run(simulations, stopped = () => false) {
    const target = this.root.total() + simulations;
    if (!this.root.evaluated && this.root.proven() === UNPROVEN) await this.expand(this.root);
    while (this.root.total() < target && this.root.proven() === UNPROVEN && !stopped()) {
      const leaf = this.simulate();
      if (leaf) await this.expand(leaf);
    }
  }

  async expand(leaf) {
    // The network evaluates the canonical orientation, so that mirror images have equal results.
    const image = this.board.mirrored(leaf.position);
    const { policy, wdl } = await this.evaluate(this.board.planes(image ?? leaf.position));
    if (image) policy.reverse();
    const legal = [...leaf.proof.keys()].filter((a) => leaf.proof[a] !== ILLEGAL);
    const highest = Math.max(...legal.map((a) => policy[a]));
    let total = 0;
    for (const a of legal) total += leaf.prior[a] = Math.exp((policy[a] - highest) / this.options.prior_temperature);
    for (const a of legal) leaf.prior[a] /= total;
    leaf.value = Math.fround(wdl[0] - wdl[2]);
    leaf.draw = wdl[1];
    leaf.evaluated = true;
    this.countDraw(wdl[1]);
    leaf.backup(leaf.value);
  }

  countDraw(share) {
    this.draws += share;
    this.drawCount += 1;
  }

  // Descend to a new node, which is returned for its evaluation, or to a proven outcome, which is backed up: null.
  simulate() {
    for (let node = this.root; ;) {
      const action = this.select(node), proof = node.proof[action];
      if (proof !== UNPROVEN) {
        node.visits[action] += 1;
        node.sum[action] += outcome(proof);
        this.countDraw(proof === DRAW ? 1 : 0);
        node.backup(outcome(proof));
        return null;
      }
      if (node.children[action]) {
        node = node.children[action];
        continue;
      }
      const leaf = new Node(this.board, this.board.play(node.position, action), node, action);
      node.children[action] = leaf;
      const result = leaf.proven();
      if (result === UNPROVEN) return leaf;
      leaf.value = outcome(result);
      leaf.draw = result === DRAW ? 1 : 0;
      this.countDraw(leaf.draw);
      leaf.backup(leaf.value);
      leaf.propagate();
      return null;
    }
  }

  // The highest Q + c(N) P sqrt(N + 1) / (1 + n) among the actions not proven to lose.
  select(node) {
    const { c_init: init, c_base: base, fpu_reduction: reduction, root_fpu_reduction: rootReduction } = this.options;
    let total = 0, sum = node.value, visitedPrior = 0;
    for (let a = 0; a < node.visits.length; a++) {
      if (!node.visits[a]) continue;
      total += node.visits[a];
      sum += node.sum[a];
      visitedPrior += node.prior[a];
    }
    const unvisited = sum / (1 + total) - (node === this.root ? rootReduction : reduction) * Math.sqrt(visitedPrior);
    const scale = (init + Math.log((1 + total + base) / base)) * Math.sqrt(total + 1);
    let best = -1, bestScore = -Infinity;
    for (let a = 0; a < node.visits.length; a++) {
      if (node.proof[a] < DRAW) continue; // ILLEGAL too
      const mean = node.visits[a] ? node.sum[a] / node.visits[a] : unvisited;
      const score = (node.proof[a] === DRAW ? 0 : mean) + (scale * node.prior[a]) / (1 + node.visits[a]);
      if (score > bestScore) [best, bestScore] = [a, score];
    }
    return best;
  }

  // The move to play: the fastest proven win, never a proven loss if avoidable, else most visits, then value; without
  // visits the highest prior.
  best(node = this.root) {
    const proof = node.proven();
    let best = -1, bestVisits = -1, bestValue = 0;
    for (let a = 0; a < node.visits.length; a++) {
      const edge = node.proof[a];
      if (edge === ILLEGAL || (proof === UNPROVEN ? edge < DRAW : edge !== proof)) continue;
      const visits = node.visits[a], untried = visits === 0 && proof === UNPROVEN;
      const value = untried ? node.prior[a] : node.sum[a] / Math.max(visits, 1);
      if (visits > bestVisits || (visits === bestVisits && value > bestValue)) [best, bestVisits, bestValue] = [a, visits, value];
    }
    return best;
  }

  variation() {
    const line = [this.best()];
    for (let node = this.root.children[line[0]]; node; ) {
      const proof = node.proven(), { visits } = node;
      const open = [...visits.keys()].filter((a) => (proof === UNPROVEN ? node.proof[a] >= DRAW && visits[a] > 0 : node.proof[a] === proof));
      if (!open.length) break;
      const action = open.reduce((most, a) => (visits[a] > visits[most] ? a : most));
      line.push(action);
      node = node.children[action];
    }
    return line;
  }

  // The columns of a node, in the form that the page shows.
  columns(node = this.root) {
    const total = Math.max(node.total(), 1);
    return [...node.proof.keys()].filter((a) => node.proof[a] !== ILLEGAL).map((a) => ({
      column: a,
      visits: node.visits[a],
      visit_share: node.visits[a] / total,
      prior: node.prior.some((prior) => prior > 0) ? node.prior[a] : null,
      value: node.visits[a] ? node.sum[a] / node.visits[a] : null,
      proof: describeProof(node.proof[a]),
    }));
  }

  // [win, draw, loss] for the side to move.
  wdl() {
    const proof = this.root.proven(), value = this.root.mean();
    const share = proof === UNPROVEN ? this.draws / Math.max(this.drawCount, 1) : Number(proof === DRAW);
    const draw = Math.min(Math.max(share, 0), 1 - Math.abs(value));
    return [(1 - draw + value) / 2, draw, (1 - draw - value) / 2];
  }

  // Sample a column by visits to the power of 1 / temperature; a proven position is played by its proof.
  draw(temperature, random = Math.random) {
    const { visits, proof } = this.root;
    const decided = this.root.proven() !== UNPROVEN || proof.some((p) => p > DRAW && p < UNPROVEN);
    const open = [...visits.keys()].filter((a) => visits[a] > 0 && proof[a] >= DRAW);
    if (temperature === 0 || decided || !open.length) return this.best();
    return sample(open, open.map((a) => Math.log(visits[a])), temperature, random);
  }
}

// Sample one of the items by the softmax of weights / temperature; the largest at temperature 0.
export function sample(items, weights, temperature, random = Math.random) {
  const highest = Math.max(...weights);
  if (temperature === 0) return items[weights.indexOf(highest)];
  const shares = weights.map((weight) => Math.exp((weight - highest) / temperature));
  let left = random() * shares.reduce((sum, share) => sum + share, 0);
  for (let i = 0; i < items.length; i++) if ((left -= shares[i]) < 0) return items[i];
  return items.at(-1);
}
