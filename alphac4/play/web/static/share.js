// Sharing of the position: its moves as text, a picture, and the page's link if others can open it.

import { $, announce } from "./dom.js";

const WIDTH = 1120; // pixels of the picture
const STYLES = ["r", "fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "stop-color", "opacity", "font", "text-anchor", "display"];

// Whether an address is only valid on this machine.
const isPrivate = (host) => host === "localhost" || host === "[::1]" || host.startsWith("127.") || host.endsWith(".localhost");

export class Share {
  // text() returns the moves; link: the address that others can open, "" if it is the browser's address.
  constructor({ board, text, link }) {
    Object.assign(this, { board, text, link });
    for (const [id, source] of [["copy-moves", "share-moves"], ["copy-link", "share-link"]])
      $(id).addEventListener("click", () => this.copy($(source)));
    $("save-picture").addEventListener("click", () => this.save());
    $("share").addEventListener("click", () => this.open());
  }

  get address() {
    if (this.link) return this.link + location.hash;
    return isPrivate(location.hostname) ? "" : location.href;
  }

  open() {
    $("share-moves").value = this.text();
    $("share-link").value = this.address;
    $("share-address").hidden = !this.address;
    $("share-note").textContent = "";
    $("share-dialog").showModal();
  }

  async copy(field) {
    field.select();
    const copied = await navigator.clipboard?.writeText(field.value).then(() => true, () => false);
    this.note(copied ? "Copied." : "Press Ctrl+C to copy the selected text.");
  }

  async save() {
    const link = Object.assign(document.createElement("a"), { href: await picture(this.board.svg), download: `connect-four-${this.text()}.png` });
    link.click();
    this.note("Picture saved.");
  }

  note(text) {
    $("share-note").textContent = text;
    announce(text);
  }
}

// Resolve to a drawing of the page as a PNG picture in a data: address.
async function picture(svg) {
  const copy = svg.cloneNode(true), [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
  const parts = [...svg.querySelectorAll("*")], copies = [...copy.querySelectorAll("*")];
  parts.forEach((part, index) => {
    const style = getComputedStyle(part);
    for (const name of STYLES) copies[index].style.setProperty(name, style.getPropertyValue(name));
  });
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", WIDTH);
  copy.setAttribute("height", (WIDTH * height) / width);
  const image = new Image();
  image.src = `data:image/svg+xml,${encodeURIComponent(new XMLSerializer().serializeToString(copy))}`;
  await image.decode();
  const canvas = Object.assign(document.createElement("canvas"), { width: WIDTH, height: Math.round((WIDTH * height) / width) });
  const pen = canvas.getContext("2d");
  pen.fillStyle = getComputedStyle(document.body).backgroundColor;
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.drawImage(image, 0, 0);
  return canvas.toDataURL();
}
