// Notes when what is measured is painted. It runs in the page before the page's own scripts.
(() => {
  const seen = (globalThis.watched = { lcp: 0, cls: 0, blocked: 0, long: [], frames: 0, moves: 0, reports: 0 });
  const observe = (type, note) => new PerformanceObserver((list) => list.getEntries().forEach(note)).observe({ type, buffered: true });
  observe("largest-contentful-paint", (entry) => (seen.lcp = entry.startTime));
  observe("layout-shift", (entry) => entry.hadRecentInput || (seen.cls += entry.value));
  observe("longtask", (entry) => {
    seen.long.push(entry.duration);
    seen.blocked += entry.duration - 50;
  });
  addEventListener("securitypolicyviolation", () => seen.reports++);

  // The end of the frame in which what has been done by now is drawn.
  const painted = () => new Promise((done) => requestAnimationFrame(() => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => done(performance.now());
    port2.postMessage(0);
  }));
  // When a condition holds for what is painted.
  seen.when = (holds) => new Promise((done) => {
    const look = async () => {
      if (!holds()) return;
      observer.disconnect();
      done(await painted());
    };
    const observer = new MutationObserver(look);
    observer.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
    look();
  });
  seen.rows = seen.when(() => document.querySelector(".row:not(.absent) a"));

  // How long the newest key took to show.
  const cursor = () => document.querySelector(".row.at a")?.href;
  addEventListener("keydown", (event) => {
    const before = cursor();
    seen.key = painted().then((now) => {
      if (cursor() !== before) seen.moves++;
      return now - event.timeStamp;
    });
  }, true);

  // How long it took until the rows that the hub picked by the newest filter showed.
  let typed = 0;
  addEventListener("input", (event) => {
    typed = event.timeStamp;
    const filter = event.target.value;
    seen.picked = new Promise((done) => (seen.answered = (of, ok) => {
      if (of === filter) painted().then((now) => done(ok ? now - typed : -1));
    }));
  }, true);
  const ask = globalThis.fetch;
  globalThis.fetch = async (address, init) => {
    const response = await ask(address, init);
    const url = new URL(address, location.href);
    if (!/^\/v1\/[a-z]+$/.test(url.pathname) || url.searchParams.has("offset") || url.pathname === "/v1/stream") return response;
    const answered = (ok) => seen.answered?.(url.searchParams.get("filter") ?? "", ok);
    if (!response.ok) answered(false);
    const json = response.json.bind(response);
    response.json = async () => {
      const body = await json();
      queueMicrotask(() => answered(true)); // the page takes it first
      return body;
    };
    return response;
  };

  // When the page asked for what, and had it.
  seen.steps = () => ["navigation", "resource", "paint"].flatMap((type) => performance.getEntriesByType(type))
    .map((entry) => entry.name.replace(location.origin, "") + " " +
      [entry.startTime, entry.responseStart ?? 0, entry.responseEnd ?? 0].map(Math.round)).join("; ");

  // How often the table changes.
  addEventListener("DOMContentLoaded", () => new MutationObserver(() => seen.frames++)
    .observe(document.body, { subtree: true, childList: true, attributes: true, characterData: true }));
})();
