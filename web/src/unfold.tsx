// Something that is drawn once it is asked for.

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";

export function Unfold({ title, children }: { title: string; children: ComponentChildren }) {
  const open = useSignal(false);
  return (
    <details open={open.value} onToggle={(event) => (open.value = event.currentTarget.open)}>
      <summary>{title}</summary>
      {open.value ? children : null}
    </details>
  );
}
