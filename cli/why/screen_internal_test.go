package why

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
)

func TestAnObjectsScreenHasNoEscapesAndNoTimeThatNobodyKeeps(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := screen{&cmdutil.Factory{IO: &ui.Streams{}, Now: func() time.Time { return now }}}
	var out strings.Builder
	err := s.object(&out, &objectAnswer{
		Live: []liveObject{
			{Cluster: "edge-1", Object: "ConfigMap demo/a", Recorded: "as it was applied", Owners: []owner{
				{Manager: "plural", Operation: "Apply", Time: now.Add(-time.Hour), Fields: []string{"data.a"}},
				{Manager: "scaler", Operation: "Update", Subresource: "scale", Fields: []string{"spec.replicas"}},
			}},
			{Cluster: "edge-2", Object: "ConfigMap demo/a", Error: "it is refused:\n\ttwice"},
		},
		Unseen: []unseen{{"chart", "error:\n  in a line\n  and \x1b[31manother\n"}},
	})
	want := `
ConfigMap demo/a on edge-1
  as it was applied
  plural  Apply, 60m ago
    data.a
  scaler  Update of scale, -
    spec.replicas

ConfigMap demo/a on edge-2
  it is refused:
    twice

not looked into
  chart: error:
    in a line
    and \x1b[31manother
`
	if diff := cmp.Diff(want, out.String()); diff != "" || err != nil {
		t.Error(err, diff)
	}
}

func TestAFieldIsFoundInWhatAClusterSaysOfIt(t *testing.T) {
	object := map[string]any{"spec": map[string]any{
		"replicas": "two", "containers": []any{map[string]any{"name": "a"}, map[string]any{"name": "web", "image": 1}},
	}}
	for reason, want := range map[string]string{
		`Deployment web/web: .spec.replicas: expected numeric, got string`:           "spec replicas",
		`Deployment.apps "web" is invalid: spec.replicas: Invalid value: "two"`:      "spec replicas",
		`Pod web: .spec.containers[name="web"].image: expected string`:               "spec containers 1 image",
		`Pod web: spec.containers[1].image: Required value`:                          "spec containers 1 image",
		`Pod web: .spec.containers[name="gone"].image: expected string`:              "spec containers",
		`Pod web: container web: CrashLoopBackOff; Updated: 1/2`:                     "spec containers 1 image",
		`Pod web: container gone: CrashLoopBackOff`:                                  "",
		`Deployment web: MinimumReplicasUnavailable: 0 of 1 replicas are available.`: "",
	} {
		if got := strings.Join(fieldIn([]string{reason}, object), " "); got != want {
			t.Errorf("%s: %q, not %q", reason, got, want)
		}
	}
	if got := fieldIn(nil, object); got != nil {
		t.Errorf("without a reason: %q", got)
	}
}

func TestAServiceWhoseClusterDoesNotAnswerIsNotToBeTakenBack(t *testing.T) {
	c := clusterAnswer{Cluster: "edge-2", Phase: v1.Failed, unreached: true, undo: "plural undo a4f77ad"}
	if mend := (&serviceAnswer{}).mend(&c); mend != "" {
		t.Errorf("mend = %q", mend)
	}
	d := v1.Deployment{Service: "web", Cluster: "edge-2", Phase: v1.Failed, Unreached: true, Problems: []v1.Problem{{Message: "away"}}}
	if fix := next(&d, []link{{Service: "db"}}, false, "https://hub.example.com"); fix != "plural cluster get edge-2" {
		t.Errorf("next = %q", fix)
	}
}
