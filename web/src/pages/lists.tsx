// The lists of the fleet, with what each shows of a row.

import { copy, type Command } from "../commands";
import { below, no, post } from "../api";
import { Ago, Health, Text } from "../parts";
import { go, to } from "../route";
import type { Source } from "../rows";
import type { Column } from "../table";
import { age, count, line, plain } from "../text";
import type { Cluster, Deployment, Event, Service, Source as Upstream, Upgrade } from "../v1";
import { List, each } from "./list";

const has = (text: string, words: string[]): boolean => words.every((word) => text.toLowerCase().includes(word));

const deployments: Source<Deployment> = {
  path: "/v1/deployments", kind: "deployments", name: (row) => row.cluster + "/" + row.service,
  fits: (row, words) => words.every((word) => has(row.service, [word]) || has(row.cluster, [word])),
};

const ready = (row: { ready: number; objects: number }) => (row.objects ? `${row.ready}/${row.objects}` : "");

const columns: Column<Deployment>[] = [
  { name: "Service", sort: "service", cell: (row) => <Text of={row.service} /> },
  { name: "Cluster", sort: "cluster", cell: (row) => <Text of={row.cluster} /> },
  { name: "Health", sort: "health", kind: "phase", cell: (row) => <Health state={row.phase} /> },
  { name: "Version", sort: "version", kind: "minor", cell: (row) => <Text of={row.version} most={40} /> },
  { name: "Ready", sort: "ready", kind: "number", cell: ready },
  { name: "Message", kind: "wide", cell: (row) => <Text of={row.message || (row.suspended ? "suspended" : "")} most={400} /> },
];

/** Every service on every cluster. */
export function Fleet() {
  return (
    <List label="Services on clusters" cli={["status"]} source={deployments} columns={columns} order="-health,cluster,service" keys="words, health:degraded, env:prod, !web, message~image"
      href={(row) => to("deployments", row.cluster, row.service)} empty={<>No service runs on any cluster. Add one: <code>plural service create</code></>}
      actions={(rows) => {
        const row = rows[0];
        const many = rows.length > 1 ? ` (${count(rows.length, "row")})` : "";
        const tab = (key: string, title: string, name: string): Command => ({
          key, title, group: "About the row", off: row ? undefined : "There is no row.",
          run: () => row && go(to("deployments", row.cluster, row.service) + (name ? "?tab=" + name : "")),
        });
        return [
          tab("d", "Describe", ""), tab("t", "Tree of objects", "objects"), tab("D", "Diff", "diff"), tab("l", "Logs", "logs"), tab("h", "History", "history"), tab("E", "Events", "events"),
          {
            key: "S", title: "Sync now" + many, group: "About the row", off: no("sync"),
            run: () => void each("Sync", (one) => line("service", "sync", one.service, "--cluster", one.cluster), rows,
              (one) => post(below("/v1/services", one.service, "sync"), { clusters: [one.cluster] })),
          },
          {
            key: "R", title: "Restart pods" + many, group: "About the row",
            run: () => void each("Restart", (one) => line("service", "restart", one.service, "--cluster", one.cluster), rows,
              (one) => post(below("/v1/clusters", one.cluster, "services", one.service, "restart"), {})),
          },
        ];
      }} />
  );
}

const clusters: Source<Cluster> = {
  path: "/v1/clusters", kind: "clusters", name: (row) => row.name, fits: (row, words) => has(row.name, words),
};

/** All clusters. */
export function Clusters() {
  return (
    <List label="Clusters" cli={["cluster", "list"]} source={clusters} order="-health,name" keys="words, health:stale, env:prod, kubernetes:v1.33*"
      href={(row) => to("clusters", row.name)} empty={<>The fleet has no clusters. Add one: <code>plural cluster create</code></>}
      columns={[
        { name: "Cluster", sort: "name", cell: (row) => <Text of={row.name} /> },
        { name: "Health", sort: "health", kind: "phase", cell: (row) => <Health state={row.phase} /> },
        { name: "Ready", sort: "ready", kind: "number", cell: (row) => `${row.ready}/${row.services}` },
        { name: "Kubernetes", sort: "kubernetes", kind: "minor", cell: (row) => <Text of={row.kubernetesVersion} most={30} /> },
        { name: "Agent", sort: "agent", kind: "minor", cell: (row) => <Text of={row.agentVersion} most={30} /> },
        { name: "Reported", sort: "reported", kind: "number", cell: (row) => <Ago time={row.lastReport} /> },
        { name: "Tags", kind: "minor", cell: (row) => <Text of={Object.entries(row.tags ?? {}).map(([key, value]) => key + "=" + value).join(" ")} most={200} /> },
        { name: "Message", kind: "wide", cell: (row) => <Text of={row.message} most={400} /> },
      ]}
      actions={(rows) => [{
        key: "S", title: "Sync now", group: "About the row", off: no("sync"),
        run: () => void each("Sync", (one) => line("cluster", "sync", one.name), rows, (one) => post(below("/v1/clusters", one.name, "sync"), {})),
      }]} />
  );
}

const services: Source<Service> = {
  path: "/v1/services", kind: "services", name: (row) => row.name, fits: (row, words) => has(row.name, words),
};

