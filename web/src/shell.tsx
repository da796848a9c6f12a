// The frame of every page: where one is, how the fleet is, what is in front.

import { Component, type ComponentChildren } from "preact";
import { useEffect, useErrorBoundary } from "preact/hooks";
import { awaySince, loggedOut, may, me } from "./api";
import { commands, copy, dialog, notice, provide, type Command } from "./commands";
import { heard, newer, summary } from "./live";
import { Journal, Keys, Palette } from "./palette";
import { Health, clock, phases } from "./parts";
import { adjust, at, given, go, path } from "./route";
import { cycleTheme, theme } from "./theme";
import { age, plain, short } from "./text";
import { pages } from "./pages";
import type { Phase } from "./v1";

/** What the bar leads to, each with the word after ":" that leads there in the terminal's console. */
const places: [href: string, title: string][] = [
  ["/fleet", "Fleet"], ["/clusters", "Clusters"], ["/services", "Services"], ["/sources", "Sources"], ["/packages", "Packages"],
  ["/events", "Events"], ["/history", "History"], ["/audit", "Audit"], ["/hub", "Hub"],
];

const previous: string[] = [];

function everywhere(): Command[] {
  const key = (key: string, title: string, run: () => void): Command => ({ key, title, group: "Everywhere", run });
  return [
    key("?", "Help: keys that work here", () => (dialog.value = () => <Keys all={commands()} />)),
    key("ctrl+k", "Commands", () => (dialog.value = () => <Palette all={commands()} />)),
    key(":", "Commands", () => (dialog.value = () => <Palette all={commands()} />)),
    key("@", "What was done here, as command lines", () => (dialog.value = () => <Journal />)),
    key("esc", "Back", () => {
      if (dialog.value) dialog.value = undefined;
      else if (path.value[0] === "deployments") go("/fleet");
      else if (path.value.length > 1) go("/" + path.value.slice(0, -1).map(encodeURIComponent).join("/"));
    }),
    key("[", "View before", () => history.back()),
    key("]", "View after", () => history.forward()),
    key("-", "Last view", () => previous.length > 1 && go(previous.at(-2)!)),
    key("T", "Light, dark or as the system has it", cycleTheme),
    ...places.map(([href, title]): Command => ({ title: "Go to " + title.toLowerCase(), group: "Go to", run: () => go(href) })),
    { title: "Go to my account", group: "Go to", run: () => go("/me") },
    {
      title: "Copy a link to this, with the commit that is served now", run: () => {
        const link = new URL(at.value);
        if (summary.value) link.searchParams.set("at", summary.value.commit.id);
        void copy(link.href);
      },
    },
  ];
}

export function Shell() {
  useEffect(() => provide(everywhere), []);
  useEffect(() => {
    previous.push(at.value.pathname + at.value.search);
    if (previous.length > 50) previous.shift();
    document.title = (path.value.map((name) => plain(name, 60)).join(" / ") || "fleet") + " - plural";
  }, [at.value]);
  const [first] = path.value;
  return (
    <>
      <a class="skip" href="#content">To the content</a>
      <header>
        <a class="brand" href="/fleet">plural</a>
        <nav aria-label="Places">
          {places.map(([href, title]) => (
            <a key={href} href={href} aria-current={"/" + (first ?? "fleet") === href || (href === "/fleet" && first === "deployments") ? "page" : undefined}>{title}</a>
          ))}
        </nav>
        <div class="corner">
          <button type="button" onClick={() => (dialog.value = () => <Palette all={commands()} />)} title="Ctrl-K">Commands</button>
          <button type="button" onClick={cycleTheme} aria-label={"Colours: " + theme.value}>{{ auto: "◐", light: "☀", dark: "☾" }[theme.value]}</button>
          <a href="/me">{plain(me.value?.name ?? "…", 40)}</a>
        </div>
      </header>
      <Pulse />
      <Banner />
      <main id="content" tabIndex={-1}>
        <Guarded key={at.value.pathname}>{page()}</Guarded>
      </main>
      <div class="notice" role="status" aria-live="polite">{notice.value}</div>
      {dialog.value ? <Front>{dialog.value()}</Front> : null}
    </>
  );
}

function page(): ComponentChildren {
  const [first = "fleet", ...rest] = path.value;
  const shown = pages[first];
  if (!shown) return <div class="refused"><h1>There is no such page</h1><p><a href="/fleet">To the fleet</a></p></div>;
  return shown(rest);
}

