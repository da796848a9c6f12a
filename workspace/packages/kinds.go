package packages

import (
	"slices"

	"github.com/pluralsh/plural/workspace/fleet"
)

// The structs below are the format: a field without omitempty must be written, and not empty; any other field is
// unknown. The strict decoder reads both from the yaml tags, and the schema has the doc comments besides. Every text below a
// step, and every default, may hold expressions (workspace/expr).

// File is the document at the root of every package.
const File = "package.yaml"

// Kind is what that document says of itself.
const Kind = "Package"

// Package is package.yaml: what a package is, what it needs, what it asks, and what it does.
type Package struct {
	fleet.TypeMeta `yaml:",inline"`
	Metadata       Metadata       `yaml:"metadata" json:"metadata"`
	Spec           Spec           `yaml:"spec" json:"spec"`
	Position       fleet.Position `yaml:"-" json:"-"`
	// Fields gives the line and column of fields by dotted path ("spec.steps[0].helm.path").
	Fields map[string]fleet.Position `yaml:"-" json:"-"`
}

// Metadata names a package.
type Metadata struct {
	// Name is a DNS label: lower-case letters, digits and dashes, at most 63.
	Name string `yaml:"name" json:"name"`
}

// Spec is everything that a package says.
type Spec struct {
	// Version is the package's own, by semantic versioning: 1.4.2, 2.0.0-rc.1.
	Version string `yaml:"version" json:"version"`
	// Description is one line that says what the package is for.
	Description string `yaml:"description,omitempty" json:"description,omitempty"`
	// Home is the address of a page about the package.
	Home string `yaml:"home,omitempty" json:"home,omitempty"`
	// Provides are names that dependencies may ask for instead of this package's.
	Provides []Provided `yaml:"provides,omitempty" json:"provides,omitempty"`
	// Dependencies are the packages that must be there first.
	Dependencies []Dependency `yaml:"dependencies,omitempty" json:"dependencies,omitempty"`
	// Breaking are the versions that an upgrade does not cross without somebody's agreement.
	Breaking []Breaking `yaml:"breaking,omitempty" json:"breaking,omitempty"`
	// NeedsApproval has every upgrade to this version wait for somebody's agreement.
	NeedsApproval bool `yaml:"needsApproval,omitempty" json:"needsApproval,omitempty"`
	// Protected keeps `plural down` and `plural destroy` from taking the package away unless it is named.
	Protected bool `yaml:"protected,omitempty" json:"protected,omitempty"`
	// Questions are what the package wants to know of whoever installs it, in the order in which they are asked.
	Questions []Question `yaml:"questions,omitempty" json:"questions,omitempty"`
	// Steps are what is done, in the order of their needs.
	Steps []Step `yaml:"steps,omitempty" json:"steps,omitempty"`
	// OIDC has people log in by way of the hub to what the package installs: it makes an Application that is named after the
	// installation.
	OIDC *OIDC `yaml:"oidc,omitempty" json:"oidc,omitempty"`
	// Outputs are what packages that depend on this one may read, by name.
	Outputs map[string]Output `yaml:"outputs,omitempty" json:"outputs,omitempty"`
}

// OIDC is an Application of the fleet.
type OIDC struct {
	// When is an expression; while it is false there is no Application.
	When string `yaml:"when,omitempty" json:"when,omitempty"`
	// Secret is an expression that gives the client secret: the answer to a question of type secret. Left out: a public client.
	Secret string `yaml:"secret,omitempty" json:"secret,omitempty"`
	// Spec is that of an Application, without secretHash. Its strict reader sees it once its expressions have values.
	Spec map[string]any `yaml:"spec" json:"spec"`
}

// Provided is a name that stands for what several packages can do.
type Provided struct {
	// Name is a DNS label, as a package's.
	Name string `yaml:"name" json:"name"`
	// Version is what ranges are compared with. Empty means the package's own.
	Version string `yaml:"version,omitempty" json:"version,omitempty"`
}

