// One cluster, with what runs on it and how its agent is reached.

import type { ComponentChild } from "preact";
import { below, no, post } from "../api";
import { confirm } from "../act";
import { copy, type Command } from "../commands";
import { Actions, Ago, Facts, Health, Loaded, Text, useCommands, useRead } from "../parts";
import { line } from "../text";
import type { ClusterDetail, ConnectionList, Synced } from "../v1";
import { Held } from "./deployment";
import { Deployments } from "./service";

/** Have agents look now. */
export function sync(kind: "cluster" | "service" | "source", name: string, path: string): Command {
  const cli = line(kind, "sync", name);
  return {
    key: "S", title: "Sync now", off: no("sync"), cli,
    run: () => confirm("Sync now", kind === "source" ? `The hub looks at ${name} now.` : `The agents that ${name} is about look at it now.`, cli, async () => {
      const answer = await post<Synced>(path, {});
      if (answer.asked === undefined) return "The hub looks at it.";
      return answer.absent ? `${answer.asked} asked; not connected: ${(answer.names ?? []).join(", ")}, which come by themselves.` : `${answer.asked} asked.`;
    }),
  };
}

export function ClusterPage({ name }: { name: string }) {
  const read = useRead<ClusterDetail>(below("/v1/clusters", name));
  const connections = useRead<ConnectionList>(below("/v1/clusters", name, "connections"));
  const actions = [sync("cluster", name, below("/v1/clusters", name, "sync"))];
  const kubectl = line("kubectl", name, "--", "get", "pods", "-A");
  useCommands([
    ...actions, { key: "c", title: "Copy the name", run: () => void copy(name) },
    { key: "C", title: "Copy a command for kubectl", cli: kubectl, run: () => void copy(kubectl) },
  ]);
  return (
    <div class="page">
      <div class="title flat"><h1><Text of={name} /></h1>{read.body ? <Health state={read.body.phase} /> : null}</div>
      <Actions of={actions} />
      <Loaded read={read}>{(body) => (
        <>
          {body.message ? <p><Text of={body.message} /></p> : null}
          <Facts of={[
            ["Services ready", `${body.ready} of ${body.services}`], ["Kubernetes", body.kubernetesVersion], ["Agent", body.agentVersion],
            ["Reported", <><Ago time={body.lastReport} /> ago</>], ["Connected", body.connected === undefined ? "" : body.connected ? "yes" : "no: nobody reaches it now"],
            ["Tags", <Text of={Object.entries(body.tags ?? {}).map(([key, value]) => key + "=" + value).join(" ")} />],
            ...Object.entries(body.parameters ?? {}).map(([key, value]): [string, ComponentChild] => [key, <Text of={value} most={400} />]),
          ]} />
          {body.held ? <Held of={body.held} service={body.held.names?.[0] ?? ""} cluster={name} /> : null}
          <h2>Services</h2>
          <Deployments of={body.deployments} name={(one) => one.service} leftOut={body.leftOut} all={"/fleet?filter=" + encodeURIComponent("cluster:" + name)} />
          <h2>Connections of its agents</h2>
          <Loaded read={connections}>{(list) => (
            list.items.length === 0 ? <p class="dim">None: kubectl, logs and shells do not reach it now.</p> : (
              <div class="scroll"><table class="plain">
                <thead><tr><th>Host</th><th>Replica</th><th>Since</th><th>Agent</th><th>Requests</th></tr></thead>
                <tbody>{list.items.map((one) => (
                  <tr key={one.name}><td><Text of={one.host} /></td><td><Text of={one.replica} /></td><td><Ago time={one.since} /></td><td><Text of={one.agentVersion} /></td><td>{one.streams}</td></tr>
                ))}</tbody>
              </table></div>
            )
          )}</Loaded>
        </>
      )}</Loaded>
    </div>
  );
}
