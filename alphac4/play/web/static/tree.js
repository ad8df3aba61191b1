// Picture of the search tree: a position, its most visited moves, and the replies to them.

import { COLOURS, chance, svg } from "./dom.js";

const WIDTH = 112, HEIGHT = 104, GAP = 10, DOWN = 46, CELL = 10;
const BRANCHES = [[3, 2], [2, 2], [3, 1], [2, 1]]; // maximum number by depth, from the widest to the narrowest tree
const MIN_SCALE = 0.85; // smallest scale at which the text is readable

export const mostVisited = (node) => node.columns.filter((item) => item.visits).sort((a, b) => b.visits - a.visits);

// Resolve to the branches below a node: { item, path, branches } for each move, most visited first.
async function branch(ask, node, path, [most, ...rest]) {
  return Promise.all(mostVisited(node).slice(0, most).map(async (item) => {
    const below = [...path, item.column];
    const child = rest.length && !item.proof ? await ask(below).catch(() => null) : null; // null for a node without moves
    return { item, path: below, branches: child ? await branch(ask, child, below, rest) : [] };
  }));
}

const cut = ({ branches, ...node }, [most, ...rest]) => ({ ...node, branches: branches.slice(0, most).map((below) => cut(below, rest)) });
const depth = ({ branches }) => 1 + Math.max(0, ...branches.map(depth));
const leaves = ({ branches }) => Math.max(1, branches.reduce((sum, below) => sum + leaves(below), 0));

// ask(path) resolves to a node of the tree; onGo(path) is called for a click on a node. Nothing is drawn unless
// isWanted().
export async function drawTree(picture, { rules, moves, path, node, ask, onGo, isWanted }) {
  const whole = { item: null, path, branches: await branch(ask, node, path, BRANCHES[0]) };
  if (!isWanted()) return;
  const room = picture.closest("details").clientWidth / (MIN_SCALE * (WIDTH + GAP)), cuts = BRANCHES.map((most) => cut(whole, most));
  const root = cuts.find((each) => leaves(each) <= room) ?? cuts.at(-1);
  const width = leaves(root) * (WIDTH + GAP), height = depth(root) * (HEIGHT + DOWN) - DOWN;
  picture.replaceChildren();
  picture.setAttribute("viewBox", `-1 -1 ${width + 2} ${height + 2}`);
  picture.setAttribute("width", width + 2);
  picture.style.minWidth = `${MIN_SCALE * width}px`;
  const edges = svg("g", { class: "edges" }, picture);
  draw(root, 0, width, 0);

  function draw(here, from, space, level) {
    const x = from + space / 2, y = level * (HEIGHT + DOWN);
    const visits = here.branches.reduce((sum, below) => sum + below.item.visits, 0);
    for (const below of here.branches) {
      const room = (space * leaves(below)) / leaves(here);
      const to = draw(below, from, room, level + 1), share = below.item.visits / visits;
      const middle = y + HEIGHT + DOWN / 2;
      svg("path", { d: `M${x} ${y + HEIGHT}C${x} ${middle} ${to} ${middle} ${to} ${y + HEIGHT + DOWN}`, "stroke-width": 1 + 9 * share }, edges);
      from += room;
    }
    card(here, x - WIDTH / 2, y);
    return x;
  }

  function card({ item, path: below }, x, y) {
    const group = svg("g", { class: "node", transform: `translate(${x} ${y})` }, picture);
    svg("rect", { class: "paper", width: WIDTH, height: HEIGHT, rx: 8 }, group);
    const shown = [...moves, ...below], left = (WIDTH - rules.columns * CELL) / 2;
    svg("rect", { class: "frame", x: left - 2, y: 6, width: rules.columns * CELL + 4, height: rules.rows * CELL + 4, rx: 4 }, group);
    rules.grid(shown).forEach((stack, column) => {
      for (let row = 0; row < rules.rows; row++) {
        const kind = ["red", "yellow"][stack[row]] ?? "hole";
        svg("circle", { class: kind, r: 4, cx: left + (column + 0.5) * CELL, cy: 8 + (rules.rows - row - 0.5) * CELL }, group);
      }
    });
    const mover = COLOURS[(shown.length + 1) % 2], root = path.length ? `after ${rules.name(path.at(-1))}` : "the position";
    const texts = item ? [`${rules.name(item.column)} · ${item.visits.toLocaleString("en")}`, item.proof.replace(/ moves?$/, "") || `${chance(item.value)} for ${mover}`] : [root, ""];
    texts.forEach((text, line) => (svg("text", { x: WIDTH / 2, y: 84 + 14 * line }, group).textContent = text));
    group.addEventListener("click", () => onGo(below));
  }
}
