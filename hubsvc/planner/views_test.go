package planner

import (
	"slices"
	"strings"
	"testing"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/test/support/fleetrepo"
)

func TestViewsAreThoseOfTheCommitThatIsServed(t *testing.T) {
	o := fleetrepo.New(t)
	p := plans(t, o, t.TempDir())
	p.serves(o.Push(fleetrepo.TwoServices(nil)))
	if got := p.Plan().Views; got.Items == nil || len(got.Items)+len(got.Problems) > 0 {
		t.Errorf("without a file: %+v", got)
	}
	const file = fleetrepo.Header + "kind: Views\nspec:\n  views:\n" +
		"  - {key: 2, name: Images, list: fleet, filter: message~image}\n  - {key: 1, name: Edge, list: clusters}\n"
	p.serves(o.Push(map[string]string{"views.yaml": file}))
	want := []v1.View{{Key: 1, Name: "Edge", List: "clusters"}, {Key: 2, Name: "Images", List: "fleet", Filter: "message~image"}}
	if got := p.Plan().Views; !slices.Equal(got.Items, want) || len(got.Problems) > 0 {
		t.Errorf("%+v", got)
	}
	p.serves(o.Push(map[string]string{"views.yaml": strings.Replace(file, "key: 1", "key: 10", 1)}))
	if got := p.Plan().Views; len(got.Items) > 0 || len(got.Problems) != 1 || got.Problems[0].File != "views.yaml" || got.Problems[0].Line == 0 || got.Problems[0].Fix == "" {
		t.Errorf("with a mistake: %+v", got)
	}
}
