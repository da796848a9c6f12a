// Package kinds owns the kinds that clusters serve, listed through the hub as the person.
//
// It refuses to know screens, and what is done to objects.
//
// A word is looked up as kubectl does it, in what the cluster says of itself: names, short names and custom kinds. A list is asked for
// as a table, in the columns that the cluster has for the kind, and one page of it: nobody reads more.
package kinds

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/apiproxy"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/ui"
)

const (
	// MaxRows is how many objects of a cluster are listed.
	MaxRows = 500
	// fresh is how long what a cluster said of its kinds is believed, where a word is none of them.
	fresh = 30 * time.Second
	// serviceLabel names, on an object that an agent applied, its service.
	serviceLabel = "plural.sh/service"

	asDiscovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList," +
		"application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
	asTable = "application/json;as=Table;g=meta.k8s.io;v=v1"
)

// Kind is one that a cluster serves.
type Kind struct {
	Group, Version, Resource, Kind string
	names                          []string
}

// Kinds are those of the clusters that were asked. It is safe for concurrent use.
type Kinds struct {
	hub *client.Client
	now func() time.Time

	mu sync.Mutex // guards what follows
	of map[string]served
}

type served struct {
	kinds []Kind
	at    time.Time
}

// New are the kinds of the clusters that a hub leads to; hub may be nil.
func New(hub *client.Client, now func() time.Time) *Kinds {
	return &Kinds{hub: hub, now: now, of: map[string]served{}}
}

