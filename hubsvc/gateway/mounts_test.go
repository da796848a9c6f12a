package gateway_test

import (
	"slices"
	"testing"

	"github.com/pluralsh/plural/workspace/resolve"
)

func TestAClusterMayReadWhatItsDeploymentsMount(t *testing.T) {
	plain, mounting := deployment("web", "b1-web"), deployment("web", "b1-web")
	mounting.Mounts = []resolve.Mount{{At: "values", Bundle: "b1-values", Inputs: []string{"envs/prod"}, OwnRepository: true}}
	root := newRoot(t, "a", mounting)
	if got := slices.Sorted(root.Bundles()); !slices.Equal(got, []string{"b1-values", "b1-web"}) {
		t.Errorf("bundles = %v", got)
	}
	if root.ETag() == newRoot(t, "a", plain).ETag() {
		t.Error("a mount is not in the root")
	}
	elsewhere := mounting
	elsewhere.Mounts = []resolve.Mount{{At: "elsewhere", Bundle: "b1-values", Inputs: []string{"envs/prod"}, OwnRepository: true}}
	if root.ETag() == newRoot(t, "a", elsewhere).ETag() {
		t.Error("where it is mounted is not in the root")
	}
}
