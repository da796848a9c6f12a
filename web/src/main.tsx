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

// Somebody who has logged in again in another tab goes on here, and so does whose login a hub that has just begun did not know yet.
function goOn(): void {
  if (document.hidden || !loggedOut.value) return;
  get<Me>("/v1/me").then((who) => {
    me.value = who;
    loggedOut.value = false;
    awaySince.value = undefined;
    begin();
  }, () => undefined);
}

document.addEventListener("visibilitychange", goOn);
loggedOut.subscribe((out) => {
  if (!out) return;
  let after = 3000;
  const again = () => {
    if (!loggedOut.value) return;
    goOn();
    after = Math.min(2 * after, 60_000);
    setTimeout(again, after * (0.5 + Math.random()));
  };
  setTimeout(again, after * (0.5 + Math.random()));
});
