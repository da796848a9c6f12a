package hubsvc

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

func TestALargeFileOfASourceHoldsTheServicesThatReadIt(t *testing.T) {
	upstream, o := fleetrepo.New(t), fleetrepo.New(t)
	disk(t, upstream, "app/large.yaml", snapshot.MaxBlob+1)
	upstream.Push(map[string]string{"app/cm.yaml": fleetrepo.ConfigMap("app", "1")})
	fleet := fleetrepo.TwoServices(nil)
	fleet["sources/up.yaml"] = fleetrepo.Header + "kind: Source\nmetadata: {name: up}\nspec: {git: {url: \"" + upstream.URL() + "\", ref: main}}\n"
	fleet["services/app.yaml"] = fleetrepo.Service("app", "  source: {name: up, path: app}\n")
	o.Push(fleet)
	opts := options(t, o)
	hub := start(t, opts)
	fleetrepo.Until(t, "the service is held for the file", func() bool { return strings.Contains(hub.held(), "large.yaml") })
	if source := hub.listed("up"); source.Error != "" || source.Commit == "" {
		t.Errorf("the source is %+v", source)
	}
	hub.stop()
	opts.MaxFileBytes = snapshot.MaxBlob + 1
	hub = start(t, opts)
	fleetrepo.Until(t, "a hub of another limit delivers it", func() bool { return hub.listed("up").Commit != "" && hub.held() == "" })
}
