package apiproxy_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pluralsh/plural/agent/apiproxy"
	"github.com/pluralsh/plural/test/support/kubetest"
)

// recorded notes the tokens that the agent gets.
type recorded struct {
	next http.RoundTripper

	mu     sync.Mutex
	tokens []string
	failed bool // no token is given out
}

func (r *recorded) RoundTrip(request *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(request.URL.Path, "/serviceaccounts/plural-agent-reach/token") {
		return r.next.RoundTrip(request)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed {
		return nil, errors.New("no route to host")
	}
	answer, err := r.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(answer.Body)
	answer.Body = io.NopCloser(bytes.NewReader(body))
	var said struct{ Status struct{ Token string } }
	if err == nil {
		err = json.Unmarshal(body, &said)
	}
	r.tokens = append(r.tokens, said.Status.Token)
	return answer, err
}

func (r *recorded) fail(failed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = failed
}

func (r *recorded) given() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.tokens)
}

// TestATokenOfTheAccountIsGoodForNobodyButTheFleetsPeople takes a token of the account, and tries to be somebody else with it, at a
// real API server: once as it is installed, and once when people have come, which is all that it can be.
func TestATokenOfTheAccountIsGoodForNobodyButTheFleetsPeople(t *testing.T) {
	kube := kubetest.Start(t)
	o, _ := options(account(t, kube), apiproxy.Policy{})
	o.Account = "plural-agent-reach"
	rt := transport(hub(t, handler(t, o)))
	stolen := token(t, kube, "plural-agent-reach")
	as := func(user string, groups ...string) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
			kube.RESTConfig.Host+"/apis/authentication.k8s.io/v1/selfsubjectreviews",
			strings.NewReader(`{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{
			"Authorization": {"Bearer " + stolen}, "Content-Type": {"application/json"}, "Impersonate-User": {user},
			"Impersonate-Group": groups,
		}
		return do(t, unauthenticated(t, kube.RESTConfig), r).Status
	}
	nobodyElse := func() {
		t.Helper()
		for _, who := range [][]string{
			{"system:admin"},
			{"kubernetes-admin"},
			{"system:kube-controller-manager"},
			{"system:node:node-1", "system:nodes"},
			{"system:serviceaccount:kube-system:clusterrole-aggregation-controller"},
			{"system:serviceaccount:plural-system:plural-agent"},
			{"plural:ana", "system:masters"},
			{"plural:ana", "plural:devs", "system:masters"},
			{"plural:ana", "system:serviceaccounts"},
			{"plural:ana", "plural:operators"},
			{"plural:operator", "plural:operators"},
			{"plural:devs"}, // who is a group
		} {
			if status := as(who[0], who[1:]...); status != http.StatusForbidden {
				t.Errorf("the account can be %q: %d", who, status)
			}
		}
	}
	nobodyElse()
	if status := as("plural:ana", "plural:devs", "plural:oncall"); status != http.StatusForbidden {
		t.Errorf("the account can be somebody who never came: %d", status)
	}
	if got := do(t, rt, ask(t.Context(), t, ana(), http.MethodGet, "/version", "")); got.Status != http.StatusOK {
		t.Fatal(got)
	}
	nobodyElse()
	if status := as("plural:ana", "plural:devs", "plural:oncall"); status != http.StatusCreated {
		t.Errorf("the account cannot be somebody who came: %d", status)
	}
}

// What somebody else has written into the role goes, and what an agent beside this one has written stays.
func TestTheRoleOfTheAccountNamesNobodyButThePeopleWhoCame(t *testing.T) {
	kube := kubetest.Start(t)
	o, _ := options(account(t, kube), apiproxy.Policy{})
	o.Account = "plural-agent-reach"
	role := `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: plural-agent-reach-people}, rules: [
		{apiGroups: [""], resources: [users], resourceNames: ["system:admin", "plural:bob"], verbs: [impersonate]},
		{apiGroups: [""], resources: [groups], verbs: [impersonate]}]}`
	apply(t, kube.Dynamic, role)
	rt := transport(hub(t, handler(t, o)))
	if got := do(t, rt, ask(t.Context(), t, ana(), http.MethodGet, "/version", "")); got.Status != http.StatusOK {
		t.Fatal(got)
	}
	live, err := kube.Dynamic.Resource(schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}).
		Get(t.Context(), "plural-agent-reach-people", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rules, err := json.Marshal(live.Object["rules"])
	want := `[{"apiGroups":[""],"resourceNames":["plural:devs","plural:oncall"],"resources":["groups"],"verbs":["impersonate"]},` +
		`{"apiGroups":[""],"resourceNames":["plural:ana","plural:bob"],"resources":["users"],"verbs":["impersonate"]}]`
	if err != nil || string(rules) != want {
		t.Errorf("the role has %s", rules)
	}
}

func TestTheAccountsTokenEndsSoonAndIsRenewedBefore(t *testing.T) {
	kube := kubetest.Start(t)
	config := account(t, kube)
	seen := &recorded{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		seen.next = next
		return seen
	})
	o, _ := options(config, apiproxy.Policy{})
	now := time.Now()
	o.Account, o.Now = "plural-agent-reach", func() time.Time { return now }
	h := handler(t, o)
	rt := transport(hub(t, h))
	who := ana()
	who.ExpiresUnixMs = now.Add(time.Hour).UnixMilli()
	get := func(after time.Duration) int {
		t.Helper()
		now = now.Add(after)
		return do(t, rt, ask(t.Context(), t, who, http.MethodGet, "/version", "")).Status
	}
	for _, after := range []time.Duration{0, time.Minute, 3 * time.Minute} {
		if status := get(after); status != http.StatusOK {
			t.Fatal(status)
		}
	}
	if n := len(seen.given()); n != 1 {
		t.Errorf("%d tokens in the first minutes", n)
	}
	seen.fail(true)
	if status := get(3 * time.Minute); status != http.StatusOK { // the old one is good until another can be had
		t.Error(status)
	}
	if status := get(4 * time.Minute); status != http.StatusServiceUnavailable {
		t.Errorf("with a token that has ended: %d", status)
	}
	seen.fail(false)
	if status := get(0); status != http.StatusOK {
		t.Error(status)
	}
	if n := len(seen.given()); n != 2 {
		t.Errorf("%d tokens in the end", n)
	}
	for _, token := range seen.given() {
		claims, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
		if err != nil {
			t.Fatal(err)
		}
		var life struct{ Iat, Exp int64 }
		if err := json.Unmarshal(claims, &life); err != nil || life.Exp-life.Iat > 600 || life.Exp <= life.Iat {
			t.Errorf("the token is good for %d s: %v", life.Exp-life.Iat, err)
		}
	}
	secrets, err := kube.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace("plural-system").
		List(t.Context(), metav1.ListOptions{FieldSelector: "type=kubernetes.io/service-account-token"})
	if err != nil {
		t.Fatal(err)
	}
	if len(secrets.Items) > 0 {
		t.Errorf("there are tokens without an end: %d", len(secrets.Items))
	}
}
