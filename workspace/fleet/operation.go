package fleet

// The types below say how what was rendered is applied, judged and tried. None of them changes what is rendered.

// Dependency names a service that must be there on the same cluster first.
type Dependency struct {
	Service string `yaml:"service" json:"service"`
	// Condition is healthy or applied. Empty means healthy.
	Condition string `yaml:"condition,omitempty" json:"condition,omitempty"`
	// Version is a range that the version of what was applied of it must lie in, such as ">=1.14 <2". Empty: any.
	Version string `yaml:"version,omitempty" json:"version,omitempty" scalar:"number"`
}

// Sync is how a service is kept in place. A nil switch means the workspace's default, and at last true; so does an empty
// text, with its own last word.
type Sync struct {
	Prune    *bool `yaml:"prune,omitempty" json:"prune,omitempty"`
	SelfHeal *bool `yaml:"selfHeal,omitempty" json:"selfHeal,omitempty"`
	// DeletionBudget is how many of the service's objects one sync may delete: "50%" or a count. Empty means 50%,
	// and never fewer than ten.
	DeletionBudget string `yaml:"deletionBudget,omitempty" json:"deletionBudget,omitempty" scalar:"number"`
	// OnDelete is what becomes of the objects when the service goes: delete or orphan. Empty means delete.
	OnDelete string `yaml:"onDelete,omitempty" json:"onDelete,omitempty"`
	// Conflicts is what is done about fields that others own: own, yield or fail. Empty means own, except for what an
	// autoscaler has set.
	Conflicts string `yaml:"conflicts,omitempty" json:"conflicts,omitempty"`
	// Fields are policies of single fields; the first that fits counts, and the workspace's come last.
	Fields []FieldRule `yaml:"fields,omitempty" json:"fields,omitempty"`
	// Recreate are kinds (KIND or KIND.GROUP) of which an object is deleted and made anew when a change to it is refused as
	// immutable. A list of the service's own takes the place of the workspace's.
	Recreate []string `yaml:"recreate,omitempty" json:"recreate,omitempty"`
	// Acknowledged are tokens (budget.Token), or TOKEN@CLUSTER, of deletions that a person has agreed to.
	Acknowledged []string `yaml:"acknowledged,omitempty" json:"acknowledged,omitempty" scalar:"number"`
}

// FieldRule is a policy for one field of some objects. Empty parts fit everything.
type FieldRule struct {
	// Kind is KIND or KIND.GROUP.
	Kind      string `yaml:"kind,omitempty" json:"kind,omitempty"`
	Namespace string `yaml:"namespace,omitempty" json:"namespace,omitempty"`
	Name      string `yaml:"name,omitempty" json:"name,omitempty"`
	// Pointer is a JSON pointer, such as /spec/replicas; a segment "*" fits every key or item.
	Pointer string `yaml:"pointer" json:"pointer"`
	// Policy is own, yield, fail, or ignore: the field is set when the object is made, and left alone from then on.
	Policy string `yaml:"policy" json:"policy"`
}

// HealthRule judges the objects of one kind: by expressions of CEL over the object as self, or by a script of Lua like
// those of Argo CD.
type HealthRule struct {
	// Kind is KIND or KIND.GROUP.
	Kind string `yaml:"kind" json:"kind"`
	// The first of Degraded, Healthy and Progressing that is true decides.
	Healthy     string `yaml:"healthy,omitempty" json:"healthy,omitempty"`
	Degraded    string `yaml:"degraded,omitempty" json:"degraded,omitempty"`
	Progressing string `yaml:"progressing,omitempty" json:"progressing,omitempty"`
	// Message is an expression that gives the words to the verdict.
	Message string `yaml:"message,omitempty" json:"message,omitempty"`
	Lua     string `yaml:"lua,omitempty" json:"lua,omitempty"`
}

// Test is tried once the service is healthy. It is exactly one of HTTP, Job, CEL and Helm, whose texts may be templates
// like those of parameters.
type Test struct {
	Name string `yaml:"name" json:"name"`
	// Timeout of one try: "30s". Empty means the agent's default.
	Timeout string `yaml:"timeout,omitempty" json:"timeout,omitempty"`
	// Retries is how many times a failed test is tried again.
	Retries int `yaml:"retries,omitempty" json:"retries,omitempty"`
	// Gate has the service go back to what it was when the test fails.
	Gate bool      `yaml:"gate,omitempty" json:"gate,omitempty"`
	HTTP *HTTPTest `yaml:"http,omitempty" json:"http,omitempty"`
	// Job is a Job's manifest, or its spec alone.
	Job map[string]any `yaml:"job,omitempty" json:"job,omitempty"`
	// CEL are assertions, all of which must hold.
	CEL  []CELAssertion `yaml:"cel,omitempty" json:"cel,omitempty"`
	Helm *HelmTest      `yaml:"helm,omitempty" json:"helm,omitempty"`
}

// HTTPTest asks a Kubernetes Service.
type HTTPTest struct {
	// Service lies in the service's namespace unless Namespace says otherwise.
	Service   string `yaml:"service" json:"service"`
	Namespace string `yaml:"namespace,omitempty" json:"namespace,omitempty"`
	// Port is a number or a name.
	Port string `yaml:"port" json:"port" scalar:"number"`
	// Path begins with a slash. Empty means "/".
	Path string `yaml:"path,omitempty" json:"path,omitempty"`
	// Method is GET when empty, Scheme http.
	Method  string            `yaml:"method,omitempty" json:"method,omitempty"`
	Scheme  string            `yaml:"scheme,omitempty" json:"scheme,omitempty"`
	Headers map[string]string `yaml:"headers,omitempty" json:"headers,omitempty"`
	Body    string            `yaml:"body,omitempty" json:"body,omitempty"`
	// Status is the one that counts as passed. 0 means any of 2xx.
	Status int `yaml:"status,omitempty" json:"status,omitempty"`
	// Contains is what the answer must contain.
	Contains string `yaml:"contains,omitempty" json:"contains,omitempty"`
	// By is proxy, through the API server, or cluster, by the Service's own name. Empty means proxy.
	By string `yaml:"by,omitempty" json:"by,omitempty"`
}

// CELAssertion is an expression over one live object as self, or over all that fit a selector as items.
type CELAssertion struct {
	// Kind is KIND or KIND.GROUP.
	Kind string `yaml:"kind" json:"kind"`
	// Version is that of the API. Empty means the one that the cluster prefers.
	Version string `yaml:"version,omitempty" json:"version,omitempty"`
	// Namespace is the service's unless something else is said.
	Namespace string `yaml:"namespace,omitempty" json:"namespace,omitempty"`
	// Name is of one object. Without it the expression is about all that fit Selector, a label selector.
	Name       string `yaml:"name,omitempty" json:"name,omitempty"`
	Selector   string `yaml:"selector,omitempty" json:"selector,omitempty"`
	Expression string `yaml:"expression" json:"expression"`
	// Message is what to say when the expression is false.
	Message string `yaml:"message,omitempty" json:"message,omitempty"`
}

// HelmTest runs the test hooks that the chart brings along.
type HelmTest struct {
	// Hooks are the names of those to run. Empty means all.
	Hooks []string `yaml:"hooks,omitempty" json:"hooks,omitempty"`
}
