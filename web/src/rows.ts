// The rows of a list, of which only those near the window are here: the hub sorts and picks.

import { batch, signal } from "@preact/signals";
import { Refusal, look, type Query } from "./api";
import { follow, summary } from "./live";
import type { ChangeKind, Phase } from "./v1";

/** How many rows one request brings. */
export const chunk = 100;

// Chunks that are kept: those in the window, and two ahead and behind.
const kept = 6;

interface List<T> {
  items: T[];
  total: number;
  counts?: Record<string, number>;
  since?: string;
}

interface Part<T> {
  items: T[];
  tag: string | undefined;
  /** Read again once it comes into the window: it may have changed since. */
  stale?: boolean;
}

export interface Source<T> {
  path: string;
  /** What the stream calls changes of it; undefined: it is read again when the fleet's figures change. */
  kind?: ChangeKind;
  /** The name by which the stream knows a row. */
  name(row: T): string;
  /** Whether the words that somebody types pick a row, as far as a browser can say. */
  fits?(row: T, words: string[]): boolean;
}

/** A list as one viewer sees it. */
export class Rows<T> {
  readonly total = signal(0);
  readonly counts = signal<Partial<Record<Phase, number>>>({});
  readonly problem = signal<Refusal | undefined>(undefined);
  /** Rises with each change of what at() gives. */
  readonly version = signal(0);
  readonly loading = signal(true);

  private parts = new Map<number, Part<T>>();
  private asking = new Map<number, AbortController>();
  private begun: AbortController | undefined;
  private asked: Query = {};
  private from = 0;
  private until = 0;
  private since: string | undefined;
  private narrowed: T[] | undefined;
  private due: number | undefined;
  private watched = "";
  private stop: () => void;

  constructor(readonly source: Source<T>) {
    let first = true;
    this.stop = summary.subscribe(() => {
      if (!first) this.later(2000);
      first = false;
    });
  }

  /** What the list is of. What was shown stays until the hub has answered. */
  query(filter: string, sort: string): void {
    if (this.asked.filter === filter && this.asked.sort === sort) return;
    const first = this.asked.filter === undefined;
    this.asked = { filter, sort };
    for (const controller of this.asking.values()) controller.abort();
    this.asking.clear();
    if (!first) this.narrow(filter);
    this.ask(0, true);
  }

