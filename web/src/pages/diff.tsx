// What applying a service would change in a cluster now, field by field. The hub says it; nothing is compared here.

import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { below } from "../api";
import { Loaded, Text, useCommands, useRead } from "../parts";
import { count } from "../text";
import type { Diff as Told, ObjectDiff } from "../v1";

// Of one object no more fields are drawn at once: definitions of resources have tens of thousands.
const fieldsAtOnce = 200;

export function Diff({ cluster, service }: { cluster: string; service: string }) {
  const read = useRead<Told>(below("/v1/clusters", cluster, "services", service, "diff"));
  const box = useRef<HTMLDivElement>(null);
  const step = (by: number) => {
    const all = [...(box.current?.querySelectorAll<HTMLElement>("[data-change]") ?? [])];
    const now = all.indexOf(document.activeElement as HTMLElement);
    const next = all[Math.max(0, Math.min(all.length - 1, now + by))];
    next?.focus();
    next?.scrollIntoView({ block: "center" });
  };
  useCommands([
    { key: "n", title: "Next change", run: () => step(1) }, { key: "N", title: "Change before", run: () => step(-1) },
    { key: "r", title: "Ask for the diff again", run: read.refresh },
  ]);
  return (
    <Loaded read={read}>{(body) => (
      <div ref={box}>
        {body.error ? <p class="warning">! <Text of={body.error} /></p> : null}
        {body.objects.length === 0 && !body.error ? <p>✓ The cluster is as git wants it: nothing would change.</p>
          : <p>{count(body.objects.length, "object")} would change. <kbd>n</kbd> and <kbd>N</kbd> go from change to change.</p>}
        {body.objects.map((object) => <Changed key={object.kind + object.namespace + "/" + object.name} of={object} />)}
        {body.more ? <p class="dim">{count(body.more, "object")} more.</p> : null}
      </div>
    )}</Loaded>
  );
}

/** JSON without the escapes that only a page of HTML would need. */
const unescaped = (json: string): string => json.replace(/\\u00(3c|3e|26)/g, (_, code: string) => String.fromCharCode(parseInt(code, 16)));

function Changed({ of }: { of: ObjectDiff }) {
  const shown = useSignal(fieldsAtOnce);
  const fields = of.fields ?? [];
  const word = { created: "would be created", changed: "would change", deleted: "would be deleted", failed: "would be refused" }[of.action];
  return (
    <section class={"change " + of.action}>
      <h2 tabIndex={-1} data-change><Text of={of.kind} /> <Text of={(of.namespace ? of.namespace + "/" : "") + of.name} /> <span class="dim">{word}</span></h2>
      {of.message ? <p class="warning">! <Text of={of.message} /></p> : null}
      {of.hidden ? <p class="dim">You may not read objects like this one in the cluster.</p> : null}
      {fields.length > 0 ? (
        <div class="scroll"><table class="plain fields">
          <thead><tr><th>Field</th><th>Live</th><th>Desired</th></tr></thead>
          <tbody>
            {fields.slice(0, shown.value).map((field) => (
              <tr key={field.path} tabIndex={-1} data-change>
                <td><code><Text of={field.path} most={400} /></code></td>
                <td class="del">{field.live === undefined ? <span class="dim">none</span> : <code><Text of={unescaped(field.live)} /></code>}</td>
                <td class="add">{field.desired === undefined ? <span class="dim">none</span> : <code><Text of={unescaped(field.desired)} /></code>}</td>
              </tr>
            ))}
          </tbody>
        </table></div>
      ) : null}
      {fields.length > shown.value ? <button type="button" onClick={() => (shown.value += 1000)}>{count(fields.length - shown.value, "field")} more</button> : null}
      {of.more ? <p class="dim">{count(of.more, "field")} more than the hub tells.</p> : null}
    </section>
  );
}
