// The commits that made the fleet, or a service, what it is.

import { below, no } from "../api";
import { propose } from "../act";
import type { Command } from "../commands";
import { summary } from "../live";
import { Actions, Ago, CommitLine, Facts, Loaded, Out, Problems, Text, useCommands, usePages, useRead } from "../parts";
import { adjust, at, given } from "../route";
import { fileAddress, line, short } from "../text";
import type { Commit as CommitRef, Revision, RevisionList, Source } from "../v1";

const colours: Record<string, string> = { current: "healthy", refused: "failed", waiting: "pending" };

const words: Record<string, string> = { current: "✓ served", superseded: "· served before", refused: "✗ refused", waiting: "○ waits" };

function Outcome({ of }: { of: Revision }) {
  const result = of.refusal ? "refused" : of.result ?? "";
  return <span class={"health " + (colours[result] ?? "")}>{words[result] ?? ""}</span>;
}

/** The newest commit that made a service what it is, in one line. */
export function LastChange({ service }: { service: string }) {
  const read = useRead<RevisionList>(below("/v1/services", service, "history"), { limit: 1 });
  const last = read.body?.items[0];
  if (!last) return <p class="dim">{read.body || read.problem ? "No commit is known to have changed it." : "…"}</p>;
  return <p><Outcome of={last} /> <CommitLine commit={last} /> <span class="dim">by <Text of={last.author} most={80} />, <Ago time={last.time} /> ago</span></p>;
}

/** Commits, the newest first. */
export function Revisions({ service, filter = "" }: { service?: string; filter?: string }) {
  const path = service ? below("/v1/services", service, "history") : "/v1/history";
  const { read, items, more } = usePages<Revision, RevisionList>(path, { limit: 50, filter });
  return (
    <Loaded read={read}>{() => (
      <>
        {items.length === 0 ? <p class="dim">There is no such commit.</p> : null}
        <div class="scroll"><table class="plain">
          <thead><tr><th>Commit</th><th>Ago</th><th>Subject</th><th>Author</th><th>Result</th></tr></thead>
          <tbody>
            {items.map((revision) => (
              <tr key={revision.id}>
                <td><a class="id" href={"/history/" + revision.id}>{short(revision.id)}</a></td><td><Ago time={revision.time} /></td>
                <td><Text of={revision.subject} most={200} />{revision.revertedBy ? <span class="dim"> (taken back by {short(revision.revertedBy)})</span> : null}</td>
                <td><Text of={revision.author} most={80} /></td><td><Outcome of={revision} /></td>
              </tr>
            ))}
          </tbody>
        </table></div>
        {more}
      </>
    )}</Loaded>
  );
}

/** Take a commit back by another. */
function undo(commit: CommitRef): Command {
  const cli = line("undo", short(commit.id));
  return {
    key: "z", title: "Take it back", off: no("edit"), cli,
    run: () => propose({
      title: "Take back " + short(commit.id), says: `A new commit does the opposite of “${commit.subject ?? ""}”.`, path: below("/v1/history", commit.id, "undo"), body: {}, cli,
    }),
  };
}

export function History() {
  const filter = given("filter");
  const newest = summary.value?.head;
  useCommands(newest?.id ? [{ ...undo(newest), title: "Take the newest commit back" }] : []);
  return (
    <div class="page">
      <h1>History</h1>
      <p class="tools"><input type="search" aria-label="Filter" placeholder="filter: words, author:ada, file:services/web.yaml, result:refused" value={filter}
        onInput={(event) => adjust({ filter: event.currentTarget.value })} /></p>
      <Revisions filter={filter} />
    </div>
  );
}

function Undo({ of }: { of: Revision }) {
  const command = { ...undo(of), ...(of.revertedBy ? { off: "It was taken back by " + short(of.revertedBy) + "." } : {}) };
  useCommands([command]);
  return <Actions of={[command]} />;
}

/** One commit. */
export function Commit({ id }: { id: string }) {
  const read = useRead<Revision>(below("/v1/history", id));
  const own = useRead<Source>("/v1/sources/_");
  void at.value;
  return (
    <div class="page">
      <h1>Commit <code>{short(id)}</code></h1>
      <Loaded read={read}>{(body) => (
        <>
          <Undo of={body} />
          <p><Text of={body.subject} /></p>
          <Facts of={[
            ["Id", <code>{body.id}</code>], ["Author", <Text of={body.author + (body.email ? ` <${body.email}>` : "")} />], ["When", <><Ago time={body.time} /> ago</>],
            ["Result", <Outcome of={body} />], ["Merge", body.merge ? "yes" : ""],
            ["Takes back", body.reverts ? <a class="id" href={"/history/" + body.reverts}>{short(body.reverts)}</a> : ""],
            ["Taken back by", body.revertedBy ? <a class="id" href={"/history/" + body.revertedBy}>{short(body.revertedBy)}</a> : ""],
          ]} />
          {body.refusal ? <Problems of={[body.refusal]} /> : null}
          <h2>Files</h2>
          <ul class="names">
            {body.files?.map((file) => <li key={file}><Out to={fileAddress(own.body?.url ?? "", body.id, file)}><code><Text of={file} /></code></Out></li>)}
          </ul>
          {body.leftOut ? <p class="dim">and {body.leftOut} more</p> : null}
          {body.incomplete ? <p class="dim">It changed more than the hub compares.</p> : null}
        </>
      )}</Loaded>
    </div>
  );
}
