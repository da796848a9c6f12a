// Which page an address is.

import type { ComponentChild } from "preact";
import { Clusters, Events, Fleet, Packages, Services, Sources } from "./lists";

type Page = (names: string[]) => ComponentChild;

/** By the first name of the address; the page gets the others. */
export const pages: Record<string, Page> = {
  fleet: () => <Fleet />,
  deployments: () => <Fleet />,
  clusters: () => <Clusters />,
  services: () => <Services />,
  sources: () => <Sources />,
  packages: () => <Packages />,
  events: () => <Events />,
};