// Names are the words that are known to name a kind: those that every cluster has, and those of the clusters that were asked.
func (k *Kinds) Names() []string {
	names := []string{
		"pods", "deployments", "deploy", "statefulsets", "sts", "daemonsets", "ds", "replicasets", "rs", "jobs", "cronjobs", "cj",
		"configmaps", "cm", "secrets", "ingresses", "ing", "namespaces", "ns", "nodes", "no", "event", "endpoints", "ep",
		"persistentvolumeclaims", "pvc", "persistentvolumes", "pv", "serviceaccounts", "sa", "roles", "rolebindings", "clusterroles",
		"clusterrolebindings", "networkpolicies", "netpol", "horizontalpodautoscalers", "hpa", "poddisruptionbudgets", "pdb",
		"storageclasses", "sc", "customresourcedefinitions", "crd", "po", "pod", "deployment", "namespace", "node", "job",
	}
	if k == nil {
		return names
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.of {
		for i := range s.kinds {
			for _, name := range s.kinds[i].names {
				if !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	return names
}

// Find is the kind that a cluster has a word for.
func (k *Kinds) Find(ctx context.Context, cluster, word string) (Kind, error) {
	k.mu.Lock()
	known := k.of[cluster]
	k.mu.Unlock()
	word = strings.ToLower(word)
	if kind, ok := named(known.kinds, word); ok {
		return kind, nil
	}
	if known.at.IsZero() || k.now().Sub(known.at) > fresh {
		var all []Kind
		for _, path := range []string{"/api", "/apis"} {
			text, err := k.get(ctx, cluster, path, asDiscovery)
			if err != nil {
				return Kind{}, err
			}
			found, err := read(text)
			if err != nil {
				return Kind{}, fmt.Errorf("read the kinds of cluster %s: %w", cluster, err)
			}
			all = append(all, found...)
		}
		k.mu.Lock()
		k.of[cluster] = served{all, k.now()}
		k.mu.Unlock()
		if kind, ok := named(all, word); ok {
			return kind, nil
		}
	}
	return Kind{}, &ui.Err{
		Msg: fmt.Sprintf("cluster %s has no kind %q", cluster, word), Fix: "plural kubectl " + cluster + " api-resources", Doc: ui.DocNotFound,
	}
}

// named is the first kind with a name: Kubernetes' own come first.
func named(all []Kind, word string) (Kind, bool) {
	at := slices.IndexFunc(all, func(k Kind) bool {
		return slices.Contains(k.names, word) || k.Resource+"."+k.Group == word
	})
	if at < 0 {
		return Kind{}, false
	}
	return all[at], true
}

// read takes in what a cluster says of its kinds: of each group the version that it prefers.
func read(text []byte) ([]Kind, error) {
	var groups apidiscovery.APIGroupDiscoveryList
	if err := json.Unmarshal(text, &groups); err != nil {
		return nil, err
	}
	var all []Kind
	for _, g := range groups.Items {
		met := map[string]bool{}
		for _, v := range g.Versions {
			for _, r := range v.Resources {
				if met[r.Resource] || r.ResponseKind == nil || !slices.Contains(r.Verbs, "list") {
					continue
				}
				met[r.Resource] = true
				names := append([]string{r.Resource, r.SingularResource, strings.ToLower(r.ResponseKind.Kind)}, r.ShortNames...)
				all = append(all, Kind{
					g.Name, v.Version, r.Resource, r.ResponseKind.Kind,
					slices.DeleteFunc(names, func(s string) bool { return s == "" }),
				})
			}
		}
	}
	return all, nil
}

// Column is one that a cluster has for a kind.
type Column struct {
	Name string
	// Number says that values are whole numbers.
	Number bool
}

// Table is what a cluster lists of a kind, in columns beside the name.
type Table struct {
	Columns []Column
	Rows    []Row
	// More says that there are more than are listed.
	More bool
}

// Row is an object, with what stands in the columns.
type Row struct {
	Object  v1.Object
	Service string
	Cells   []string
}

// List is what a cluster has of a kind, the first of them.
func (k *Kinds) List(ctx context.Context, cluster string, kind Kind) (*Table, error) {
	path := client.ObjectPath(v1.ObjectRef{Group: kind.Group, Version: kind.Version, Resource: kind.Resource})
	text, err := k.get(ctx, cluster, fmt.Sprintf("%s?limit=%d", path, MaxRows), asTable)
	if err != nil {
		return nil, err
	}
	var table metav1.Table
	if err := json.Unmarshal(text, &table); err != nil {
		return nil, fmt.Errorf("read %s of cluster %s: %w", kind.Resource, cluster, err)
	}
	out := &Table{More: table.Continue != ""}
	var shown []int
	for i, c := range table.ColumnDefinitions {
		if c.Priority == 0 && c.Format != "name" && !strings.EqualFold(c.Name, "age") && !strings.EqualFold(c.Name, "name") {
			shown = append(shown, i)
			out.Columns = append(out.Columns, Column{c.Name, c.Type == "integer"})
		}
	}
	for i := range table.Rows {
		row, err := rowOf(&table.Rows[i], kind, shown)
		if err != nil {
			return nil, fmt.Errorf("read %s of cluster %s: %w", kind.Resource, cluster, err)
		}
		out.Rows = append(out.Rows, row)
	}
	return out, nil
}

func rowOf(r *metav1.TableRow, kind Kind, shown []int) (Row, error) {
	var meta metav1.PartialObjectMetadata
	if err := json.Unmarshal(r.Object.Raw, &meta); err != nil {
		return Row{}, err
	}
	row := Row{Service: meta.Labels[serviceLabel], Object: v1.Object{
		UID: string(meta.UID), Group: kind.Group, Version: kind.Version, Kind: kind.Kind, Resource: kind.Resource,
		Namespace: meta.Namespace, Name: meta.Name, Health: v1.ObjectUnknown, Deleting: meta.DeletionTimestamp != nil,
		Applied: meta.Labels[serviceLabel] != "",
	}}
	if !meta.CreationTimestamp.IsZero() {
		row.Object.Created = &meta.CreationTimestamp.Time
	}
	for _, i := range shown {
		text := ""
		if i < len(r.Cells) && r.Cells[i] != nil {
			text = fmt.Sprint(r.Cells[i])
		}
		row.Cells = append(row.Cells, text)
	}
	return row, nil
}

func (k *Kinds) get(ctx context.Context, cluster, path, accept string) ([]byte, error) {
	if k.hub == nil {
		return nil, &ui.Err{Msg: "there is no hub to ask", Fix: "plural tui --hub URL, or plural auth login", Doc: ui.DocNoHub}
	}
	return apiproxy.Get(ctx, apiproxy.NewTokens(k.hub, cluster, apiproxy.TokenDir(), k.now), path, accept)
}
