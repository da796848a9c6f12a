package planner

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pluralsh/plural/test/support/fleetrepo"
	"github.com/pluralsh/plural/test/support/needs"
)

// served is an origin over http, with a file whose text may change.
func served(t *testing.T, o *fleetrepo.Origin) (server *httptest.Server, file *atomic.Value, asked *atomic.Int32) {
	t.Helper()
	file, asked = new(atomic.Value), new(atomic.Int32)
	mux := http.NewServeMux()
	mux.HandleFunc("/files/crds.yaml", func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = io.WriteString(w, file.Load().(string))
	})
	mux.Handle("/team/", http.StripPrefix("/team", &cgi.Handler{
		Path: needs.Program(t, "git", "git"), Args: []string{"http-backend"}, Stderr: io.Discard,
		Env: []string{"GIT_PROJECT_ROOT=" + filepath.Dir(o.Bare), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "HOME=" + filepath.Dir(o.Work)},
	}))
	server = httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server, file, asked
}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func TestRemotesOfKustomizationsAreFetchedAsTheSourcesThatTheyAre(t *testing.T) {
	o, lib, repository := fleetrepo.New(t), fleetrepo.New(t), newCharts(t, "1.2.0", "2.0.0")
	lib.Push(map[string]string{"base/kustomization.yaml": "resources: [cm.yaml]\n", "base/cm.yaml": fleetrepo.ConfigMap("based", "1"), "other/x.yaml": fleetrepo.ConfigMap("other", "1")})
	lib.Git(lib.Work, "tag", "v1")
	lib.Git(lib.Work, "push", "-q", "origin", "v1")
	server, file, asked := served(t, lib)
	const crds = "kind: CustomResourceDefinition\n"
	file.Store("something else\n")

	p := plans(t, o, t.TempDir())
	fleet := fleetrepo.TwoServices(nil)
	fleet["services/remote.yaml"] = fleetrepo.Service("remote", "  source: {path: apps/remote}\n")
	fleet["apps/remote/kustomization.yaml"] = fmt.Sprintf("resources:\n- %s/team/origin//base?ref=v1\n- %s/files/crds.yaml\n"+
		"helmCharts:\n- {name: web, repo: %s/, version: 1.2.0, releaseName: web}\n", server.URL, server.URL, repository.URL)
	o.Push(fleet)
	fleetrepo.Until(t, "a remote that is no source is refused", func() bool { return len(p.Plan().Desired.Refused) > 0 })
	if why := p.Plan().Desired.Refused[0]; !strings.Contains(why.Fix, "plural source add NAME --git "+server.URL+"/team/origin --ref v1") ||
		why.File != "apps/remote/kustomization.yaml" || why.Line != 2 {
		t.Errorf("refused: %+v", why)
	}

	source := func(name, spec string) string {
		return fleetrepo.Header + "kind: Source\nmetadata: {name: " + name + "}\nspec: {" + spec + "}\n"
	}
	p.serves(o.Push(map[string]string{
		"sources/lib.yaml":  source("lib", "git: {url: '"+server.URL+"/team/origin.git', ref: v1}"),
		"sources/web.yaml":  source("web", "helm: {url: '"+repository.URL+"', chart: web, ref: 1.2.0}"),
		"sources/crds.yaml": source("crds", "http: {url: '"+server.URL+"/files/crds.yaml', digest: '"+digestOf(crds)+"'}"),
	}))
	fleetrepo.Until(t, "a file of another digest is refused", func() bool {
		return strings.Contains(p.Mirrors.Status(p.Plan().IDs["crds"]).LastError, "has the digest "+digestOf("something else\n"))
	})
	fleetrepo.Until(t, "its service waits for it alone", func() bool {
		hold := p.on("remote").Hold
		return hold != nil && hold.Source == "crds" && hold.File == "apps/remote/kustomization.yaml" && hold.Line == 3
	})
	file.Store(crds)
	fleetrepo.Until(t, "all of them are there", func() bool { return p.on("remote").Hold == nil })
	got := p.on("remote")
	p.packs()
	held := map[string]string{"lib": "base/cm.yaml", "web": "Chart.yaml", "crds": "crds.yaml"}
	for _, m := range got.Mounts {
		if text := p.file(m.Bundle, held[m.Source]); text == "" {
			t.Errorf("mount %+v has no %s", m, held[m.Source])
		}
		delete(held, m.Source)
	}
	if len(held) > 0 || len(got.Mounts) != 3 {
		t.Errorf("not mounted: %v of %+v", held, got.Mounts)
	}
	before := asked.Load()

	lib.Push(map[string]string{"base/cm.yaml": fleetrepo.ConfigMap("based", "2")})
	fetched := p.Mirrors.Status(p.Plan().IDs["lib"]).Attempts
	fleetrepo.Until(t, "the repository was looked at", func() bool { return p.Mirrors.Status(p.Plan().IDs["lib"]).Attempts > fetched+2 })
	if p.on("remote").Key != got.Key {
		t.Error("a commit after the tag gave another key")
	}
	lib.Git(lib.Work, "tag", "-f", "v1")
	lib.Git(lib.Work, "push", "-qf", "origin", "v1")
	fleetrepo.Until(t, "a tag that moved gives another key", func() bool { return p.on("remote").Key != got.Key })
	if n := asked.Load(); n != before {
		t.Errorf("the file was asked for %d times more, though it cannot have changed", n-before)
	}
}
