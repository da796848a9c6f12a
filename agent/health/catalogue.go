package health

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"cel.dev/cel-go/cel"
	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pluralsh/plural/internal/boundcel"
)

// The catalogue has a rule for each kind of other projects that says how it is in a way of its own, or in none. A file is a
// vendor's. All are parsed when the first object is judged, and each rule is compiled for the first object that it judges: an agent
// pays for the kinds of its cluster.

// CatalogueVersion is raised by each release whose catalogue judges an object otherwise than the one before.
const CatalogueVersion = 1

//go:embed catalogue/*.yaml
var catalogueFiles embed.FS

const (
	// suspended is the message of an object that rests because a person wants it to. Nobody waits for it.
	suspended = "suspended"
	// is and reason are what rules of the catalogue call the conditions that are not about an older generation: maps from
	// their types to "True", "False" or "Unknown", and to their reasons.
	is, reason = "is", "reason"
)

// Entry is one rule of the catalogue.
type Entry struct {
	// Kinds are the kinds that it judges, as KIND.GROUP.
	Kinds []string `yaml:"kinds"`
	// Groups are API groups whose kinds it judges as far as no rule names them. One that begins with "*." is all groups that end so.
	Groups []string `yaml:"groups"`
	// Suspended is Healthy, and is asked before the others, which are asked as those of a Rule are.
	Suspended   string `yaml:"suspended"`
	Degraded    string `yaml:"degraded"`
	Healthy     string `yaml:"healthy"`
	Progressing string `yaml:"progressing"`
	// Message is the text of a verdict. Empty: what the object's conditions, or the usual fields of its status, say.
	Message string `yaml:"message"`
	// AnyGeneration says that status.observedGeneration does not tell which generation the status is about.
	AnyGeneration bool `yaml:"anyGeneration"`

	compiled func() (rule, error)
}

// Catalogue returns all rules, by the file that they stand in, without its suffix.
func Catalogue() (map[string][]*Entry, error) {
	names, err := fs.Glob(catalogueFiles, "catalogue/*.yaml")
	if err != nil {
		return nil, err
	}
	all := make(map[string][]*Entry, len(names))
	for _, name := range names {
		data, err := catalogueFiles.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var entries []*Entry
		decoder := yaml.NewDecoder(bytes.NewReader(data))
		decoder.KnownFields(true)
		if err := decoder.Decode(&entries); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, e := range entries {
			e.compiled = sync.OnceValues(e.compile)
		}
		all[strings.TrimSuffix(strings.TrimPrefix(name, "catalogue/"), ".yaml")] = entries
	}
	return all, nil
}

// index finds the rule of a kind.
type index struct {
	kinds  map[schema.GroupKind]*Entry
	groups map[string]*Entry // those with "*." before their end
}

// catalogue is the index of all rules. That they can be read is tested.
//
//nolint:gochecknoglobals // it never changes
var catalogue = sync.OnceValue(func() index {
	all, err := Catalogue()
	if err != nil {
		panic(err)
	}
	found := index{map[schema.GroupKind]*Entry{}, map[string]*Entry{}}
	for _, entries := range all {
		for _, e := range entries {
			for _, name := range e.Kinds {
				found.kinds[schema.ParseGroupKind(name)] = e
			}
			for _, name := range e.Groups {
				found.groups[name] = e
			}
		}
	}
	return found
})

// catalogued is the rule of the catalogue for a kind, or nil.
func catalogued(kind schema.GroupKind) *Entry {
	all := catalogue()
	if e := all.kinds[kind]; e != nil {
		return e
	}
	if e := all.groups[kind.Group]; e != nil {
		return e
	}
	for _, end, found := strings.Cut(kind.Group, "."); found; _, end, found = strings.Cut(end, ".") {
		if e := all.groups["*."+end]; e != nil {
			return e
		}
	}
	return nil
}

