// Lists: everything of one kind, over all of the fleet.

import { signal, useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { ComponentChild } from "preact";
import { address, get } from "../api";
import { copy, provide, record, say, type Command } from "../commands";
import { Health, Refused, phases } from "../parts";
import { adjust, at, given, go } from "../route";
import { Rows, type Source } from "../rows";
import { Table, type Column } from "../table";
import { dense } from "../theme";
import { count, line } from "../text";
import type { View, ViewList } from "../v1";

/** What healthy is not: the filter of the key f. */
const faults = "!health:healthy";

/** Where a view is. */
const of = (view: View): string => address("/" + view.list, { filter: view.filter });

/** The fleet's own views, of views.yaml. */
export const views = signal<View[]>([]);

let asked = false;

function readViews(): void {
  if (asked) return;
  asked = true;
  get<ViewList>("/v1/views").then((list) => (views.value = list.items), () => (asked = false));
}

export interface ListProps<T> {
  label: string;
  /** What the CLI calls the list: "service list". */
  cli: string[];
  source: Source<T>;
  columns: Column<T>[];
  href(row: T): string;
  /** What can be done to rows: those that are marked, else the one under the cursor. */
  actions?(rows: T[]): Command[];
  /** Keys of the filter, to begin with. */
  keys: string;
  faults?: string;
  /** What it is sorted by until somebody says otherwise: the worst first, as in the terminal's console. */
  order?: string;
  empty: ComponentChild;
}

export function List<T>(props: ListProps<T>) {
  const store = useRef<Rows<T> | undefined>(undefined);
  store.current ??= new Rows<T>(props.source);
  const rows = store.current;
  const cursor = useSignal("");
  const marked = useSignal<ReadonlySet<string>>(new Set());
  const field = useRef<HTMLInputElement>(null);
  const filter = given("filter");
  const sort = given("sort") || (props.order ?? "");
  const wrong = props.faults ?? faults;
  useEffect(readViews, []);
  useEffect(() => () => rows.close(), [rows]);
  useLayoutEffect(() => rows.query(filter, sort), [rows, filter, sort]); // before it is painted: an answer takes long enough

  const set = (text: string) => adjust({ filter: text });
  const chosen = (): T[] => {
    const names = marked.value.size > 0 ? marked.value : new Set([cursor.value]);
    const found: T[] = [];
    for (let place = 0; place < rows.length && found.length < names.size; place++) {
      const row = rows.at(place);
      if (row && names.has(rows.source.name(row))) found.push(row);
    }
    return found;
  };
  const latest = useRef({ props, filter, sort, chosen });
  latest.current = { props, filter, sort, chosen };
  useEffect(() => provide(() => {
    const { props, filter, sort, chosen } = latest.current;
    const cli = line(...props.cli, ...(filter ? ["--filter", filter] : []), ...(sort ? ["--sort=" + sort] : []));
    return [
      ...(props.actions?.(chosen()) ?? []),
      { key: "/", title: "Filter", group: "In lists", run: () => field.current?.focus() },
      { key: "f", title: "Faults only, or all", group: "In lists", run: () => set(toggled(filter, wrong)) },
      { key: "c", title: "Copy the name", group: "In lists", run: () => void copy(cursor.value) },
      { key: "C", title: "Copy the command of this list", group: "In lists", cli, run: () => void copy(cli) },
      { title: "Rows closer together, or less so", run: () => (dense.value = !dense.value) },
      {
        title: "Clear the marks", run: () => {
          marked.value = new Set();
        },
      },
      ...views.value.map((view): Command => ({
        key: String(view.key), title: "View: " + view.name, group: "Views of this fleet",
        run: () => go(of(view)),
      })),
    ];
  }), []);

  void rows.version.value;
  const problem = rows.problem.value;
  const counts = rows.counts.value;
  return (
    <section class="list" aria-label={props.label}>
      <h1 class="hidden">{props.label}</h1>
      <div class="tools">
        <label class="hidden" for="filter">Filter</label>
        <input id="filter" type="search" ref={field} placeholder={"filter: " + props.keys} value={filter} autocomplete="off" spellcheck={false}
          aria-invalid={problem?.status === 400} aria-describedby="figures" maxLength={1000}
          onInput={(event) => set(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key !== "Enter" && event.key !== "Escape") return;
            if (event.key === "Escape") set("");
            event.preventDefault();
            event.stopPropagation();
            document.querySelector<HTMLElement>(".table")?.focus();
          }} />
        <button type="button" aria-pressed={filter.includes(wrong)} onClick={() => set(toggled(filter, wrong))}>Faults</button>
        <span id="figures" class="figures">
          {rows.length.toLocaleString("en")}{marked.value.size > 0 ? ", " + count(marked.value.size, "marked row") : ""}{" "}
          {[...phases].reverse().filter((phase) => counts[phase]).map((phase) => (
            <button type="button" key={phase} class="link" onClick={() => set(toggled(filter, "health:" + phase))}><Health state={phase} /> {counts[phase]}</button>
          ))}
        </span>
        {views.value.length > 0
          ? <nav class="views" aria-label="Views of this fleet">
              {views.value.map((view) => (
                <a key={view.key} href={of(view)}
                  aria-current={at.value.pathname === "/" + view.list && filter === (view.filter ?? "") ? "page" : undefined}><kbd>{view.key}</kbd> {view.name}</a>
              ))}
            </nav>
          : null}
      </div>
      {problem ? <Refused problem={problem} /> : null}
      {problem?.status === 403 ? null
        : <Table label={props.label} rows={rows} columns={props.columns} sort={sort} onSort={(sort) => adjust({ sort })} href={props.href}
            open={(row) => go(props.href(row))} marked={marked.value} onMark={(names) => (marked.value = names)} cursor={cursor}
            empty={filter ? <>Nothing fits <code>{filter}</code>. <button type="button" class="link" onClick={() => set("")}>Show all</button></> : props.empty} />}
    </section>
  );
}

/** A filter with a term, or without it where it had it. */
export function toggled(filter: string, term: string): string {
  const terms = filter.split(/\s+/).filter((one) => one !== "");
  return (terms.includes(term) ? terms.filter((one) => one !== term) : [...terms, term]).join(" ");
}

/** Do something to each of several, a few at a time, and say what came of it. */
export async function each<T>(title: string, cli: (one: T) => string, all: T[], act: (one: T) => Promise<unknown>): Promise<void> {
  const failed: string[] = [];
  let done = 0;
  const left = [...all];
  await Promise.all(Array.from({ length: Math.min(6, all.length) }, async () => {
    for (let one = left.shift(); one !== undefined; one = left.shift()) {
      try {
        await act(one);
        done++;
        record(title, cli(one), "done");
      } catch (problem) {
        failed.push(String(problem));
        record(title, cli(one), String(problem));
      }
    }
  }));
  say(failed.length === 0 ? `${title}: ${count(done, "time")} done` : `${title}: ${done} done, ${failed.length} not: ${failed[0]}`);
}
