package fleet

// The types below say how what was rendered is applied, judged and tried. None of them changes what is rendered.

// Dependency names a service that must be there on the same cluster first.
type Dependency struct {
	// Service is the other's name.
	Service string `yaml:"service" json:"service"`
	// Condition is healthy or applied. Empty means healthy.
	Condition string `yaml:"condition,omitempty" json:"condition,omitempty" enum:"healthy,applied" default:"healthy"`
	// Version is a range that the version of what was applied of it must lie in, such as ">=1.14 <2". Empty: any.
	Version string `yaml:"version,omitempty" json:"version,omitempty" scalar:"number"`
}

// Sync is how a service is kept in place. What is left out is as the workspace's defaults say.
type Sync struct {
	// Prune deletes objects that are no longer rendered.
	Prune *bool `yaml:"prune,omitempty" json:"prune,omitempty" default:"true"`
	// SelfHeal puts back what others change in the cluster.
	SelfHeal *bool `yaml:"selfHeal,omitempty" json:"selfHeal,omitempty" default:"true"`
	// DeletionBudget is how many of the service's objects one sync may delete: "50%" or a count. Empty means 50%,
	// and never fewer than ten.
	DeletionBudget string `yaml:"deletionBudget,omitempty" json:"deletionBudget,omitempty" scalar:"number" default:"50%"`
	// OnDelete is what becomes of the objects when the service goes: delete or orphan. Empty means delete.
	OnDelete string `yaml:"onDelete,omitempty" json:"onDelete,omitempty" enum:"delete,orphan" default:"delete"`
	// Conflicts is what is done about fields that others own: own, yield or fail. Empty means own, except for what an
	// autoscaler has set.
	Conflicts string `yaml:"conflicts,omitempty" json:"conflicts,omitempty" enum:"own,yield,fail" default:"own"`
	// Fields are policies of single fields; the first that fits counts, and the workspace's come last.
	Fields []FieldRule `yaml:"fields,omitempty" json:"fields,omitempty"`
	// Recreate are kinds (KIND or KIND.GROUP) of which an object is deleted and made anew when a change to it is refused as
	// immutable. A list of the service's own takes the place of the workspace's.
	Recreate []string `yaml:"recreate,omitempty" json:"recreate,omitempty"`
	// Acknowledged are tokens, or TOKEN@CLUSTER, of deletions that a person has agreed to: plural service ack writes them.
	Acknowledged []string `yaml:"acknowledged,omitempty" json:"acknowledged,omitempty" scalar:"number"`
}

// FieldRule is a policy for one field of some objects. Empty parts fit everything.
type FieldRule struct {
	// Kind is KIND or KIND.GROUP.
	Kind string `yaml:"kind,omitempty" json:"kind,omitempty"`
	// Namespace is the objects'.
	Namespace string `yaml:"namespace,omitempty" json:"namespace,omitempty"`
	// Name is one object's.
	Name string `yaml:"name,omitempty" json:"name,omitempty"`
	// Pointer is a JSON pointer, such as /spec/replicas; a segment "*" fits every key or item.
	Pointer string `yaml:"pointer" json:"pointer"`
	// Policy is own, yield, fail, or ignore: the field is set when the object is made, and left alone from then on.
	Policy string `yaml:"policy" json:"policy" enum:"own,yield,fail,ignore"`
}

// HealthRule judges the objects of one kind: by expressions of CEL over the object as self, or by a script of Lua like
// those of Argo CD.
type HealthRule struct {
	// Kind is KIND or KIND.GROUP.
	Kind string `yaml:"kind" json:"kind"`
	// Healthy is an expression that is true of a healthy object. The first of Degraded, Healthy and Progressing that is true
	// decides.
	Healthy string `yaml:"healthy,omitempty" json:"healthy,omitempty"`
	// Degraded is an expression that is true of an object that will not become healthy by itself.
	Degraded string `yaml:"degraded,omitempty" json:"degraded,omitempty"`
	// Progressing is an expression that is true of an object on its way.
	Progressing string `yaml:"progressing,omitempty" json:"progressing,omitempty"`
	// Message is an expression that gives the words to the verdict.
	Message string `yaml:"message,omitempty" json:"message,omitempty"`
	// Lua is a script in the place of expressions.
	Lua string `yaml:"lua,omitempty" json:"lua,omitempty"`
}

