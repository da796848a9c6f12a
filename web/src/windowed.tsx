// Many lines of one height, of which only those in view are in the document.

import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { useSignal } from "@preact/signals";
import type { ComponentChild } from "preact";

export interface Props {
  count: number;
  row(place: number): ComponentChild;
  /** Which row is to be in view; -1: none. */
  at?: number;
  /** Keep to the end as lines come, for as long as somebody has not scrolled up. */
  end?: boolean;
  onEnd?(atEnd: boolean): void;
  class?: string;
  role?: "treegrid" | "log" | "list";
  label: string;
  active?: string;
}

export function Windowed(props: Props) {
  const box = useRef<HTMLDivElement>(null);
  const top = useSignal(0);
  const size = useSignal({ height: 600, row: 24 });
  useLayoutEffect(() => {
    const element = box.current!;
    const measure = () => (size.value = { height: element.clientHeight, row: parseFloat(getComputedStyle(element).getPropertyValue("--row")) || 24 });
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const { height, row } = size.value;
  const first = Math.max(0, Math.floor(top.value / row) - 10);
  const last = Math.min(props.count, Math.ceil((top.value + height) / row) + 10);
  useEffect(() => {
    const element = box.current!;
    if (props.at === undefined || props.at < 0) return;
    if (props.at * row < element.scrollTop) element.scrollTop = props.at * row;
    else if ((props.at + 1) * row > element.scrollTop + height) element.scrollTop = (props.at + 1) * row - height;
  }, [props.at, row, height]);
  useLayoutEffect(() => {
    if (props.end) box.current!.scrollTop = box.current!.scrollHeight;
  }, [props.count, props.end]);
  const drawn = [];
  for (let place = first; place < last; place++) {
    drawn.push(<div key={place} class="slot" style={{ transform: `translateY(${place * row}px)` }} role="presentation">{props.row(place)}</div>);
  }
  return (
    <div class={"windowed " + (props.class ?? "")} ref={box} tabIndex={0} role={props.role} aria-label={props.label} aria-rowcount={props.role === "treegrid" ? props.count : undefined}
      aria-activedescendant={props.active} aria-live={props.role === "log" ? "off" : undefined}
      onScroll={() => {
        const element = box.current!;
        top.value = element.scrollTop;
        props.onEnd?.(element.scrollTop + element.clientHeight >= element.scrollHeight - row);
      }}>
      <div style={{ height: props.count * row + "px" }} role="presentation">{drawn}</div>
    </div>
  );
}
