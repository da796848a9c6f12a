package auth_test

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/pluralsh/plural/hubsvc/auth"
	"github.com/pluralsh/plural/internal/principal"
	"github.com/pluralsh/plural/test/support/issuer"
	"github.com/pluralsh/plural/workspace/fleet"
)

// everywhere is the issuer that Kubernetes has by default: many clusters share it.
const everywhere = "https://kubernetes.default.svc.cluster.local"

// pods is a fleet of two clusters that name the same issuer, each with keys of its own. Of edge-1 the service account jobs/deployer
// is ci-deploy, of edge-2 it is ada.
type pods struct {
	*sso
	edge1, edge2 *issuer.Issuer
}

func newPods(t *testing.T) *pods {
	t.Helper()
	w := &pods{newSSO(t), issuer.Start(t), issuer.Start(t)}
	w.f.Clusters = []fleet.Cluster{{Metadata: fleet.Metadata{Name: "edge-1"}}, {Metadata: fleet.Metadata{Name: "edge-2"}}}
	w.f.Clusters[0].Spec.Agent.Auth = "ed25519:first"
	w.f.Federations = []fleet.Federation{ofPods("pods-1", "ci-deploy", "edge-1"), ofPods("pods-2", "ada", "edge-2")}
	w.report("edge-1", w.edge1)
	w.report("edge-2", w.edge2)
	w.serve()
	return w
}

func ofPods(name, user, cluster string) fleet.Federation {
	return fleet.Federation{Metadata: fleet.Metadata{Name: name}, Spec: fleet.FederationSpec{
		User: user, Issuer: "cluster/" + cluster, Claims: map[string]string{"sub": "system:serviceaccount:jobs:deployer"},
	}}
}

// report has the agent of a cluster say that its API server signs with the keys of by.
func (w *pods) report(cluster string, by *issuer.Issuer) {
	if w.accounts == nil {
		w.accounts = map[string]auth.ServiceAccounts{}
	}
	w.accounts[cluster] = auth.ServiceAccounts{Issuer: everywhere, Keys: by.KeySet(), Reported: w.now}
}

// pod is the token of a pod, as an API server makes it.
func (w *pods) pod(by *issuer.Issuer, more map[string]any) string {
	return by.Token(w.claimsOf(by, more))
}

func (w *pods) claimsOf(by *issuer.Issuer, more map[string]any) map[string]any {
	claims := map[string]any{
		"iss": everywhere, "aud": []string{hubURL}, "jti": "7d3c", "kubernetes.io": map[string]any{
			"namespace": "jobs", "serviceaccount": map[string]any{"name": "deployer", "uid": "8f0d"}, "pod": map[string]any{"name": "job", "uid": "11ab"},
		},
	}
	maps.Copy(claims, more)
	return by.Claims("system:serviceaccount:jobs:deployer", hubURL, w.now, claims)
}

func TestAPodIsWhomTheFederationOfItsOwnClusterSays(t *testing.T) {
	w := newPods(t)
	for user, by := range map[string]*issuer.Issuer{"ci-deploy": w.edge1, "ada": w.edge2} {
		session, who, err := w.Exchange(t.Context(), w.pod(by, nil))
		if err != nil || who.Name != user || who.Expires.Sub(w.now) != 15*time.Minute {
			t.Fatalf("a pod that is %s: %+v, %v", user, who, err)
		}
		if got, err := w.replica().Person(w.asks(session)); err != nil || got.Name != user {
			t.Errorf("another replica: %+v, %v", got, err)
		}
	}
	if n := w.edge1.Requests.Load() + w.edge2.Requests.Load(); n != 0 {
		t.Errorf("%d requests for the keys of clusters", n)
	}
}

func TestATokenThatNoClusterOfAFederationHasSignedIsRefused(t *testing.T) {
	w := newPods(t)
	stranger := issuer.Start(t)
	w.report("edge-3", stranger) // which no federation names
	for name, raw := range map[string]string{
		"of a cluster that no federation names": w.pod(stranger, nil),
		"of another service account":            w.pod(w.edge1, map[string]any{"sub": "system:serviceaccount:jobs:deployer2"}),
		"of another namespace":                  w.pod(w.edge1, map[string]any{"sub": "system:serviceaccount:evil:deployer"}),
		"of another issuer, with its own key":   w.pod(w.edge1, map[string]any{"iss": "https://gitlab.com"}),
		"of the provider, with its own key":     w.pod(w.edge1, map[string]any{"iss": w.URL, "aud": "plural"}),
		"for another hub":                       w.pod(w.edge1, map[string]any{"aud": []string{"https://other.example.com"}}),
		"for the API server, too":               w.pod(w.edge1, map[string]any{"aud": []string{hubURL, everywhere}}),
		"that has expired":                      w.pod(w.edge1, map[string]any{"exp": w.now.Add(-time.Minute).Unix()}),
		"that names no key":                     w.edge1.Signed(jose.SigningKey{Algorithm: jose.ES256, Key: w.edge1.Key().Key}, w.claimsOf(w.edge1, nil)),
		"that names the cluster as its issuer":  w.pod(w.edge1, map[string]any{"iss": "cluster/edge-1"}),
	} {
		if message, fix := w.refusal(raw); message == "" || fix == "" {
			t.Errorf("a token %s: %q, %q", name, message, fix)
		}
	}
}

