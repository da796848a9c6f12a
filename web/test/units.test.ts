// What the page makes of what it is told, without a browser. `go test` in tools/web bundles and runs it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { parsed } from "../src/events";
import { levelOf } from "../src/levels";
import { age, fileAddress, line, logLine, plain, webAddress } from "../src/text";
import { twigs } from "../src/twigs";
import type { Object as Live } from "../src/v1";

test("text of others has nothing in it that is not seen", () => {
  assert.equal(plain("a\u202eb\u0000c\u200bd\te\nf"), "a\ufffdb\ufffdc\ufffdd\te\nf");
  assert.equal(plain("x".repeat(10), 4), "xxxx…");
  assert.equal(plain("<img src=x onerror=alert(1)>"), "<img src=x onerror=alert(1)>"); // it becomes a text node
});

test("a line of a log has no colours of a terminal", () => {
  assert.equal(logLine("\u001b[31merror\u001b[0m \u001b]8;;http://evil\u0007here\u001b]8;;\u0007"), "error here");
  assert.equal(logLine("\u001b"), "\ufffd");
});

test("only http leads out of the page", () => {
  for (const bad of ["javascript:alert(1)", "JaVaScRiPt:alert(1)", " javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "https://user:pass@evil", "//evil", "", undefined]) {
    assert.equal(webAddress(bad), undefined, String(bad));
  }
  assert.equal(webAddress("https://example.com/a b")?.href, "https://example.com/a%20b");
});

test("files of git hosts that are known have an address", () => {
  assert.equal(fileAddress("git@github.com:org/fleet.git", "abc", "services/we b.yaml", 3)?.href, "https://github.com/org/fleet/blob/abc/services/we%20b.yaml#L3");
  assert.equal(fileAddress("https://gitlab.example.com/org/fleet", "abc", "a.yaml")?.href, "https://gitlab.example.com/org/fleet/-/blob/abc/a.yaml");
  for (const other of ["/srv/fleet.git", "https://git.example.com/fleet", "file:///srv/fleet"]) assert.equal(fileAddress(other, "abc", "a.yaml"), undefined, other);
});

test("command lines are as a shell takes them", () => {
  assert.equal(line("service", "set", "web", "image=a b", "x=it's", "y=$(rm -rf /)"), `plural service set web 'image=a b' 'x=it'\\''s' 'y=$(rm -rf /)'`);
});

test("ages are in one unit", () => {
  for (const [seconds, text] of [[0, "0s"], [59, "59s"], [60, "1m"], [3599, "59m"], [7200, "2h"], [200_000, "2d"], [-5, "0s"]] as const) assert.equal(age(0, seconds * 1000), text);
});

test("events of a stream are read as the hub writes them", () => {
  assert.deepEqual(parsed("id: e-7\nevent: summary\ndata: {\"a\":1}"), { event: "summary", data: '{"a":1}', id: "e-7" });
  assert.deepEqual(parsed("retry: 2000\nid: e-8"), { event: "message", data: "", id: "e-8" });
  assert.deepEqual(parsed("data: a\ndata: b\n: beat"), { event: "message", data: "a\nb", id: "" });
});

test("lines say how much they matter in their own ways", () => {
  for (const [text, level] of [
    ["2026-11-29 ERROR no disk", "error"], ['{"level":"warn","msg":"x"}', "warning"], ["level=debug msg=x", "debug"], ["E1129 10:00:00 main.go", "error"], ["I1129 x", "info"],
    ["all is well", ""], ["terror", ""], ["x".repeat(300) + " error", ""],
  ] as const) assert.equal(levelOf(text), level, text);
});

const object = (uid: string, kind: string, health: Live["health"], owner?: string): Live => ({ uid, kind, health, owner, name: uid, version: "v1", resource: kind.toLowerCase() + "s" });
const grown = (all: Live[], shut: string[] = [], spread: string[] = [], filter = "") =>
  twigs(new Map(all.map((one) => [one.uid, one])), new Set(shut), new Set(spread), filter).map((twig) => "  ".repeat(twig.depth) + (twig.group ? twig.group.count + " " + twig.group.kind : twig.object!.uid));

test("a tree has the worst first, and each object below its owner", () => {
  const all = [object("web", "Deployment", "healthy"), object("set", "ReplicaSet", "healthy", "web"), object("pod-a", "Pod", "healthy", "set"), object("pod-b", "Pod", "degraded", "set"), object("lost", "Pod", "progressing", "elsewhere")];
  assert.deepEqual(grown(all), ["lost", "web", "  set", "    pod-b", "    pod-a"]);
  assert.deepEqual(grown(all, ["set"]), ["lost", "web", "  set"]);
  assert.deepEqual(grown(all, [], [], "pod-a"), ["web", "  set", "    pod-a"]);
});

test("of many siblings those that are well are one line, and none that is not", () => {
  const all = [object("set", "ReplicaSet", "healthy")];
  for (let i = 0; i < 60; i++) all.push(object("pod-" + i, "Pod", i % 20 === 0 ? "degraded" : "healthy", "set"));
  assert.deepEqual(grown(all), ["set", "  pod-0", "  pod-20", "  pod-40", "  57 Pod"]);
  assert.equal(grown(all, [], ["set Pod healthy"]).length, 61);
});

test("objects that own each other end", () => {
  assert.deepEqual(grown([object("a", "Pod", "healthy", "b"), object("b", "Pod", "healthy", "a")]), []);
  assert.deepEqual(grown([object("a", "Pod", "healthy", "a")]), []);
});
