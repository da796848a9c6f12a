package health_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pluralsh/plural/agent/health"
)

// fixtures are objects of one rule's kinds by the verdict on them: what they say beside their names.
type fixtures struct {
	Kind                                      string
	Suspended, Degraded, Healthy, Progressing []map[string]any
}

func (f *fixtures) sets() map[string][]map[string]any {
	return map[string][]map[string]any{"suspended": f.Suspended, "degraded": f.Degraded, "healthy": f.Healthy, "progressing": f.Progressing}
}

func TestEachRuleOfTheCatalogueGivesEachVerdictThatItCan(t *testing.T) {
	kinds := map[string]string{}
	for file, entries := range catalogue(t) {
		known := readFixtures(t, file)
		for _, e := range entries {
			for _, name := range slices.Concat(e.Kinds, e.Groups) {
				if kinds[name] != "" {
					t.Errorf("%s: %s is in %s too", file, name, kinds[name])
				}
				kinds[name] = file
			}
			if e.Healthy == "true" && e.Degraded == "" && e.Suspended == "" {
				continue
			}
			name := kindsOf(e)[0]
			fixed := known[name]
			if delete(known, name); fixed == nil {
				t.Errorf("%s: no fixtures for %s", file, name)
				continue
			}
			t.Run(name, func(t *testing.T) { checkEntry(t, e, fixed) })
		}
		for name := range known {
			t.Errorf("%s: fixtures for %s, which begins no rule", file, name)
		}
	}
	const promised = 150
	if len(kinds) < promised {
		t.Errorf("%d kinds", len(kinds))
	}
}

func checkEntry(t *testing.T, e *health.Entry, fixed *fixtures) {
	texts := map[string]string{"suspended": e.Suspended, "degraded": e.Degraded, "healthy": e.Healthy}
	for verdict, objects := range fixed.sets() {
		if texts[verdict] != "" && len(objects) == 0 {
			t.Errorf("no object that is %s", verdict)
		}
		for _, fields := range objects {
			for _, name := range kindsOf(e) {
				switch kind, only := fields["kind"]; {
				case only && kind != schema.ParseGroupKind(name).Kind:
					continue
				case !only && strings.Contains(e.Healthy, "self.kind") && name != fixed.Kind:
					continue
				}
				if got := health.Of(object(t, name, fields)); word(got) != verdict {
					t.Errorf("%s %v is %s (%s), not %s", name, fields, word(got), got.Message, verdict)
				}
			}
		}
	}
	// One of whose status nothing is known is never bad news, and is waited for unless the rule says otherwise.
	switch got := health.Of(object(t, fixed.Kind, nil)); {
	case got.Phase == health.Progressing && got.Until == 0, got.Phase == health.Healthy:
	default:
		t.Errorf("without a status it is %v", got)
	}
}

// word is the verdict as the fixtures have it.
func word(s health.Status) string {
	if s.Phase == health.Healthy && s.Message == "suspended" {
		return s.Message
	}
	return strings.ToLower(string(s.Phase))
}

// kindsOf are the kinds of a rule, and one of each group that it has.
func kindsOf(e *health.Entry) []string {
	names := slices.Clone(e.Kinds)
	for _, group := range e.Groups {
		names = append(names, "Thing."+strings.Replace(group, "*", "s3", 1))
	}
	return names
}

func object(t *testing.T, name string, fields map[string]any) *unstructured.Unstructured {
	t.Helper()
	kind := schema.ParseGroupKind(name)
	data, err := yaml.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	version := strings.TrimPrefix(kind.Group+"/v1", "/")
	obj := parse(t, fmt.Sprintf("apiVersion: %s\nkind: %s\n%s", version, kind.Kind, bytes.TrimPrefix(data, []byte("{}"))))
	obj.SetKind(kind.Kind)
	obj.SetName("a")
	return obj
}

func catalogue(t *testing.T) map[string][]*health.Entry {
	t.Helper()
	all, err := health.Catalogue()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func readFixtures(t *testing.T, file string) map[string]*fixtures {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "catalogue", file+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var list []*fixtures
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(&list); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	known := map[string]*fixtures{}
	for _, f := range list {
		known[f.Kind] = f
	}
	return known
}

func TestARuleJudgesForManyAtOnce(t *testing.T) {
	ready := []any{map[string]any{"type": "Ready", "status": "True"}}
	obj := object(t, "Certificate.cert-manager.io", map[string]any{"status": map[string]any{"conditions": ready}})
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			if got := health.Of(obj); got.Phase != health.Healthy {
				t.Errorf("%v", got)
			}
		})
	}
	all.Wait()
}

