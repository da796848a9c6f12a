// What can be done, to be typed; the keys; and what was done.

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { get } from "./api";
import { copy, dialog, doneHere, say, type Command } from "./commands";
import { clock } from "./parts";
import { go, to } from "./route";
import { age, plain } from "./text";
import type { ClusterList, ServiceList } from "./v1";

const shownKey = (key: string | undefined): string => key?.replace("arrow", "") ?? "";

/** All words that were typed are in it. */
const fits = (title: string, typed: string): boolean => typed.toLowerCase().split(/\s+/).every((word) => title.toLowerCase().includes(word));

/** Commands, clusters and services by name. */
export function Palette({ all }: { all: Command[] }) {
  const typed = useSignal("");
  const at = useSignal(0);
  const found = useSignal<Command[]>([]);
  const box = useRef<HTMLUListElement>(null);
  useEffect(() => {
    const name = typed.value.trim();
    found.value = found.value.filter((command) => fits(command.title, name));
    if (name === "") return;
    const controller = new AbortController();
    const timer = setTimeout(async () => {
      const query = { name, limit: 6 };
      try {
        const [services, clusters] = await Promise.all([
          get<ServiceList>("/v1/services", query, controller.signal), get<ClusterList>("/v1/clusters", query, controller.signal),
        ]);
        found.value = [
          ...services.items.map((one): Command => ({ title: "service " + one.name, run: () => go(to("services", one.name)) })),
          ...clusters.items.map((one): Command => ({ title: "cluster " + one.name, run: () => go(to("clusters", one.name)) })),
        ];
      } catch {
        // The commands are there without them.
      }
    }, 80);
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [typed.value]);
  const shown = [...all.filter((command, i) => fits(command.title, typed.value) && all.findIndex((one) => one.title === command.title) === i), ...found.value];
  const chosen = Math.min(at.value, shown.length - 1);
  const run = (command: Command | undefined) => {
    if (!command) return;
    dialog.value = undefined;
    if (command.off) say(command.off);
    else command.run();
  };
  return (
    <>
      <h2 id="front-title">Commands</h2>
      <input data-first role="combobox" aria-label="Command, cluster or service" aria-expanded="true" aria-controls="commands" autocomplete="off" spellcheck={false}
        aria-activedescendant={shown.length > 0 ? "command-" + chosen : undefined} value={typed.value}
        onInput={(event) => {
          typed.value = event.currentTarget.value;
          at.value = 0;
        }}
        onKeyDown={(event) => {
          if (event.key === "ArrowDown") at.value = Math.min(shown.length - 1, chosen + 1);
          else if (event.key === "ArrowUp") at.value = Math.max(0, chosen - 1);
          else if (event.key === "Enter") run(shown[chosen]);
          else return;
          event.preventDefault();
          requestAnimationFrame(() => box.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" }));
        }} />
      <ul class="commands" role="listbox" id="commands" aria-label="Commands" ref={box}>
        {shown.map((command, i) => (
          <li key={command.title} id={"command-" + i} role="option" aria-selected={i === chosen} aria-disabled={command.off ? "true" : undefined}
            class={command.off ? "dim" : ""} onClick={() => run(command)}>
            <span>{plain(command.title, 120)}{command.cli ? <code>{plain(command.cli, 200)}</code> : null}</span><kbd>{shownKey(command.key)}</kbd>
          </li>
        ))}
      </ul>
      {shown.length === 0 ? <p class="dim">Nothing is called so.</p> : null}
    </>
  );
}

/** The keys that work where somebody is. */
export function Keys({ all }: { all: Command[] }) {
  const typed = useSignal("");
  const keyed = all.filter((command) => command.key && fits(command.title + " " + command.key, typed.value));
  const groups = [...new Set(keyed.map((command) => command.group ?? "Here"))];
  return (
    <>
      <h2 id="front-title">Keys</h2>
      <input data-first aria-label="Narrow the keys" placeholder="type to narrow" value={typed.value} onInput={(event) => (typed.value = event.currentTarget.value)} />
      <div class="keys">
        {groups.map((group) => (
          <section key={group}>
            <h3>{group}</h3>
            <dl>
              {keyed.filter((command) => (command.group ?? "Here") === group).map((command) => (
                <div key={command.key} class={command.off ? "dim" : ""}><dt><kbd>{shownKey(command.key)}</kbd></dt><dd>{command.title}</dd></div>
              ))}
            </dl>
          </section>
        ))}
      </div>
    </>
  );
}

/** What was done since the page was opened. */
export function Journal() {
  return (
    <>
      <h2 id="front-title">Done here</h2>
      {doneHere.value.length === 0 ? <p data-first tabIndex={-1} class="dim">Nothing was done since the page was opened. What is done here is shown as command lines of plural.</p> : null}
      <ul class="journal">
        {doneHere.value.map((done) => (
          <li key={done.time}>
            <span class="dim">{age(done.time, clock.value)} ago</span> {done.title}: {plain(done.result, 200)}
            <code>{plain(done.cli, 400)}</code> <button type="button" data-first onClick={() => void copy(done.cli)}>Copy</button>
          </li>
        ))}
      </ul>
    </>
  );
}
