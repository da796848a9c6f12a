// A list of any length, of which only the rows in view are in the document.

import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { signal, useSignal } from "@preact/signals";
import type { ComponentChild } from "preact";
import { provide, type Command } from "./commands";
import type { Rows } from "./rows";

export interface Column<T> {
  name: string;
  /** What the hub sorts by; absent: it cannot. */
  sort?: string;
  /** Class names: wide columns grow, minor ones go first where the page is narrow. */
  kind?: "wide" | "minor" | "number" | "phase";
  cell(row: T): ComponentChild;
}

export interface Props<T> {
  label: string;
  rows: Rows<T>;
  columns: Column<T>[];
  sort: string;
  onSort(sort: string): void;
  /** Where a row leads. */
  href(row: T): string;
  open(row: T): void;
  marked: ReadonlySet<string>;
  onMark(names: ReadonlySet<string>): void;
  /** The row under the cursor, by name. */
  cursor: { value: string };
  empty: ComponentChild;
}

// Rows drawn beyond the edges, so that a scroll shows no gap before the next frame.
const around = 8;
// Browsers draw nothing further down than this.
const tallest = 15_000_000;

const widths = { name: "minmax(6rem, 1.4fr)", phase: "8rem", number: "5.5rem", minor: "minmax(4rem, 1fr)", wide: "minmax(6rem, 2.4fr)" };

const slim = { ...widths, name: "minmax(0, 1.4fr)", phase: "7rem", number: "3rem" };

// Where the page is narrow, what says least is left out: it is on the row's own page.
const small = matchMedia("(max-width: 720px)");
const narrow = signal(small.matches);
small.addEventListener("change", () => (narrow.value = small.matches));

