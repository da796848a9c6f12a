package access

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/hubsvc/access"
	"github.com/pluralsh/plural/internal/kubeaccess"
	"github.com/pluralsh/plural/internal/yamlstrict"
	"github.com/pluralsh/plural/workspace/fleet"
)

// fleetResource is what stands for the fleet in the place of a resource.
const fleetResource = "fleet"

// question is what somebody may do or not.
type question struct {
	// verb is one of the fleet's; empty: q is asked of a cluster.
	verb string
	q    kubeaccess.Request
	// open says that no namespace was named of what has one.
	open bool
}

// ask reads a verb and a resource as RBAC has them. The request is made by what reads those of people at the hub, so that verbs count
// as they do there.
func ask(verb, resource, namespace string) (*question, error) {
	switch {
	case resource == fleetResource:
		return askFleet(verb, namespace)
	case strings.HasPrefix(resource, "/"):
		return askPath(verb, resource, namespace)
	}
	kind, subresource, _ := strings.Cut(resource, "/")
	if opens := []string{"exec", "attach", "portforward", "proxy"}; slices.Contains(opens, verb) && subresource == "" {
		verb, subresource = "create", verb
	}
	kind, group, named := strings.Cut(kind, ".")
	if !named {
		known, ok := builtin()[kind]
		if !ok {
			return nil, unknownResource(kind)
		}
		group = known.group
	}
	method, object, err := httpMethod(verb)
	if err != nil {
		return nil, err
	}
	object = object || subresource != ""
	target, err := path(kind, group, subresource, namespace, object)
	if err != nil {
		return nil, err
	}
	if verb == "watch" {
		target += "?watch=true"
	}
	q, err := kubeaccess.Parse(method, target, nil)
	if err != nil || !q.Resource || q.Kind != kind {
		return nil, &ui.Err{Msg: fmt.Sprintf("%q is no resource", resource), Fix: resourceFix, Doc: ui.DocUsage, Err: err}
	}
	q.Name, q.Namespace = "", namespace
	return &question{q: q, open: namespace == "" && !builtin()[kind].clusterWide}, nil
}

const resourceFix = "write it as in RBAC: pods, pods/exec, deployments.apps, /metrics, or fleet"

func askFleet(verb, namespace string) (*question, error) {
	known := slices.Concat(fleet.FleetVerbs(), fleet.ToolVerbs())
	if !slices.Contains(known, verb) {
		return nil, &ui.Err{
			Msg: fmt.Sprintf("%q is no verb of the fleet", verb), Fix: yamlstrict.DidYouMean(verb, known, "verbs"), Doc: ui.DocUsage,
		}
	}
	if namespace != "" {
		return nil, &ui.Err{Msg: "the fleet has no namespaces", Fix: "leave out --namespace", Doc: ui.DocUsage}
	}
	return &question{verb: verb}, nil
}

func askPath(verb, path, namespace string) (*question, error) {
	if namespace != "" {
		return nil, &ui.Err{Msg: fmt.Sprintf("path %q has no namespace", path), Fix: "leave out --namespace", Doc: ui.DocUsage}
	}
	methods := []string{"get", "head", "post", "put", "patch", "delete", "options"}
	if !slices.Contains(methods, verb) {
		return nil, &ui.Err{
			Msg: fmt.Sprintf("%q is no verb of a path", verb), Fix: yamlstrict.DidYouMean(verb, methods, "verbs"), Doc: ui.DocUsage,
		}
	}
	q, err := kubeaccess.Parse(strings.ToUpper(verb), path, nil)
	if err != nil {
		return nil, &ui.Err{Msg: fmt.Sprintf("%q is no path", path), Cause: err.Error(), Fix: resourceFix, Doc: ui.DocUsage, Err: err}
	}
	return &question{q: q}, nil
}

