// One installation of a package: where it stands, and what it waits for.

import { useSignal } from "@preact/signals";
import { below, no } from "../api";
import { propose } from "../act";
import { Actions, Ago, CommitLine, Facts, Health, Loaded, Out, Text, useCommands, useRead } from "../parts";
import { line } from "../text";
import type { Upgrade } from "../v1";

export function PackagePage({ name }: { name: string }) {
  const read = useRead<Upgrade>(below("/v1/upgrades", name));
  const version = useSignal("");
  const goal = version.value || read.body?.target || read.body?.newest || "";
  const cli = line("package", "upgrade", name, ...(version.value ? ["--to", version.value] : []));
  const actions = [{
    key: "U", title: "Upgrade", off: no("edit"), cli,
    run: () => propose({
      title: "Upgrade " + name, says: goal ? `It goes to ${goal}, with what has to move along.` : "It goes to the newest version that it may.", path: below("/v1/upgrades", name, "upgrade"),
      body: version.value ? { version: version.value } : {}, cli,
    }),
  }];
  useCommands(actions);
  return (
    <div class="page">
      <div class="title flat"><h1><Text of={name} /></h1>{read.body ? <Health state={read.body.state} /> : null}</div>
      <Loaded read={read}>{(body) => (
        <>
          <div class="tools flat"><Actions of={actions} />
            <label>to <input placeholder={body.newest || body.version} value={version.value} size={12} onInput={(event) => (version.value = event.currentTarget.value)} /></label></div>
          <Facts of={[
            ["Package", body.package], ["Catalog", body.catalog], ["Version", body.version], ["Newest", body.newest || body.version],
            ["Goes to", body.target], ["Policy", body.policy], ["Moves with", body.with?.join(", ")],
            ["Moved from", body.from ? <><Text of={body.from} />, <Ago time={body.since} /> ago, <CommitLine commit={body.commit ? { id: body.commit } : undefined} /></> : ""],
            ["Branch", body.branch], ["Pull request", body.url ? <Out to={body.url} /> : ""],
          ]} />
          {body.reasons?.length ? (
            <>
              <h2>Why it is not at the newest</h2>
              <ol class="problems">{body.reasons.map((reason, i) => (
                <li key={i}><Text of={reason.message} />{reason.until ? <span class="dim"> (until {new Date(reason.until).toLocaleString()})</span> : null}
                  {reason.fix ? <p class="fix">→ <Text of={reason.fix} /></p> : null}</li>
              ))}</ol>
            </>
          ) : null}
        </>
      )}</Loaded>
    </div>
  );
}