/** A page that fails says so, and leaves the others as they are. */
function Guarded({ children }: { children: ComponentChildren }) {
  const [problem, again] = useErrorBoundary();
  if (!problem) return <>{children}</>;
  return (
    <div class="refused" role="alert">
      <strong>This page cannot be shown</strong>
      <p>{plain(String(problem), 500)}</p>
      <button type="button" onClick={again}>Try again</button>
    </div>
  );
}

/** How the fleet is, on every page. */
function Pulse() {
  const figures = summary.value;
  if (!figures) return me.value && !may("view") ? null : <section class="pulse dim" aria-label="The fleet" aria-busy="true">…</section>;
  const total = (counts: Record<string, number>) => Object.values(counts).reduce((a, b) => a + b, 0);
  const figure = (what: string, list: string, counts: Record<string, number>) => (
    <span class="figure">
      <a href={list}>{total(counts).toLocaleString("en")} {what}</a>
      {[...phases].reverse().filter((phase) => counts[phase]).map((phase: Phase) => (
        <a key={phase} href={list + "?filter=health:" + phase} title={phase}><Health state={phase} bare /> {counts[phase]!.toLocaleString("en")}<span class="word"> {phase}</span></a>
      ))}
    </span>
  );
  const quiet = awaySince.value !== undefined || loggedOut.value;
  return (
    <section class="pulse" aria-label="The fleet">
      {figure("clusters", "/clusters", figures.clusters)}
      {figure("deployments", "/fleet", figures.deployments)}
      <span class="figure">
        serves <a class="id" href={"/history/" + figures.commit.id}>{short(figures.commit.id) || "nothing"}</a>
        {figures.refused > 0 ? <a class="health failed" href="/hub">✗ {short(figures.head.id)} refused</a> : null}
        {figures.refused === 0 && figures.head.id !== figures.commit.id ? <span class="dim">next: {short(figures.head.id)}</span> : null}
      </span>
      <span class={"live" + (quiet ? " quiet" : "")}>{quiet ? "not live" : "live"}</span>
    </section>
  );
}

function Banner() {
  if (loggedOut.value) {
    return (
      <div class="banner" role="alert">
        Logged out. What is shown is {heard.value ? age(heard.value, clock.value) : "a while"} old.{" "}
        <a href={"/auth/?return=" + encodeURIComponent(at.value.pathname + at.value.search)}>Log in</a>
      </div>
    );
  }
  if (awaySince.value === undefined) return newer.value ? <Newer /> : <Then />;
  return <div class="banner" role="status">The hub has been away for {age(awaySince.value, clock.value)}. What is shown is of then; it is asked again.</div>;
}

/** The hub was upgraded since the page was opened. */
function Newer() {
  return (
    <div class="banner" role="status">
      The hub has a newer page. <button type="button" onClick={() => window.location.reload()}>Load it</button>
    </div>
  );
}

/** What somebody who has sent a link saw may have changed since. */
function Then() {
  const then = given("at");
  const now = summary.value?.commit.id;
  if (!/^[0-9a-f]{7,64}$/.test(then) || !now || now.startsWith(then)) return null;
  return (
    <div class="banner" role="status">
      This link was made when <a class="id" href={"/history/" + then}>{short(then)}</a> was served. What is shown is of now.{" "}
      <button type="button" class="link" onClick={() => adjust({ at: "" })}>Leave that out</button>
    </div>
  );
}

/** What is in front of the page: it has the focus, and gives it back. */
class Front extends Component<{ children: ComponentChildren }> {
  element: HTMLDialogElement | null = null;
  before: Element | null = null;

  componentDidMount() {
    this.before = document.activeElement;
    this.element!.showModal();
    this.element!.querySelector<HTMLElement>("[data-first]")?.focus();
  }

  componentWillUnmount() {
    this.element?.close();
    if (this.before instanceof HTMLElement) this.before.focus();
  }

  render() {
    return (
      <dialog aria-labelledby="front-title" ref={(element) => void (this.element = element)} onCancel={(event) => {
        event.preventDefault();
        dialog.value = undefined;
      }} onClick={(event) => event.target === this.element && (dialog.value = undefined)}>
        <div class="front">{this.props.children}</div>
      </dialog>
    );
  }
}
