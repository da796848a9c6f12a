// What can be done, by key, by palette and by mouse: one list of it for all three.

import { signal } from "@preact/signals";
import type { ComponentChild } from "preact";

export interface Command {
  /** The key, as the console in the terminal has it: "d", "ctrl+d", "?"; without one it is in the palette alone. */
  key?: string;
  title: string;
  /** Where it belongs in the help. */
  group?: string;
  /** Absent: it works. A sentence says why it does not. */
  off?: string;
  /** The same as a command line of the CLI. */
  cli?: string;
  run(): void;
}

type Provider = () => Command[];

const providers: Provider[] = [];

/** Have commands for as long as something is shown. Those added later come first. */
export function provide(commands: Provider): () => void {
  providers.unshift(commands);
  return () => void providers.splice(providers.indexOf(commands), 1);
}

/** All that can be done now: of several with one key the first counts. */
export function commands(): Command[] {
  const taken = new Set<string>();
  return providers.flatMap((provider) => provider()).filter((command) => {
    if (!command.key) return true;
    if (taken.has(command.key)) return false;
    taken.add(command.key);
    return true;
  });
}

/** What is in front of the page; undefined: nothing. */
export const dialog = signal<(() => ComponentChild) | undefined>(undefined);

/** A sentence that goes by itself, said aloud by screen readers. */
export const notice = signal("");

let fading: number | undefined;

/** Say something for a few seconds. */
export function say(text: string): void {
  notice.value = text;
  clearTimeout(fading);
  fading = setTimeout(() => (notice.value = ""), 6000) as unknown as number;
}

export interface Done {
  time: number;
  title: string;
  cli: string;
  result: string;
}

/** What was done on this page since it was opened, as command lines. */
export const doneHere = signal<Done[]>([]);

export function record(title: string, cli: string, result: string): void {
  doneHere.value = [{ time: Date.now(), title, cli, result }, ...doneHere.value].slice(0, 200);
}

/** Copy a text, and say so. */
export async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    say("Copied: " + text);
  } catch {
    say("The browser does not let the page copy. The text: " + text);
  }
}

function nameOf(event: KeyboardEvent): string {
  const key = event.key === " " ? "space" : event.key.length === 1 ? event.key : event.key.toLowerCase();
  return (event.ctrlKey || event.metaKey ? "ctrl+" : "") + (event.shiftKey && event.key.length > 1 ? "shift+" : "") + key;
}

// Keys that browsers keep, and those of fields, are left alone.
window.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.altKey || event.isComposing) return;
  const inField = event.target instanceof HTMLElement && event.target.matches("input, textarea, select, [contenteditable]");
  const key = nameOf(event);
  if (inField && key !== "escape" && key !== "ctrl+k") return;
  if (dialog.value && key !== "escape") return;
  // Enter and space press what has the focus.
  if ((key === "enter" || key === "space") && event.target instanceof HTMLElement && event.target.matches("a, button, summary")) return;
  const command = commands().find((one) => one.key === key || (key === "escape" && one.key === "esc"));
  if (!command) return;
  event.preventDefault();
  if (command.off) say(command.off);
  else command.run();
});
