package hubsvc

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/test/support/fleetrepo"
	"github.com/pluralsh/plural/workspace/fleet"
)

// tool is a user with a token and a role.
func tool(name, token, role string) string {
	return fleetrepo.Header + "kind: User\nmetadata: {name: " + name + "}\nspec: {tokens: [{name: t, hash: \"" + fleet.HashToken(token) + "\"}]}\n---\n" +
		fleetrepo.Header + "kind: Role\nmetadata: {name: " + name + "}\nspec: " + role + "\n---\n" +
		fleetrepo.Header + "kind: RoleBinding\nmetadata: {name: " + name + "}\nspec: {role: " + name + ", users: [" + name + "]}\n"
}

func TestToolsHaveTokensThatAreGoodForOneThing(t *testing.T) {
	o := fleetrepo.New(t)
	figures, hints, kube := fleet.NewToken(), fleet.NewToken(), fleet.NewToken()
	files := fleetrepo.TwoServices(nil)
	files["access/prometheus.yaml"] = tool("prometheus", figures, "{fleet: [metrics]}")
	files["access/git.yaml"] = tool("git", hints, "{fleet: [hint]}")
	files["access/ada.yaml"] = tool("ada", kube, "{kubernetes: [{verbs: [\"*\"], resources: [\"*/*\"]}]}")
	o.Push(files)
	hub := start(t, options(t, o))
	hub.ready()
	code, said := hub.do(http.MethodPost, "/v1/kube/token", kube, []byte(`{"cluster":"a"}`))
	var cluster v1.KubeToken
	if err := json.Unmarshal(said, &cluster); err != nil || code != http.StatusOK {
		t.Fatalf("%d %s", code, said)
	}
	const unknown, denied = http.StatusUnauthorized, http.StatusForbidden
	for name, test := range map[string]struct {
		token                  string
		metrics, hint, summary int
	}{
		"nobody, of this machine":   {"", unknown, unknown, unknown},
		"a token of nobody":         {fleet.NewToken(), unknown, unknown, unknown},
		"a token for a cluster":     {cluster.Token, unknown, unknown, unknown},
		"a user for clusters alone": {kube, denied, denied, denied},
		"prometheus":                {figures, http.StatusOK, denied, denied},
		"git":                       {hints, denied, http.StatusAccepted, denied},
		"operator":                  {hub.token, http.StatusOK, http.StatusAccepted, http.StatusOK},
	} {
		for request, want := range map[string]int{"GET /metrics": test.metrics, "POST /hooks/git": test.hint, "GET /v1/summary": test.summary} {
			method, path, _ := strings.Cut(request, " ")
			if code, said := hub.do(method, path, test.token, nil); code != want {
				t.Errorf("%s: %s: %d %.200s, want %d", name, request, code, said, want)
			}
		}
	}
	if _, said := hub.do(http.MethodGet, "/metrics", hints, nil); !strings.Contains(string(said), "fleet: [metrics]") {
		t.Errorf("how to get at figures is not told: %s", said)
	}
}

func TestATokenForAClusterOutlivesARestartOfTheHub(t *testing.T) {
	o := fleetrepo.New(t)
	o.Push(fleetrepo.TwoServices(nil))
	opts := options(t, o)
	hub := start(t, opts)
	hub.ready()
	code, said := hub.do(http.MethodPost, "/v1/kube/token", hub.token, []byte(`{"cluster":"a"}`))
	var made v1.KubeToken
	if err := json.Unmarshal(said, &made); err != nil || code != http.StatusOK {
		t.Fatalf("%d %s", code, said)
	}
	hub.stop()
	hub = start(t, opts)
	hub.ready()
	// There is no agent: whoever is known is told so, and everybody else to log in.
	if code, said := hub.do(http.MethodGet, "/k8s/a/version", made.Token, nil); code != http.StatusServiceUnavailable {
		t.Errorf("%d %s", code, said)
	}
	if code, said := hub.do(http.MethodGet, "/k8s/a/version", made.Token+"x", nil); code != http.StatusUnauthorized {
		t.Errorf("a forged one: %d %s", code, said)
	}
}
