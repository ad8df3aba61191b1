// Counts the stones in the middle column of the game.

import { $, COLOURS } from "../dom.js";

export const create = ({ game, rules }) => ({
  show() {
    const stones = rules.grid(game.shown)[Math.floor(rules.columns / 2)];
    const counts = COLOURS.map((colour, side) => `${colour} ${stones.filter((owner) => owner === side).length}`);
    $("middle").textContent = `In the middle column: ${counts.join(", ")}.`;
  },
});
