// Pieces that several pages show.

import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import type { ComponentChild, ComponentChildren } from "preact";
import { Refusal, get, type Query } from "./api";
import { provide, say, type Command } from "./commands";
import { summary } from "./live";
import { age, plain, short, webAddress } from "./text";
import type { Commit, ObjectHealth, Phase, Problem, TestOutcome, UpgradeState } from "./v1";

/** The time, in milliseconds; it moves once a second. */
export const clock = signal(Date.now());
setInterval(() => {
  if (!document.hidden) clock.value = Date.now();
}, 1000);

/** Phases from best to worst. */
export const phases: Phase[] = ["healthy", "removing", "progressing", "pending", "unregistered", "held", "stale", "degraded", "failed"];

type State = Phase | ObjectHealth | UpgradeState | TestOutcome;

// Never by colour alone: each has its mark and its word.
const marks: Partial<Record<State, string>> = {
  healthy: "✓", removing: "−", progressing: "◐", pending: "○", unregistered: "?", held: "‖", stale: "⧖", degraded: "!", failed: "✗",
  unknown: "?", current: "✓", available: "↑", waiting: "○", blocked: "‖", ready: "◐", proposed: "⇡", rolling: "◐", reverted: "✗", running: "◐", passed: "✓",
};

/** How something is. */
export function Health({ state, bare }: { state: State; bare?: boolean }) {
  return <span class={"health " + state}><span aria-hidden="true">{marks[state] ?? "?"}</span>{bare ? "" : " " + state}</span>;
}

/** A time, as how long ago it was. */
export function Ago({ time }: { time: string | undefined }) {
  if (!time) return <span class="dim">never</span>;
  return <time dateTime={time} title={new Date(time).toLocaleString()}>{age(time, clock.value)}</time>;
}

/** Text of others: one text node, whatever it holds. */
export const Text = ({ of, most }: { of: string | undefined; most?: number }) => <>{plain(of ?? "", most)}</>;

/** A commit by its id, with its subject. */
export function CommitLine({ commit, subject = true }: { commit: Commit | undefined; subject?: boolean }) {
  if (!commit?.id) return <span class="dim">none</span>;
  return <><a href={"/history/" + commit.id} class="id">{short(commit.id)}</a>{subject && commit.subject ? <> <Text of={commit.subject} most={120} /></> : null}</>;
}

/** A link out of the page, where its address is one that a browser may be led to; its host is shown. */
export function Out({ to, children }: { to: string | URL | undefined; children?: ComponentChildren }) {
  const url = typeof to === "string" ? webAddress(to) : to;
  if (!url) return <>{children ?? <Text of={typeof to === "string" ? to : ""} />}</>;
  return <a href={url.href} target="_blank" rel="noopener noreferrer">{children ?? plain(url.href, 200)} <span class="dim">({url.host})</span></a>;
}

/** What is wrong, where, and how to mend it. */
export function Problems({ of }: { of: Problem[] | undefined }) {
  if (!of?.length) return null;
  return (
    <ul class="problems">
      {of.map((problem, i) => (
        <li key={i}>
          {problem.object ? <strong><Text of={problem.object} />: </strong> : null}
          {problem.file ? <code><Text of={problem.file + (problem.line ? ":" + problem.line : "")} /></code> : null} <Text of={problem.message} />
          {problem.fix ? <p class="fix">→ <Text of={problem.fix} /></p> : null}
        </li>
      ))}
    </ul>
  );
}

/** What the hub refused, and what to do about it. */
export function Refused({ problem }: { problem: Refusal }) {
  const title = problem.status === 403 ? "You may not see this" : problem.status === 404 ? "It is not there" : "This does not work now";
  return (
    <div class="refused" role="alert">
      <strong>{title}</strong>
      <p><Text of={problem.message} /></p>
      {problem.fix ? <p class="fix">→ <Text of={problem.fix} /></p> : null}
      <Problems of={problem.problems} />
    </div>
  );
}

/** Names with what they stand for. */
export function Facts({ of }: { of: [string, ComponentChild][] }) {
  return (
    <dl class="facts">
      {of.filter(([, value]) => value !== undefined && value !== "" && value !== null && value !== false).map(([name, value]) => (
        <div key={name}><dt>{plain(name, 100)}</dt><dd>{typeof value === "string" ? plain(value) : value}</dd></div>
      ))}
    </dl>
  );
}

