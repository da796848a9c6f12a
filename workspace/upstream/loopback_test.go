package upstream

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/mirror"
)

func TestASourceDoesNotLeadToTheHubsOwnMachineUnlessThatIsAllowed(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		http.Error(w, "nothing here", http.StatusNotFound)
	}))
	t.Cleanup(server.Close)
	_, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "http://"), ":")
	for name, spec := range map[string]fleet.SourceSpec{
		"git":  {Git: &fleet.GitSource{URL: "http://localhost:" + port + "/x"}},
		"helm": {Helm: &fleet.HelmSource{URL: "http://127.0.0.1:" + port + "/x"}},
		"oci":  {OCI: &fleet.OCISource{URL: "oci://localhost:" + port + "/x", Ref: "1.0.0"}},
		"http": {HTTP: &fleet.HTTPSource{URL: "http://[::ffff:127.0.0.1]:" + port + "/x", Digest: "sha256:" + strings.Repeat("0", 64)}},
	} {
		for _, allowed := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " allowed ", allowed), func(t *testing.T) {
				a, err := Find(&fleet.Source{Spec: spec}, fstest.MapFS{}, nil)
				if err != nil {
					t.Fatal(err)
				}
				a.NoLoopback = !allowed
				from, err := a.Mirror(false)
				if err != nil {
					t.Fatal(err)
				}
				m, err := mirror.Open(t.TempDir())
				if err != nil {
					t.Fatal(err)
				}
				ref := map[string]string{"git": "main", "helm": "podinfo@1.0.0", "oci": "1.0.0"}[name]
				before := asked.Load()
				_, err = m.Fetch(t.Context(), from, []string{ref})
				if err == nil || strings.Contains(err.Error(), "--allow-loopback") == allowed {
					t.Errorf("Fetch: %v", err)
				}
				if got := asked.Load() > before; got != allowed {
					t.Errorf("the server was asked: %v", got)
				}
			})
		}
	}
}
