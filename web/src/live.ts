// One stream of changes from the hub, for as long as somebody looks.

import { signal } from "@preact/signals";
import { Refusal, address, awaySince, get, loggedOut, sent } from "./api";
import { parsed } from "./events";
import type { ChangeKind, Summary } from "./v1";

/** The fleet in figures, as newest heard. */
export const summary = signal<Summary | undefined>(undefined);

/** When the hub was heard last, in milliseconds. */
export const heard = signal(0);

/** Set once the hub has another page than this one: it was upgraded since. */
export const newer = signal(false);

/** Look whether the hub's page loads what this one has loaded. */
async function compare(): Promise<void> {
  const own = [...document.querySelectorAll("head script[src], head link[rel=stylesheet]")].map((one) => one.getAttribute("src") ?? one.getAttribute("href")!);
  try {
    const text = await (await sent("/", { cache: "no-cache" })).text();
    newer.value = !own.every((name) => text.includes(name));
  } catch {
    // It is asked again after the next break.
  }
}

export interface Changes<T = unknown> {
  items?: T[];
  gone?: string[];
}

export interface Subscription {
  kinds: ChangeKind[];
  /** Only these, by name; undefined: all that the filter picks. */
  items?: string[];
  filter?: string;
  /** Since of the list that is shown: no change of it is missed. */
  since?: string;
  changed(kind: ChangeKind, changes: Changes): void;
  /** Changes were missed: what is shown has to be read anew. */
  reset(): void;
}

// The hub shows every 15 s that it lives.
const silence = 40_000;
const longest = 15_000;

let wanted: Subscription | undefined;
let open: AbortController | undefined;
let timer: number | undefined;
let tries = 0;

/** Follow what is shown now, in place of what was shown before. It may be said again as often as the view moves. */
export function follow(subscription: Subscription | undefined): void {
  wanted = subscription;
  restart(250);
}

function restart(after: number): void {
  clearTimeout(timer);
  timer = setTimeout(run, after) as unknown as number;
}

async function run(): Promise<void> {
  open?.abort();
  if (document.hidden || loggedOut.value) return;
  const controller = (open = new AbortController());
  const subscription = wanted;
  try {
    if (tries > 0) get<Summary>("/v1/summary").then((now) => (summary.value = now), () => undefined);
    const to = address("/v1/stream", {
      kind: ["summary", ...(subscription?.kinds ?? [])], item: subscription?.items, filter: subscription?.filter, since: subscription?.since,
    });
    await listen(to, controller, (event, data, id) => {
      if (tries > 0) void compare();
      tries = 0;
      heard.value = Date.now();
      if (id && subscription) subscription.since = id;
      if (data) take(event, data, subscription);
    });
  } catch (problem) {
    if (controller.signal.aborted && controller.signal.reason !== silent) return;
    if (problem instanceof Refusal && problem.status === 400) return; // a filter that is being typed
    if (problem instanceof Refusal && problem.status === 403) { // the hub is not away: somebody may not see it, for now
      if (controller === open) restart(30_000);
      return;
    }
  }
  if (controller !== open || loggedOut.value) return;
  if (Date.now() - heard.value > silence / 4) awaySince.value ??= Date.now();
  // All who look come back after a hub was away: not at once.
  tries++;
  restart((0.5 + Math.random()) * Math.min(longest, 500 * 2 ** Math.min(tries, 6)));
}

const silent = new DOMException("nothing was heard", "TimeoutError");

/** Server-sent events from a path, until the signal ends them or the hub does. It rejects as sent() does, and when nothing is heard for long. */
export async function listen(to: string, controller: AbortController, on: (event: string, data: string, id: string) => void): Promise<void> {
  const response = await sent(to, { headers: { Accept: "text/event-stream" }, cache: "no-store" }, controller.signal, 0);
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const deadline = setTimeout(() => controller.abort(silent), silence);
    const { value, done } = await reader.read().finally(() => clearTimeout(deadline));
    if (done) return;
    awaySince.value = undefined;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop()!;
    if (blocks.length === 0) on("", "", ""); // a part of one: the hub lives
    for (const block of blocks) {
      const { event, data, id } = parsed(block);
      on(event, data, id);
    }
  }
}

function take(event: string, data: string, to: Subscription | undefined): void {
  const body: unknown = JSON.parse(data);
  if (event === "summary") summary.value = body as Summary;
  else if (event === "reset") to?.reset();
  else to?.changed(event as ChangeKind, body as Changes);
}

// A tab that nobody sees holds no connection: browsers have six for each hub without HTTP/2.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) open?.abort();
  else if (!loggedOut.value) restart(0);
});

/** Begin to hear the hub: the stream tells what changes, not how it was before. */
export function begin(): void {
  restart(0);
  get<Summary>("/v1/summary").then((now) => (summary.value = now), () => undefined);
}