// Test is tried once the service is healthy. It is exactly one of HTTP, Job, CEL and Helm, whose texts may be templates
// like those of parameters.
type Test struct {
	// Name is how reports call the test.
	Name string `yaml:"name" json:"name"`
	// Timeout of one try: "30s". Empty means the agent's default.
	Timeout string `yaml:"timeout,omitempty" json:"timeout,omitempty"`
	// Retries is how many times a failed test is tried again.
	Retries int `yaml:"retries,omitempty" json:"retries,omitempty"`
	// Gate has the service go back to what it was when the test fails.
	Gate bool `yaml:"gate,omitempty" json:"gate,omitempty"`
	// HTTP asks a Kubernetes Service.
	HTTP *HTTPTest `yaml:"http,omitempty" json:"http,omitempty"`
	// Job is a Job's manifest, or its spec alone.
	Job map[string]any `yaml:"job,omitempty" json:"job,omitempty"`
	// CEL are assertions, all of which must hold.
	CEL []CELAssertion `yaml:"cel,omitempty" json:"cel,omitempty"`
	// Helm runs the chart's own tests.
	Helm *HelmTest `yaml:"helm,omitempty" json:"helm,omitempty"`
}

// HTTPTest asks a Kubernetes Service.
type HTTPTest struct {
	// Service is the name of the Kubernetes Service.
	Service string `yaml:"service" json:"service"`
	// Namespace is where it lies. Empty means the service's namespace.
	Namespace string `yaml:"namespace,omitempty" json:"namespace,omitempty"`
	// Port is a number or a name.
	Port string `yaml:"port" json:"port" scalar:"number"`
	// Path begins with a slash. Empty means "/".
	Path string `yaml:"path,omitempty" json:"path,omitempty" default:"/"`
	// Method is the request's.
	Method string `yaml:"method,omitempty" json:"method,omitempty" enum:"GET,HEAD,POST,PUT,PATCH,DELETE,OPTIONS" default:"GET"`
	// Scheme is that of the address.
	Scheme string `yaml:"scheme,omitempty" json:"scheme,omitempty" enum:"http,https" default:"http"`
	// Headers are sent along.
	Headers map[string]string `yaml:"headers,omitempty" json:"headers,omitempty"`
	// Body is sent along.
	Body string `yaml:"body,omitempty" json:"body,omitempty"`
	// Status is the one that counts as passed. 0 means any of 2xx.
	Status int `yaml:"status,omitempty" json:"status,omitempty"`
	// Contains is what the answer must contain.
	Contains string `yaml:"contains,omitempty" json:"contains,omitempty"`
	// By is proxy, through the API server, or cluster, by the Service's own name. Empty means proxy.
	By string `yaml:"by,omitempty" json:"by,omitempty" enum:"proxy,cluster" default:"proxy"`
}

// CELAssertion is an expression over one live object as self, or over all that fit a selector as items.
type CELAssertion struct {
	// Kind is KIND or KIND.GROUP.
	Kind string `yaml:"kind" json:"kind"`
	// Version is that of the API. Empty means the one that the cluster prefers.
	Version string `yaml:"version,omitempty" json:"version,omitempty"`
	// Namespace is the service's unless something else is said.
	Namespace string `yaml:"namespace,omitempty" json:"namespace,omitempty"`
	// Name is of one object. Without it the expression is about all that fit Selector.
	Name string `yaml:"name,omitempty" json:"name,omitempty"`
	// Selector is a label selector: app=web,tier!=cache.
	Selector string `yaml:"selector,omitempty" json:"selector,omitempty"`
	// Expression is CEL that must be true.
	Expression string `yaml:"expression" json:"expression"`
	// Message is what to say when the expression is false.
	Message string `yaml:"message,omitempty" json:"message,omitempty"`
}

// HelmTest runs the test hooks that the chart brings along.
type HelmTest struct {
	// Hooks are the names of those to run. Empty means all.
	Hooks []string `yaml:"hooks,omitempty" json:"hooks,omitempty"`
}
