package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/agent/identity"
)

// lookYourself is what to do when an API server gives no answer that can be used.
const lookYourself = "see what it answers to others: kubectl get --raw /readyz"

// maxVersion bounds an API server's answer about its version, in bytes.
const maxVersion = 64 << 10

// cluster is one that is examined.
type cluster struct {
	name   string
	config *rest.Config
	x      *exam
	alive  func(context.Context) (*apiAnswer, error)
}

// apiAnswer is an API server's answer.
type apiAnswer struct {
	version string
	minor   int
	clock   clock
}

// clusters are the checks of each cluster that this machine reaches.
func (x *exam) clusters() []Check {
	if len(x.Clusters) == 0 {
		return []Check{{Group: "clusters", Name: "reachable", Before: true, Run: func(context.Context) Result {
			if x.NoClusters != nil {
				return because(x.NoClusters, "the kubeconfig cannot be used", "kubectl config get-contexts lists what there is")
			}
			return skipped("no cluster was named, and no context has the name of one: --context NAME")
		}}}
	}
	var all []Check
	for _, name := range slices.Sorted(maps.Keys(x.Clusters)) {
		c := &cluster{name: name, config: x.Clusters[name], x: x}
		c.alive = once(c.ask)
		add := func(check string, before bool, run func(context.Context, *apiAnswer) Result) {
			all = append(all, Check{Group: "cluster " + name, Name: check, Before: before, Run: func(ctx context.Context) Result {
				p, err := c.alive(ctx)
				if err != nil {
					return skipped("the API server cannot be reached")
				}
				return run(ctx, p)
			}})
		}
		all = append(all, Check{Group: "cluster " + name, Name: "reachable", Before: true, Run: c.reachable})
		add("version", true, c.versionOf)
		add("clock", true, func(_ context.Context, p *apiAnswer) Result { return p.clock.judge("the API server's") })
		add("permissions", true, c.permissions)
		add("pod security", true, c.podSecurity)
		add("storage", true, c.storage)
		add("agent's keys", false, c.registered)
	}
	return all
}

// ask asks for the version, which nearly everybody may.
func (c *cluster) ask(ctx context.Context) (*apiAnswer, error) {
	client, err := rest.HTTPClientFor(c.config)
	if err != nil {
		return nil, err
	}
	base, _, err := rest.DefaultServerUrlFor(c.config)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath("version").String(), nil)
	if err != nil {
		return nil, err
	}
	sent := c.x.Now()
	answer, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	p := &apiAnswer{clock: newClock(answer, sent, c.x.Now())}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %s", answer.Status)
	}
	var version struct {
		Git   string `json:"gitVersion"`
		Minor string `json:"minor"`
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxVersion)).Decode(&version); err != nil {
		return nil, fmt.Errorf("it does not answer as an API server does: %w", err)
	}
	p.version = version.Git
	p.minor = leadingNumber(version.Minor) // "30+" at some providers
	return p, nil
}

func (c *cluster) reachable(ctx context.Context) Result {
	if _, err := c.alive(ctx); err != nil {
		fix := "see that it runs, and that the context is right: kubectl cluster-info"
		if c.x.Local {
			fix = "see whether it runs: plural local list; plural up --local brings the fleet back"
		}
		return because(err, "the API server at "+c.config.Host+" cannot be reached", fix)
	}
	return ok("%s answers", c.config.Host)
}

func (c *cluster) versionOf(_ context.Context, p *apiAnswer) Result {
	switch {
	case p.minor == 0:
		return warn(lookYourself, "%q tells no version", p.version)
	case p.minor < brokenMinor:
		return fail("upgrade the cluster", "Kubernetes %s has no Pod Security admission, which is from 1.%d on", p.version, brokenMinor)
	case !supported(p.minor):
		return warn("use a cluster, or a plural, of another version",
			"Kubernetes %s is not among the versions that this plural is meant for: 1.%d to 1.%d", p.version, OldestKubernetes, NewestKubernetes)
	}
	return ok("Kubernetes %s", p.version)
}