func TestARuleOfPeoplesOwnGoesBeforeTheCatalogue(t *testing.T) {
	obj := object(t, "PrometheusRule.monitoring.coreos.com", nil)
	kind := obj.GroupVersionKind().GroupKind()
	own := newJudge(t, nil, health.Rule{Group: kind.Group, Kind: kind.Kind, Degraded: "true"})
	var none *health.Judge
	if got := own.Of(obj); got.Phase != health.Degraded || !own.Rules(kind) {
		t.Errorf("own: %v", got)
	}
	if got := none.Of(obj); got.Phase != health.Healthy || none.Rules(kind) {
		t.Errorf("catalogue: %v", got)
	}
	if !none.Rules(schema.GroupKind{Group: "argoproj.io", Kind: "Application"}) {
		t.Error("applications of Argo CD have their status in no subresource: they are to be looked at whole")
	}
}

// TestTheReferenceListsTheCatalogue holds docs/health.md to the catalogue. PLURAL_UPDATE=1 writes it.
func TestTheReferenceListsTheCatalogue(t *testing.T) {
	const page, begin, end = "../../docs/health.md", "<!-- catalogue -->\n", "<!-- /catalogue -->"
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), begin)
	written, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no place for the table", page)
	}
	want := reference(catalogue(t))
	if written == want {
		return
	}
	if os.Getenv("PLURAL_UPDATE") == "" {
		t.Fatalf("%s is not what the catalogue says: PLURAL_UPDATE=1 go test ./agent/health -run Reference", page)
	}
	if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

func reference(all map[string][]*health.Entry) string {
	groups := map[string]map[string]bool{}
	note := func(group, kind string) {
		if groups[group] == nil {
			groups[group] = map[string]bool{}
		}
		groups[group][kind] = true
	}
	files, kinds := map[string]string{}, 0
	for _, file := range slices.Sorted(maps.Keys(all)) { // of a group in two files the last one is named
		for _, e := range all[file] {
			for _, name := range e.Kinds {
				gk := schema.ParseGroupKind(name)
				kind := gk.Kind
				if e.Healthy == "true" && e.Degraded == "" && e.Suspended == "" {
					kind += "°"
				}
				note(gk.Group, kind)
				files[gk.Group], kinds = file, kinds+1
			}
			for _, group := range e.Groups {
				note(group, "*all others*")
				files[group] = file
			}
		}
	}
	var out strings.Builder
	fmt.Fprintf(&out, "Version %d of the catalogue has rules for %d kinds of %d groups.\n\n| group | kinds | file |\n|---|---|---|\n",
		health.CatalogueVersion, kinds, len(groups))
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		name := group
		if name == "" {
			name = "core"
		}
		fmt.Fprintf(&out, "| `%s` | %s | `%s` |\n", name, strings.Join(slices.Sorted(maps.Keys(groups[group])), ", "), files[group])
	}
	return out.String()
}

func TestAHookHasNotSucceededByWaiting(t *testing.T) {
	const old = `metadata: {name: a, creationTimestamp: "2020-01-01T00:00:00Z"}`
	var judge *health.Judge
	workflow := parse(t, "{apiVersion: argoproj.io/v1alpha1, kind: Workflow, "+old+"}")
	if got := judge.OfHook(workflow); got.Phase != health.Progressing || got.Until != 0 {
		t.Errorf("a hook is %v", got)
	}
	if got := judge.Of(workflow); got.Phase != health.Healthy {
		t.Errorf("an object is %v", got)
	}
	if got := judge.OfHook(parse(t, "{apiVersion: example.com/v1, kind: Setting, "+old+"}")); got.Phase != health.Healthy {
		t.Errorf("a kind that nobody listed is %v", got)
	}
	own, err := health.NewJudge([]health.Rule{{Group: "argoproj.io", Kind: "Workflow", Healthy: "true"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := own.OfHook(workflow); got.Phase != health.Healthy {
		t.Errorf("by a rule of people's own it is %v", got)
	}
}

func TestTheCatalogueBelievesNoStatusOfAnOlderGeneration(t *testing.T) {
	for _, text := range []string{
		`{observedGeneration: 1, conditions: [{type: Ready, status: "True"}]}`,
		`{observedGeneration: 1, conditions: [{type: Ready, status: "False", reason: Failed}]}`,
		`{conditions: [{type: Ready, status: "True", observedGeneration: 1}]}`,
		`{conditions: [{type: Ready, status: "False", reason: Failed, observedGeneration: 1}]}`,
	} {
		got := health.Of(parse(t, "{apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {name: a, generation: 2}, status: "+text+"}"))
		if got.Phase != health.Progressing {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func TestAnObjectOfTheCatalogueWaitsForItsControllerForTheGraceTimeAlone(t *testing.T) {
	prometheus := func(age time.Duration) *unstructured.Unstructured {
		obj := parse(t, "{apiVersion: monitoring.coreos.com/v1, kind: Prometheus, metadata: {name: a, generation: 1}}")
		obj.SetCreationTimestamp(metav1.NewTime(time.Now().Add(-age)))
		return obj
	}
	if got := health.Of(prometheus(time.Second)); got.Phase != health.Progressing || got.Until == 0 {
		t.Errorf("a new one is %v", got)
	}
	if got := health.Of(prometheus(time.Hour)); got.Phase != health.Healthy {
		t.Errorf("an old one is %v", got)
	}
}
