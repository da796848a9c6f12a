// Which page an address is.

import type { ComponentChild } from "preact";
import { Audit } from "./audit";
import { ClusterPage } from "./cluster";
import { DeploymentPage } from "./deployment";
import { Commit, History } from "./history";
import { HubPage } from "./hub";
import { Clusters, Events, Fleet, Packages, Services, Sources } from "./lists";
import { MePage } from "./me";
import { PackagePage } from "./package";
import { ServicePage } from "./service";
import { SourcePage } from "./source";

type Page = (names: string[]) => ComponentChild;

/** By the first name of the address; the page gets the others. */
export const pages: Record<string, Page> = {
  fleet: () => <Fleet />,
  deployments: ([cluster, service]) => (cluster && service ? <DeploymentPage cluster={cluster} service={service} /> : <Fleet />),
  clusters: ([name]) => (name ? <ClusterPage name={name} /> : <Clusters />),
  services: ([name]) => (name ? <ServicePage name={name} /> : <Services />),
  sources: ([name]) => (name ? <SourcePage name={name} /> : <Sources />),
  packages: ([name]) => (name ? <PackagePage name={name} /> : <Packages />),
  history: ([id]) => (id ? <Commit id={id} /> : <History />),
  events: () => <Events />,
  audit: () => <Audit />,
  hub: () => <HubPage />,
  me: () => <MePage />,
};
