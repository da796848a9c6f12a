// One service on one cluster: what it should be, what it is, what its objects are.

import { below, no, post } from "../api";
import { confirm, propose } from "../act";
import { copy, type Command } from "../commands";
import { Actions, Ago, Facts, Health, Loaded, Problems, Tabs, Text, useCommands, useRead } from "../parts";
import { given, go, to } from "../route";
import { line, short } from "../text";
import type { Acted, Deployment, Test, Waiting } from "../v1";
import { Unfold } from "../unfold";
import { Diff } from "./diff";
import { Logs } from "./logs";
import { ObjectEvents, Tree } from "./objects";
import { LastChange, Revisions } from "./history";

const tabs: [string, string][] = [["", "Overview"], ["objects", "Objects"], ["diff", "Diff"], ["logs", "Logs"], ["events", "Events"], ["history", "History"]];

/** Edits of a service that are one commit each. */
export function edits(service: string, suspended: boolean): Command[] {
  const path = below("/v1/services", service);
  const verb = suspended ? "resume" : "suspend";
  return [{
    key: "u", title: suspended ? "Resume" : "Suspend", off: no("edit"), cli: line("service", verb, service),
    run: () => propose({
      title: (suspended ? "Resume " : "Suspend ") + service, path: path + "/" + verb, body: {}, cli: line("service", verb, service), service,
      says: suspended ? "Agents take it up again, on all of its clusters." : "Agents leave it as it is, on all of its clusters, until it is resumed.",
    }),
  }];
}

export function DeploymentPage({ cluster, service }: { cluster: string; service: string }) {
  const read = useRead<Deployment>(below("/v1/deployments", cluster, service));
  const tab = given("tab");
  const base = to("deployments", cluster, service);
  const commands: Command[] = [
    ...([["d", ""], ["t", "objects"], ["D", "diff"], ["l", "logs"], ["E", "events"], ["h", "history"]] as const).map(([key, name]): Command => ({
      key, title: "Show " + tabs.find(([tab]) => tab === name)![1].toLowerCase(), run: () => go(base + (name ? "?tab=" + name : "")),
    })),
    { key: "c", title: "Copy the name", run: () => void copy(cluster + "/" + service) },
  ];
  const actions: Command[] = [
    {
      key: "S", title: "Sync now", off: no("sync"), cli: line("service", "sync", service, "--cluster", cluster),
      run: () => confirm("Sync now", `The agent of ${cluster} looks at ${service} now.`, line("service", "sync", service, "--cluster", cluster), async () => {
        const answer = await post<{ absent: number }>(below("/v1/services", service, "sync"), { clusters: [cluster] });
        return answer.absent ? "The agent is not connected: it comes by itself." : "The agent was asked.";
      }),
    },
    {
      key: "R", title: "Restart pods", cli: line("service", "restart", service, "--cluster", cluster),
      run: () => confirm("Restart pods", `All pods of ${service} on ${cluster} are made anew, a few at a time.`, line("service", "restart", service, "--cluster", cluster), async () => {
        const answer = await post<Acted>(below("/v1/clusters", cluster, "services", service, "restart"), {});
        const failed = answer.objects.filter((object) => !object.done);
        return failed.length ? failed.map((object) => `${object.name}: ${object.error}`).join("; ") : answer.objects.map((object) => object.name).join(", ") + " restarted.";
      }),
    },
    ...edits(service, read.body?.suspended ?? false),
  ];
  useCommands([...actions, ...commands]);
  return (
    <>
      <div class="title">
        <h1><a href={to("services", service)}><Text of={service} /></a> on <a href={to("clusters", cluster)}><Text of={cluster} /></a></h1>
        {read.body ? <Health state={read.body.phase} /> : null}
      </div>
      <Tabs names={tabs} now={tab} base={base} />
      {tab === "objects" ? <Tree cluster={cluster} service={service} />
        : tab === "diff" ? <div class="page"><Diff cluster={cluster} service={service} /></div>
        : tab === "logs" ? <Logs cluster={cluster} service={service} />
        : tab === "events" ? <div class="page"><ObjectEvents cluster={cluster} service={service} /></div>
        : tab === "history" ? <div class="page"><Revisions service={service} /></div>
        : <div class="page"><Actions of={actions} /><LastChange service={service} /><Loaded read={read}>{(body) => <Overview of={body} />}</Loaded></div>}
    </>
  );
}

function Overview({ of }: { of: Deployment }) {
  return (
    <>
      {of.message ? <p><Text of={of.message} /></p> : null}
      <Facts of={[
        ["Objects ready", `${of.ready} of ${of.objects}`],
        ["Desired", of.version || <code>{short(of.key)}</code>],
        ["Applied", of.appliedKey ? (of.appliedKey === of.key ? "the same" : of.appliedVersion || <code>{short(of.appliedKey)}</code>) : "nothing yet"],
        ["Quarantined", of.quarantinedKey ? <code>{short(of.quarantinedKey)}</code> : ""],
        ["Suspended", of.suspended ? "yes: its agent leaves it as it is" : ""],
        ["Left over", of.leftover ? "yes: nothing asks for it any more" : ""],
        ["API server", of.unreached ? "gives its agent no answer" : ""],
      ]} />
      <Held of={of.held} service={of.service} cluster={of.cluster} />
      <Problems of={of.problems} />
      <Tests of={of.tests} />
      {of.notes?.length ? <><h2>Notes</h2><ul>{of.notes.map((note) => <li key={note}><Text of={note} /></li>)}</ul></> : null}
    </>
  );
}

/** Deletions that wait for somebody, and how to agree to them. */
export function Held({ of, service, cluster }: { of: Waiting | undefined; service: string; cluster: string }) {
  if (!of) return null;
  const token = of.unchecked ? of.token + "@" + cluster : of.token;
  const cli = line("service", "ack", service, ...(of.unchecked ? ["--cluster", cluster] : []));
  return (
    <section class="waits">
      <h2>{of.count} deletions wait for a person</h2>
      <p><Text of={of.message} /></p>
      <ul class="names">{of.names?.map((name) => <li key={name}><code><Text of={name} /></code></li>)}</ul>
      {(of.names?.length ?? 0) < of.count ? <p class="dim">and {of.count - (of.names?.length ?? 0)} more</p> : null}
      <Actions of={[{
        key: "a", title: "Agree to delete", off: no("edit"), cli,
        run: () => propose({
          title: "Agree to deletions of " + service, says: `${of.count} objects are deleted once this is committed. Others than these wait again.`,
          path: below("/v1/services", service, "ack"), body: { token }, cli, service,
        }),
      }]} />
    </section>
  );
}

function Tests({ of }: { of: Test[] | undefined }) {
  if (!of?.length) return null;
  return (
    <>
      <h2>Tests</h2>
      <table class="plain">
        <thead><tr><th>Test</th><th>Outcome</th><th>Took</th><th>Finished</th><th>Message</th></tr></thead>
        <tbody>
          {of.map((test) => (
            <tr key={test.name}>
              <td><Text of={test.name} /></td><td><Health state={test.outcome} /></td><td>{test.tookSeconds ? test.tookSeconds.toFixed(1) + " s" : ""}</td>
              <td><Ago time={test.finished} /></td><td><Text of={test.message} />{test.log ? <Unfold title="log"><pre tabIndex={0}><Text of={test.log} most={20000} /></pre></Unfold> : null}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}
