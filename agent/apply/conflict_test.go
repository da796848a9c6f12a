package apply_test

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/agent/apply"
)

// applyAs is another manager at work on an object.
func (w *world) applyAs(manager string, obj *unstructured.Unstructured) {
	w.Helper()
	_, err := w.resource(obj).Apply(w.Context(), obj.GetName(), obj, metav1.ApplyOptions{FieldManager: manager, Force: true})
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) value(name string) string {
	w.Helper()
	value, _, _ := unstructured.NestedString(w.live(configMap(name, "")).Object, "data", "key")
	return value
}

func TestAConflictIsResolvedAsThePolicySaysAndTold(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		service apply.Policy
		rule    *apply.FieldRule
		want    string // of the live field
		note    string
		failure string
	}{
		{"unsaid", "", nil, "ours", `data.key taken from "other"`, ""},
		{"own", apply.Own, nil, "ours", `data.key taken from "other"`, ""},
		{"yield", apply.Yield, nil, "theirs", `data.key left to "other"`, ""},
		{"fail", apply.Fail, nil, "theirs", "", `data.key belongs to "other"`},
		{"a field's rule before the service's", apply.Fail, &apply.FieldRule{Kind: "ConfigMap", Pointer: "/data/key", Policy: apply.Yield}, "theirs", `data.key left to "other"`, ""},
		{"a rule of what holds the field", apply.Own, &apply.FieldRule{Pointer: "/data", Policy: apply.Yield}, "theirs", `data.key left to "other"`, ""},
		{"a rule of any key", apply.Own, &apply.FieldRule{Pointer: "/data/*", Policy: apply.Fail}, "theirs", "", `data.key belongs to "other"`},
		{"a rule of another kind", apply.Own, &apply.FieldRule{Kind: "Secret", Pointer: "/data/key", Policy: apply.Yield}, "ours", "taken", ""},
		{"a rule of another name", apply.Own, &apply.FieldRule{Name: "else", Pointer: "/data/key", Policy: apply.Yield}, "ours", "taken", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.applyAs("other", configMap("settings", "theirs"))
			req := w.request(configMap("settings", "ours"), configMap("free", "1"))
			req.Conflicts = tt.service
			if tt.rule != nil {
				req.Fields = []apply.FieldRule{*tt.rule}
			}

			result := w.pass(req)

			if got := w.value("settings"); got != tt.want {
				t.Errorf("the field is %q, want %q", got, tt.want)
			}
			if tt.note != "" && !slices.ContainsFunc(result.Notes, func(n string) bool { return strings.Contains(n, tt.note) }) {
				t.Errorf("notes %q do not say %q", result.Notes, tt.note)
			}
			if err := result.Objects[1].Err; (err != nil) != (tt.failure != "") || err != nil && !strings.Contains(err.Error(), tt.failure) {
				t.Errorf("error %v, want %q", err, tt.failure)
			}
			if tt.failure == "" {
				w.expect(w.pass(req), "unchanged ConfigMap/free", "unchanged ConfigMap/settings")
			}
		})
	}
}

func TestWhatAnAutoscalerSetsIsNoDriftAndAPersonsScalingIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	web := deployment("web", "one")
	w.settles(w.request(web))
	replicas := func() int64 {
		n, _, _ := unstructured.NestedInt64(w.live(web).Object, "spec", "replicas")
		return n
	}
	scale := func(manager string, n string) {
		body := `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"web","namespace":"` + w.namespace + `"},"spec":{"replicas":` + n + `}}`
		if _, err := w.resource(web).Patch(t.Context(), "web", "application/merge-patch+json", []byte(body),
			metav1.PatchOptions{FieldManager: manager}, "scale"); err != nil {
			t.Fatal(err)
		}
	}

	scale("kubectl", "4")
	w.follows(w.request(web), func(*apply.Result) bool { return replicas() == 1 })

	scale("kube-controller-manager", "3")
	result := w.follows(w.request(web), func(r *apply.Result) bool { return len(r.Notes) > 0 && r.Done })
	if replicas() != 3 || !strings.Contains(result.Notes[0], `left to "kube-controller-manager"`) {
		t.Errorf("%d replicas, notes %q", replicas(), result.Notes)
	}
	w.expect(w.apply(web), "unchanged Deployment/web")
	scale("kube-controller-manager", "5")
	w.expect(w.apply(web), "unchanged Deployment/web")
	w.follows(w.request(deployment("web", "two")), isDone)
	if got := replicas(); got != 5 {
		t.Errorf("%d replicas after another change, want the autoscaler's 5", got)
	}
}

func TestAFieldThatIsIgnoredIsSetOnceAndLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ask := func(image string) apply.Request {
		req := w.request(deployment("web", image))
		req.Fields = []apply.FieldRule{
			{Group: "apps", Kind: "Deployment", Pointer: "/spec/replicas", Policy: apply.Ignore},
			{Group: "apps", Kind: "Deployment", Pointer: "/spec/template/spec/containers/0/image", Policy: apply.Ignore},
		}
		return req
	}
	fields := func() (int64, string) {
		live := w.live(deployment("web", ""))
		n, _, _ := unstructured.NestedInt64(live.Object, "spec", "replicas")
		containers, _, _ := unstructured.NestedSlice(live.Object, "spec", "template", "spec", "containers")
		image, _ := containers[0].(map[string]any)["image"].(string)
		return n, image
	}
	w.settles(ask("one"))
	if n, image := fields(); n != 1 || image != "one" {
		t.Errorf("made with %d replicas of %q", n, image)
	}

	w.patch(deployment("web", ""), `{"spec":{"replicas":3}}`)
	w.settles(ask("two"))
	if n, image := fields(); n != 3 || image != "one" {
		t.Errorf("%d replicas of %q: want 3 of one, which are left alone", n, image)
	}
}

func TestAFieldOfOursThatIsIgnoredFromNowOnKeepsItsValue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settles(w.request(configMap("settings", "1")))
	req := w.request(configMap("settings", "2"))
	req.Fields = []apply.FieldRule{{Kind: "ConfigMap", Pointer: "/data/key", Policy: apply.Ignore}}
	w.settles(req)

	if got := w.value("settings"); got != "1" {
		t.Errorf("the value is %q, want the old one", got)
	}
	w.patch(configMap("settings", ""), `{"data":{"key":"3"}}`)
	w.expect(w.pass(req), "unchanged ConfigMap/settings")
	if got := w.value("settings"); got != "3" {
		t.Errorf("the value is %q, want what somebody wrote", got)
	}
}

func TestAnImmutableChangeMakesAnewOnlyWhereThatIsAllowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := job("once"), job("once")
	containers := []any{map[string]any{"name": "main", "image": "two"}}
	must(0, unstructured.SetNestedSlice(two.Object, containers, "spec", "template", "spec", "containers"))
	w.settles(w.request(one))
	uid := w.live(one).GetUID()

	w.expect(w.apply(two), "Immutable Job/once")
	if got := w.live(one).GetUID(); got != uid {
		t.Fatal("it was made anew unasked")
	}

	byKind := w.request(two)
	byKind.Recreate = []string{"Job.batch"}
	for _, req := range []apply.Request{byKind, w.request(annotated(one, "plural.sh/recreate", "allow"))} {
		result := w.follows(req, isDone)
		live := w.live(one)
		if live.GetUID() == uid {
			t.Errorf("%q: it was not made anew", lines(result))
		}
		uid = live.GetUID()
	}
}
