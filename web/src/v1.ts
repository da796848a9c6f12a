// Written by `make web-types` from docs/api/openapi.json.

export interface Acted {
  objects: ActedObject[];
}

export interface ActedObject {
  done: boolean;
  error?: string;
  group?: string;
  name: string;
  namespace?: string;
  note?: string;
  resource: string;
  version?: string;
}

export interface AuditChunk {
  file?: string;
  line: number;
  missing: string[];
  next?: string;
  replica: string;
  text: string;
}

export interface AuditEntry {
  hash: string;
  record: AuditRecord;
  replica: string;
}

export interface AuditList {
  items: AuditEntry[];
  missing: string[];
  next?: string;
}

export interface AuditPeople {
  items: AuditPerson[];
  missing: string[];
  since: string;
}

export interface AuditPerson {
  last: string;
  operator?: boolean;
  person: string;
}

export interface AuditRecord {
  bytes_in?: number;
  bytes_out?: number;
  cause?: string;
  client_id?: string;
  cluster?: string;
  connection?: string;
  credential?: string;
  decision: string;
  duration_ns?: number;
  forwarded?: string;
  group?: string;
  groups?: string[];
  id: string;
  name?: string;
  namespace?: string;
  operator?: boolean;
  path?: string;
  person: string;
  prev: string;
  resource?: string;
  source?: string;
  stage: string;
  status?: number;
  subresource?: string;
  time: string;
  user_agent?: string;
  verb: string;
}

export interface Bundles {
  bytes: number;
  corrupt: number;
  evicted: number;
  failed: number;
  files: number;
  fromPeers: number;
  hits: number;
  packed: number;
}

export interface Certificate {
  ends: string;
  error?: string;
  name: string;
}

export type ChangeKind = "deployments" | "clusters" | "services" | "sources" | "upgrades" | "summary" | "events";

export interface Cluster {
  agentVersion?: string;
  connected?: boolean;
  held?: Waiting;
  kubernetesVersion?: string;
  lastReport?: string;
  message?: string;
  name: string;
  phase: Phase;
  ready: number;
  services: number;
  tags?: Record<string, string>;
}

export interface ClusterChanges {
  gone?: string[];
  items?: Cluster[];
}

export interface ClusterDetail {
  agentVersion?: string;
  connected?: boolean;
  deployments: Deployment[];
  held?: Waiting;
  kubernetesVersion?: string;
  lastReport?: string;
  leftOut?: number;
  message?: string;
  name: string;
  parameters?: Record<string, string>;
  phase: Phase;
  ready: number;
  services: number;
  tags?: Record<string, string>;
}

export interface ClusterList {
  counts?: Record<string, number>;
  items: Cluster[];
  next?: string;
  since?: string;
  total: number;
}

export interface ClusterSelector {
  matchLabels?: Record<string, string>;
  names?: string[];
}

export interface Commit {
  author?: string;
  id: string;
  subject?: string;
  time?: string;
}

export interface Connection {
  agentVersion?: string;
  boot?: string;
  cluster: string;
  host?: string;
  kubernetesVersion?: string;
  name: string;
  replica?: string;
  since: string;
  streams: number;
}

export interface ConnectionList {
  counts?: Record<string, number>;
  items: Connection[];
  next?: string;
  since?: string;
  total: number;
}

export interface Deployment {
  appliedKey?: string;
  appliedVersion?: string;
  cluster: string;
  held?: Waiting;
  key: string;
  leftover?: boolean;
  message?: string;
  notes?: string[];
  objects: number;
  phase: Phase;
  problems?: Problem[];
  quarantinedKey?: string;
  ready: number;
  service: string;
  suspended?: boolean;
  tests?: Test[];
  unreached?: boolean;
  version?: string;
}

export interface DeploymentChanges {
  gone?: string[];
  items?: Deployment[];
}

export interface DeploymentList {
  counts?: Record<string, number>;
  items: Deployment[];
  next?: string;
  since?: string;
  total: number;
}

export interface Diff {
  error?: string;
  more?: number;
  objects: ObjectDiff[];
}

export interface EditRequest {
  base?: string;
  confirm?: string;
  message?: string;
  token?: string;
}

export interface Edited {
  base?: string;
  branch?: string;
  commit?: string;
  confirm?: string;
  dryRun?: boolean;
  files?: FileDiff[];
  leftOut?: number;
  message?: string;
  url?: string;
  version?: string;
  warnings?: string[];
}

export interface Error {
  fix?: string;
  message: string;
  problems?: Problem[];
}