// A cluster may report whatever it likes: it must not be believed about others, nor keep them from logging in.
func TestAClusterThatLiesVouchesForItsOwnPodsAlone(t *testing.T) {
	w := newPods(t)
	w.accounts["edge-2"] = auth.ServiceAccounts{Issuer: w.URL, Keys: w.edge2.KeySet(), Reported: w.now} // the provider's issuer
	forged := w.edge2.Token(w.Claims("00u1abc", "plural", w.now, nil))
	if message, _ := w.refusal(forged); !strings.Contains(message, `provider "corp"`) {
		t.Errorf("an ID token that a cluster forged: %s", message)
	}
	if _, who := w.login("00u1abc", nil); who.Name != "ada" {
		t.Errorf("of the provider itself: %+v", who)
	}
	if _, who, err := w.Exchange(t.Context(), w.pod(w.edge1, nil)); err != nil || who.Name != "ci-deploy" {
		t.Errorf("of another cluster: %+v, %v", who, err)
	}
	for name, keys := range map[string]string{
		"nothing": "", "no JSON": "{", "no keys": `{"keys":[]}`, "a secret": `{"keys":[{"kty":"oct","k":"c2VjcmV0","kid":"one"}]}`,
		"a cut-off set": string(w.edge2.KeySet()[:40]),
	} {
		w.accounts["edge-2"] = auth.ServiceAccounts{Issuer: everywhere, Keys: []byte(keys), Reported: w.now}
		if _, who, err := w.Exchange(t.Context(), w.pod(w.edge1, nil)); err != nil || who.Name != "ci-deploy" {
			t.Errorf("beside a cluster that reports %s: %+v, %v", name, who, err)
		}
		w.refusal(w.pod(w.edge2, nil))
	}
}

// Clusters whose API servers were made of one another have the same keys, and their tokens cannot be told apart.
func TestATokenThatTwoClustersVouchForIsOneUsersOrNobodys(t *testing.T) {
	w := newPods(t)
	w.report("edge-2", w.edge1)
	if message, fix := w.refusal(w.pod(w.edge1, nil)); !strings.Contains(message, "pods-1 and pods-2") || !strings.Contains(fix, "keys of its own") {
		t.Errorf("%s: %s", message, fix)
	}
	w.f.Federations[1].Spec.User = "ci-deploy"
	w.serve()
	if _, who, err := w.Exchange(t.Context(), w.pod(w.edge1, nil)); err != nil || who.Name != "ci-deploy" {
		t.Errorf("for one user: %+v, %v", who, err)
	}
}

func TestKeysOfAClusterCountWhileItsAgentReportsThem(t *testing.T) {
	w := newPods(t)
	old := w.pod(w.edge1, nil)
	w.edge1.Rotate("two")
	w.refusal(w.pod(w.edge1, nil))
	w.report("edge-1", w.edge1)
	if _, _, err := w.Exchange(t.Context(), w.pod(w.edge1, nil)); err != nil {
		t.Errorf("with a key that is reported now: %v", err)
	}
	w.refusal(old)
	w.now = w.now.Add(23 * time.Hour)
	if _, _, err := w.Exchange(t.Context(), w.pod(w.edge1, nil)); err != nil {
		t.Errorf("while the agent is silent: %v", err)
	}
	w.now = w.now.Add(2 * time.Hour)
	if message, _ := w.refusal(w.pod(w.edge1, nil)); !strings.Contains(message, "edge-1, edge-2 cannot be told") {
		t.Errorf("of clusters that nobody has heard from for a day: %s", message)
	}
	w.report("edge-1", w.edge1)
	delete(w.accounts, "edge-2")
	if message, _ := w.refusal(w.pod(w.edge2, nil)); message == "" {
		t.Error("of a cluster whose agent reports no keys")
	}
}

func TestTheLoginOfAPodEndsWithWhatTheFleetSaysOfItsCluster(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*pods)
		want   bool
	}{
		"nothing":                          {func(*pods) {}, true},
		"another cluster leaves":           {func(w *pods) { w.f.Clusters, w.f.Federations = w.f.Clusters[:1], w.f.Federations[:1] }, true},
		"its cluster leaves":               {func(w *pods) { w.f.Clusters, w.f.Federations = w.f.Clusters[1:], w.f.Federations[1:] }, false},
		"another cluster gets its name":    {func(w *pods) { w.f.Clusters[0].Spec.Agent.Auth = "ed25519:second" }, false},
		"its federation names another":     {func(w *pods) { w.f.Federations[0].Spec.Issuer = "cluster/edge-2" }, false},
		"its federation is another user's": {func(w *pods) { w.f.Federations[0].Spec.User = "ada" }, false},
		"its user's logins are ended":      {func(w *pods) { w.f.Users[1].Spec.SessionsAfter = w.now.Add(time.Second).UTC().Format(time.RFC3339) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newPods(t)
			session, who, err := w.Exchange(t.Context(), w.pod(w.edge1, nil))
			if err != nil {
				t.Fatal(err)
			}
			test.change(w)
			w.serve()
			rejected := new(principal.Rejected)
			if got, err := w.Person(w.asks(session)); (err == nil) != test.want || err != nil && !errors.As(err, &rejected) {
				t.Errorf("%+v, %v", got, err)
			}
			if _, err := w.Current(who); (err == nil) != test.want {
				t.Errorf("what is open: %v", err)
			}
		})
	}
}