  /** Until the hub has answered, known rows are picked here: a key shows what it does in the next frame. */
  private narrow(filter: string): void {
    const words = filter.toLowerCase().split(/\s+/).filter((word) => word !== "");
    const fits = this.source.fits;
    if (!fits || words.some((word) => /[:~!@^$|()[\]{}+?\\"*/]|^-/.test(word))) return;
    const known: T[] = [];
    for (const index of [...this.parts.keys()].sort((a, b) => a - b)) {
      for (const row of this.parts.get(index)!.items) if (fits(row, words)) known.push(row);
    }
    this.narrowed = known;
    this.version.value++;
  }

  /** How many rows can be scrolled over now. */
  get length(): number {
    return this.narrowed ? this.narrowed.length : this.total.value;
  }

  /** The row at a place, or undefined while it is not here. */
  at(place: number): T | undefined {
    if (this.narrowed) return this.narrowed[place];
    return this.parts.get(Math.floor(place / chunk))?.items[place % chunk];
  }

  /** The place of a row by its name, as far as it is here; else -1. */
  place(name: string): number {
    for (const [index, part] of this.parts) {
      const found = part.items.findIndex((row) => this.source.name(row) === name);
      if (found >= 0) return index * chunk + found;
    }
    return -1;
  }

  /** The rows in view: what is near is read, what is far forgotten. */
  show(from: number, until: number): void {
    this.from = from;
    this.until = until;
    if (this.narrowed) return;
    const [first, last] = [Math.floor(from / chunk), Math.floor(Math.max(from, until - 1) / chunk)];
    const missing = (index: number): boolean => index >= 0 && index * chunk < this.total.value && !this.parts.has(index);
    for (const [index, controller] of this.asking) {
      if (controller === this.begun || (index >= first - 1 && index <= last + 1)) continue;
      controller.abort(); // somebody has scrolled by
      this.asking.delete(index);
    }
    let whole = true;
    for (let index = first; index <= last; index++) {
      if (missing(index)) whole = false;
      else if (!this.parts.get(index)?.stale) continue;
      if (!this.asking.has(index)) void this.ask(index);
    }
    // What is near comes after what is looked at: it would only delay that.
    if (whole) for (const index of [last + 1, first - 1]) if (missing(index) && !this.asking.has(index)) void this.ask(index);
    for (const index of this.parts.keys()) if (index < first - kept / 2 || index > last + kept / 2) this.parts.delete(index);
    this.follow();
  }

  private async ask(index: number, anew = false): Promise<void> {
    const controller = new AbortController();
    this.asking.get(index)?.abort();
    this.asking.set(index, controller);
    if (anew) this.begun = controller;
    try {
      const tag = anew ? undefined : this.parts.get(index)?.tag;
      const first = index * chunk;
      const answer = await look<List<T>>(this.source.path, { ...this.asked, limit: chunk, offset: first || undefined }, { signal: controller.signal, tag });
      // The hub ends a page early where rows are long.
      for (const list = answer.body; list && list.items.length < Math.min(chunk, list.total - first); ) {
        const rest = await look<List<T>>(this.source.path, { ...this.asked, limit: chunk - list.items.length, offset: first + list.items.length }, { signal: controller.signal });
        if (!rest.body?.items.length) break;
        list.items.push(...rest.body.items);
        answer.tag = undefined;
      }
      if (controller.signal.aborted) return;
      this.since = answer.since ?? this.since;
      batch(() => this.take(index, answer.body, answer.tag, anew));
    } catch (problem) {
      if (controller.signal.aborted) return;
      this.loading.value = false;
      if (problem instanceof Refusal && problem.status !== 0) this.problem.value = problem;
      this.later(3000);
    } finally {
      if (this.asking.get(index) === controller) this.asking.delete(index);
    }
  }

  private take(index: number, list: List<T> | undefined, tag: string | undefined, anew: boolean): void {
    this.problem.value = undefined;
    this.loading.value = false;
    if (anew) {
      this.parts.clear();
      this.narrowed = undefined;
    }
    const before = this.parts.get(index);
    if (!list) {
      if (before) before.stale = false;
    } else {
      this.parts.set(index, { items: list.items, tag });
      this.total.value = list.total;
      this.counts.value = list.counts ?? {};
      this.since = list.since ?? this.since;
    }
    this.version.value++;
    this.show(this.from, this.until);
  }

  /** Read the window again, soon: which rows fit, and their order, may have changed. */
  private later(after: number): void {
    this.due ??= setTimeout(() => {
      this.due = undefined;
      if (!document.hidden) this.refresh();
      else this.later(after);
    }, after) as unknown as number;
  }

  /** Read the window again. */
  refresh(): void {
    const [first, last] = [Math.floor(this.from / chunk), Math.floor(Math.max(this.from, this.until - 1) / chunk)];
    for (let index = first; index <= last; index++) if (!this.asking.has(index)) void this.ask(index);
    for (const [index, part] of this.parts) if (index < first || index > last) part.stale = true;
  }

  private follow(): void {
    const kind = this.source.kind;
    if (!kind) return;
    const names: string[] = [];
    for (let place = this.from; place < Math.min(this.until, this.from + 200); place++) {
      const row = this.at(place);
      if (row) names.push(this.source.name(row));
    }
    const watched = names.join("\n");
    if (watched === this.watched || names.length === 0) return;
    this.watched = watched;
    follow({
      kinds: [kind], items: names, since: this.since,
      changed: (_, changes) => this.changed(changes.items as T[] | undefined, changes.gone),
      reset: () => this.refresh(),
    });
  }

  private changed(items: T[] = [], gone: string[] = []): void {
    const newest = new Map(items.map((row) => [this.source.name(row), row]));
    for (const part of this.parts.values()) {
      part.items.forEach((row, i) => {
        const now = newest.get(this.source.name(row));
        if (now) {
          part.items[i] = now;
          part.tag = undefined;
        }
      });
    }
    this.version.value++;
    if (gone.length > 0) this.later(500);
  }

  /** Nobody looks any more. */
  close(): void {
    this.stop();
    clearTimeout(this.due);
    for (const controller of this.asking.values()) controller.abort();
    follow(undefined);
  }
}