// constant says that the rule reads nothing of the object: its kinds are Healthy once they are there.
func (e *Entry) constant() bool {
	return e.Healthy == "true" && e.Degraded == "" && e.Suspended == ""
}

// language is that of the catalogue's rules.
//
//nolint:gochecknoglobals // it never changes
var language = sync.OnceValues(func() (*cel.Env, error) { return boundcel.Environment(self, is, reason) })

func (e *Entry) compile() (rule, error) {
	env, err := language()
	if err != nil {
		return rule{}, err
	}
	kind := schema.ParseGroupKind(strings.Join(slices.Concat(e.Kinds, e.Groups), ", ")) // for errors alone
	shared := Rule{Degraded: e.Degraded, Healthy: e.Healthy, Progressing: e.Progressing, Message: e.Message}
	ready, err := shared.expressions(env, kind)
	if err != nil || e.Suspended == "" {
		return ready, err
	}
	when, err := compile(env, e.Suspended, cel.BoolType)
	if err != nil {
		return rule{}, &RuleError{kind, "suspended", err, "write an expression of CEL that is true or false"}
	}
	ready.verdicts = append([]verdict{{Healthy, suspended, when}}, ready.verdicts...)
	return ready, nil
}

// longGrace is how long the status of a new object is waited for whose controller always writes one. It may be on its way to the
// cluster still; or it does not run there at all, and nobody waits for it without end.
const longGrace = 5 * time.Minute

// of judges an object that is not being deleted, and waits only so long for the first status.
func (e *Entry) of(obj *unstructured.Unstructured) Status {
	said := e.verdict(obj)
	created := obj.GetCreationTimestamp()
	if written, _ := obj.Object["status"].(map[string]any); said.Phase == Progressing && len(written) == 0 && !created.IsZero() {
		return unwritten(obj, time.Now(), longGrace)
	}
	return said
}

// verdict is what the rule says, however old the object is.
func (e *Entry) verdict(obj *unstructured.Unstructured) Status {
	if e.constant() {
		return Status{Phase: Healthy}
	}
	conditions, err := conditionsOf(obj)
	if err != nil {
		return unreadable(err)
	}
	if message := outdated(obj); message != "" && !e.AnyGeneration {
		return Status{Phase: Progressing, Message: message}
	}
	ready, err := e.compiled()
	if err != nil {
		return Status{Phase: Unknown, Message: clip(err.Error())}
	}
	states, reasons := make(map[string]any, len(conditions)), make(map[string]any, len(conditions))
	for _, c := range conditions {
		if !c.stale || e.AnyGeneration {
			states[c.name], reasons[c.name] = c.status, c.reason
		}
	}
	vars := map[string]any{self: obj.Object, is: states, reason: reasons}
	budget := boundcel.NewBudget()
	verdict, _, err := ready.decide(budget, vars)
	switch {
	case err != nil:
		return Status{Phase: Unknown, Message: clip(err.Error())}
	case verdict.field == suspended:
		return Status{Phase: Healthy, Message: suspended}
	}
	status := Status{Phase: cmp.Or(verdict.phase, Progressing), Message: ready.say(budget, vars)}
	if status.Message == "" && status.Phase != Healthy {
		status.Message = clip(remark(obj, conditions))
	}
	return status
}

// remark is what the object itself says of why it is not well.
func remark(obj *unstructured.Unstructured, conditions []condition) string {
	said := ""
	for _, c := range conditions {
		bad := c.isNegative() || ongoing[c.name]
		if isTrue := c.status == "True"; isTrue == bad && (said == "" || c.name == "Ready") {
			said = c.say()
		}
	}
	status, _ := obj.Object["status"].(map[string]any)
	if len(status) == 0 {
		return "its controller has not written a status yet"
	}
	for _, name := range []string{"message", "errorMessage", "error", "reason", "phase", "state", "health", "status"} {
		said = cmp.Or(said, text(status, name))
	}
	return said
}
