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
		{
			v1.Problem{File: "services/web.yaml", Line: 12, Since: &v1.Commit{ID: "1111111222222222"}},
			"mend services/web.yaml:12, commit and push; or plural undo 1111111",
		},
		{v1.Problem{Message: "nobody knows where"}, "plural validate, mend it, commit and push; or plural undo"},
	} {
		if got := cmdutil.Mend(tt.problem); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.problem, got, tt.want)
		}
	}
}

func TestWhatMendsADeploymentThatIsHeldIsWhatItIsHeldFor(t *testing.T) {
	for _, tt := range []struct {
		d    v1.Deployment
		want string
	}{
		{v1.Deployment{Held: &v1.Waiting{Count: 3}}, "plural service ack web agrees; plural undo takes the newest change back"},
		{
			v1.Deployment{Leftover: true, Message: "its removal waits"},
			"plural service ack --cluster-removals edge-1 agrees; plural undo takes the newest change back",
		},
		{v1.Deployment{Suspended: true, Message: "suspended: what runs stays as it is"}, "plural service resume web"},
	} {
		tt.d.Service, tt.d.Cluster, tt.d.Phase = "web", "edge-1", v1.Held
		if got := cmdutil.MendDeployment(&tt.d, ""); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.d, got, tt.want)
		}
	}
}
