package compare

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/internal/budget"
)

// Delta is what becomes of one service on clusters for which it renders the same, before and after.
type Delta struct {
	Service  string
	Clusters []string
	Changes  []Change
	// Rendered are the objects of the side after, where they are known beside Changes.
	Rendered []object.ID
	// Before and After count the objects of each side.
	Before, After int
	// Leaves says that the service is asked for no more on these clusters.
	Leaves bool
	// Prune and Budget are how the service deletes.
	Prune  bool
	Budget string
}

// Group is one change with everything that it happens to.
type Group struct {
	Action  Action   `json:"action"`
	Objects []Object `json:"objects"`
	// Clusters are sorted.
	Clusters []string `json:"clusters"`
	Fields   []Field  `json:"fields,omitempty"`
	Notes    []string `json:"notes,omitempty"`
	// Contents counts how many different contents an added object has over the clusters, when there are several.
	Contents int `json:"contents,omitempty"`
	// Example is one of the changes, whole.
	Example *Change `json:"-"`
}

// Object is one object of a Group.
type Object struct {
	Service string `json:"service"`
	// Object reads "Deployment.apps web/nginx".
	Object string `json:"object"`
	// Clusters counts on how many of the group's clusters it is.
	Clusters int `json:"clusters"`
	// Stays says why a deleted object stays in clusters all the same.
	Stays string `json:"stays,omitempty"`
	// From is the service that the object moves from.
	From string `json:"from,omitempty"`
}

// Hold is a deletion that will wait for a person.
type Hold struct {
	Service  string   `json:"service"`
	Clusters []string `json:"clusters"`
	Message  string   `json:"message"`
	Fix      string   `json:"fix,omitempty"`
}

// Of gathers deltas into groups, those that reach most first: by clusters, then by what they delete, then by what they
// change.
func Of(deltas []Delta) []Group {
	units := map[string]*unit{}
	for i := range deltas {
		for j := range deltas[i].Changes {
			collect(units, &deltas[i], &deltas[i].Changes[j])
		}
	}
	merged := map[string]*draft{}
	for _, name := range slices.Sorted(maps.Keys(units)) {
		u := units[name]
		key := u.kind()
		if merged[key] == nil {
			merged[key] = &draft{clusters: map[string]bool{}}
		}
		merged[key].add(u)
	}
	var groups []Group
	for _, d := range merged {
		groups = append(groups, d.group())
	}
	slices.SortFunc(groups, compareReach)
	return groups
}

// unit is one change of one object of one service, on all the clusters where it is the same.
type unit struct {
	service  string
	change   *Change
	digest   string
	contents map[string]bool
	clusters map[string]bool
}

func collect(units map[string]*unit, d *Delta, c *Change) {
	digest := ""
	if c.Action == Changed || c.Action == Moved || len(c.Notes) > 0 {
		digest = digestOf([]any{c.Action, c.Fields, c.Notes, c.From})
	}
	key := strings.Join([]string{d.Service, c.String(), string(c.Action), c.Stays, digest}, "\n")
	u := units[key]
	if u == nil {
		u = &unit{service: d.Service, change: c, digest: digest, contents: map[string]bool{}, clusters: map[string]bool{}}
		units[key] = u
	}
	if c.Action == Added {
		u.contents[digestOf(c.after.Object)] = true
	}
	for _, name := range d.Clusters {
		u.clusters[name] = true
	}
}

// kind is the same for units that are one change. The same fields are, wherever they are; what comes or goes is, when it does so
// with its service's other objects, on the same clusters.
func (u *unit) kind() string {
	if u.change.Action == Changed || u.change.Action == Refused {
		return u.digest
	}
	same := []any{u.digest, u.change.Action, u.service, u.change.Stays != "", len(u.contents) > 1, slices.Sorted(maps.Keys(u.clusters))}
	return digestOf(same)
}

// digestOf tells values of JSON apart.
func digestOf(value any) string {
	text, err := json.Marshal(value)
	if err != nil { // nothing that was decoded from JSON
		text = []byte(fmt.Sprintf("%#v", value))
	}
	sum := sha256.Sum256(text)
	return string(sum[:])
}