export interface Event {
  cluster?: string;
  key?: string;
  message?: string;
  reason: string;
  service?: string;
  time: string;
  warning?: boolean;
}

export interface EventChanges {
  gone?: string[];
  items?: Event[];
}

export interface EventList {
  counts?: Record<string, number>;
  items: Event[];
  next?: string;
  since?: string;
  total: number;
}

export interface ExchangeAnswer {
  access_token: string;
  expires_in: number;
  issued_token_type: string;
  token_type: string;
}

export interface ExchangeRequest {
  grant_type: string;
  subject_token: string;
  subject_token_type: string;
}

export interface FieldDiff {
  desired?: string;
  live?: string;
  path: string;
}

export interface FileDiff {
  diff?: string;
  file: string;
  hidden?: string;
}

export interface Hub {
  bundles: Bundles;
  certificates?: Certificate[];
  clusters: number;
  commit: Commit;
  edition?: string;
  replica?: string;
  replicas?: Replica[];
  services: number;
  silent: number;
  sources: number;
  storeError?: string;
  tokenWarning?: string;
  version: string;
}

export interface JoinAnswer {
  cluster: string;
  hubURL: string;
  repository?: string;
}

export interface JoinRequest {
  age: string;
  auth: string;
  cluster: string;
  token: string;
}

export interface KubeToken {
  expires: string;
  token: string;
}

export interface KubeTokenRequest {
  cluster: string;
}

export interface Login {
  shown?: string;
  subject: string;
  through: string;
}

export interface LoginProvider {
  clientID: string;
  clientSecret?: string;
  device?: boolean;
  issuer: string;
  name: string;
  scopes?: string[];
}

export interface LoginProviderList {
  items: LoginProvider[];
}

export interface Me {
  expires?: string;
  groups: string[];
  login?: Login;
  name: string;
  operator?: boolean;
  verbs: string[];
}

export interface Notice {
  fix?: string;
  message: string;
  reason: string;
  time: string;
}

export interface Object {
  applied?: boolean;
  created?: string;
  deleting?: boolean;
  group?: string;
  health: ObjectHealth;
  kind: string;
  message?: string;
  name: string;
  namespace?: string;
  owner?: string;
  resource: string;
  uid: string;
  version: string;
}

export type ObjectAction = "created" | "changed" | "deleted" | "failed";

export interface ObjectDiff {
  action: ObjectAction;
  fields?: FieldDiff[];
  group?: string;
  hidden?: boolean;
  kind: string;
  message?: string;
  more?: number;
  name: string;
  namespace?: string;
  resource?: string;
  version?: string;
}

export interface ObjectEvent {
  count?: number;
  first?: string;
  from?: string;
  kind: string;
  message?: string;
  name: string;
  namespace?: string;
  object: string;
  reason: string;
  time: string;
  warning?: boolean;
}

export interface ObjectEventList {
  counts?: Record<string, number>;
  items: ObjectEvent[];
  next?: string;
  since?: string;
  total: number;
}

export type ObjectHealth = "healthy" | "progressing" | "degraded" | "unknown";

export interface ObjectList {
  counts?: Record<string, number>;
  items: Object[];
  next?: string;
  since?: string;
  total: number;
}

export interface ObjectRef {
  group?: string;
  name: string;
  namespace?: string;
  resource: string;
  version?: string;
}

export interface PageTicket {
  expires: string;
  path: string;
  ticket: string;
}

export type Phase = "healthy" | "removing" | "progressing" | "pending" | "unregistered" | "held" | "stale" | "degraded" | "failed";

export interface Problem {
  cluster?: string;
  file?: string;
  fix?: string;
  group?: string;
  line?: number;
  message: string;
  object?: string;
  reason?: string;
  service?: string;
  services?: string[];
  since?: Commit;
  token?: string;
}

export interface Replica {
  draining?: boolean;
  leaseAgeSeconds: number;
  live: boolean;
  name: string;
  owns: number;
  version?: string;
}

export type Result = "current" | "superseded" | "refused" | "waiting";

export interface Revision {
  author?: string;
  email?: string;
  files?: string[];
  id: string;
  incomplete?: boolean;
  leftOut?: number;
  merge?: boolean;
  refusal?: Problem;
  result?: Result;
  revertedBy?: string;
  reverts?: string;
  subject?: string;
  time?: string;
}

export interface RevisionList {
  counts?: Record<string, number>;
  items: Revision[];
  next?: string;
  since?: string;
  total: number;
}

