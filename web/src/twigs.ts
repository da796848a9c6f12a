// Objects as the lines of a tree.

import type { Object as Live } from "./v1";

/** A line of the tree: an object, or several siblings of one kind that are folded since there are so many. */
export interface Twig {
  object?: Live;
  group?: { key: string; kind: string; health: string; count: number };
  depth: number;
  children: number;
  open: boolean;
}

// Of more siblings than these, those that are well are shown as one line. What is not well is never folded.
const crowd = 50;

/** The lines of a tree, in order: what is worst first, then by kind and name. */
export function twigs(objects: Map<string, Live>, shut: ReadonlySet<string>, spread: ReadonlySet<string>, filter: string): Twig[] {
  const below = new Map<string, Live[]>();
  const words = filter.toLowerCase().split(/\s+/).filter((word) => word !== "");
  const picked = new Set<string>();
  for (const object of objects.values()) {
    const parent = object.owner && objects.has(object.owner) ? object.owner : "";
    const siblings = below.get(parent);
    if (siblings) siblings.push(object);
    else below.set(parent, [object]);
    if (words.length > 0 && words.every((word) => `${object.kind} ${object.name} ${object.health}`.toLowerCase().includes(word))) {
      for (let up: Live | undefined = object; up && !picked.has(up.uid); up = objects.get(up.owner ?? "")) picked.add(up.uid);
    }
  }
  const rank = { degraded: 0, progressing: 1, unknown: 2, healthy: 3 };
  const out: Twig[] = [];
  const seen = new Set<string>();
  const grow = (parent: string, depth: number) => {
    let siblings = below.get(parent) ?? [];
    if (words.length > 0) siblings = siblings.filter((object) => picked.has(object.uid));
    siblings.sort((a, b) => rank[a.health] - rank[b.health] || (a.kind < b.kind ? -1 : a.kind > b.kind ? 1 : a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
    const tally = new Map<string, number>();
    if (siblings.length > crowd && words.length === 0) for (const one of siblings) if (one.health !== "degraded") tally.set(one.kind + " " + one.health, (tally.get(one.kind + " " + one.health) ?? 0) + 1);
    const told = new Set<string>();
    for (const object of siblings) {
      const group = object.kind + " " + object.health;
      const key = parent + " " + group;
      if ((tally.get(group) ?? 0) > 3 && !spread.has(key)) {
        if (!told.has(group)) out.push({ group: { key, kind: object.kind, health: object.health, count: tally.get(group)! }, depth, children: 0, open: false });
        told.add(group);
        continue;
      }
      if (seen.has(object.uid)) continue; // objects that own each other in a ring
      seen.add(object.uid);
      const children = below.get(object.uid)?.length ?? 0;
      const open = children > 0 && !shut.has(object.uid);
      out.push({ object, depth, children, open });
      if (open) grow(object.uid, depth + 1);
    }
  };
  grow("", 0);
  return out;
}
