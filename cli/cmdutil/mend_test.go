package cmdutil_test

import (
	"testing"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/cmdutil"
)

func TestWhatMendsARefusalFollowsFromWhatIsRefused(t *testing.T) {
	for _, tt := range []struct {
		problem v1.Problem
		want    string
	}{
		{v1.Problem{File: "services", Token: "78e67c1858b8"}, "plural undo, or agree to exactly this: plural service ack --commit"},
		{v1.Problem{Cluster: "edge-1", Token: "78e67c1858b8"}, "plural undo, or agree to it: plural service ack --cluster-removals edge-1"},
		{v1.Problem{File: "services/web.yaml", Line: 12}, "mend services/web.yaml:12, commit and push; or plural undo"},
		{v1.Problem{Message: "nobody knows where"}, "plural validate, mend it, commit and push; or plural undo"},
	} {
		if got := cmdutil.Mend(tt.problem); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.problem, got, tt.want)
		}
	}
}
