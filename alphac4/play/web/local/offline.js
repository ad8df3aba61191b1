// A service worker that keeps the page's files in the browser, so that it opens without a network. The export writes a
// name for its version, and the list of files, before this code. With a network everything comes from there.

const OURS = `alphac4 ${registration.scope} `, CACHE = OURS + VERSION;

addEventListener("install", (event) => {
  const requests = FILES.map((name) => new Request(name, { cache: "no-cache" }));
  event.waitUntil(caches.open(CACHE).then((cache) => cache.addAll(requests)).then(() => skipWaiting()));
});

addEventListener("activate", (event) => {
  event.waitUntil((async () => {
    const others = (await caches.keys()).filter((name) => name.startsWith(OURS) && name !== CACHE);
    await Promise.all(others.map((name) => caches.delete(name)));
    await clients.claim();
  })());
});

addEventListener("fetch", (event) => {
  if (event.request.method !== "GET") return;
  event.respondWith(fetch(event.request).catch(async (error) => {
    const cache = await caches.open(CACHE);
    const kept = await cache.match(event.request, { ignoreSearch: true });
    if (!kept) throw error;
    return kept;
  }));
});
