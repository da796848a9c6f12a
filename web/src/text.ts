// What others have written, as it may be shown.

// Marks that turn the direction of text, controls, and what has no width: with them a name can look like another.
const odd = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** The text with nothing in it that is not seen, cut after some characters. Line feeds and tabs stay. */
export function plain(text: string, most = 4000): string {
  const cut = text.length > most ? text.slice(0, most) + "…" : text;
  return cut.replace(odd, "\ufffd");
}

/** A line of a log: as plain, without the sequences that colour it in a terminal. */
export function logLine(text: string): string {
  return plain(text.replace(/\u001b\[[0-9;?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]*(\u0007|\u001b\\)?/g, ""), 16000);
}

const steps: [number, string][] = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]];

/** How long ago a time was, in one unit: 41s, 7m, 3h, 12d. */
export function age(time: string | number | undefined, now: number): string {
  if (time === undefined) return "";
  const seconds = Math.max(0, (now - (typeof time === "number" ? time : Date.parse(time))) / 1000);
  for (const [length, unit] of steps) if (seconds >= length) return Math.floor(seconds / length) + unit;
  return "0s";
}

/** The beginning of a commit's id, by which people know it. */
export const short = (commit: string | undefined): string => (commit ?? "").slice(0, 8);

/** The number with its noun. */
export const count = (n: number, noun: string): string => n.toLocaleString("en") + " " + noun + (n === 1 ? "" : "s");

/** The address, if a browser may be led there from what somebody else has written: never javascript:, data: or a file. */
export function webAddress(text: string | undefined): URL | undefined {
  if (!text || text.length > 2048) return undefined;
  try {
    const url = new URL(text);
    return (url.protocol === "https:" || url.protocol === "http:") && !url.username && !url.password ? url : undefined;
  } catch {
    return undefined;
  }
}

/** Where a git host shows a file of a commit, for the hosts whose addresses are known. */
export function fileAddress(repository: string, commit: string, file: string, line?: number): URL | undefined {
  const ssh = /^(?:ssh:\/\/)?git@([^:/]+)[:/](.+)$/.exec(repository);
  const base = webAddress((ssh ? `https://${ssh[1]}/${ssh[2]}` : repository).replace(/\.git$/, ""));
  if (!base || !commit) return undefined;
  const path = file.split("/").map(encodeURIComponent).join("/");
  const at = base.href.replace(/\/$/, "");
  if (base.hostname.includes("github")) return webAddress(`${at}/blob/${commit}/${path}${line ? "#L" + line : ""}`);
  if (base.hostname.includes("gitlab")) return webAddress(`${at}/-/blob/${commit}/${path}${line ? "#L" + line : ""}`);
  return undefined;
}

/** An argument as a shell takes it. */
export function quoted(argument: string): string {
  return /^[A-Za-z0-9_.,:=@%/+-]+$/.test(argument) ? argument : "'" + argument.replaceAll("'", `'\\''`) + "'";
}

/** A command line of the CLI. */
export const line = (...words: string[]): string => ["plural", ...words.map(quoted)].join(" ");
