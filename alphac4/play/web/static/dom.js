// Small helpers for the page's elements.

export const $ = (id) => document.getElementById(id);
export const COLOURS = ["Red", "Yellow"];
export const percent = (share) => `${Math.round(100 * share)} %`;
export const counted = (count, what) => `${count.toLocaleString("en")} ${what}${count === 1 ? "" : "s"}`;

export function svg(name, attributes, parent) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  parent?.append(node);
  return node;
}

// Not `disabled`, which would throw the focus away from a button that has just been pressed.
export const enable = (id, enabled) => $(id).setAttribute("aria-disabled", String(!enabled));
export const isEnabled = (id) => $(id).getAttribute("aria-disabled") !== "true" && !$(id).hidden;

export function onPress(id, action) {
  $(id).addEventListener("click", () => isEnabled(id) && action());
}

export function makeButton(text, action, attributes = {}) {
  const button = document.createElement("button");
  button.textContent = text;
  for (const [key, value] of Object.entries(attributes)) button.setAttribute(key, value);
  button.addEventListener("click", action);
  return button;
}

// Say something to those who cannot see it. The same words twice are two announcements.
export function announce(text) {
  const node = $("announcement");
  node.textContent = node.textContent === text ? `${text} ` : text;
}