export interface Read<T> {
  body: T | undefined;
  problem: Refusal | undefined;
  refresh(): void;
}

/**
 * What the hub answers to a GET, read again when the fleet's figures change: at most once in two seconds, and without a change every
 * half minute. While it does not answer, the last answer stays.
 */
export function useRead<T>(path: string | undefined, query?: Query): Read<T> {
  const key = path + "?" + JSON.stringify(query ?? {});
  const [state, set] = useState<{ key: string; body?: T; problem?: Refusal }>({ key });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    if (!path) return;
    const controller = new AbortController();
    let again: number | undefined;
    const soon = (after: number) => {
      again ??= setTimeout(() => {
        again = undefined;
        if (document.hidden) soon(after);
        else void ask();
      }, after) as unknown as number;
    };
    const ask = async () => {
      try {
        const body = await get<T>(path, query, controller.signal);
        set({ key, body });
      } catch (problem) {
        if (controller.signal.aborted || !(problem instanceof Refusal)) return;
        if (problem.status !== 0) set((before) => ({ ...before, key, body: before.key === key ? before.body : undefined, problem }));
        soon(3000);
      }
    };
    void ask();
    let first = true;
    const stop = summary.subscribe(() => {
      if (!first) soon(2000);
      first = false;
    });
    const beat = setInterval(() => soon(0), 30_000);
    return () => {
      controller.abort();
      stop();
      clearTimeout(again);
      clearInterval(beat);
    };
  }, [key, turn]);
  const current = state.key === key;
  return {
    body: current ? state.body : undefined, problem: current ? state.problem : undefined, refresh: () => setTurn(turn + 1),
  };
}

interface Page<T> {
  items: T[];
  next?: string;
}

/** A list that goes on: its first page is kept fresh, older ones are read when somebody asks. */
export function usePages<T, L extends Page<T>>(path: string, query: Query): { read: Read<L>; items: T[]; more: ComponentChild } {
  const read = useRead<L>(path, query);
  const key = path + JSON.stringify(query);
  const [older, set] = useState<Page<T> & { of: string }>({ of: "", items: [] });
  const rest: Page<T> = older.of === key ? older : { items: [], next: read.body?.next };
  const go = async () => {
    try {
      const page = await get<L>(path, { ...query, continue: rest.next });
      set({ of: key, items: [...rest.items, ...page.items], next: page.next });
    } catch (problem) {
      say(String(problem));
    }
  };
  return { read, items: [...(read.body?.items ?? []), ...rest.items], more: rest.next ? <button type="button" onClick={go}>Older</button> : null };
}

/** A page that waits for its answer, or shows why there is none. */
export function Loaded<T>({ read, children }: { read: Read<T>; children: (body: T) => ComponentChild }) {
  if (read.body !== undefined) return <>{children(read.body)}</>;
  if (read.problem) return <Refused problem={read.problem} />;
  return <p class="dim" aria-busy="true">Loading…</p>;
}

/** Names of views of one thing, of which one is shown. */
export function Tabs({ names, now, base }: { names: [tab: string, title: string][]; now: string; base: string }) {
  return (
    <nav class="tabs" aria-label="Views">
      {names.map(([tab, title]) => (
        <a key={tab} href={base + (tab ? "?tab=" + tab : "")} aria-current={tab === now ? "page" : undefined}>{title}</a>
      ))}
    </nav>
  );
}

/** What can be done, as buttons: the same commands as by key. */
export function Actions({ of }: { of: Command[] }) {
  return (
    <div class="actions">
      {of.map((command) => (
        <button type="button" key={command.title} aria-disabled={command.off ? "true" : undefined} title={command.off ?? command.cli}
          onClick={() => (command.off ? say(command.off) : command.run())}>{command.title}{command.key ? <> <kbd>{command.key}</kbd></> : null}</button>
      ))}
    </div>
  );
}

/** Have commands by key and palette for as long as what calls this is shown. */
export function useCommands(all: Command[]): void {
  const latest = useRef(all);
  latest.current = all;
  useEffect(() => provide(() => latest.current), []);
}
