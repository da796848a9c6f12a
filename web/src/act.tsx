// Changes: what a commit would be is shown first, and how it fares afterwards.

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { ComponentChildren } from "preact";
import { Refusal, below, get, post } from "./api";
import { copy, dialog, record } from "./commands";
import { Refused, Text } from "./parts";
import { count, short } from "./text";
import type { Edited, Revision, Service } from "./v1";

export interface Change {
  title: string;
  /** A sentence about what it does. */
  says: string;
  path: string;
  body: Record<string, unknown>;
  /** The same as a command line. */
  cli: string;
  /** The service whose clusters are followed after it. */
  service?: string;
}

/** Show what a change would commit, and commit it once somebody says so. */
export function propose(change: Change): void {
  dialog.value = () => <Proposal change={change} />;
}

function Proposal({ change }: { change: Change }) {
  const shown = useSignal<Edited | undefined>(undefined);
  const problem = useSignal<Refusal | undefined>(undefined);
  const message = useSignal("");
  const busy = useSignal(false);
  const edited = useSignal<Edited | undefined>(undefined);
  const confirmed = useSignal("");
  const field = useRef<HTMLInputElement>(null);
  // An Enter that opened this is no answer to it.
  const ready = useSignal(false);
  useEffect(() => {
    if (!shown.value) return;
    field.current?.focus();
    const timer = setTimeout(() => (ready.value = true), 400);
    return () => clearTimeout(timer);
  }, [shown.value]);
  useEffect(() => {
    // A replica of before there were dry runs takes no base, and so refuses this in place of doing it.
    post<Edited>(change.path, { ...change.body, base: "" }, { "dry-run": true }).then(
      (answer) => (shown.value = answer), (refusal: Refusal) => (problem.value = refusal));
  }, []);
  const commit = async () => {
    busy.value = true;
    problem.value = undefined;
    try {
      const body = {
        ...change.body, ...(message.value ? { message: message.value } : {}), ...(shown.value?.base ? { base: shown.value.base } : {}),
        ...(confirmed.value ? { confirm: confirmed.value } : {}), ...(shown.value?.version ? { version: shown.value.version } : {}),
      };
      edited.value = await post<Edited>(change.path, body);
      record(change.title, change.cli, edited.value.commit ? "committed as " + short(edited.value.commit) : edited.value.url ?? "it was so already");
    } catch (refusal) {
      problem.value = refusal as Refusal;
      record(change.title, change.cli, String(refusal));
    }
    busy.value = false;
  };
  const can = ready.value && !busy.value && Boolean(shown.value?.files?.length) && (shown.value?.confirm ?? "") === confirmed.value;
  const nothing = shown.value !== undefined && !shown.value.files?.length;
  return (
    <>
      <h2 id="front-title">{change.title}</h2>
      <p>{change.says}</p>
      <CLI line={change.cli} />
      {problem.value ? <Refused problem={problem.value} /> : null}
      {shown.value?.warnings?.map((warning) => <p key={warning} class="warning">! <Text of={warning} /></p>)}
      {shown.value?.files?.map((file) => file.diff ? <Unified key={file.file} name={file.file} diff={file.diff} />
        : <p key={file.file}><code><Text of={file.file} /></code>: <Text of={file.hidden} /></p>)}
      {shown.value?.leftOut ? <p class="dim">{count(shown.value.leftOut, "file")} more.</p> : null}
      {!shown.value && !problem.value ? <p class="dim" aria-busy="true" data-first tabIndex={-1}>Asking the hub what this would commit…</p> : null}
      {nothing ? <p>It is so already: there is nothing to commit.</p> : null}
      {edited.value ? <Followed edited={edited.value} service={change.service} /> : (
        <form class="actions" onSubmit={(event) => {
          event.preventDefault();
          if (can) void commit();
        }}>
          <input class="wide" ref={field} aria-label="Message of the commit" placeholder={"message: " + (shown.value?.message ?? "")} value={message.value} maxLength={4000}
            onInput={(event) => (message.value = event.currentTarget.value)} />
          {shown.value?.confirm ? (
            <label>Type <code>{shown.value.confirm}</code> once more: <input value={confirmed.value} autocomplete="off" spellcheck={false}
              onInput={(event) => (confirmed.value = event.currentTarget.value)} /></label>
          ) : null}
          <button type="submit" class="main" disabled={!can}>{busy.value ? "Committing…" : "Commit"}</button>
          <button type="button" onClick={() => (dialog.value = undefined)}>Cancel</button>
        </form>
      )}
    </>
  );
}

