package why

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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
