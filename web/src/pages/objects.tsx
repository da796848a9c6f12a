// The live objects of a service in a cluster, as a tree down to pods, and what Kubernetes says of them.

import { useComputed, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Refusal, address, below, post } from "../api";
import { confirm } from "../act";
import { copy, type Command } from "../commands";
import { listen } from "../live";
import { Ago, Health, Loaded, Refused, Text, useCommands, useRead } from "../parts";
import { go, to } from "../route";
import { count, line } from "../text";
import type { Acted, Object as Live, ObjectEvent } from "../v1";
import { twigs, type Twig } from "../twigs";
import { Windowed } from "../windowed";

/** What an event of the watched list says. */
interface ObjectChanges {
  changed?: Live[];
  deleted?: string[];
}

export function Tree({ cluster, service }: { cluster: string; service: string }) {
  const objects = useSignal<Map<string, Live>>(new Map());
  const ready = useSignal(false);
  const problem = useSignal<Refusal | undefined>(undefined);
  const shut = useSignal<ReadonlySet<string>>(new Set());
  const spread = useSignal<ReadonlySet<string>>(new Set());
  const filter = useSignal("");
  const at = useSignal(0);
  const lines = useComputed(() => twigs(objects.value, shut.value, spread.value, filter.value));

  useEffect(() => {
    let controller = new AbortController();
    let timer: number | undefined;
    const watch = async () => {
      const fresh = new Map<string, Live>();
      let begun = false;
      let again = 3000;
      try {
        await listen(address(below("/v1/clusters", cluster, "services", service, "objects"), { watch: true }), controller, (event, data) => {
          if (event === "objects") {
            const changes = JSON.parse(data) as ObjectChanges;
            for (const object of changes.changed ?? []) fresh.set(object.uid, object);
            for (const uid of changes.deleted ?? []) fresh.delete(uid);
            if (begun) objects.value = new Map(fresh);
          } else if (event === "ready") {
            begun = true;
            problem.value = undefined;
            ready.value = true;
            objects.value = new Map(fresh);
          } else if (event === "reset") {
            const told = JSON.parse(data) as { message: string; fix?: string };
            problem.value = new Refusal(503, told.message, told.fix);
          }
        });
      } catch (refusal) {
        if (controller.signal.aborted && left) return;
        if (refusal instanceof Refusal && refusal.status !== 0) problem.value = refusal;
        again = 5000;
      }
      if (left) return;
      controller = new AbortController();
      timer = setTimeout(() => void watch(), again * (0.7 + Math.random() * 0.6)) as unknown as number;
    };
    let left = false;
    void watch();
    return () => {
      left = true;
      clearTimeout(timer);
      controller.abort();
    };
  }, [cluster, service]);

  const place = Math.min(at.value, Math.max(0, lines.value.length - 1));
  const twig = lines.value[place];
  const flip = (set: { value: ReadonlySet<string> }, key: string, on: boolean) => {
    const next = new Set(set.value);
    if (on) next.add(key);
    else next.delete(key);
    set.value = next;
  };
  const open = (on: boolean) => {
    if (twig?.group) flip(spread, twig.group.key, on);
    else if (twig?.object && twig.children > 0) flip(shut, twig.object.uid, !on);
  };
  const move = (by: number) => (at.value = Math.max(0, Math.min(lines.value.length - 1, place + by)));
  const object = twig?.object;
  const workload = object && ["deployments", "statefulsets", "daemonsets"].includes(object.resource) && object.group === "apps";
  const ref = object ? { group: object.group, version: object.version, resource: object.resource, namespace: object.namespace, name: object.name } : undefined;
  const commands: Command[] = [
    { key: "j", title: "Down", group: "In the tree", run: () => move(1) }, { key: "arrowdown", title: "Down", group: "In the tree", run: () => move(1) },
    { key: "k", title: "Up", group: "In the tree", run: () => move(-1) }, { key: "arrowup", title: "Up", group: "In the tree", run: () => move(-1) },
    { key: "g", title: "First", group: "In the tree", run: () => move(-1e9) }, { key: "G", title: "Last", group: "In the tree", run: () => move(1e9) },
    { key: "arrowright", title: "Open", group: "In the tree", run: () => open(true) }, { key: "arrowleft", title: "Fold", group: "In the tree", run: () => open(false) },
    { key: "enter", title: "Open or fold", group: "In the tree", run: () => open(twig?.group ? true : !twig?.open) },
    { key: "c", title: "Copy the object's name", group: "In the tree", run: () => object && void copy(`${object.kind} ${object.namespace ? object.namespace + "/" : ""}${object.name}`) },
    {
      key: "l", title: "Logs", group: "In the tree", run: () => go(to("deployments", cluster, service) + "?tab=logs" + (object?.kind === "Pod" ? "&pod=" + encodeURIComponent(object.name) : "")),
    },
    {
      key: "R", title: "Restart the pods of this object", group: "In the tree", off: workload ? undefined : "Deployments, StatefulSets and DaemonSets have pods to restart.",
      run: () => object && confirm("Restart pods", `The pods of ${object.kind} ${object.name} on ${cluster} are made anew.`,
        line("kubectl", cluster, "--", "rollout", "restart", object.resource + "/" + object.name, ...(object.namespace ? ["-n", object.namespace] : [])),
        async () => said(await post<Acted>(below("/v1/clusters", cluster, "objects", "restart"), ref))),
    },
  ];
  useCommands(commands);
  if (problem.value && !ready.value) return <div class="page"><Refused problem={problem.value} /></div>;
  return (
    <>
      <div class="tools">
        <input type="search" aria-label="Filter the tree" placeholder="filter: kind, name or health" value={filter.value} onInput={(event) => (filter.value = event.currentTarget.value)} />
        <span>{ready.value ? count(objects.value.size, "object") : "Asking the cluster…"}</span>
        {problem.value ? <span class="health stale">⧖ not live: <Text of={problem.value.message} /></span> : null}
      </div>
      <Windowed class="tree" role="treegrid" label="Objects" count={lines.value.length} at={place} active={lines.value.length ? "twig-" + place : undefined}
        row={(i) => {
          const one = lines.value[i];
          return one ? <Row twig={one} place={i} at={i === place} onClick={() => {
            if (i === place) open(one.group ? true : !one.open);
            at.value = i;
          }} /> : null;
        }} />
    </>
  );
}

