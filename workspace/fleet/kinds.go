package fleet

import (
	"strings"

	"github.com/pluralsh/plural/internal/yamlstrict"
)

// The structs below are the format: a field without omitempty must be written, and not empty; any other field is
// unknown. The strict decoder reads both from the yaml tags. A scalar:"number" tag lets a string be written as a bare
// number, an enum tag lists the words that it is one of, a default tag says what counts without the field. The comments
// are what people read: they become the schemas of docs/schema and plural explain.

// APIVersion is what every document of an installation repo names.
const APIVersion = "plural.sh/v1alpha1"

// Position is where something was written. File is slash-separated and relative to the repository's root;
// Line and Column count from 1, and 0 means unknown.
type Position = yamlstrict.Position

// Error is one mistake in the repository.
type Error = yamlstrict.Error

// Errors are all mistakes of one load, sorted by place.
type Errors = yamlstrict.Errors

// Metadata names a document.
type Metadata struct {
	// Name is a DNS label: lower-case letters, digits and dashes, at most 63.
	Name string `yaml:"name" json:"name"`
	// Labels are words of your own by which lists are filtered and notifications routed.
	Labels map[string]string `yaml:"labels,omitempty" json:"labels,omitempty"`
	// Annotations are notes of your own, which nothing reads.
	Annotations map[string]string `yaml:"annotations,omitempty" json:"annotations,omitempty"`
}

// TypeMeta says what a document is.
type TypeMeta struct {
	// APIVersion is the version of the format.
	APIVersion string `yaml:"apiVersion" json:"apiVersion"`
	// Kind is what the document describes.
	Kind string `yaml:"kind" json:"kind"`
}

// Workspace is plural.yaml: the installation repo itself.
type Workspace struct {
	TypeMeta `yaml:",inline"`
	Metadata Metadata      `yaml:"metadata" json:"metadata"`
	Spec     WorkspaceSpec `yaml:"spec" json:"spec"`
	Position Position      `yaml:"-" json:"-"`
	// Fields gives the line and column of fields by dotted path.
	Fields map[string]Position `yaml:"-" json:"-"`
}

// RepositoryAnnotation of plural.yaml is the installation repo's identity, by which a hub and a clone tell that they are of one
// repository. It is made at random with the repo, and proves nothing. An annotation, since older programs refuse unknown fields.
const RepositoryAnnotation = "plural.sh/repository"

// Repository is the repo's identity; empty where it has none, or one that no program made.
func (w *Workspace) Repository() string {
	id := w.Metadata.Annotations[RepositoryAnnotation]
	if len(id) < 16 || len(id) > 64 || strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		return ""
	}
	return id
}

// Place is where a field was written by its dotted path, or else what would hold it.
func (w *Workspace) Place(field string) Position {
	return yamlstrict.Place(w.Fields, field, w.Position)
}

// WorkspaceSpec holds the fleet-wide settings.
type WorkspaceSpec struct {
	// Hub is where agents and people reach the hub.
	Hub Hub `yaml:"hub,omitempty" json:"hub,omitempty"`
	// Repo is where the hub fetches this repository from.
	Repo Repo `yaml:"repo,omitempty" json:"repo,omitempty"`
	// DeletionBudget is how many services one commit may take away from the fleet, or from one cluster: "50%"
	// or a count. Empty means 50%.
	DeletionBudget string `yaml:"deletionBudget,omitempty" json:"deletionBudget,omitempty" scalar:"number" default:"50%"`
	// Acknowledged are tokens, or TOKEN@CLUSTER, of removals beyond the budget that a person has agreed to, as plural status
	// shows them.
	Acknowledged []string `yaml:"acknowledged,omitempty" json:"acknowledged,omitempty" scalar:"number"`
	// Defaults apply to every service that does not say otherwise.
	Defaults Defaults `yaml:"defaults,omitempty" json:"defaults,omitempty"`
	// Health says how kinds are judged on every service, after the services' own rules.
	Health []HealthRule `yaml:"health,omitempty" json:"health,omitempty"`
	// Plugins are the renderers besides the built-in ones.
	Plugins []Plugin `yaml:"plugins,omitempty" json:"plugins,omitempty"`
	// Catalogs are where packages are found, in the order in which they are asked. The one named builtin is always there, and last.
	Catalogs []CatalogRef `yaml:"catalogs,omitempty" json:"catalogs,omitempty"`
	// Management is the cluster on which packages run that name no other.
	Management string `yaml:"management,omitempty" json:"management,omitempty"`
	// Kustomize says what kustomizations may do.
	Kustomize Kustomize `yaml:"kustomize,omitempty" json:"kustomize,omitempty"`
}

