// How much lines of logs matter, as they say themselves.

export type Level = "error" | "warning" | "info" | "debug" | "";

// The first word of a line that says how much it matters, in the ways that programs write it.
const leveled = /\b(?:level["']?\s*[=:]\s*["']?)?(fatal|panic|critical|error|err|warning|warn|info|debug|trace)\b|^([EWIF])\d{4} /i;
const levels: Record<string, Level> = {
  fatal: "error", panic: "error", critical: "error", error: "error", err: "error", warning: "warning", warn: "warning", info: "info", debug: "debug", trace: "debug",
  e: "error", f: "error", w: "warning", i: "info",
};

/** How much a line matters, as it says itself. */
export function levelOf(text: string): Level {
  const found = leveled.exec(text.slice(0, 200));
  return found ? levels[(found[1] ?? found[2] ?? "").toLowerCase()] ?? "" : "";
}