// httpMethod is how a verb is asked, and whether of one object.
func httpMethod(verb string) (method string, object bool, err error) {
	type way struct {
		method string
		object bool
	}
	ways := map[string]way{
		"get": {http.MethodGet, true}, "list": {http.MethodGet, false}, "watch": {http.MethodGet, false}, "create": {http.MethodPost, false},
		"update": {http.MethodPut, true}, "patch": {http.MethodPatch, true}, "delete": {http.MethodDelete, true},
		"deletecollection": {http.MethodDelete, false},
	}
	found, ok := ways[verb]
	if !ok {
		known := slices.Sorted(maps.Keys(ways))
		return "", false, &ui.Err{
			Msg: fmt.Sprintf("%q is no verb of Kubernetes", verb), Fix: yamlstrict.DidYouMean(verb, known, "verbs"), Doc: ui.DocUsage,
		}
	}
	return found.method, found.object, nil
}

var word = regexp.MustCompile(`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`)

// path is where an API server has a resource. Rules know neither versions nor names.
func path(kind, group, subresource, namespace string, object bool) (string, error) {
	for what, text := range map[string]string{"resource": kind, "API group": group, "subresource": subresource, "namespace": namespace} {
		if text != "" && !word.MatchString(text) || text == "" && what == "resource" {
			return "", &ui.Err{Msg: fmt.Sprintf("%q is no %s", text, what), Fix: resourceFix, Doc: ui.DocUsage}
		}
	}
	target := "/api/v1"
	if group != "" {
		target = "/apis/" + group + "/v1"
	}
	if namespace != "" && kind != "namespaces" {
		target += "/namespaces/" + namespace
	}
	target += "/" + kind
	if object {
		target += "/x"
	}
	if subresource != "" {
		target += "/" + subresource
	}
	return target, nil
}

func unknownResource(kind string) error {
	known := slices.Sorted(maps.Keys(builtin()))
	fix := "write the group behind it, such as certificates.cert-manager.io: kubectl api-resources lists them"
	if near, ok := yamlstrict.Nearest(kind, known); ok {
		fix = fmt.Sprintf("did you mean %q? otherwise %s", near, fix)
	}
	return &ui.Err{
		Msg: fmt.Sprintf("which API group has %q is not known", kind), Cause: "Kubernetes itself has no such resource", Fix: fix,
		Doc: ui.DocUsage,
	}
}

// describe is the question to follow "may".
func (a *question) describe(cluster string) string {
	text := a.q.Describe()
	switch {
	case a.verb != "":
		return a.verb + " the fleet"
	case cluster != "":
		text += " on cluster " + cluster
	}
	return text
}

// answer is a rule that allows what is asked.
type answer struct {
	// rule is the index in spec.kubernetes; -1: spec.fleet.
	rule int
	// namespaces are those in which it does; nil: that were asked for, or all.
	namespaces []string
}

// by are the rules of a grant that allow it at a cluster; empty: at any. Where no namespace was asked for, what is allowed in some
// alone counts too.
func (a *question) by(g *access.Grant, cluster string) []answer {
	if a.verb != "" {
		if g.Fleet(a.verb) {
			return []answer{{rule: -1}}
		}
		return nil
	}
	var all []answer
	for _, rule := range g.Kubernetes(cluster, a.q) {
		all = append(all, answer{rule: rule})
	}
	if !a.open {
		return all
	}
	in := map[int][]string{}
	for _, namespace := range namespaces(g.Role) {
		q := a.q
		q.Namespace = namespace
		for _, rule := range g.Kubernetes(cluster, q) {
			if !slices.ContainsFunc(all, func(b answer) bool { return b.rule == rule }) {
				in[rule] = append(in[rule], namespace)
			}
		}
	}
	for rule, list := range in {
		all = append(all, answer{rule, list})
	}
	slices.SortFunc(all, func(a, b answer) int { return cmp.Compare(a.rule, b.rule) })
	return all
}

// namespaces are those that a role names.
func namespaces(r *fleet.Role) []string {
	var all []string
	for i := range r.Spec.Kubernetes {
		all = append(all, r.Spec.Kubernetes[i].Namespaces...)
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(name string) bool { return name == "*" })
}