export interface Scale {
  group?: string;
  name: string;
  namespace?: string;
  replicas: number;
  resource: string;
  version?: string;
}

export interface Service {
  clusters: number;
  commit?: string;
  deployments?: Deployment[];
  leftOut?: number;
  message?: string;
  name: string;
  namespace: string;
  path: string;
  phase: Phase;
  ready: number;
  ref?: string;
  renderer: string;
  source: string;
  suspended?: boolean;
}

export interface ServiceChanges {
  gone?: string[];
  items?: Service[];
}

export interface ServiceList {
  counts?: Record<string, number>;
  items: Service[];
  next?: string;
  since?: string;
  total: number;
}

export interface SetRequest {
  base?: string;
  clusters?: ClusterSelector;
  confirm?: string;
  message?: string;
  parameters?: Record<string, string>;
  ref?: string;
  valueTexts?: Record<string, string>;
  values?: Record<string, unknown>;
}

export interface Source {
  ageSeconds: number;
  commit?: string;
  error?: string;
  failingSince?: string;
  failures: number;
  failuresInARow?: number;
  fetches: number;
  kind: string;
  lastFetch?: string;
  name: string;
  nextAttempt?: string;
  owner?: string;
  receivedBytes: number;
  ref?: string;
  refs?: SourceRef[];
  requests: number;
  url: string;
}

export interface SourceChanges {
  gone?: string[];
  items?: Source[];
}

export interface SourceList {
  counts?: Record<string, number>;
  items: Source[];
  next?: string;
  since?: string;
  total: number;
}

export interface SourceRef {
  commit?: string;
  ref: string;
  revision?: string;
  rewound?: string;
}

export interface Status {
  clusters: Record<string, number>;
  commit: Commit;
  deployments: Record<string, number>;
  head: Commit;
  held?: Problem[];
  hub: string;
  notices?: Notice[];
  nowhere?: number;
  nowhereNames?: string[];
  refused?: Problem[];
  services: Record<string, number>;
  sources?: Source[];
  suspended?: number;
  unhealthy?: Deployment[];
  version: string;
  workspace: string;
}

export interface Summary {
  clusters: Record<string, number>;
  commit: Commit;
  deployments: Record<string, number>;
  head: Commit;
  held: number;
  refused: number;
  services: Record<string, number>;
}

export interface SyncRequest {
  clusters?: string[];
  services?: string[];
}

export interface Synced {
  absent: number;
  asked: number;
  names?: string[];
}

export interface Test {
  finished?: string;
  key?: string;
  log?: string;
  message?: string;
  name: string;
  outcome: TestOutcome;
  tookSeconds?: number;
  tries?: number;
}

export type TestOutcome = "waiting" | "running" | "passed" | "failed";

export interface Upgrade {
  branch?: string;
  catalog: string;
  commit?: string;
  from?: string;
  installation: string;
  newest?: string;
  package: string;
  policy: string;
  reasons?: UpgradeReason[];
  since?: string;
  state: UpgradeState;
  target?: string;
  url?: string;
  version: string;
  with?: string[];
}

export interface UpgradeChanges {
  gone?: string[];
  items?: Upgrade[];
}

export type UpgradeCode = "manual" | "policy" | "approval" | "skipped" | "unfit" | "newPackage" | "deploy" | "conflict" | "plan" | "catalog" | "readOnly" | "behind" | "window" | "order" | "unhealthy" | "canary" | "soak" | "review" | "rolling" | "reverted";

export interface UpgradeList {
  counts?: Record<string, number>;
  items: Upgrade[];
  next?: string;
  since?: string;
  total: number;
}

export interface UpgradeReason {
  cluster?: string;
  code: UpgradeCode;
  fix?: string;
  installation?: string;
  message: string;
  service?: string;
  until?: string;
  version?: string;
}

export interface UpgradeRequest {
  base?: string;
  confirm?: string;
  message?: string;
  version?: string;
}

export type UpgradeState = "current" | "available" | "waiting" | "blocked" | "ready" | "proposed" | "rolling" | "reverted";

export interface UserToken {
  current?: boolean;
  expired?: boolean;
  expires?: string;
  id: string;
  name: string;
}

export interface UserTokenList {
  items: UserToken[];
}

export interface View {
  filter?: string;
  key: number;
  list: string;
  name: string;
}

export interface ViewList {
  items: View[];
  problems?: Problem[];
}

export interface Waiting {
  count: number;
  message?: string;
  names?: string[];
  token: string;
  unchecked?: boolean;
}