// draft is a group that is being put together.
type draft struct {
	units    []*unit
	clusters map[string]bool
}

func (d *draft) add(u *unit) {
	d.units = append(d.units, u)
	for name := range u.clusters {
		d.clusters[name] = true
	}
}

func (d *draft) group() Group {
	example := d.units[0].change
	g := Group{Action: example.Action, Fields: example.Fields, Notes: example.Notes, Example: example, Clusters: slices.Sorted(maps.Keys(d.clusters))}
	for _, u := range d.units {
		g.Objects = append(g.Objects, Object{u.service, u.change.String(), len(u.clusters), u.change.Stays, u.change.From})
		if n := len(u.contents); n > 1 {
			g.Contents = max(g.Contents, n)
		}
	}
	return g
}

func compareReach(a, b Group) int {
	return cmp.Or(
		cmp.Compare(len(b.Clusters), len(a.Clusters)),
		cmp.Compare(b.deletes(), a.deletes()),
		cmp.Compare(len(b.Objects), len(a.Objects)),
		cmp.Compare(a.Objects[0].Service, b.Objects[0].Service),
		cmp.Compare(a.Action, b.Action),
		cmp.Compare(a.Objects[0].Object, b.Objects[0].Object),
		slices.Compare(a.Clusters, b.Clusters),
		cmp.Compare(digestOf(a.Fields), digestOf(b.Fields)),
	)
}

// Stays says whether what is deleted from the render stays in clusters. All of a group does, or nothing.
func (g *Group) Stays() bool { return g.Action == Deleted && g.Objects[0].Stays != "" }

// deletes counts what a group takes away from clusters.
func (g *Group) deletes() int {
	if g.Action != Deleted || g.Stays() {
		return 0
	}
	return len(g.Objects)
}

// Holds are the deletions of deltas that agents will not make unasked: beyond the service's budget, or because nothing is left
// of the render.
func Holds(deltas []Delta) []Hold {
	var holds []Hold
	for i := range deltas {
		if hold := deltas[i].hold(); hold != nil {
			holds = append(holds, *hold)
		}
	}
	return joined(holds)
}

func (d *Delta) hold() *Hold {
	count := 0
	for i := range d.Changes {
		if c := &d.Changes[i]; c.Action == Deleted && c.Stays == "" {
			count++
		}
	}
	if count == 0 || d.Leaves || !d.Prune {
		return nil
	}
	hold := &Hold{Service: d.Service, Clusters: d.Clusters}
	limit, err := budget.Parse(d.Budget)
	limit = limit.AtLeast(budget.ObjectFloor)
	switch {
	case err != nil:
		return nil // the fleet is refused for it
	case d.After == 0:
		hold.Message = "nothing is left of what it renders to: " + waits(count)
		hold.Fix = "take the service away if that is meant: rm services/" + d.Service + ".yaml"
	case !limit.Allows(count, d.Before):
		hold.Message = fmt.Sprintf("%s: the budget of %s allows %d of %d objects",
			waits(count), limit, limit.Allowed(d.Before), d.Before)
		hold.Fix = "raise spec.sync.deletionBudget, or agree once they wait: plural service ack " + d.Service
	default:
		return nil
	}
	return hold
}

func waits(count int) string {
	if count == 1 {
		return "1 deletion waits"
	}
	return fmt.Sprintf("%d deletions wait", count)
}

// joined puts holds together that say the same of a service.
func joined(holds []Hold) []Hold {
	var out []Hold
	for _, h := range holds {
		same := func(o Hold) bool { return o.Service == h.Service && o.Message == h.Message }
		if i := slices.IndexFunc(out, same); i >= 0 {
			out[i].Clusters = slices.Concat(out[i].Clusters, h.Clusters)
			continue
		}
		out = append(out, h)
	}
	for i := range out {
		slices.Sort(out[i].Clusters)
	}
	return out
}
