// Helpers for the page's elements, its stored settings, and the sound of a stone.

export const $ = (id) => document.getElementById(id);
export const COLOURS = ["Red", "Yellow"];
export const percent = (share) => percents([share])[0];
// A value in [-1, 1] as the expected points in per cent; a draw counts half.
export const chance = (value) => percent((1 + value) / 2);
export const counted = (count, what) => `${count.toLocaleString("en")} ${what}${count === 1 ? "" : "s"}`;
// A win or loss at the latest, such as "wins within 3 moves", but "wins in 1 move".
export const describeBound = (verb, moves) => `${verb} ${moves === 1 ? "in" : "within"} ${counted(moves, "move")}`;
export const eitherOf = (words) => new Intl.ListFormat("en-GB", { type: "disjunction" }).format(words); // "1, 2 or 3"

// Shares as whole per cent; the largest remainders are rounded up to reach the sum.
export function percents(shares) {
  const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);
  const parts = shares.map((share) => 100 * share), whole = parts.map(Math.floor), missing = Math.floor(sum(parts) + 0.5) - sum(whole);
  const order = [...parts.keys()].sort((a, b) => whole[a] - parts[a] - (whole[b] - parts[b]));
  for (const index of order.slice(0, missing)) whole[index] += 1;
  return whole.map((number) => `${number}\u00a0%`);
}

export function svg(name, attributes, parent) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  parent?.append(node);
  return node;
}

export function element(name, className, ...content) {
  const node = document.createElement(name);
  if (className) node.className = className;
  node.append(...content);
  return node;
}

// Not `disabled`, because a disabled button loses the focus.
export const enable = (id, enabled) => $(id).setAttribute("aria-disabled", String(!enabled));
export const isEnabled = (id) => $(id).getAttribute("aria-disabled") !== "true" && !$(id).hidden;

// Make one of some elements a stop of the Tab key, and skip the others.
export function stopAt(current, elements) {
  for (const each of elements) each.tabIndex = each === current ? 0 : -1;
}

// Write the text of a button beside its icon.
export const relabel = (id, text) => ($(id).querySelector("span").textContent = text);

export function onPress(id, action) {
  $(id).addEventListener("click", () => isEnabled(id) && action());
}

// Let a held key act once, even on a focused button. Arrow keys repeat, to step through a game.
export function ignoreHeldKeys() {
  addEventListener("keydown", (event) => {
    if (!event.repeat || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key !== "Enter" && event.key.length > 1) return;
    event.preventDefault();
    event.stopPropagation();
  }, true);
}

export const isDialogOpen = () => Boolean(document.querySelector("dialog[open]"));

// Let keys click buttons that are visible, by their ids.
export function clickByKeys(ids) {
  document.addEventListener("keydown", (event) => {
    const id = ids[event.key];
    if (!id || event.defaultPrevented || isDialogOpen() || event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "SELECT") return;
    if (!$(id).offsetParent) return; // hidden
    event.preventDefault();
    $(id).click();
  });
}

export function makeButton(text, action, attributes = {}) {
  const button = element("button", "", text);
  for (const [key, value] of Object.entries(attributes)) button.setAttribute(key, value);
  button.addEventListener("click", action);
  return button;
}

// Call enter() when the mouse comes over an element, and leave() when it has left; touching does neither.
export function onHover(node, enter, leave) {
  node.addEventListener("pointerenter", ({ pointerType }) => pointerType === "mouse" && enter());
  node.addEventListener("pointerleave", ({ pointerType }) => pointerType === "mouse" && leave());
  return node;
}

// Write the line above the board; slightly too long texts are smaller, so that the board does not move.
export function showStatus(text) {
  const words = element("span", "", text), line = $("status");
  line.replaceChildren(words);
  words.style.whiteSpace = "nowrap";
  const fits = line.clientWidth / words.offsetWidth;
  if (fits < 0.75) words.style.whiteSpace = "";
  else if (fits < 1) words.style.fontSize = `${0.99 * fits}em`;
}

// Announce a text to screen readers; the same text twice is two announcements.
export function announce(text) {
  const node = $("announcement");
  node.textContent = node.textContent === text ? `${text} ` : text;
}

const KEY = "alphac4";

function readMemory() {
  try {
    return JSON.parse(localStorage.getItem(KEY)) ?? {};
  } catch {
    return {}; // storage is disabled or invalid
  }
}

export const recall = (name, fallback) => readMemory()[name] ?? fallback;

export function remember(name, value) {
  try {
    localStorage.setItem(KEY, JSON.stringify({ ...readMemory(), [name]: value }));
  } catch {
    // Storage is disabled: nothing is kept after the page is closed.
  }
}

const FALL_SECONDS = 0.3;

let speaker = null;

// Play the sound of a landing stone.
export function playSound() {
  speaker ??= new AudioContext();
  if (speaker.state === "suspended") speaker.resume(); // created before the first click or key
  const falls = !matchMedia("(prefers-reduced-motion: reduce)").matches;
  const tone = speaker.createOscillator(), volume = speaker.createGain(), now = speaker.currentTime + (falls ? FALL_SECONDS : 0);
  tone.type = "triangle";
  tone.frequency.setValueAtTime(220, now);
  tone.frequency.exponentialRampToValueAtTime(90, now + 0.08);
  volume.gain.setValueAtTime(0.25, now);
  volume.gain.exponentialRampToValueAtTime(0.001, now + 0.12);
  tone.connect(volume).connect(speaker.destination);
  tone.start(now);
  tone.stop(now + 0.12);
}
