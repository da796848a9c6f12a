package planner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pluralsh/plural/test/support/fleetrepo"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// disk makes a file of the work tree, or makes it larger.
func disk(t *testing.T, o *fleetrepo.Origin, name string, size int64) {
	t.Helper()
	o.Write(map[string]string{name: "x"})
	if err := os.Truncate(filepath.Join(o.Work, name), size); err != nil {
		t.Fatal(err)
	}
}

func TestALargeFileThatNoServiceReadsHoldsNothingUp(t *testing.T) {
	o := fleetrepo.New(t)
	disk(t, o, "videos/tour.mp4", snapshot.MaxBlob+1)
	p := plans(t, o, t.TempDir())
	p.serves(o.Push(fleetrepo.TwoServices(nil)))
	p.serves(o.Push(map[string]string{"apps/web/cm.yaml": fleetrepo.ConfigMap("web", "2")}))
	if hold := p.on("web").Hold; hold != nil {
		t.Errorf("held: %v", hold)
	}
}

func TestALargeFileThatAServiceReadsIsToldByPathServiceAndLimit(t *testing.T) {
	o := fleetrepo.New(t)
	p := plans(t, o, t.TempDir())
	good := o.Push(fleetrepo.TwoServices(nil))
	p.serves(good)
	disk(t, o, "apps/web/large.yaml", snapshot.MaxBlob+1)
	problems := p.refuses(o.Push(nil))
	if served := p.Plan().Desired.Served.ID; served != good || len(problems) != 1 {
		t.Fatalf("%s is served; problems are %+v", served, problems)
	}
	told := problems[0]
	if told.Service != "web" || told.File != "apps/web/large.yaml" || !strings.Contains(told.Message, "33554432") || told.Fix == "" {
		t.Errorf("problem is %+v", told)
	}
	p.serves(o.Push(map[string]string{"services/web.yaml": fleetrepo.Service("web", fleetrepo.Path("apps/web")+"  exclude: [large.yaml]\n")}))
}