// Dependency is a package that must be there first: Package, or one of AnyOf.
type Dependency struct {
	// Name is how expressions call it. Empty means Package; with AnyOf there must be one.
	Name string `yaml:"name,omitempty" json:"name,omitempty"`
	// Package is a package's name, or one that a package provides.
	Package string `yaml:"package,omitempty" json:"package,omitempty"`
	// Version is a range of semantic versions: ">=1.2 <3". Empty means any stable one.
	Version string `yaml:"version,omitempty" json:"version,omitempty"`
	// AnyOf are alternatives, the best first. What is there already is taken before.
	AnyOf []Alternative `yaml:"anyOf,omitempty" json:"anyOf,omitempty"`
	// Optional installs nothing for it; where it is there, it goes first and its version must fit.
	Optional bool `yaml:"optional,omitempty" json:"optional,omitempty"`
}

// Alternative is one of several packages that would do.
type Alternative struct {
	// Package is a package's name, or one that a package provides.
	Package string `yaml:"package" json:"package"`
	// Version is a range of semantic versions. Empty means any stable one.
	Version string `yaml:"version,omitempty" json:"version,omitempty"`
}

// Key is how expressions and the lock call the dependency.
func (d *Dependency) Key() string {
	if d.Name != "" {
		return d.Name
	}
	return d.Package
}

// Choices are the packages that would do, the best first.
func (d *Dependency) Choices() []Alternative {
	if len(d.AnyOf) > 0 {
		return d.AnyOf
	}
	return []Alternative{{Package: d.Package, Version: d.Version}}
}

// Breaking is a version that cannot be come to from below without care.
type Breaking struct {
	// Since is the first version that breaks: an upgrade from below it to it or later needs agreement.
	Since string `yaml:"since" json:"since"`
	// Note says what breaks, and what to do.
	Note string `yaml:"note" json:"note"`
}

// The types of questions.
const (
	TypeString = "string"
	TypeInt    = "int"
	TypeNumber = "number"
	TypeBool   = "bool"
	TypeEnum   = "enum"
	TypeList   = "list"
	TypeMap    = "map"
	TypeSecret = "secret"
)

// Question is one thing that a package wants to know.
type Question struct {
	// Name is how the answer is called: in expressions answers.NAME, in values.yaml, and in --set NAME=. A letter, then
	// letters, digits and _.
	Name string `yaml:"name" json:"name"`
	// Type is string, int, number, bool, enum, list (of texts), map (of texts) or secret.
	Type string `yaml:"type" json:"type" enum:"string,int,number,bool,enum,list,map,secret"`
	// Prompt is what a person is asked. Empty means the name.
	Prompt string `yaml:"prompt,omitempty" json:"prompt,omitempty"`
	// Help explains the question.
	Help string `yaml:"help,omitempty" json:"help,omitempty"`
	// Default is the answer of who gives none. A secret has none.
	Default any `yaml:"default,omitempty" json:"default,omitempty"`
	// Optional has no answer be an answer: null.
	Optional bool `yaml:"optional,omitempty" json:"optional,omitempty"`
	// When is an expression; while it is false the question is not asked, and its answer is null.
	When string `yaml:"when,omitempty" json:"when,omitempty"`
	// Options are what an enum is one of.
	Options []string `yaml:"options,omitempty" json:"options,omitempty"`
	// Pattern is a regular expression (RE2) that the whole of a text matches, and each of a list or map.
	Pattern string `yaml:"pattern,omitempty" json:"pattern,omitempty"`
	// Min is the least number, or the least length of a text, list, map or secret.
	Min *float64 `yaml:"min,omitempty" json:"min,omitempty"`
	// Max is the greatest number, or the greatest length of a text, list, map or secret.
	Max *float64 `yaml:"max,omitempty" json:"max,omitempty"`
	// Generate makes a secret up where nobody gives one.
	Generate *Generate `yaml:"generate,omitempty" json:"generate,omitempty"`
}

// Generate says how a secret is made up.
type Generate struct {
	// Length is how many characters it has, of letters and digits. 0 means 32.
	Length int `yaml:"length,omitempty" json:"length,omitempty" default:"32"`
}

