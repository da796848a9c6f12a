// Colours and how close rows lie, as this browser remembers them.

import { effect, signal } from "@preact/signals";

export type Theme = "auto" | "light" | "dark";

function remembered(name: string): string {
  try {
    return localStorage.getItem("plural." + name) ?? "";
  } catch {
    return ""; // a browser that keeps nothing
  }
}

/** Keep a word for the next time. */
export function remember(name: string, value: string): void {
  try {
    localStorage.setItem("plural." + name, value);
  } catch {
    // It lasts until the page is left.
  }
}

const found = remembered("theme");
export const theme = signal<Theme>(found === "light" || found === "dark" ? found : "auto");
export const dense = signal(remembered("rows") === "dense");

effect(() => {
  const root = document.documentElement;
  root.dataset.theme = theme.value;
  root.dataset.rows = dense.value ? "dense" : "";
  remember("theme", theme.value);
  remember("rows", dense.value ? "dense" : "");
});

export function cycleTheme(): void {
  theme.value = ({ auto: "light", light: "dark", dark: "auto" } as const)[theme.value];
}
