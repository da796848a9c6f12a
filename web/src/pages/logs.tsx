// What the pods of a service print, all of them in one place.

import { signal, useComputed, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Refusal, address, below, get, sent } from "../api";
import { copy } from "../commands";
import { Refused, Text, useCommands } from "../parts";
import { levelOf, type Level } from "../levels";
import { adjust, given } from "../route";
import { count, line, logLine } from "../text";
import type { ObjectList } from "../v1";
import { Windowed } from "../windowed";

// The newest lines are kept: as many as the console in the terminal keeps.
const kept = 5000;
// Lines are drawn a few times a second, however many come.
const pace = 150;

interface Line {
  pod: string;
  text: string;
  level: Level;
}

// Without HTTP/2 a browser has six connections to a hub, of which the page needs some.
function connections(): number {
  const [entry] = performance.getEntriesByType("navigation") as PerformanceNavigationTiming[];
  return entry && /^h[23]/.test(entry.nextHopProtocol) ? 30 : 3;
}

interface Pod {
  namespace: string;
  name: string;
}

export function Logs({ cluster, service }: { cluster: string; service: string }) {
  const pods = useSignal<Pod[] | undefined>(undefined);
  const problem = useSignal<Refusal | undefined>(undefined);
  const failed = useSignal<Record<string, string>>({});
  const lines = useSignal<Line[]>([]);
  const dropped = useSignal(0);
  const following = useSignal(true);
  const search = useSignal("");
  const level = useSignal<Level | "">("");
  const only = given("pod");
  const previous = given("previous") === "1";
  const most = connections();

  useEffect(() => {
    const controller = new AbortController();
    get<ObjectList>(below("/v1/clusters", cluster, "services", service, "objects"), { limit: 500 }, controller.signal).then(
      (list) => (pods.value = list.items.filter((object) => object.kind === "Pod").map((object) => ({ namespace: object.namespace ?? "", name: object.name }))),
      (refusal: Refusal) => controller.signal.aborted || (problem.value = refusal));
    return () => controller.abort();
  }, [cluster, service]);

  const chosen = (pods.value ?? []).filter((pod) => !only || pod.name === only);
  const read = chosen.slice(0, most);
  useEffect(() => {
    const controller = new AbortController();
    let fresh: Line[] = [];
    lines.value = [];
    dropped.value = 0;
    failed.value = {};
    const timer = setInterval(() => {
      if (fresh.length === 0) return;
      const all = lines.value.concat(fresh);
      fresh = [];
      if (all.length > kept) dropped.value += all.length - kept;
      lines.value = all.length > kept ? all.slice(-kept) : all;
    }, pace);
    const take = (pod: string, text: string) => {
      const shown = logLine(text);
      fresh.push({ pod, text: shown, level: levelOf(shown) });
      if (fresh.length > 2 * kept) {
        dropped.value += kept;
        fresh = fresh.slice(-kept);
      }
    };
    for (const pod of read) {
      void tail(address(below("/v1/clusters", cluster, "pods", pod.namespace, pod.name, "logs"), { follow: !previous, tail: 500, previous }), controller.signal, (text) => take(pod.name, text)).catch(
        (refusal: unknown) => {
          if (!controller.signal.aborted) failed.value = { ...failed.value, [pod.name]: refusal instanceof Refusal ? refusal.message : "the log broke off" };
        });
    }
    return () => {
      controller.abort();
      clearInterval(timer);
    };
  }, [read.map((pod) => pod.name).join(" "), previous]);

  const shown = useComputed(() => {
    const word = search.value.toLowerCase();
    return lines.value.filter((one) => (!level.value || one.level === level.value) && (!word || one.text.toLowerCase().includes(word) || one.pod.includes(word)));
  });
  const cli = line("logs", "svc/" + service, "--cluster", cluster, ...(previous ? ["--previous"] : ["--follow"]));
  const download = () => {
    const url = URL.createObjectURL(new Blob(shown.value.map((one) => one.pod + " " + one.text + "\n"), { type: "text/plain" }));
    const link = document.createElement("a");
    link.href = url;
    link.download = `${service}-${cluster}.log`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  };
  useCommands([
    { key: "s", title: "Follow, or hold still", group: "In logs", run: () => (following.value = !following.value) },
    { key: "/", title: "Search", group: "In logs", run: () => document.getElementById("search")?.focus() },
    { key: "p", title: "Of the containers before these, or of these", group: "In logs", run: () => adjust({ previous: previous ? "" : "1" }) },
    { key: "C", title: "Copy the command", group: "In logs", cli, run: () => void copy(cli) },
    { title: "Download what is shown", group: "In logs", run: download },
  ]);
  if (problem.value) return <div class="page"><Refused problem={problem.value} /></div>;
  const names = Object.entries(failed.value);
  return (
    <>
      <div class="tools">
        <input id="search" type="search" aria-label="Search" placeholder="search" value={search.value} onInput={(event) => (search.value = event.currentTarget.value)} />
        <label>Pod <select value={only} onChange={(event) => adjust({ pod: event.currentTarget.value })}>
          <option value="">all ({pods.value?.length ?? "…"})</option>
          {pods.value?.map((pod) => <option key={pod.name} value={pod.name}>{pod.name}</option>)}
        </select></label>
        <label>Level <select value={level.value} onChange={(event) => (level.value = event.currentTarget.value as Level)}>
          {["", "error", "warning", "info", "debug"].map((word) => <option key={word} value={word}>{word || "all"}</option>)}
        </select></label>
        <button type="button" aria-pressed={previous} onClick={() => adjust({ previous: previous ? "" : "1" })}>Previous</button>
        <button type="button" aria-pressed={following.value} onClick={() => (following.value = !following.value)}>Follow</button>
        <button type="button" onClick={download}>Download</button>
        <span class="dim">{count(shown.value.length, "line")}{dropped.value ? `; ${dropped.value.toLocaleString("en")} older ones are not kept` : ""}
          {chosen.length > most ? `; ${most} of ${chosen.length} pods: choose one` : ""}</span>
      </div>
      {names.length > 0 ? <p class="warning tools">! {names.slice(0, 3).map(([pod, why]) => <span key={pod}><b><Text of={pod} /></b>: <Text of={why} most={200} /></span>)}</p> : null}
      {pods.value?.length === 0 ? <p class="tools dim">It has no pods on this cluster.</p> : null}
      <Windowed class="logs" role="log" label="Log lines" count={shown.value.length} end={following.value} onEnd={(end) => {
        if (!end && following.value && lastWheel.value > Date.now() - 300) following.value = false;
      }} row={(i) => {
        const one = shown.value[i];
        return one ? <div class={"line " + one.level}><span class="pod">{one.pod}</span> {one.text}</div> : null;
      }} />
    </>
  );
}

// Who scrolls wants to look at what is there; a list that grows scrolls by itself.
const lastWheel = signal(0);
for (const kind of ["wheel", "touchmove", "keydown"]) addEventListener(kind, () => (lastWheel.value = Date.now()), { passive: true });

/** The lines of a text as they come. */
async function tail(to: string, signal: AbortSignal, on: (line: string) => void): Promise<void> {
  const response = await sent(to, { cache: "no-store" }, signal, 0);
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    const parts = (rest + value).split("\n");
    rest = parts.pop()!;
    if (rest.length > 65_536) { // a line that does not end
      on(rest);
      rest = "";
    }
    for (const part of parts) on(part);
  }
  if (rest) on(rest);
}