const said = (acted: Acted): string => acted.objects.map((object) => `${object.name}: ${object.done ? "done" : object.error}${object.note ? " (" + object.note + ")" : ""}`).join("; ");

function Row({ twig, place, at, onClick }: { twig: Twig; place: number; at: boolean; onClick(): void }) {
  const { object, group } = twig;
  return (
    <div id={"twig-" + place} role="row" aria-level={twig.depth + 1} aria-rowindex={place + 1} aria-selected={at} aria-expanded={group ? false : twig.children > 0 ? twig.open : undefined}
      class={"twig" + (at ? " at" : "")} onClick={onClick}>
      <span role="gridcell" class="cell" style={{ paddingLeft: twig.depth * 18 + "px" }}>
        <span class="fold" aria-hidden="true">{group ? "▸" : twig.children > 0 ? (twig.open ? "▾" : "▸") : ""}</span>
        {group ? <><b>{group.count}</b> {group.kind}s {group.health}</> : <><span class="dim"><Text of={object!.kind} /></span> <Text of={object!.name} most={253} /></>}
      </span>
      <span role="gridcell" class="cell">{object ? <><Health state={object.health} />{object.deleting ? " deleting" : ""}</> : null}</span>
      <span role="gridcell" class="cell number">{object ? <Ago time={object.created} /> : null}</span>
      <span role="gridcell" class="cell dim">{object ? <Text of={object.message} most={300} /> : null}</span>
    </div>
  );
}

/** What Kubernetes says happened to a service's objects. */
export function ObjectEvents({ cluster, service }: { cluster: string; service: string }) {
  const read = useRead<{ items: ObjectEvent[]; total: number }>(below("/v1/clusters", cluster, "services", service, "events"), { limit: 200 });
  return (
    <Loaded read={read}>{(body) => (
      body.items.length === 0 ? <p class="dim">Kubernetes has no events of its objects.</p> : (
        <div class="scroll"><table class="plain">
          <thead><tr><th>Ago</th><th>Reason</th><th>Object</th><th>Message</th><th>Times</th></tr></thead>
          <tbody>
            {body.items.map((event, i) => (
              <tr key={i}>
                <td><Ago time={event.time} /></td><td class={event.warning ? "health degraded" : ""}>{event.warning ? "! " : ""}<Text of={event.reason} /></td>
                <td><Text of={event.kind + " " + event.name} /></td><td><Text of={event.message} /></td><td>{event.count ?? ""}</td>
              </tr>
            ))}
          </tbody>
        </table></div>
      )
    )}</Loaded>
  );
}
