package why

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agext/levenshtein"

	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/cli/ui"
)

// query is an object as a person names it. Empty parts fit everything.
type query struct{ kind, group, namespace, name string }

// errNoName means that a text names no object.
var errNoName = errors.New("it names no object")

// parseQuery reads "Deployment.apps web/nginx", "Deployment nginx" and "deploy/nginx". The error is errNoName, or told to people.
func parseQuery(text, namespace string) (query, error) {
	q := query{namespace: namespace}
	kind, name, spaced := strings.Cut(strings.TrimSpace(text), " ")
	if !spaced {
		kind, name, _ = strings.Cut(kind, "/")
	}
	name = strings.TrimSpace(name)
	if before, after, ok := strings.Cut(name, "/"); ok {
		if namespace != "" && namespace != before {
			return q, &ui.Err{Msg: fmt.Sprintf("%q and --namespace %s name different namespaces", text, namespace), Fix: "leave one of them out"}
		}
		q.namespace, name = before, after
	}
	q.kind, q.group, _ = strings.Cut(kind, ".")
	q.kind, q.name = strings.ToLower(q.kind), name
	if q.kind == "" || q.name == "" || strings.ContainsAny(q.name, "/ ") {
		return q, errNoName
	}
	return q, nil
}

func errNotFound(text string, near ...string) *ui.Err {
	told := &ui.Err{
		Msg: fmt.Sprintf("%q is neither a service nor an object that one renders", text),
		Fix: `name a service, or an object as "Deployment.apps web/nginx" or deploy/nginx`,
	}
	if cluster, is := strings.CutPrefix(text, "cluster/"); is {
		told.Fix = "plural cluster get " + cluster + " says what is known of a cluster"
	}
	if len(near) > 0 {
		told.Fix = "did you mean: " + strings.Join(near, ", ")
	}
	return told
}

// shortNames are the words that kubectl takes for kinds, besides their names.
func shortNames() map[string]string {
	return map[string]string{
		"cj": "cronjob", "cm": "configmap", "crd": "customresourcedefinition", "crds": "customresourcedefinition", "csr": "certificatesigningrequest",
		"deploy": "deployment", "ds": "daemonset", "ep": "endpoints", "hpa": "horizontalpodautoscaler", "ing": "ingress",
		"limits": "limitrange", "netpol": "networkpolicy", "no": "node", "ns": "namespace", "pc": "priorityclass",
		"pdb": "poddisruptionbudget", "po": "pod", "pv": "persistentvolume", "pvc": "persistentvolumeclaim",
		"quota": "resourcequota", "rc": "replicationcontroller", "rs": "replicaset", "sa": "serviceaccount",
		"sc": "storageclass", "sts": "statefulset", "svc": "service",
	}
}

// fits says whether an object is the one that is meant.
func (q query) fits(id object.ID) bool {
	return q.name == id.Name && (q.namespace == "" || q.namespace == id.Namespace) && q.fitsKind(id)
}

func (q query) fitsKind(id object.ID) bool {
	kind := strings.ToLower(id.Kind)
	words := []string{kind, kind + "s", kind + "es", strings.TrimSuffix(kind, "y") + "ies"}
	return (slices.Contains(words, q.kind) || shortNames()[q.kind] == kind) && (q.group == "" || q.group == id.Group)
}

// full is the kind and the name as objects are written.
func (q query) full() string {
	if long, ok := shortNames()[q.kind]; ok {
		return long + " " + q.name
	}
	return q.kind + " " + q.name
}

// maxNear is how many near names are offered.
const maxNear = 3

// nearest are the words that differ from text the least, if that is not too much.
func nearest(text string, words []string) []string {
	type candidate struct {
		word     string
		distance int
	}
	var near []candidate
	for _, word := range words {
		d := levenshtein.Distance(strings.ToLower(text), strings.ToLower(word), nil)
		if d <= max(2, len(text)/4) && d < min(len(text), len(word)) {
			near = append(near, candidate{word, d})
		}
	}
	slices.SortFunc(near, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.word, b.word))
	})
	var out []string
	for _, c := range near {
		if !slices.Contains(out, c.word) && len(out) < maxNear {
			out = append(out, c.word)
		}
	}
	return out
}
