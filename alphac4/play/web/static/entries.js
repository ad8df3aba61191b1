// Entries of the browser's history, with a game each, or what another mode shows. Their contents are also stored in the
// tab's session storage, because browsers store `history.state` and the address with a delay, for which a reload does not
// wait.

const KEY = `alphac4 ${location.pathname}`;
const MAX_ENTRIES = 50;

// Whether this is an entry; another version of the page may have stored something else.
const isEntry = (value) => typeof value?.hash === "string" && ["string", "undefined"].includes(typeof value.moves);

// The stored entries; the last one is shown.
function readAll() {
  try {
    const stored = JSON.parse(sessionStorage.getItem(KEY));
    return Array.isArray(stored) ? stored.filter(isEntry) : [];
  } catch {
    return []; // storage is disabled or invalid
  }
}

const makeId = () => String(performance.timeOrigin + performance.now());

export class Entries {
  constructor() {
    this.id = null; // of the entry that is shown
  }

  // Return the content of the entry that the browser shows, or null for a link. After a reload, the address may still
  // be that of the previous entry.
  find(isReload) {
    const all = readAll(), { state } = history, hash = location.hash.slice(1);
    const found = (isReload && all.at(-1)) || all.find(({ id }) => id === state?.id) || state;
    const isValid = isEntry(found) && (isReload || found.hash === hash);
    this.id = isValid ? found.id : null;
    return isValid ? found : null;
  }

  // Store the content of the entry that is shown: { hash, ... }; `hash` is the address's.
  save(content) {
    this.id ??= makeId();
    const entry = { id: this.id, ...content };
    try {
      sessionStorage.setItem(KEY, JSON.stringify([...readAll().filter(({ id }) => id !== this.id), entry].slice(-MAX_ENTRIES)));
    } catch {
      // Storage is disabled: `history.state` has the content too.
    }
    history.replaceState(entry, "", content.hash ? `#${content.hash}` : location.pathname);
  }

  // Begin a new entry, from which the browser's Back leads to the present one; its content is saved later.
  push(hash = "") {
    this.id = makeId();
    history.pushState({ id: this.id }, "", hash ? `#${hash}` : location.pathname);
  }
}
