// The hub itself: what it serves, what it refuses, and how its replicas are.

import { Ago, CommitLine, Facts, Loaded, Problems, Text, useRead } from "../parts";
import { to } from "../route";
import type { Hub, Status } from "../v1";

const mebibytes = (bytes: number): string => Math.round(bytes / 1048576).toLocaleString("en") + " MiB";

export function HubPage() {
  const hub = useRead<Hub>("/v1/hub");
  const status = useRead<Status>("/v1/status");
  return (
    <div class="page">
      <h1>Hub</h1>
      <Loaded read={status}>{(body) => (
        <>
          {body.refused?.length ? <section class="waits"><h2><CommitLine commit={body.head} /> is refused</h2><p>The commit before is served until it is mended.</p><Problems of={body.refused} /></section> : null}
          {body.held?.length ? <><h2>Nothing good to offer for</h2><Problems of={body.held} /></> : null}
          <Facts of={[["Fleet", body.workspace], ["Serves", <CommitLine commit={body.commit} />], ["Newest", <CommitLine commit={body.head} />]]} />
          {body.nowhere ? <p>{body.nowhere} services run on no cluster: {body.nowhereNames?.map((name, i) => <>{i ? ", " : ""}<a href={to("services", name)}><Text of={name} /></a></>)}</p> : null}
          {body.notices?.length ? <><h2>Notices</h2><ul class="problems">{body.notices.map((notice, i) => (
            <li key={i}><Text of={notice.message} /> <span class="dim"><Ago time={notice.time} /> ago</span>{notice.fix ? <p class="fix">→ <Text of={notice.fix} /></p> : null}</li>
          ))}</ul></> : null}
        </>
      )}</Loaded>
      <Loaded read={hub}>{(body) => (
        <>
          {[body.tokenWarning, body.storeError].map((warning) => (warning ? <p key={warning} class="warning">! <Text of={warning} /></p> : null))}
          <Facts of={[
            ["Version", body.version], ["Answered by", body.replica], ["Clusters", body.clusters], ["Silent", body.silent], ["Services", body.services], ["Sources", body.sources],
            ["Bundles kept", `${body.bundles.files}, ${mebibytes(body.bundles.bytes)}`], ["Bundles asked for", `${body.bundles.hits} here, ${body.bundles.fromPeers} of others, ${body.bundles.packed} made`],
            ["Bundles that failed", body.bundles.failed || ""], ["Damaged and replaced", body.bundles.corrupt || ""],
          ]} />
          {body.replicas?.length ? (
            <><h2>Replicas</h2><div class="scroll"><table class="plain">
              <thead><tr><th>Replica</th><th>State</th><th>Heard</th><th>Version</th><th>Sources</th></tr></thead>
              <tbody>{body.replicas.map((one) => (
                <tr key={one.name}><td><Text of={one.name} /></td><td class={"health " + (one.live ? "healthy" : "failed")}>{one.draining ? "◐ leaves" : one.live ? "✓ live" : "✗ away"}</td>
                  <td>{one.leaseAgeSeconds.toFixed(0)}s</td><td><Text of={one.version} /></td><td>{one.owns}</td></tr>
              ))}</tbody>
            </table></div></>
          ) : null}
          {body.certificates?.length ? <><h2>Certificates</h2><ul>{body.certificates.map((one) => (
            <li key={one.name}>{one.name}: until {new Date(one.ends).toLocaleString()} {one.error ? <span class="health failed">✗ <Text of={one.error} /></span> : null}</li>
          ))}</ul></> : null}
        </>
      )}</Loaded>
    </div>
  );
}
