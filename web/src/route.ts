// Where somebody is: the address is all of it, so that it can be sent to others.

import { computed, signal } from "@preact/signals";

/** The address that is shown. */
export const at = signal(new URL(window.location.href));

/** The names in its path: /clusters/prod is ["clusters", "prod"]. */
export const path = computed(() =>
  at.value.pathname.split("/").filter((part) => part !== "").map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  }));

/** One parameter of the address. */
export const given = (name: string): string => at.value.searchParams.get(name) ?? "";

/** Go to a path of the page. Replacing leaves nothing to go back to. */
export function go(to: string, replace = false): void {
  const url = new URL(to, window.location.origin);
  if (url.origin !== window.location.origin || url.href === at.value.href) return;
  history[replace ? "replaceState" : "pushState"](null, "", url);
  at.value = url;
}

/** Change parameters of the address; empty ones are left out. */
export function adjust(parameters: Record<string, string>, replace = true): void {
  const url = new URL(at.value);
  for (const [name, value] of Object.entries(parameters)) {
    if (value) url.searchParams.set(name, value);
    else url.searchParams.delete(name);
  }
  go(url.pathname + url.search, replace);
}

/** The path of names. */
export const to = (...names: string[]): string => "/" + names.map(encodeURIComponent).join("/");

window.addEventListener("popstate", () => (at.value = new URL(window.location.href)));

// Links of the page do not load it anew.
document.addEventListener("click", (event) => {
  const link = (event.target as Element | null)?.closest("a");
  if (!link || event.defaultPrevented || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  const url = new URL(link.href, window.location.href);
  if (url.origin !== window.location.origin || link.target || /^\/(auth|v1|k8s|oidc)\//.test(url.pathname)) return;
  event.preventDefault();
  go(url.pathname + url.search);
});