// Kustomize says what kustomizations may do.
type Kustomize struct {
	// Remotes lets kustomizations name remote bases, files and charts that are Sources. Left out: true.
	Remotes *bool `yaml:"remotes,omitempty" json:"remotes,omitempty" default:"true"`
}

// Plugin is a renderer that agents bring along under its name.
type Plugin struct {
	// Name is what a Service's renderer says.
	Name string `yaml:"name" json:"name"`
}

// Hub is an address.
type Hub struct {
	// URL is https://HOST, or http://HOST where there is no TLS. It holds no credential.
	URL string `yaml:"url,omitempty" json:"url,omitempty"`
	// SigningKeys is a file of the installation repo, sealed for the group hub: the keys with which the hub signs the logins of
	// Applications. Left out: the hub is no identity provider.
	SigningKeys string `yaml:"signingKeys,omitempty" json:"signingKeys,omitempty"`
}

// Repo is a git remote and the branch that is the fleet's desired state.
type Repo struct {
	// URL is where the hub fetches the repository from. It holds no password.
	URL string `yaml:"url,omitempty" json:"url,omitempty"`
	// Branch is the one whose newest commit the fleet runs. Empty means the remote's HEAD.
	Branch string `yaml:"branch,omitempty" json:"branch,omitempty"`
}

// Defaults are a service's settings where it has none of its own.
type Defaults struct {
	// Sync is how services are kept in place.
	Sync Sync `yaml:"sync,omitempty" json:"sync,omitempty"`
}

// Cluster is clusters/NAME.yaml.
type Cluster struct {
	TypeMeta `yaml:",inline"`
	Metadata Metadata    `yaml:"metadata" json:"metadata"`
	Spec     ClusterSpec `yaml:"spec,omitempty" json:"spec,omitempty"`
	Position Position    `yaml:"-" json:"-"`
}

// ClusterSpec holds the facts that selectors and parameters look at, and the agent's public keys.
type ClusterSpec struct {
	// Tags are what selectors pick clusters by.
	Tags map[string]string `yaml:"tags,omitempty" json:"tags,omitempty"`
	// Parameters are what templates see as .parameters on this cluster; they win over the service's.
	Parameters map[string]string `yaml:"parameters,omitempty" json:"parameters,omitempty"`
	// Agent holds the public keys of the cluster's agent, as plural cluster register writes them.
	Agent AgentKeys `yaml:"agent,omitempty" json:"agent,omitempty"`
	// Join lets an agent register itself. It is there from the making of a join token until the token is used.
	Join *Join `yaml:"join,omitempty" json:"join,omitempty"`
}

// AgentKeys are the public halves of an agent's identity. A cluster without them has no agent yet.
type AgentKeys struct {
	// Auth is "ed25519:" and 32 bytes in standard base64.
	Auth string `yaml:"auth,omitempty" json:"auth,omitempty"`
	// Age is an age recipient, "age1…".
	Age string `yaml:"age,omitempty" json:"age,omitempty"`
}

// Source is sources/NAME.yaml: an upstream that the hub fetches.
type Source struct {
	TypeMeta `yaml:",inline"`
	Metadata Metadata   `yaml:"metadata" json:"metadata"`
	Spec     SourceSpec `yaml:"spec" json:"spec"`
	Position Position   `yaml:"-" json:"-"`
	// Fields gives the line and column of fields by dotted path.
	Fields map[string]Position `yaml:"-" json:"-"`
}

// Place is where a field was written by its dotted path, or else what would hold it.
func (s *Source) Place(field string) Position { return yamlstrict.Place(s.Fields, field, s.Position) }