/** All services, each over all of its clusters. */
export function Services() {
  return (
    <List label="Services" cli={["service", "list"]} source={services} order="-health,name" keys="words, health:failed, namespace:shop, source:charts"
      href={(row) => to("services", row.name)} empty={<>The fleet has no services. Add one: <code>plural service create</code></>}
      columns={[
        { name: "Service", sort: "name", cell: (row) => <Text of={row.name} /> },
        { name: "Health", sort: "health", kind: "phase", cell: (row) => <Health state={row.phase} /> },
        { name: "Ready", sort: "ready", kind: "number", cell: (row) => `${row.ready}/${row.clusters}` },
        { name: "Namespace", sort: "namespace", kind: "minor", cell: (row) => <Text of={row.namespace} /> },
        { name: "Source", sort: "source", kind: "minor", cell: (row) => <Text of={row.source === "." ? row.path : row.source + (row.ref ? " " + row.ref : "")} most={60} /> },
        { name: "Renderer", sort: "renderer", kind: "minor", cell: (row) => <Text of={row.renderer} /> },
        { name: "Message", kind: "wide", cell: (row) => <Text of={row.message || (row.suspended ? "suspended" : "")} most={400} /> },
      ]}
      actions={(rows) => [{
        key: "S", title: "Sync now", group: "About the row", off: no("sync"),
        run: () => void each("Sync", (one) => line("service", "sync", one.name), rows, (one) => post(below("/v1/services", one.name, "sync"), {})),
      }]} />
  );
}

/** The name of a source in paths. */
export const sourcePath = (name: string): string => (name === "." ? "_" : name);

const sources: Source<Upstream> = { path: "/v1/sources", kind: "sources", name: (row) => row.name, fits: (row, words) => has(row.name, words) };

/** All sources. */
export function Sources() {
  return (
    <List label="Sources" cli={["source", "list"]} source={sources} keys="words, kind:helm, error~denied" faults="!error:"
      href={(row) => to("sources", sourcePath(row.name))} empty="The fleet has no sources."
      columns={[
        { name: "Source", sort: "name", cell: (row) => <Text of={row.name === "." ? "installation repo" : row.name} /> },
        { name: "Kind", sort: "kind", kind: "minor", cell: (row) => row.kind },
        { name: "Fetched", sort: "age", kind: "number", cell: (row) => <Ago time={row.lastFetch} /> },
        { name: "Health", kind: "phase", cell: (row) => <Health state={row.error ? "failed" : "healthy"} /> },
        { name: "Ref", kind: "minor", cell: (row) => <Text of={row.ref} most={40} /> },
        { name: "Address", kind: "minor", cell: (row) => <Text of={row.url} most={200} /> },
        { name: "Error", kind: "wide", cell: (row) => <Text of={row.error} most={400} /> },
      ]}
      actions={(rows) => [{
        key: "S", title: "Look at it now", group: "About the row", off: no("sync"),
        run: () => void each("Sync", (one) => line("source", "sync", one.name), rows, (one) => post(below("/v1/sources", sourcePath(one.name), "sync"), {})),
      }]} />
  );
}

const upgrades: Source<Upgrade> = { path: "/v1/upgrades", kind: "upgrades", name: (row) => row.installation, fits: (row, words) => has(row.installation, words) };

/** What is installed of packages, and what waits to be upgraded. */
export function Packages() {
  return (
    <List label="Packages" cli={["package", "list"]} source={upgrades} keys="words, state:blocked, policy:manual" faults="state:blocked,reverted"
      href={(row) => to("packages", row.installation)} empty={<>No package is installed. Add one: <code>plural package add</code></>}
      columns={[
        { name: "Installation", sort: "installation", cell: (row) => <Text of={row.installation} /> },
        { name: "Package", sort: "package", kind: "minor", cell: (row) => <Text of={row.package} /> },
        { name: "Version", cell: (row) => <Text of={row.version} most={40} /> },
        { name: "Newest", cell: (row) => <Text of={row.newest} most={40} /> },
        { name: "State", sort: "state", kind: "phase", cell: (row) => <Health state={row.state} /> },
        { name: "Policy", kind: "minor", cell: (row) => row.policy },
        { name: "Why", kind: "wide", cell: (row) => <Text of={row.reasons?.[0]?.message} most={400} /> },
      ]} />
  );
}

const events: Source<Event> = { path: "/v1/events", kind: "events", name: (row) => row.time + " " + row.cluster + "/" + row.service + " " + row.reason };

/** What happened lately. */
export function Events() {
  return (
    <List label="Events" cli={["events"]} source={events} keys="words, reason:Degraded, warning:true" faults="warning:true"
      href={(row) => (row.cluster && row.service ? to("deployments", row.cluster, row.service) : row.cluster ? to("clusters", row.cluster) : row.service ? to("services", row.service) : "/hub")}
      empty="Nothing has happened lately."
      columns={[
        { name: "Reason", cell: (row) => <span class={row.warning ? "health degraded" : ""}>{row.warning ? "! " : ""}{plain(row.reason, 60)}</span> },
        { name: "Ago", kind: "number", cell: (row) => <Ago time={row.time} /> },
        { name: "Service", cell: (row) => <Text of={row.service} /> },
        { name: "Cluster", cell: (row) => <Text of={row.cluster} /> },
        { name: "Message", kind: "wide", cell: (row) => <Text of={row.message} most={400} /> },
      ]}
      actions={(rows) => [{
        title: "Copy the message", off: rows[0] ? undefined : "There is no row.", run: () => void copy(age(rows[0]!.time, Date.now()) + " ago: " + (rows[0]!.message ?? "")),
      }]} />
  );
}
