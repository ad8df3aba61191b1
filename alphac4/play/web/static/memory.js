// What the page remembers in this browser: who plays, how it looks, which puzzles are solved.

const KEY = "alphac4";

function read() {
  try {
    return JSON.parse(localStorage.getItem(KEY)) ?? {};
  } catch {
    return {}; // storage is forbidden, or holds something else
  }
}

export const recall = (name, otherwise) => read()[name] ?? otherwise;

export function remember(name, value) {
  try {
    localStorage.setItem(KEY, JSON.stringify({ ...read(), [name]: value }));
  } catch {
    // Then it lasts until the page is closed.
  }
}
