package order_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/agent/order"
)

// item reads "stage wave KIND NAME [after NAME...]"; names are of the namespace web, unless the kind has none. A stage in capital
// letters is one of Helm's hooks.
func item(t *testing.T, line string) order.Item {
	t.Helper()
	fields := strings.Fields(line)
	stage, known := order.ParseStage(strings.ToLower(fields[0]))
	if !known {
		t.Fatalf("no stage in %q", line)
	}
	it := order.Item{Turn: order.Turn{Stage: stage}, ID: named(fields[2] + "/" + fields[3])}
	if fields[0] != stage.String() {
		it.Turn.Hook, it.Turn.Family = true, order.Helm
	}
	if _, err := fmt.Sscan(fields[1], &it.Turn.Wave); err != nil {
		t.Fatal(err)
	}
	if len(fields) > 4 {
		for _, name := range fields[5:] {
			it.Turn.After = append(it.Turn.After, named(name))
		}
	}
	return it
}

func named(text string) object.ID {
	kind, name, _ := strings.Cut(text, "/")
	id := object.ID{Kind: kind, Name: name, Namespace: "web"}
	switch kind {
	case "Namespace", "ClusterRole":
		id.Namespace = ""
	case "CustomResourceDefinition":
		id.Namespace, id.Group = "", object.DefinitionGroup
	case "Deployment":
		id.Group = "apps"
	}
	return id
}

// show writes steps as lines, with "await" below those whose health the next one waits for.
func show(items []order.Item, steps []order.Step) string {
	var text strings.Builder
	for _, step := range steps {
		fmt.Fprintf(&text, "%s %d:", step.Stage, step.Wave)
		for _, i := range step.Items {
			fmt.Fprintf(&text, " %s/%s", items[i].ID.Kind, items[i].ID.Name)
		}
		text.WriteString("\n")
		if step.AwaitHealth {
			text.WriteString("await\n")
		}
	}
	return text.String()
}

