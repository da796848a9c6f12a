// What the hub is asked: /v1, with the browser's own session.

import { signal } from "@preact/signals";
import type { Error as Told, Me, Problem } from "./v1";

/** An answer that says no: what the hub says, and what to do about it. */
export class Refusal extends Error {
  constructor(readonly status: number, message: string, readonly fix: string = "", readonly problems: Problem[] = []) {
    super(message);
  }
}

/** Who is logged in. Undefined until the hub has said so. */
export const me = signal<Me | undefined>(undefined);

/** Set once the hub knows the session no more: what is shown stays, with its age. */
export const loggedOut = signal(false);

/** When the hub stopped answering, in milliseconds; undefined while it answers. */
export const awaySince = signal<number | undefined>(undefined);

// Longer than any answer of the hub takes that is not a stream.
const patience = 30_000;

export type Query = Record<string, string | number | boolean | string[] | undefined>;

/** An address of the hub's own, with what is asked for. */
export function address(path: string, query: Query = {}): string {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (Array.isArray(value)) for (const one of value) given.append(name, one);
    else if (value !== undefined && value !== "" && value !== false) given.set(name, value === true ? "1" : String(value));
  }
  const text = given.toString();
  return text ? path + "?" + text : path;
}

/** The path of names below a path; each is one segment whatever it holds. */
export const below = (path: string, ...names: string[]): string => [path, ...names.map(encodeURIComponent)].join("/");

export interface Asked {
  signal?: AbortSignal;
  /** Only what differs from the answer that had this tag is sent. */
  tag?: string;
}

export interface Answer<T> {
  /** Undefined: nothing has changed. */
  body: T | undefined;
  tag: string | undefined;
  /** Where a stream may start that misses nothing of it, where the body does not say so. */
  since?: string;
}

/** GET, with the answer's tag. */
export async function look<T>(path: string, query?: Query, asked: Asked = {}): Promise<Answer<T>> {
  const headers: Record<string, string> = asked.tag ? { "If-None-Match": asked.tag } : {};
  const response = await sent(address(path, query), { headers, cache: "no-store" }, asked.signal);
  if (response.status === 304) return { body: undefined, tag: asked.tag, since: response.headers.get("Plural-Since") ?? undefined };
  return { body: (await response.json()) as T, tag: response.headers.get("ETag") ?? undefined };
}

/** GET. */
export async function get<T>(path: string, query?: Query, signal?: AbortSignal): Promise<T> {
  return (await look<T>(path, query, { signal })).body as T;
}

/** POST. */
export async function post<T>(path: string, body: unknown, query?: Query): Promise<T> {
  const response = await sent(address(path, query), {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body ?? {}),
  });
  const text = await response.text();
  return (text ? JSON.parse(text) : {}) as T;
}

/** One request whose answer is not read yet. It rejects with a Refusal for all but 2xx and 304. */
export async function sent(to: string, init: RequestInit, signal?: AbortSignal, limit = patience): Promise<Response> {
  const late = limit > 0 ? AbortSignal.timeout(limit) : undefined;
  const signals = [signal, late].filter((s): s is AbortSignal => s !== undefined);
  let response: Response;
  try {
    response = await fetch(to, { ...init, credentials: "same-origin", redirect: "error", signal: AbortSignal.any(signals) });
  } catch (problem) {
    if (signal?.aborted) throw problem;
    awaySince.value ??= Date.now();
    throw new Refusal(0, "the hub does not answer", "it is asked again");
  }
  if (response.status === 401) loggedOut.value = true;
  if (response.status < 502 || response.status > 504) awaySince.value = undefined;
  if (response.ok || response.status === 304) return response;
  let told: Partial<Told> = {};
  try {
    told = (await response.json()) as Told;
  } catch {
    // A proxy before the hub has words of its own.
  }
  throw new Refusal(response.status, told.message ?? `the hub answers ${response.status}`, told.fix, told.problems);
}

/** Whether whoever is logged in may do a verb to the fleet. */
export const may = (verb: string): boolean => me.value?.verbs.includes(verb) ?? false;

/** Why whoever is logged in may not do a verb; undefined: they may. */
export const no = (verb: string): string | undefined => (may(verb) ? undefined : `You may not ${verb}: your roles in access/ do not have the verb.`);
