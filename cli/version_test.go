package cli

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/ui"
)

// parts is a hub of another version than its agents.
func parts() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/hub", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(v1.Hub{Version: "1.3.0"}) })
	mux.HandleFunc("/v1/clusters", func(w http.ResponseWriter, _ *http.Request) {
		clusters := []v1.Cluster{{Name: "a", AgentVersion: "test"}, {Name: "b", AgentVersion: "1.2.0"}, {Name: "c", AgentVersion: "1.2.0"}, {Name: "d"}}
		_ = json.NewEncoder(w).Encode(v1.List[v1.Cluster]{Items: clusters, Total: len(clusters)})
	})
	return mux
}

func TestVersionSaysWhichPartsAreOfAnother(t *testing.T) {
	got := plural(t, t.Context(), parts(), false, "version", "--check", "-o", "json")
	var v version
	if err := json.Unmarshal([]byte(got.out), &v); err != nil || got.code != ui.ExitOK {
		t.Fatal(got, err)
	}
	want := &checked{
		Hub: "1.3.0", Agents: []agents{{"1.2.0", 2}, {"test", 1}},
		NewestError: "this program was built without a place to ask for newer releases",
	}
	if diff := cmp.Diff(want, v.Check); diff != "" {
		t.Error(diff)
	}
	got = plural(t, t.Context(), parts(), false, "version", "--check")
	_, table, _ := strings.Cut(got.out, "\n")
	wantTable := `PART    VERSION
hub     1.3.0, not this program's version
agents  1.2.0 on 2 of the clusters, not this program's version
agents  test on 1 of the clusters
newest  this program was built without a place to ask for newer releases
`
	if diff := cmp.Diff(wantTable, table); diff != "" {
		t.Error(diff)
	}
}

func TestVersionAsksNobodyUnasked(t *testing.T) {
	asked := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it asked the hub") })
	if got := plural(t, t.Context(), asked, false, "version"); got.code != ui.ExitOK {
		t.Error(got)
	}
}
