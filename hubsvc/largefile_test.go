package hubsvc

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pluralsh/plural/workspace/snapshot"
)

// disk makes a file of the work tree, or makes it larger.
func (o *origin) disk(name string, size int64) {
	o.t.Helper()
	o.write(map[string]string{name: "x"})
	if err := os.Truncate(filepath.Join(o.work, name), size); err != nil {
		o.t.Fatal(err)
	}
}

func TestALargeFileThatNoServiceReadsHoldsNothingUp(t *testing.T) {
	o := newOrigin(t)
	o.disk("videos/tour.mp4", snapshot.MaxBlob+1)
	p := plans(t, o, t.TempDir())
	p.serves(o.push(twoServices(nil)))
	p.serves(o.push(map[string]string{"apps/web/cm.yaml": configMap("web", "2")}))
	if hold := p.on("web").Hold; hold != nil {
		t.Errorf("held: %v", hold)
	}
}

func TestALargeFileThatAServiceReadsIsToldByPathServiceAndLimit(t *testing.T) {
	o := newOrigin(t)
	p := plans(t, o, t.TempDir())
	good := o.push(twoServices(nil))
	p.serves(good)
	o.disk("apps/web/large.yaml", snapshot.MaxBlob+1)
	problems := p.refuses(o.push(nil))
	if served := p.plan().desired.Served.ID; served != good || len(problems) != 1 {
		t.Fatalf("%s is served; problems are %+v", served, problems)
	}
	told := problems[0]
	if told.Service != "web" || told.File != "apps/web/large.yaml" || !strings.Contains(told.Message, "33554432") || told.Fix == "" {
		t.Errorf("problem is %+v", told)
	}
	p.serves(o.push(map[string]string{"services/web.yaml": service("web", path("apps/web")+"  exclude: [large.yaml]\n")}))
}

func TestALargeFileOfASourceHoldsTheServicesThatReadIt(t *testing.T) {
	upstream, o := newOrigin(t), newOrigin(t)
	upstream.disk("app/large.yaml", snapshot.MaxBlob+1)
	upstream.push(map[string]string{"app/cm.yaml": configMap("app", "1")})
	fleet := twoServices(nil)
	fleet["sources/up.yaml"] = header + "kind: Source\nmetadata: {name: up}\nspec: {git: {url: \"" + upstream.url() + "\", ref: main}}\n"
	fleet["services/app.yaml"] = service("app", "  source: {name: up, path: app}\n")
	o.push(fleet)
	opts := options(t, o)
	hub := start(t, opts)
	until(t, "the service is held for the file", func() bool { return strings.Contains(hub.held(), "large.yaml") })
	if source := hub.listed("up"); source.Error != "" || source.Commit == "" {
		t.Errorf("the source is %+v", source)
	}
	hub.stop()
	opts.MaxFileBytes = snapshot.MaxBlob + 1
	hub = start(t, opts)
	until(t, "a hub of another limit delivers it", func() bool { return hub.listed("up").Commit != "" && hub.held() == "" })
}