// permission is something that an install does.
type permission struct{ verb, group, resource, namespace string }

func (r permission) String() string {
	text := r.verb + " " + r.resource
	if r.group != "" {
		text += "." + r.group
	}
	if r.namespace != "" {
		text += " in " + r.namespace
	}
	return text
}

// rights are those that putting hub and agent into a cluster takes.
func rights() []permission {
	const ns, rbac = identity.Namespace, "rbac.authorization.k8s.io"
	return []permission{
		{"create", "", "namespaces", ""},
		{"create", "apiextensions.k8s.io", "customresourcedefinitions", ""},
		{"create", rbac, "clusterroles", ""},
		{"escalate", rbac, "clusterroles", ""},
		{"create", rbac, "clusterrolebindings", ""},
		{"create", "", "secrets", ns},
		{"patch", "", "secrets", ns},
		{"create", "", "configmaps", ns},
		{"create", "", "services", ns},
		{"create", "", "serviceaccounts", ns},
		{"create", "", "persistentvolumeclaims", ns},
		{"create", "apps", "deployments", ns},
		{"create", "apps", "statefulsets", ns},
		{"create", "networking.k8s.io", "networkpolicies", ns},
		{"create", "policy", "poddisruptionbudgets", ns},
	}
}

// permissions asks the API server what it would allow.
func (c *cluster) permissions(ctx context.Context, _ *apiAnswer) Result {
	client, err := dynamic.NewForConfig(c.config)
	if err != nil {
		return because(err, "the API server cannot be asked", lookYourself)
	}
	const fix = "use a context that may do it; whoever administers the cluster can bind you to cluster-admin for the install"
	all, err := allowed(ctx, client, permission{"*", "*", "*", ""})
	if err != nil {
		return because(err, "the API server does not say what you may do", fix)
	}
	if all {
		return ok("you may do everything")
	}
	var missing []string
	for _, r := range rights() {
		may, err := allowed(ctx, client, r)
		if err != nil {
			return because(err, "the API server does not say what you may do", fix)
		}
		if !may {
			missing = append(missing, r.String())
		}
	}
	if len(missing) > 0 {
		r := fail(fix, "you may not do all that an install does")
		r.Cause = "missing: " + strings.Join(missing, ", ")
		return r
	}
	return ok("you may do what an install does")
}

func allowed(ctx context.Context, client dynamic.Interface, r permission) (bool, error) {
	reviews := schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "selfsubjectaccessreviews"}
	answer, err := client.Resource(reviews).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
		"spec": map[string]any{"resourceAttributes": map[string]any{
			"verb": r.verb, "group": r.group, "resource": r.resource, "namespace": r.namespace,
		}},
	}}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	may, _, err := unstructured.NestedBool(answer.Object, "status", "allowed")
	return may, err
}

// podSecurity looks at what the namespace of hub and agent lets pods do.
func (c *cluster) podSecurity(ctx context.Context, _ *apiAnswer) Result {
	const label, restricted = "pod-security.kubernetes.io/enforce", "restricted"
	namespace, r := c.get(ctx, schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, "", identity.Namespace)
	if namespace == nil {
		if r.State == Skipped {
			r.Text = "namespace " + identity.Namespace + " is not there yet: it is made restricted"
		}
		return r
	}
	if level := namespace.GetLabels()[label]; level != restricted {
		return warn(fmt.Sprintf("kubectl label namespace %s %s=%s --overwrite", identity.Namespace, label, restricted),
			"namespace %s lets pods do more than hub and agent need (%s is %q)", identity.Namespace, label, level)
	}
	return ok("namespace %s is restricted", identity.Namespace)
}

// get is an object. Where there is none the result says so.
func (c *cluster) get(
	ctx context.Context, kind schema.GroupVersionResource, namespace, name string,
) (*unstructured.Unstructured, Result) {
	client, err := dynamic.NewForConfig(c.config)
	if err != nil {
		return nil, because(err, "the API server cannot be asked", lookYourself)
	}
	found, err := client.Resource(kind).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, skipped("there is none")
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return nil, skipped("you may not look at it")
	case err != nil:
		return nil, because(err, "the API server cannot be asked", lookYourself)
	}
	return found, Result{State: OK}
}