// SourceSpec holds exactly one kind of upstream: Git, Helm, OCI or HTTP.
type SourceSpec struct {
	// Git is a git repository.
	Git *GitSource `yaml:"git,omitempty" json:"git,omitempty"`
	// Helm is a Helm repository.
	Helm *HelmSource `yaml:"helm,omitempty" json:"helm,omitempty"`
	// OCI is a repository of a registry.
	OCI *OCISource `yaml:"oci,omitempty" json:"oci,omitempty"`
	// HTTP is a single file.
	HTTP *HTTPSource `yaml:"http,omitempty" json:"http,omitempty"`
	// Auth is what the hub shows to the upstream. None: the upstream is open to all.
	Auth *SourceAuth `yaml:"auth,omitempty" json:"auth,omitempty"`
	// Verify is whose signature counts. None: whatever the upstream says is believed.
	Verify *Verification `yaml:"verify,omitempty" json:"verify,omitempty"`
	// Interval between two polls, before jitter: "2m". Empty means two minutes.
	Interval string `yaml:"interval,omitempty" json:"interval,omitempty" default:"2m"`
}

// GitSource is a git repository.
type GitSource struct {
	// URL is an https, http or ssh URL, user@host:path, or (where the hub allows it) a file URL. It holds no credential.
	URL string `yaml:"url" json:"url"`
	// Ref is the branch, tag or commit used by services that name none. Empty means the remote's HEAD.
	Ref string `yaml:"ref,omitempty" json:"ref,omitempty"`
	// Submodules is empty, so that a service that touches one is held, or "follow".
	Submodules string `yaml:"submodules,omitempty" json:"submodules,omitempty"`
}

// HelmSource is a Helm repository.
type HelmSource struct {
	// URL is the https URL under which its index.yaml lies.
	URL string `yaml:"url" json:"url"`
	// Chart is that of services that name none, and of kustomizations: a chart that is named here is fetched although no
	// service names it.
	Chart string `yaml:"chart,omitempty" json:"chart,omitempty"`
	// Ref is the chart's version, or a range of versions, used by services that name none.
	Ref string `yaml:"ref,omitempty" json:"ref,omitempty"`
}

// OCISource is one repository of a registry, with charts or other artifacts.
type OCISource struct {
	// URL is oci://host/path.
	URL string `yaml:"url" json:"url"`
	// Ref is the tag, semver range over tags or digest (sha256:...) used by services that name none. Empty means the newest
	// stable version among the tags, else the tag latest.
	Ref string `yaml:"ref,omitempty" json:"ref,omitempty"`
}

// HTTPSource is one file behind an https URL, for kustomizations and mounts.
type HTTPSource struct {
	// URL is the file's https URL.
	URL string `yaml:"url" json:"url"`
	// Digest is that of the file, "sha256:" and 64 hex digits. Anything else that the URL answers is refused.
	Digest string `yaml:"digest" json:"digest"`
}

// SourceAuth is how the hub proves itself to an upstream, and knows it again.
type SourceAuth struct {
	// Secret is a file of the installation repo, sealed for the group hub.
	Secret string `yaml:"secret,omitempty" json:"secret,omitempty"`
	// KnownHosts are lines of a known_hosts file: the host keys that an ssh server may show. They are no secret.
	KnownHosts string `yaml:"knownHosts,omitempty" json:"knownHosts,omitempty"`
}

// HubGroup is the group that the hub belongs to, and whose sealed files it opens.
const HubGroup = "hub"

// Verification is whose signatures are believed: those by one of Keys, or keyless ones.
type Verification struct {
	// Keys are files of the installation repo with public keys: OpenPGP, SSH, PEM.
	Keys []string `yaml:"keys,omitempty" json:"keys,omitempty"`
	// Keyless believes signatures without a lasting key.
	Keyless *Keyless `yaml:"keyless,omitempty" json:"keyless,omitempty"`
	// DescendsFrom is a commit of a git source that its branches have to come out of.
	DescendsFrom string `yaml:"descendsFrom,omitempty" json:"descendsFrom,omitempty"`
	// Rewinds is empty, so that a branch of a git source never leaves what was verified of it, or "follow".
	Rewinds string `yaml:"rewinds,omitempty" json:"rewinds,omitempty"`
}

