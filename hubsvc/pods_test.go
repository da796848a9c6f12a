package hubsvc

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pluralsh/plural/api"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/test/support/fleetrepo"
	tokens "github.com/pluralsh/plural/test/support/issuer"
)

// reportKeys has an agent report that its cluster signs tokens of service accounts as by does. It says that another agent did.
func (r *running) reportKeys(bearer, boot string, by *tokens.Issuer) {
	r.t.Helper()
	body, err := proto.Marshal(&api.Report{AgentVersion: "v1", Boot: boot, Sequence: 1, TokenIssuer: &api.TokenIssuer{
		Issuer: by.URL, Keys: by.KeySet(), Agent: make([]byte, 32),
	}})
	if err != nil {
		r.t.Fatal(err)
	}
	if code, said := r.do(http.MethodPost, api.ReportPath, bearer, body); code != http.StatusNoContent {
		r.t.Fatalf("report: %d %s", code, said)
	}
}

// exchange is the answer to a token from elsewhere.
func (r *running) exchange(token string) int {
	r.t.Helper()
	form := url.Values{"grant_type": {v1.GrantTokenExchange}, "subject_token": {token}, "subject_token_type": {v1.TokenTypeIDToken}}
	answer, err := r.client.PostForm(r.url+v1.ExchangePath, form)
	if err != nil {
		r.t.Fatal(err)
	}
	defer answer.Body.Close()
	return answer.StatusCode
}

func TestKeysOfAClusterCountForTheAgentThatReportedThemAlone(t *testing.T) {
	o, cluster := fleetrepo.New(t), tokens.Start(t)
	key, bearer := agent(t, "a")
	files := fleetrepo.TwoServices(key)
	files["access/pods.yaml"] = fleetrepo.Header + "kind: User\nmetadata: {name: ci}\n---\n" + fleetrepo.Header +
		"kind: Federation\nmetadata: {name: pods}\nspec: {user: ci, issuer: cluster/a, claims: {sub: \"system:serviceaccount:jobs:deployer\"}}\n"
	o.Push(files)
	opts := options(t, o)
	hub := start(t, opts)
	hub.ready()
	pod := cluster.Token(cluster.Claims("system:serviceaccount:jobs:deployer", "https://hub.example.com", time.Now(), nil))
	if code := hub.exchange(pod); code != http.StatusUnauthorized {
		t.Errorf("before any report: %d", code)
	}
	hub.reportKeys(bearer(), "x", cluster)
	if code := hub.exchange(pod); code != http.StatusOK {
		t.Errorf("after a report: %d", code)
	}
	hub.stop()
	hub = start(t, opts)
	hub.ready()
	fleetrepo.Until(t, "a hub that was started again knows the keys", func() bool { return hub.exchange(pod) == http.StatusOK })

	key, bearer = agent(t, "a")
	id := o.Push(map[string]string{"clusters/a.yaml": fleetrepo.Cluster("a", key)})
	fleetrepo.Until(t, "the commit is served", func() bool { return hub.status().Commit.ID == id })
	if code := hub.exchange(pod); code != http.StatusUnauthorized {
		t.Errorf("by keys of the cluster that had the name before: %d", code)
	}
	hub.reportKeys(bearer(), "y", cluster)
	if code := hub.exchange(pod); code != http.StatusOK {
		t.Errorf("after a report of the new agent: %d", code)
	}
	large := &api.Report{AgentVersion: "v1", Boot: "y", Sequence: 2, TokenIssuer: &api.TokenIssuer{
		Issuer: cluster.URL, Keys: append(cluster.KeySet(), make([]byte, api.MaxIssuerBytes)...),
	}}
	body, err := proto.Marshal(large)
	if err != nil {
		t.Fatal(err)
	}
	if code, said := hub.do(http.MethodPost, api.ReportPath, bearer(), body); code != http.StatusNoContent || hub.exchange(pod) != http.StatusUnauthorized {
		t.Errorf("after a report of too many keys: %d %s", code, said)
	}
}