// storage looks for what the hub's volumes are made of.
func (c *cluster) storage(ctx context.Context, _ *apiAnswer) Result {
	client, err := dynamic.NewForConfig(c.config)
	if err != nil {
		return because(err, "the API server cannot be asked", lookYourself)
	}
	classes := schema.GroupVersionResource{Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses"}
	list, err := client.Resource(classes).List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return skipped("you may not look at storage classes")
	case err != nil:
		return because(err, "the API server does not list storage classes", lookYourself)
	}
	for _, class := range list.Items {
		if class.GetAnnotations()["storageclass.kubernetes.io/is-default-class"] == "true" {
			return ok("the default storage class is %s", class.GetName())
		}
	}
	return warn("mark one as default, or name one in the answers of the package hub; a cluster that runs no hub needs none",
		"there is no default storage class among %s", plural(len(list.Items), "storage class", "storage classes"))
}

// registered compares the agent's keys in the cluster with the public halves in the repo.
func (c *cluster) registered(ctx context.Context, _ *apiAnswer) Result {
	client, err := dynamic.NewForConfig(c.config)
	if err != nil {
		return because(err, "the API server cannot be asked", lookYourself)
	}
	there, err := identity.Read(ctx, client)
	var none *identity.Missing
	switch {
	case errors.As(err, &none):
		return skipped("the cluster has no agent's keys yet")
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return skipped("you may not look at the agent's keys")
	case err != nil:
		return because(err, "the agent's keys cannot be used", "plural cluster register "+c.name)
	}
	s, err := c.x.fleet(ctx)
	if err != nil {
		return skipped("the files cannot be read")
	}
	for _, written := range s.fleet.Clusters {
		if written.Metadata.Name != there.Cluster {
			continue
		}
		if public := there.Identity.Public(); public.Auth != written.Spec.Agent.Auth || public.Age != written.Spec.Agent.Age {
			return fail("plural cluster register "+there.Cluster,
				"the agent's keys in the cluster are not those of clusters/%s.yaml: the hub refuses it", there.Cluster)
		}
		return ok("it is registered as %s, at %s", there.Cluster, there.HubURL)
	}
	return fail("plural cluster register "+there.Cluster,
		"the cluster is registered as %q, which the repo does not know", there.Cluster)
}

// clock is how far another machine's clock is from ours.
type clock struct {
	// ahead is how far, known says whether the answer told.
	ahead time.Duration
	known bool
}

// newClock goes by the date of an answer, which is cut to the second, and was written between sent and heard.
func newClock(answer *http.Response, sent, heard time.Time) clock {
	at, err := http.ParseTime(answer.Header.Get("Date"))
	if err != nil {
		return clock{}
	}
	earliest, latest := sent.Add(-time.Second), heard
	switch {
	case at.Before(earliest):
		return clock{at.Sub(earliest), true}
	case at.After(latest):
		return clock{at.Sub(latest), true}
	}
	return clock{0, true}
}

const (
	// skewed clocks make people doubt times; broken ones make tokens of agents invalid.
	skewed = 2 * time.Second
	broken = 5 * time.Minute
)

func (c clock) judge(whose string) Result {
	const fix = "let NTP set the clocks of both machines"
	if !c.known {
		return skipped("%s answer tells no time", whose)
	}
	text := fmt.Sprintf("%s clock is %s ahead of this machine's", whose, c.ahead.Round(time.Second))
	if c.ahead < 0 {
		text = fmt.Sprintf("%s clock is %s behind this machine's", whose, (-c.ahead).Round(time.Second))
	}
	switch away := c.ahead.Abs(); {
	case away > broken:
		return fail(fix, "%s, so tokens are refused", text)
	case away > skewed:
		return warn(fix, "%s", text)
	}
	return ok("%s clock is this machine's", whose)
}