/** How a commit fares, until the fleet has it. */
function Followed({ edited, service }: { edited: Edited; service: string | undefined }) {
  const said = useSignal("the hub takes it up");
  const done = useSignal(false);
  useEffect(() => {
    if (!edited.commit) return;
    const commit = edited.commit;
    let timer: number | undefined;
    let left = false;
    let well = 0; // readings in a row: the first may be of before agents knew of it
    const ask = async () => {
      try {
        const revision = await get<Revision>(below("/v1/history", commit));
        if (revision.refusal) {
          said.value = "refused: " + revision.refusal.message;
          done.value = true;
        } else if (revision.result === "current" || revision.result === "superseded") {
          const now = service ? await get<Service>(below("/v1/services", service)) : undefined;
          well = !now || now.ready === now.clusters || now.suspended ? well + 1 : 0;
          done.value = !now || well > 1;
          said.value = now?.suspended ? "the hub serves it; agents leave the service alone" : now ? `the hub serves it; ${now.ready} of ${count(now.clusters, "cluster")} well` : "the hub serves it";
        }
      } catch {
        // It is asked again.
      }
      if (!done.value && !left) timer = setTimeout(() => void ask(), 1000) as unknown as number;
    };
    void ask();
    return () => {
      left = true;
      clearTimeout(timer);
    };
  }, [edited.commit]);
  return (
    <div role="status">
      {edited.commit ? <p>Committed as <a href={"/history/" + edited.commit} class="id">{short(edited.commit)}</a>: <Text of={said.value} />{done.value ? "." : "…"}</p> : null}
      {edited.url ? <p>Proposed: <a href={edited.url} target="_blank" rel="noopener noreferrer"><Text of={edited.url} /></a></p> : null}
      {!edited.commit && !edited.url ? <p>{edited.branch ? <>Proposed as branch <code><Text of={edited.branch} /></code>.</> : "It was so already."}</p> : null}
      <button type="button" data-first onClick={() => (dialog.value = undefined)}>Close</button>
    </div>
  );
}

/** A command line, to be copied. */
export function CLI({ line }: { line: string }) {
  return <p class="cli"><code>{line}</code> <button type="button" onClick={() => void copy(line)} aria-label="Copy the command">Copy</button></p>;
}

// More is drawn by git, not by a page.
const mostLines = 4000;

/** A unified diff, by lines. */
export function Unified({ name, diff }: { name: string; diff: string }) {
  const lines = diff.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return (
    <figure class="diff">
      <figcaption><code><Text of={name} /></code></figcaption>
      <pre tabIndex={0} aria-label={"Changes of " + name}>
        {lines.slice(0, mostLines).map((line, i) => (
          <span key={i} class={i < 2 || line.startsWith("@@") ? "dim" : line.startsWith("+") ? "add" : line.startsWith("-") ? "del" : ""}><Text of={line} />{"\n"}</span>
        ))}
        {lines.length > mostLines ? <span class="dim">{count(lines.length - mostLines, "line")} more: git has them.</span> : null}
      </pre>
    </figure>
  );
}

/** Ask before something that is not a commit. */
export function confirm(title: string, says: ComponentChildren, cli: string, act: () => Promise<string>): void {
  dialog.value = () => <Confirmed title={title} says={says} cli={cli} act={act} />;
}

function Confirmed({ title, says, cli, act }: { title: string; says: ComponentChildren; cli: string; act: () => Promise<string> }) {
  const problem = useSignal<Refusal | undefined>(undefined);
  const said = useSignal("");
  const busy = useSignal(false);
  return (
    <>
      <h2 id="front-title">{title}</h2>
      <div>{says}</div>
      <CLI line={cli} />
      {problem.value ? <Refused problem={problem.value} /> : null}
      {said.value ? <p role="status"><Text of={said.value} /></p> : null}
      <div class="actions">
        {said.value ? null : (
          <button type="button" class="main" data-first disabled={busy.value} onClick={async () => {
            busy.value = true;
            problem.value = undefined;
            try {
              said.value = await act();
              record(title, cli, said.value);
            } catch (refusal) {
              problem.value = refusal as Refusal;
              record(title, cli, String(refusal));
            }
            busy.value = false;
          }}>{title}</button>
        )}
        <button type="button" onClick={() => (dialog.value = undefined)}>{said.value ? "Close" : "Cancel"}</button>
      </div>
    </>
  );
}