func TestStepsFollowEachOther(t *testing.T) {
	for _, test := range []struct{ name, items, want string }{
		{"nothing", "", ""},
		{
			"kinds have ranks",
			"sync 0 Widget w\nsync 0 Deployment d\nsync 0 ConfigMap c\nsync 0 Secret s\nsync 0 CustomResourceDefinition x\nsync 0 Namespace n",
			"sync 0: Namespace/n\nsync 0: CustomResourceDefinition/x\nsync 0: ConfigMap/c Secret/s\nsync 0: Deployment/d\nsync 0: Widget/w\n",
		},
		{
			"the next wave waits for health",
			"sync 1 ConfigMap late\nsync -1 Deployment early\nsync -1 Namespace first\nsync 0 ConfigMap middle",
			"sync -1: Namespace/first\nsync -1: Deployment/early\nawait\nsync 0: ConfigMap/middle\nawait\nsync 1: ConfigMap/late\n",
		},
		{
			"stages wait for each other, and not for what is entered for a reason of its own",
			"test 0 Pod t\npost-delete 0 Job pd\npre-delete 0 Job d\nsync-fail 0 Job f\npost-sync 0 Job po\nsync 0 Deployment d\npre-sync 0 Job pr",
			"pre-sync 0: Job/pr\nawait\nsync 0: Deployment/d\nawait\npost-sync 0: Job/po\nsync-fail 0: Job/f\n" +
				"pre-delete 0: Job/d\npost-delete 0: Job/pd\ntest 0: Pod/t\n",
		},
		{
			"waves of a stage that is entered for a reason of its own wait",
			"pre-delete 1 Job b\npre-delete 0 Job a",
			"pre-delete 0: Job/a\nawait\npre-delete 1: Job/b\n",
		},
		{
			"Helm's hooks of a weight go one by one, by name and then by kind",
			"PRE-SYNC 0 Job b\nPRE-SYNC 0 ConfigMap b\nPRE-SYNC 0 Role b\nPRE-SYNC 0 Job a\nPRE-SYNC -1 Job z\nPRE-SYNC 0 Widget b",
			"pre-sync -1: Job/z\nawait\npre-sync 0: Job/a\nawait\npre-sync 0: ConfigMap/b\nawait\npre-sync 0: Role/b\nawait\n" +
				"pre-sync 0: Job/b\nawait\npre-sync 0: Widget/b\n",
		},
		{
			"Helm's hooks come after other objects of their wave",
			"POST-DELETE 0 Job a\npost-delete 0 Job b\npost-delete 0 ConfigMap c\npost-delete 1 Job d",
			"post-delete 0: ConfigMap/c\npost-delete 0: Job/b\nawait\npost-delete 0: Job/a\nawait\npost-delete 1: Job/d\n",
		},
		{
			"a dependency comes first, against the ranks",
			"sync 0 ConfigMap c after Deployment/d\nsync 0 Deployment d\nsync 0 Secret s",
			"sync 0: Secret/s\nsync 0: Deployment/d\nsync 0: ConfigMap/c\n",
		},
		{
			"dependencies make as many layers as it takes",
			"sync 0 ConfigMap c after ConfigMap/b\nsync 0 ConfigMap b after ConfigMap/a\nsync 0 ConfigMap a\nsync 0 ConfigMap d after ConfigMap/a\nsync 1 ConfigMap e",
			"sync 0: ConfigMap/a\nsync 0: ConfigMap/b ConfigMap/d\nsync 0: ConfigMap/c\nawait\nsync 1: ConfigMap/e\n",
		},
		{
			"what comes earlier anyway makes no layer",
			"sync 1 ConfigMap b after ConfigMap/a\nsync 0 ConfigMap a\nsync 1 ConfigMap c",
			"sync 0: ConfigMap/a\nawait\nsync 1: ConfigMap/b ConfigMap/c\n",
		},
		{
			"what is not there makes no layer",
			"sync 0 ConfigMap b after ConfigMap/elsewhere\nsync 0 ConfigMap a",
			"sync 0: ConfigMap/a ConfigMap/b\n",
		},
		{
			"what is skipped has no step, and nobody waits for it here",
			"skip 0 ConfigMap a\nsync 0 ConfigMap b after ConfigMap/a",
			"sync 0: ConfigMap/b\n",
		},
		{
			"an object of several stages counts by its first",
			"post-sync 0 Job j\npre-sync 0 Job j\nsync 0 ConfigMap a after Job/j",
			"pre-sync 0: Job/j\nawait\nsync 0: ConfigMap/a\nawait\npost-sync 0: Job/j\n",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var items []order.Item
			for line := range strings.Lines(test.items) {
				items = append(items, item(t, line))
			}
			steps, err := order.Plan(items)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, show(items, steps)); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatIsLocalHasNoStep(t *testing.T) {
	steps, err := order.Plan([]order.Item{{ID: named("ConfigMap/a"), Turn: order.Turn{Stage: order.Sync, LocalOnly: true}}})
	if err != nil || len(steps) > 0 {
		t.Errorf("got %v, %v", steps, err)
	}
}

func TestObjectsThatCanNeverBeFirstAreAnError(t *testing.T) {
	for _, test := range []struct{ name, items, want string }{
		{"itself", "sync 0 ConfigMap a after ConfigMap/a", "ConfigMap web/a depends on ConfigMap web/a: take one of these"},
		{
			"a circle, and what waits for it",
			"sync 0 ConfigMap z after ConfigMap/a\nsync 0 ConfigMap a after ConfigMap/b\nsync 0 ConfigMap b after ConfigMap/c\nsync 0 ConfigMap c after ConfigMap/a",
			"ConfigMap web/a depends on ConfigMap web/b depends on ConfigMap web/c depends on ConfigMap web/a: take one",
		},
		{
			"of a later wave", "sync 0 ConfigMap a after ConfigMap/b\nsync 1 ConfigMap b",
			"ConfigMap web/a depends on ConfigMap web/b: that one comes later, in stage sync, wave 1: take the dependency away",
		},
		{
			"of a later stage", "sync 0 ConfigMap a after Job/b\npost-sync 0 Job b",
			"that one comes later, in stage post-sync, wave 0",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var items []order.Item
			for line := range strings.Lines(test.items) {
				items = append(items, item(t, line))
			}
			_, err := order.Plan(items)
			var failed *order.DependencyError
			if !errors.As(err, &failed) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestALongCircleIsShownInPart(t *testing.T) {
	const count = 5000
	items := make([]order.Item, count)
	for i := range items {
		items[i] = order.Item{ID: named(fmt.Sprintf("ConfigMap/c%d", i)), Turn: order.Turn{Stage: order.Sync}}
		items[i].Turn.After = []object.ID{named(fmt.Sprintf("ConfigMap/c%d", (i+1)%count))}
	}
	_, err := order.Plan(items)
	if err == nil || len(err.Error()) > 1500 {
		t.Errorf("got %.2000v", err)
	}
}

// Whatever the dependencies are: every object has one step, after those of all it depends on, or there is an error.
func TestEveryObjectHasOneStepAfterWhatItDependsOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items := make([]order.Item, rapid.IntRange(0, 12).Draw(t, "items"))
		for i := range items {
			kind := rapid.SampledFrom([]string{"Namespace", "ConfigMap", "Deployment", "Widget"}).Draw(t, "kind")
			items[i].ID = named(fmt.Sprintf("%s/%d", kind, i))
			items[i].Turn.Stage = order.Stage(rapid.IntRange(0, int(order.Test)).Draw(t, "stage"))
			items[i].Turn.Wave = rapid.IntRange(-1, 1).Draw(t, "wave")
			for range rapid.IntRange(0, 2).Draw(t, "dependencies") {
				on := rapid.IntRange(0, i).Draw(t, "on") // some depend on themselves
				items[i].Turn.After = append(items[i].Turn.After, items[on].ID)
			}
		}
		steps, err := order.Plan(items)
		if err != nil {
			return
		}
		at := make([]int, len(items))
		var seen []int
		for n, step := range steps {
			for _, i := range step.Items {
				seen, at[i] = append(seen, i), n
			}
		}
		slices.Sort(seen)
		if len(seen) != len(items) || len(slices.Compact(seen)) != len(items) {
			t.Fatalf("%d items have steps for %v", len(items), seen)
		}
		for i, it := range items {
			for _, on := range it.Turn.After {
				j := slices.IndexFunc(items, func(other order.Item) bool { return other.ID == on })
				if items[j].Turn.Stage == it.Turn.Stage && at[i] <= at[j] {
					t.Fatalf("%s comes no later than %s, which it depends on", it.ID, on)
				}
			}
		}
	})
}

func TestOnlyTheRealKindsAreBarriers(t *testing.T) {
	for id, before := range map[object.ID]bool{
		{Kind: "Namespace", Name: "z"}: true,
		{Group: object.DefinitionGroup, Kind: "CustomResourceDefinition", Name: "z"}:    true,
		{Group: "example.com", Kind: "Namespace", Namespace: "web", Name: "a"}:          false,
		{Group: "example.com", Kind: "CustomResourceDefinition", Name: "a"}:             false,
		{Group: "example.com", Kind: "Secret", Namespace: "web", Name: "a"}:             true, // has a built-in's name
		{Group: "example.com", Kind: "Widget", Namespace: "web", Name: "a"}:             false,
		{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"}: false,
	} {
		if got := order.Compare(id, object.ID{Group: "apps", Kind: "Deployment", Namespace: "web", Name: "m"}) < 0; got != before {
			t.Errorf("%s before a Deployment: %v", id, got)
		}
	}
}

func TestStagesAreReadAsTheyAreWritten(t *testing.T) {
	for stage := order.PreSync; stage <= order.Skip; stage++ {
		if got, known := order.ParseStage(stage.String()); !known || got != stage {
			t.Errorf("%s is read as %s", stage, got)
		}
	}
	if stage, known := order.ParseStage(order.Stage(99).String()); known {
		t.Errorf("read as %s", stage)
	}
}

func BenchmarkPlan20000(b *testing.B) {
	items := make([]order.Item, 20_000)
	for i := range items {
		items[i] = order.Item{
			ID:   named(fmt.Sprintf("%s/c%d", []string{"ConfigMap", "Deployment", "Widget", "Service"}[i%4], i)),
			Turn: order.Turn{Stage: order.Sync, Wave: i % 3},
		}
	}
	for b.Loop() {
		if _, err := order.Plan(items); err != nil {
			b.Fatal(err)
		}
	}
}