// Keyless is the identity behind signatures without a lasting key, and who vouches for it.
type Keyless struct {
	// Issuer is the URL of who vouches, such as https://token.actions.githubusercontent.com.
	Issuer string `yaml:"issuer" json:"issuer"`
	// Identity is who signed, as the issuer says it: an address, or the URL of a workflow.
	Identity string `yaml:"identity" json:"identity"`
	// TrustRoot is a file of the installation repo: the trusted_root.json of a Sigstore instance.
	TrustRoot string `yaml:"trustRoot" json:"trustRoot"`
}

// Service is services/NAME.yaml: something that runs on clusters.
type Service struct {
	TypeMeta `yaml:",inline"`
	Metadata Metadata    `yaml:"metadata" json:"metadata"`
	Spec     ServiceSpec `yaml:"spec" json:"spec"`
	Position Position    `yaml:"-" json:"-"`
	// Fields gives the line and column of fields by dotted path ("spec.source.path", "spec.dependsOn[0].service").
	Fields map[string]Position `yaml:"-" json:"-"`
}

// Place is where a field was written by its dotted path, or else what would hold it.
func (s *Service) Place(field string) Position { return yamlstrict.Place(s.Fields, field, s.Position) }

// ServiceSpec says where the manifests come from, how they are rendered, and where they go.
type ServiceSpec struct {
	// Source is the folder, or the chart, that the manifests come from.
	Source SourceRef `yaml:"source" json:"source"`
	// Renderer is raw, kustomize, helm or one of the workspace's plugins. Empty: told by an unmistakable file at the path
	// (kustomization.yaml, Chart.yaml), else raw.
	Renderer string `yaml:"renderer,omitempty" json:"renderer,omitempty"`
	// Helm is how a chart is rendered.
	Helm *Helm `yaml:"helm,omitempty" json:"helm,omitempty"`
	// Namespace is where the objects go that name none. It is made where it is missing.
	Namespace string `yaml:"namespace,omitempty" json:"namespace,omitempty"`
	// ServiceAccount is who applies and deletes the objects: NAME in the service's namespace, or NAMESPACE/NAME. Empty: the
	// agent itself.
	ServiceAccount string `yaml:"serviceAccount,omitempty" json:"serviceAccount,omitempty"`
	// AllowedNamespaces are the only ones that may hold the service's objects, and nothing outside of namespaces is applied.
	// Empty: any.
	AllowedNamespaces []string `yaml:"allowedNamespaces,omitempty" json:"allowedNamespaces,omitempty"`
	// Clusters are those that the service runs on.
	Clusters Selector `yaml:"clusters" json:"clusters"`
	// Parameters are what templates see as .parameters, unless the cluster has its own of that name. The values may be
	// templates themselves.
	Parameters map[string]string `yaml:"parameters,omitempty" json:"parameters,omitempty"`
	// Secrets names sealed files of the installation repo, wherever the manifests come from.
	Secrets []SecretRef `yaml:"secrets,omitempty" json:"secrets,omitempty"`
	// Include names more folders or files of the same repository that the render reads.
	Include []string `yaml:"include,omitempty" json:"include,omitempty"`
	// Exclude leaves files and folders below the path out, by patterns as they stand in a .gitignore there.
	Exclude []string `yaml:"exclude,omitempty" json:"exclude,omitempty"`
	// Mounts are files of other repositories, for the render to see beside its own.
	Mounts []Mount `yaml:"mounts,omitempty" json:"mounts,omitempty"`
	// DependsOn are services that must be there first.
	DependsOn []Dependency `yaml:"dependsOn,omitempty" json:"dependsOn,omitempty"`
	// Sync is how the service is kept in place, where the workspace's defaults do not fit.
	Sync Sync `yaml:"sync,omitempty" json:"sync,omitempty"`
	// Health says how kinds are judged on this service, before the workspace's rules and the built-in ones.
	Health []HealthRule `yaml:"health,omitempty" json:"health,omitempty"`
	// Tests are tried once the service is healthy.
	Tests []Test `yaml:"tests,omitempty" json:"tests,omitempty"`
	// Suspend has agents leave the service as it is: nothing is applied, healed or deleted until it is taken away.
	Suspend bool `yaml:"suspend,omitempty" json:"suspend,omitempty"`
}

