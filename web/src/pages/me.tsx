// Whoever is logged in: what they may do, their logins and their tokens.

import { me, post } from "../api";
import { confirm } from "../act";
import { Actions, Facts, Loaded, Text, useRead } from "../parts";
import { line, short } from "../text";
import type { Edited, UserTokenList } from "../v1";

export function MePage() {
  const tokens = useRead<UserTokenList>("/v1/me/tokens");
  const who = me.value;
  const cli = line("auth", "end", who?.name ?? "");
  return (
    <div class="page">
      <h1>My account</h1>
      {who ? (
        <Facts of={[
          ["User", who.name], ["Shown as", who.login?.shown], ["Through", who.login?.through], ["Groups", who.groups.join(", ")],
          ["May, in all of the fleet", who.verbs.join(", ") || "nothing"], ["Logged in until", who.expires ? new Date(who.expires).toLocaleString() : ""],
        ]} />
      ) : null}
      <form method="post" action="/auth/logout" class="actions"><button type="submit">Log out here</button></form>
      <Actions of={[{
        title: "Log out everywhere", cli,
        run: () => confirm("Log out everywhere", "All your logins end, in browsers and terminals, by a commit of the hub. Tokens go on.", cli, async () => {
          const edited = await post<Edited>("/v1/me/logout-everywhere", {});
          return edited.commit ? "Committed as " + short(edited.commit) + ": logins end once it is served." : "It was so already.";
        }),
      }]} />
      <h2>My tokens</h2>
      <Loaded read={tokens}>{(body) => (
        body.items.length === 0 ? <p class="dim">None. <code>plural auth token create</code> makes one.</p> : (
          <div class="scroll"><table class="plain">
            <thead><tr><th>Token</th><th>Digest</th><th>Until</th></tr></thead>
            <tbody>{body.items.map((token) => (
              <tr key={token.id}>
                <td><Text of={token.name} />{token.current ? <span class="dim"> (this login)</span> : null}</td><td><code><Text of={token.id} /></code></td>
                <td>{token.expired ? "ended " : ""}{token.expires ? new Date(token.expires).toLocaleDateString() : "for ever"}</td>
              </tr>
            ))}</tbody>
          </table></div>
        )
      )}</Loaded>
    </div>
  );
}
