// Who did what where, on all replicas of the hub.

import { copy } from "../commands";
import { Ago, Loaded, Text, useCommands, usePages } from "../parts";
import { adjust, given } from "../route";
import { line } from "../text";
import type { AuditEntry, AuditList } from "../v1";

const fields = ["person", "cluster", "verb", "decision", "since", "until"] as const;

export function Audit() {
  const query = Object.fromEntries(fields.map((name) => [name, given(name)]));
  const { read, items, more } = usePages<AuditEntry, AuditList>("/v1/audit", { ...query, limit: 100 });
  const cli = line("audit", "list", ...fields.flatMap((name) => (query[name] ? ["--" + name, query[name]!] : [])));
  useCommands([{ key: "C", title: "Copy the command", cli, run: () => void copy(cli) }]);
  return (
    <div class="page">
      <h1>Audit</h1>
      <form class="tools flat" onSubmit={(event) => event.preventDefault()}>
        {fields.map((name) => (
          <label key={name}>{name} <input value={query[name]} size={name === "since" || name === "until" ? 12 : 14} placeholder={name === "since" ? "24h" : name === "decision" ? "allowed, denied" : ""}
            onChange={(event) => adjust({ [name]: event.currentTarget.value.trim() })} /></label>
        ))}
        <span class="dim">All of it, with its chain of digests: <code>plural audit export</code></span>
      </form>
      <Loaded read={read}>{(body) => (
        <>
          {body.missing.length > 0 ? <p class="warning">! Replicas that do not answer: {body.missing.join(", ")}. What they have is not in here.</p> : null}
          {items.length === 0 ? <p class="dim">Nobody did such a thing, as far as the log goes back.</p> : null}
          <div class="scroll"><table class="plain">
            <thead><tr><th>Ago</th><th>Who</th><th>Did</th><th>Where</th><th>Decision</th><th>From</th></tr></thead>
            <tbody>
              {items.map(({ record, hash }) => (
                <tr key={hash}>
                  <td><Ago time={record.time} /></td><td><Text of={record.person} most={80} /></td>
                  <td><Text of={record.verb} most={40} /> <Text of={[record.resource, record.subresource].filter(Boolean).join("/") || record.path} most={120} /></td>
                  <td><Text of={[record.cluster, record.namespace, record.name].filter(Boolean).join(" / ")} most={160} /></td>
                  <td class={record.decision === "denied" || record.decision === "forbidden" ? "health failed" : ""}><Text of={record.decision} />{record.status ? " " + record.status : ""}</td>
                  <td><Text of={record.source} most={60} /></td>
                </tr>
              ))}
            </tbody>
          </table></div>
          {more}
        </>
      )}</Loaded>
    </div>
  );
}