// SourceRef points into a repository. Without a name it is the installation repo itself.
type SourceRef struct {
	// Name is a Source. Empty means the installation repo.
	Name string `yaml:"name,omitempty" json:"name,omitempty"`
	// Ref overrides the source's ref: a branch, tag or commit of git, a version or range of a chart, a tag, range or digest
	// of OCI.
	Ref string `yaml:"ref,omitempty" json:"ref,omitempty"`
	// Path is the folder to render, relative to the repository's root. Empty means the root, for sources of helm and oci
	// alone.
	Path string `yaml:"path,omitempty" json:"path,omitempty"`
}

// Mount is a folder or a file of another repository, which the render sees in a folder beside the service's own files.
type Mount struct {
	// Source is the folder or file that is seen.
	Source SourceRef `yaml:"source" json:"source"`
	// Chart is the name of a chart when the source is a Helm repository, and empty otherwise.
	Chart string `yaml:"chart,omitempty" json:"chart,omitempty"`
	// At is the folder, relative to the root of the service's repository, which must not have it. The source's folder is
	// seen as At, a file as AT/NAME.
	At string `yaml:"at" json:"at"`
}

// Helm is how a chart is rendered. The chart is the folder at the service's path.
type Helm struct {
	// Chart is the name of the chart when the source is a Helm repository, and empty otherwise.
	Chart string `yaml:"chart,omitempty" json:"chart,omitempty"`
	// Release is the release's name. Empty means the service's name.
	Release string `yaml:"release,omitempty" json:"release,omitempty"`
	// Values are the chart's, over those of its values.yaml.
	Values map[string]any `yaml:"values,omitempty" json:"values,omitempty"`
	// ValuesFiles are relative to the repository's root, or lie in a mount; later ones win, and Values win over all.
	ValuesFiles []string `yaml:"valuesFiles,omitempty" json:"valuesFiles,omitempty"`
	// Lookup lets templates look objects up in the cluster, as the service's account.
	Lookup bool `yaml:"lookup,omitempty" json:"lookup,omitempty"`
	// Record keeps a release in the cluster, for `helm list`.
	Record bool `yaml:"record,omitempty" json:"record,omitempty"`
	// SkipCRDs leaves out what lies in the chart's crds/.
	SkipCRDs bool `yaml:"skipCRDs,omitempty" json:"skipCRDs,omitempty"`
}

// Selector picks clusters: by name, or by tags. All conditions given must hold; an empty selector picks none.
type Selector struct {
	// Names are the clusters' own.
	Names []string `yaml:"names,omitempty" json:"names,omitempty"`
	// MatchLabels are tags that a cluster must have, with these values.
	MatchLabels map[string]string `yaml:"matchLabels,omitempty" json:"matchLabels,omitempty"`
	// MatchExpressions are conditions on tags.
	MatchExpressions []Requirement `yaml:"matchExpressions,omitempty" json:"matchExpressions,omitempty"`
}

// None says that it asks for no cluster at all.
func (s Selector) None() bool { return len(s.Names)+len(s.MatchLabels)+len(s.MatchExpressions) == 0 }

// SecretRef is one sealed file that the service's templates read as .secrets.NAME.KEY, and that becomes the Kubernetes
// Secret NAME in the service's namespace.
type SecretRef struct {
	// Name is that of the Kubernetes Secret, and what templates call it.
	Name string `yaml:"name" json:"name"`
	// From is the file, relative to the installation repo's root.
	From string `yaml:"from" json:"from"`
	// TemplateOnly makes no Kubernetes Secret of it.
	TemplateOnly bool `yaml:"templateOnly,omitempty" json:"templateOnly,omitempty"`
	// Type is the Kubernetes Secret's type. Empty means Opaque.
	Type string `yaml:"type,omitempty" json:"type,omitempty" default:"Opaque"`
}