// Step is one thing that is done. Exactly one of Terraform, Helm, Manifests, Service and Wait is there.
type Step struct {
	// Name is a DNS label; what comes out of the step is steps["NAME"].outputs in expressions.
	Name string `yaml:"name" json:"name"`
	// Needs are steps of this package that are done first. A step whose outputs an expression reads needs not be named.
	Needs []string `yaml:"needs,omitempty" json:"needs,omitempty"`
	// When is an expression; while it is false the step is left out.
	When string `yaml:"when,omitempty" json:"when,omitempty"`
	// Terraform runs a module, by terraform or tofu.
	Terraform *Terraform `yaml:"terraform,omitempty" json:"terraform,omitempty"`
	// Helm becomes a Service that renders a chart.
	Helm *Helm `yaml:"helm,omitempty" json:"helm,omitempty"`
	// Manifests becomes a Service of plain or kustomized manifests.
	Manifests *Manifests `yaml:"manifests,omitempty" json:"manifests,omitempty"`
	// Service becomes a Service as it is written.
	Service *Service `yaml:"service,omitempty" json:"service,omitempty"`
	// Wait waits until something outside is ready.
	Wait *Wait `yaml:"wait,omitempty" json:"wait,omitempty"`
}

// The kinds of steps.
const (
	StepTerraform = "terraform"
	StepHelm      = "helm"
	StepManifests = "manifests"
	StepService   = "service"
	StepWait      = "wait"
)

// Kind says which of its fields the step has; empty when none.
func (s *Step) Kind() string {
	switch {
	case s.Terraform != nil:
		return StepTerraform
	case s.Helm != nil:
		return StepHelm
	case s.Manifests != nil:
		return StepManifests
	case s.Service != nil:
		return StepService
	case s.Wait != nil:
		return StepWait
	}
	return ""
}

// IsService says whether the step becomes a Service of the fleet.
func (s *Step) IsService() bool { return s.Helm != nil || s.Manifests != nil || s.Service != nil }

// The programs that run terraform modules.
const (
	ProductAny       = "any"
	ProductTerraform = "terraform"
	ProductTofu      = "tofu"
)

// Terraform is a module that is run to the state that its inputs ask for.
type Terraform struct {
	// Path is the module's folder in the package.
	Path string `yaml:"path" json:"path"`
	// Product is terraform, tofu or any. Empty means any.
	Product string `yaml:"product,omitempty" json:"product,omitempty" enum:"any,terraform,tofu" default:"any"`
	// Version is the range of the product's versions that will do. Empty means any.
	Version string `yaml:"version,omitempty" json:"version,omitempty"`
	// Inputs are the module's variables.
	Inputs map[string]any `yaml:"inputs,omitempty" json:"inputs,omitempty"`
	// Backend is the configuration of the backend that the module declares. A module without one has its state kept in the
	// record of deployments, sealed.
	Backend map[string]any `yaml:"backend,omitempty" json:"backend,omitempty"`
	// AllowDestroy lets a deploy destroy or replace what the module has made.
	AllowDestroy bool `yaml:"allowDestroy,omitempty" json:"allowDestroy,omitempty"`
}

// Helm is a chart: one in the package (Path), or one of a Source (Source, Chart, Version).
type Helm struct {
	// Name is the Service's. Empty means the installation's, with -STEP behind it where it has several.
	Name string `yaml:"name,omitempty" json:"name,omitempty"`
	// Path is the chart's folder in the package.
	Path string `yaml:"path,omitempty" json:"path,omitempty"`
	// Source is where the chart is, when it is not in the package.
	Source *Source `yaml:"source,omitempty" json:"source,omitempty"`
	// Chart is the chart's name in a Helm repository.
	Chart string `yaml:"chart,omitempty" json:"chart,omitempty"`
	// Version is the chart's, exactly: a range would have the same package mean another thing every day.
	Version string `yaml:"version,omitempty" json:"version,omitempty"`
	// Release is the release's name. Empty means the Service's.
	Release string `yaml:"release,omitempty" json:"release,omitempty"`
	// Namespace is where the release goes.
	Namespace string `yaml:"namespace,omitempty" json:"namespace,omitempty"`
	// Values are the chart's. Those that hold a secret go into a sealed file.
	Values map[string]any `yaml:"values,omitempty" json:"values,omitempty"`
	// Record keeps a release in the cluster, for `helm list`.
	Record bool `yaml:"record,omitempty" json:"record,omitempty"`
	// SkipCRDs leaves out what lies in the chart's crds/.
	SkipCRDs bool `yaml:"skipCRDs,omitempty" json:"skipCRDs,omitempty"`
}

