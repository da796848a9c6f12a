// The hub's page: it shows what /v1 says, and does what /v1 does.

import { render } from "preact";
import { Refusal, awaySince, get, loggedOut, me } from "./api";
import { begin, summary } from "./live";
import { Shell } from "./shell";
import type { Me } from "./v1";

async function know(): Promise<void> {
  try {
    me.value = await get<Me>("/v1/me");
  } catch (problem) {
    if (problem instanceof Refusal && problem.status === 401) {
      if (!summary.value) window.location.replace("/auth/?return=" + encodeURIComponent(window.location.pathname + window.location.search));
      return;
    }
    setTimeout(() => void know(), 3000);
  }
}

const place = document.getElementById("page")!;
place.replaceChildren();
render(<Shell />, place);
void know();
begin();

// Somebody who has logged in again in another tab goes on here.
document.addEventListener("visibilitychange", () => {
  if (document.hidden || !loggedOut.value) return;
  get<Me>("/v1/me").then((who) => {
    me.value = who;
    loggedOut.value = false;
    awaySince.value = undefined;
    begin();
  }, () => undefined);
});
