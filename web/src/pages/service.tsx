// One service over all of its clusters.

import { useSignal } from "@preact/signals";
import { below, no } from "../api";
import { propose } from "../act";
import { copy, dialog, type Command } from "../commands";
import { Actions, Facts, Health, Loaded, Out, Tabs, Text, useCommands, useRead } from "../parts";
import { given, go, to } from "../route";
import { fileAddress, line, short } from "../text";
import type { Deployment, Service, Source } from "../v1";
import { sync } from "./cluster";
import { Held, edits } from "./deployment";
import { LastChange, Revisions } from "./history";
import { sourcePath } from "./lists";

const tabs: [string, string][] = [["", "Clusters"], ["history", "History"]];

export function ServicePage({ name }: { name: string }) {
  const read = useRead<Service>(below("/v1/services", name));
  const own = useRead<Source>("/v1/sources/_");
  const tab = given("tab");
  const actions: Command[] = [
    sync("service", name, below("/v1/services", name, "sync")),
    ...edits(name, read.body?.suspended ?? false),
    {
      key: "e", title: "Change", off: no("edit"), cli: line("service", "set", name, "PARAMETER=VALUE"),
      run: () => (dialog.value = () => <Set service={name} now={read.body} />),
    },
  ];
  useCommands([
    ...actions, { key: "c", title: "Copy the name", run: () => void copy(name) },
    { key: "h", title: "History", run: () => go(to("services", name) + "?tab=history") },
    { key: "d", title: "Clusters", run: () => go(to("services", name)) },
  ]);
  return (
    <>
      <div class="title"><h1><Text of={name} /></h1>{read.body ? <Health state={read.body.phase} /> : null}</div>
      <Tabs names={tabs} now={tab} base={to("services", name)} />
      <div class="page">
        {tab === "history" ? <Revisions service={name} /> : (
          <>
            <Actions of={actions} />
            <LastChange service={name} />
            <Loaded read={read}>{(body) => (
              <>
                {body.message ? <p><Text of={body.message} /></p> : null}
                <Facts of={[
                  ["Ready", `${body.ready} of ${body.clusters} clusters`],
                  ["Source", body.source === "."
                    ? <Out to={fileAddress(own.body?.url ?? "", body.commit ?? "", body.path)}><Text of={body.path} /></Out>
                    : <><a href={to("sources", sourcePath(body.source))}><Text of={body.source} /></a> <Text of={body.path} /></>],
                  ["Ref", body.ref], ["Commit", body.commit ? <code>{short(body.commit)}</code> : ""],
                  ["Renderer", body.renderer], ["Namespace", body.namespace], ["Suspended", body.suspended ? "yes" : ""],
                ]} />
                <Deployments of={body.deployments ?? []} name={(one) => one.cluster} leftOut={body.leftOut} all={"/fleet?filter=" + encodeURIComponent("service:" + name)} />
                {body.deployments?.filter((one) => one.held).slice(0, 3).map((one) => <Held key={one.cluster} of={one.held} service={name} cluster={one.cluster} />)}
              </>
            )}</Loaded>
          </>
        )}
      </div>
    </>
  );
}

/** Rows of one service or of one cluster. */
export function Deployments({ of, name, leftOut, all }: { of: Deployment[]; name(one: Deployment): string; leftOut: number | undefined; all: string }) {
  if (of.length === 0) return <p class="dim">It runs nowhere.</p>;
  return (
    <>
      <div class="scroll"><table class="plain">
        <thead><tr><th>Name</th><th>Health</th><th>Ready</th><th>Version</th><th>Message</th></tr></thead>
        <tbody>
          {of.slice(0, 200).map((one) => (
            <tr key={one.cluster + "/" + one.service}>
              <td><a href={to("deployments", one.cluster, one.service)}><Text of={name(one)} /></a></td><td><Health state={one.phase} /></td>
              <td>{one.objects ? `${one.ready}/${one.objects}` : ""}</td><td><Text of={one.version} most={40} /></td><td><Text of={one.message} most={300} /></td>
            </tr>
          ))}
        </tbody>
      </table></div>
      {of.length > 200 || leftOut ? <p><a href={all}>All of them</a></p> : null}
    </>
  );
}

interface Pair {
  name: string;
  value: string;
  gone: boolean;
}

/** What a service is to have: shown as the commit it would be, before it is one. */
function Set({ service, now }: { service: string; now: Service | undefined }) {
  const parameters = useSignal<Pair[]>([{ name: "", value: "", gone: false }]);
  const values = useSignal<Pair[]>([]);
  const ref = useSignal<string | undefined>(undefined);
  const pairs = (of: { value: Pair[] }, noun: string) => (
    <fieldset>
      <legend>{noun}s</legend>
      {of.value.map((pair, i) => {
        const set = (change: Partial<Pair>) => (of.value = of.value.map((one, at) => (at === i ? { ...one, ...change } : one)));
        return (
          <div class="pair" key={i}>
            <input aria-label={noun} placeholder={noun.toLowerCase()} value={pair.name} autocomplete="off" spellcheck={false} data-first={i === 0 ? true : undefined} onInput={(event) => set({ name: event.currentTarget.value })} />
            <input aria-label="Value" placeholder="value" value={pair.value} disabled={pair.gone} autocomplete="off" spellcheck={false} onInput={(event) => set({ value: event.currentTarget.value })} />
            <label><input type="checkbox" checked={pair.gone} onChange={(event) => set({ gone: event.currentTarget.checked })} /> take away</label>
          </div>
        );
      })}
      <button type="button" onClick={() => (of.value = [...of.value, { name: "", value: "", gone: false }])}>One more</button>
    </fieldset>
  );
  const ask = () => {
    const given = parameters.value.filter((pair) => pair.name);
    const typed = values.value.filter((pair) => pair.name);
    const body: Record<string, unknown> = {};
    if (given.length) body.parameters = Object.fromEntries(given.map((pair) => [pair.name, pair.gone ? null : pair.value]));
    const texts = typed.filter((pair) => !pair.gone);
    const gone = typed.filter((pair) => pair.gone);
    if (texts.length) body.valueTexts = Object.fromEntries(texts.map((pair) => [pair.name, pair.value]));
    if (gone.length) body.values = Object.fromEntries(gone.map((pair) => [pair.name, null]));
    if (ref.value !== undefined) body.ref = ref.value;
    const cli = line("service", "set", service, ...given.map((pair) => (pair.gone ? pair.name + "-" : pair.name + "=" + pair.value)),
      ...typed.flatMap((pair) => ["--value", pair.gone ? pair.name + "-" : pair.name + "=" + pair.value]), ...(ref.value !== undefined ? ["--ref", ref.value] : []));
    propose({ title: "Change " + service, says: "Only these fields of its file change. All of the repo is checked with them.", path: below("/v1/services", service, "set"), body, cli, service });
  };
  const empty = ref.value === undefined && ![...parameters.value, ...values.value].some((pair) => pair.name);
  return (
    <form class="set" onSubmit={(event) => {
      event.preventDefault();
      if (!empty) ask();
    }}>
      <h2 id="front-title">Change {service}</h2>
      {pairs(parameters, "Parameter")}
      {now?.renderer === "helm" ? pairs(values, "Helm value") : null}
      {now?.source !== "." ? (
        <label>Ref <input placeholder={now?.ref || "of its source"} value={ref.value ?? ""} onInput={(event) => (ref.value = event.currentTarget.value)} /></label>
      ) : null}
      <div class="actions"><button type="submit" class="main" disabled={empty}>Show the commit</button><button type="button" onClick={() => (dialog.value = undefined)}>Cancel</button></div>
    </form>
  );
}
