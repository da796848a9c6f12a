package model

import (
	"cmp"
	"strconv"
	"strings"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/internal/filter"
)

// Object is one of a kind that clusters were asked for.
type Object struct {
	Cluster, Service string
	// Tags are the cluster's.
	Tags map[string]string
	v1.Object
	// Cells are what stands in the kind's own columns.
	Cells []string
}

// ID is CLUSTER/NAMESPACE/NAME.
func (o *Object) ID() string { return o.Cluster + "/" + o.Namespace + "/" + o.Name }

// NewObjects is a list of objects that have columns of their own, which can be picked by the columns' names as well.
func NewObjects(columns []string, numbers []bool, faulty func(*Object) bool) *List[Object] {
	cluster, namespace := func(o *Object) string { return o.Cluster }, func(o *Object) string { return o.Namespace }
	name, service := func(o *Object) string { return o.Name }, func(o *Object) string { return o.Service }
	t := &table[Object]{
		id: (*Object).ID,
		order: func(a, b *Object) int {
			return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		},
		columns: map[string]value[Object]{},
		schema: filter.Schema[*Object]{
			Fields: map[string]filter.Field[*Object]{}, Names: []func(*Object) string{name}, At: "cluster",
			Tag: func(o *Object, tag string) string { return o.Tags[tag] },
		},
		faulty: faulty, matcher: parsed[Object],
	}
	for i, column := range columns {
		cell := func(o *Object) string {
			if i < len(o.Cells) {
				return o.Cells[i]
			}
			return ""
		}
		v := value[Object]{Text: cell}
		if numbers[i] {
			v = value[Object]{Number: func(o *Object) int64 {
				n, _ := strconv.ParseInt(cell(o), 10, 64) // what is none is least
				return n
			}}
		}
		key := strings.ReplaceAll(strings.ToLower(column), " ", "-")
		t.columns[key], t.schema.Fields[key] = v, filter.Field[*Object]{Get: cell}
	}
	for key, get := range map[string]func(*Object) string{"cluster": cluster, "namespace": namespace, "name": name, "service": service} {
		t.columns[key], t.schema.Fields[key] = value[Object]{Text: get}, filter.Field[*Object]{Get: get, Fixed: true}
	}
	t.columns["age"] = value[Object]{Number: func(o *Object) int64 {
		if o.Created == nil {
			return 0
		}
		return -o.Created.Unix()
	}}
	l := newNamed(t)
	l.whole = true
	return l
}

// Renew has a list hold these objects of a cluster, and no others of it.
func Renew(l *List[Object], cluster string, objects []Object) {
	there := map[string]bool{}
	for i := range objects {
		id := objects[i].ID()
		there[id] = true
		l.put(l.ids.slot(id), objects[i])
	}
	var gone []string
	for o := range l.All() {
		if o.Cluster == cluster && !there[o.ID()] {
			gone = append(gone, o.ID())
		}
	}
	for _, id := range gone {
		l.drop(l.ids.slot(id))
	}
	l.generation++
}