// Source is an upstream of the installation repo: one that is there, or one that the package brings.
type Source struct {
	// Name is a Source of the installation repo or, with New, what the new one is called.
	Name string `yaml:"name" json:"name"`
	// New is the spec of a Source that is made when the installation repo has none of that name.
	New map[string]any `yaml:"new,omitempty" json:"new,omitempty"`
}

// Manifests are Kubernetes objects in files: plain ones, or a kustomization.
type Manifests struct {
	// Name is the Service's. Empty means the installation's, with -STEP behind it where it has several.
	Name string `yaml:"name,omitempty" json:"name,omitempty"`
	// Path is the folder in the package.
	Path string `yaml:"path" json:"path"`
	// Namespace is where the objects go that name none.
	Namespace string `yaml:"namespace,omitempty" json:"namespace,omitempty"`
	// Parameters are what templates among the files see as .parameters: texts, or numbers and booleans that are passed as
	// texts.
	Parameters map[string]any `yaml:"parameters,omitempty" json:"parameters,omitempty"`
}

// Service is a Service of the fleet as it would stand in services/.
type Service struct {
	// Name is the Service's. Empty means the installation's, with -STEP behind it where it has several.
	Name string `yaml:"name,omitempty" json:"name,omitempty"`
	// Spec is that of a Service, whose strict reader sees it once its expressions have values. Paths that name no source
	// are those of the package; the clusters may be left out.
	Spec map[string]any `yaml:"spec" json:"spec"`
}

// Wait waits until all that it names is so.
type Wait struct {
	// Timeout is how long: "5m". Empty means five minutes.
	Timeout string `yaml:"timeout,omitempty" json:"timeout,omitempty" default:"5m"`
	// HTTP is an address that answers.
	HTTP *WaitHTTP `yaml:"http,omitempty" json:"http,omitempty"`
	// Object is an object of the cluster that is as a condition says.
	Object *WaitObject `yaml:"object,omitempty" json:"object,omitempty"`
	// Services are steps of this package whose Services are healthy on their clusters.
	Services []string `yaml:"services,omitempty" json:"services,omitempty"`
}

// WaitHTTP is an address that answers a GET.
type WaitHTTP struct {
	// URL is http or https.
	URL string `yaml:"url" json:"url"`
	// Status is the answer's. 0 means any of 200 to 299.
	Status int `yaml:"status,omitempty" json:"status,omitempty"`
}

// WaitObject is an object of the cluster.
type WaitObject struct {
	// APIVersion is the object's: GROUP/VERSION, or v1.
	APIVersion string `yaml:"apiVersion" json:"apiVersion"`
	// Kind is the object's.
	Kind string `yaml:"kind" json:"kind"`
	// Namespace is the object's; empty for one outside of namespaces.
	Namespace string `yaml:"namespace,omitempty" json:"namespace,omitempty"`
	// Name is the object's.
	Name string `yaml:"name" json:"name"`
	// Condition is CEL over the variable object, without ${}. Empty means that the object is there.
	Condition string `yaml:"condition,omitempty" json:"condition,omitempty"`
	// Outputs are CEL over object, without ${}, by the names under which later steps read them.
	Outputs map[string]string `yaml:"outputs,omitempty" json:"outputs,omitempty"`
	// SecretOutputs are the names of outputs that are secrets. All that is read from a Kubernetes Secret is one without being
	// called so.
	SecretOutputs []string `yaml:"secretOutputs,omitempty" json:"secretOutputs,omitempty"`
}

// Secret says whether an output is one.
func (o *WaitObject) Secret(output string) bool {
	return o.Kind == "Secret" && o.APIVersion == "v1" || slices.Contains(o.SecretOutputs, output)
}

// Output is something that others may read.
type Output struct {
	// Value is any value; its texts may hold expressions.
	Value any `yaml:"value" json:"value"`
	// Description says what it is.
	Description string `yaml:"description,omitempty" json:"description,omitempty"`
	// Secret has it sealed. What comes from a secret is one without being called so.
	Secret bool `yaml:"secret,omitempty" json:"secret,omitempty"`
}
