// One source: what is served of it, and how it is reached.

import { below } from "../api";
import { Actions, Ago, Facts, Health, Loaded, Out, Text, useCommands, useRead } from "../parts";
import { short } from "../text";
import type { Source } from "../v1";
import { sync } from "./cluster";

export function SourcePage({ name }: { name: string }) {
  const read = useRead<Source>(below("/v1/sources", name));
  const actions = [sync("source", name === "_" ? "." : name, below("/v1/sources", name, "sync"))];
  useCommands(actions);
  return (
    <div class="page">
      <div class="title flat"><h1>{name === "_" ? "Installation repo" : <Text of={name} />}</h1>{read.body ? <Health state={read.body.error ? "failed" : "healthy"} /> : null}</div>
      <Actions of={actions} />
      <Loaded read={read}>{(body) => (
        <>
          {body.error ? <p class="warning">! <Text of={body.error} /> <span class="dim">(for <Ago time={body.failingSince} />, {body.failuresInARow} times)</span></p> : null}
          <Facts of={[
            ["Address", <Out to={body.url} />], ["Kind", body.kind], ["Ref", body.ref], ["Commit", body.commit ? <code>{short(body.commit)}</code> : ""],
            ["Fetched", <><Ago time={body.lastFetch} /> ago</>], ["Fetches", body.fetches], ["Failures", body.failures], ["Requests", body.requests],
            ["Received", Math.round(body.receivedBytes / 1024).toLocaleString("en") + " KiB"], ["Fetched by", body.owner],
          ]} />
          {body.refs?.length ? (
            <>
              <h2>What services read of it</h2>
              <div class="scroll"><table class="plain">
                <thead><tr><th>Ref</th><th>Commit</th><th>Revision</th><th>Rewound</th></tr></thead>
                <tbody>{body.refs.map((ref) => (
                  <tr key={ref.ref}><td><Text of={ref.ref} /></td><td><code>{short(ref.commit)}</code></td><td><Text of={ref.revision} /></td><td><Text of={ref.rewound} /></td></tr>
                ))}</tbody>
              </table></div>
            </>
          ) : null}
        </>
      )}</Loaded>
    </div>
  );
}