export function Table<T>(props: Props<T>) {
  const { rows } = props;
  const columns = narrow.value ? props.columns.filter((column) => column.kind !== "minor" && column.kind !== "wide") : props.columns;
  const template = { gridTemplateColumns: columns.map((column) => (narrow.value ? slim : widths)[column.kind ?? "name"]).join(" ") };
  const box = useRef<HTMLDivElement>(null);
  const top = useSignal(0);
  const height = useSignal(600);
  const rowHeight = useSignal(30);
  void rows.version.value;

  const length = rows.length;
  const inView = Math.ceil(height.value / rowHeight.value);
  const scale = Math.min(1, tallest / Math.max(1, length * rowHeight.value));
  const place = Math.max(0, Math.min(length - inView, Math.floor(top.value / scale / rowHeight.value)));
  const from = Math.max(0, place - around);
  const until = Math.min(length, place + inView + around);
  let at = rows.place(props.cursor.value);
  if (at < 0) at = Math.min(place, Math.max(0, length - 1));

  useLayoutEffect(() => {
    const element = box.current!;
    const measure = () => {
      height.value = element.clientHeight - 32;
      rowHeight.value = parseFloat(getComputedStyle(element).getPropertyValue("--row")) || 30;
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  useEffect(() => rows.show(from, until), [from, until, rows, length]);

  const move = (to: number) => {
    const next = Math.max(0, Math.min(length - 1, to));
    const element = box.current!;
    const first = Math.ceil(element.scrollTop / scale / rowHeight.value);
    const last = Math.floor((element.scrollTop / scale + height.value) / rowHeight.value) - 1;
    if (next < first) element.scrollTop = next * rowHeight.value * scale;
    else if (next > last) element.scrollTop = (next + 1) * rowHeight.value * scale - height.value;
    top.value = element.scrollTop;
    const row = rows.at(next);
    if (row) props.cursor.value = rows.source.name(row);
    else waiting.current = next; // it takes the cursor once it is here
  };
  const waiting = useRef(-1);
  const arrived = waiting.current >= 0 ? rows.at(waiting.current) : undefined;
  useEffect(() => {
    if (!arrived) return;
    waiting.current = -1;
    props.cursor.value = rows.source.name(arrived);
  }, [arrived]);

  // The row that looks chosen is the one that keys act on: also the first one, and where the chosen one is here no longer.
  const shown = rows.at(at);
  useEffect(() => {
    if (shown && waiting.current < 0 && rows.place(props.cursor.value) < 0) props.cursor.value = rows.source.name(shown);
  }, [shown]);

  const mark = (places: number[]) => {
    const names = new Set(props.marked);
    for (const one of places) {
      const row = rows.at(one);
      if (!row) continue;
      const name = rows.source.name(row);
      if (names.has(name)) names.delete(name);
      else names.add(name);
    }
    props.onMark(names);
  };
  const current = useRef({ at, move, mark, props, inView, length, rows });
  current.current = { at, move, mark, props, inView, length, rows };
  useEffect(() => provide(() => {
    const { at, move, mark, props, inView, length, rows } = current.current;
    const key = (key: string, title: string, run: () => void): Command => ({ key, title, group: "In lists", run });
    const onRow = (run: (row: T) => void) => () => {
      const row = rows.at(at);
      if (row) run(row);
    };
    return [
      key("j", "Down", () => move(at + 1)), key("arrowdown", "Down", () => move(at + 1)),
      key("k", "Up", () => move(at - 1)), key("arrowup", "Up", () => move(at - 1)),
      key("g", "First row", () => move(0)), key("home", "First row", () => move(0)),
      key("G", "Last row", () => move(length - 1)), key("end", "Last row", () => move(length - 1)),
      key("ctrl+d", "Half a page down", () => move(at + Math.floor(inView / 2))),
      key("ctrl+u", "Half a page up", () => move(at - Math.floor(inView / 2))),
      key("pagedown", "Page down", () => move(at + inView)), key("pageup", "Page up", () => move(at - inView)),
      key("enter", "Look into it", onRow((row) => props.open(row))),
      key("space", "Mark", () => {
        mark([at]);
        move(at + 1);
      }),
      key("*", "Mark all that are read, or none", () => {
        if (props.marked.size > 0) props.onMark(new Set());
        else mark(Array.from({ length }, (_, i) => i).filter((i) => rows.at(i)));
      }),
      key("o", "Sort by the next column", () => props.onSort(nextSort(columns, props.sort))),
      key("O", "Turn the order round", () => props.onSort(turned(props.sort.split(",")[0] || firstSort(columns)))),
    ];
  }), []);

  const drawn = [];
  for (let i = from; i < until; i++) {
    const row = rows.at(i);
    const name = row ? rows.source.name(row) : "";
    const selected = i === at;
    drawn.push(
      <div key={name || i} id={"row-" + i} role="row" aria-rowindex={i + 2} aria-selected={selected}
        class={"row" + (selected ? " at" : "") + (row ? "" : " absent") + (name && props.marked.has(name) ? " marked" : "")}
        style={{ ...template, transform: `translateY(${(i - place) * rowHeight.value + place * rowHeight.value * scale}px)` }}
        onClick={(event) => {
          if ((event.target as Element).closest("a")) return;
          move(i);
          if (event.ctrlKey || event.metaKey) mark([i]);
        }}
        onDblClick={() => row && props.open(row)}>
        {columns.map((column, c) => (
          <div role="gridcell" class={"cell " + (column.kind ?? "")} key={column.name}>
            {row ? (c === 0 ? <a href={props.href(row)} tabIndex={-1}>{column.cell(row)}</a> : column.cell(row)) : "…"}
          </div>
        ))}
      </div>,
    );
  }
  return (
    <div class="table" role="grid" aria-label={props.label} aria-rowcount={length + 1} aria-multiselectable="true" aria-busy={rows.loading.value}
      tabIndex={0} aria-activedescendant={at >= from && at < until ? "row-" + at : undefined} ref={box}
      onScroll={() => (top.value = box.current!.scrollTop)}>
      <div class="row head" role="row" aria-rowindex={1} style={template}>
        {columns.map((column) => (
          <div role="columnheader" class={"cell " + (column.kind ?? "")} key={column.name}
            aria-sort={sorted(props.sort, column)}>
            {column.sort
              ? <button type="button" tabIndex={-1} onClick={() => props.onSort(props.sort === column.sort ? "-" + column.sort : column.sort!)}>
                  {column.name}<span aria-hidden="true">{{ ascending: " ↑", descending: " ↓", none: "" }[sorted(props.sort, column)]}</span>
                </button>
              : column.name}
          </div>
        ))}
      </div>
      <div class="rows" role="rowgroup" style={{ height: length * rowHeight.value * scale + "px" }}>{drawn}</div>
      {length === 0 && !rows.loading.value && <div class="empty" role="row"><div role="gridcell">{props.empty}</div></div>}
    </div>
  );
}

function sorted<T>(sort: string, column: Column<T>): "ascending" | "descending" | "none" {
  if (!column.sort) return "none";
  sort = sort.split(",")[0]!;
  return sort === column.sort ? "ascending" : sort === "-" + column.sort ? "descending" : "none";
}

const turned = (sort: string): string => (sort.startsWith("-") ? sort.slice(1) : "-" + sort);

const firstSort = <T,>(columns: Column<T>[]): string => columns.find((column) => column.sort)?.sort ?? "";

function nextSort<T>(columns: Column<T>[], sort: string): string {
  const all = columns.map((column) => column.sort).filter((name): name is string => name !== undefined);
  const now = all.indexOf(sort.split(",")[0]!.replace(/^-/, ""));
  return all[(now + 1) % all.length] ?? "";
}
