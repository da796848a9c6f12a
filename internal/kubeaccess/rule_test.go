package kubeaccess_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/pluralsh/plural/internal/kubeaccess"
)

func parse(t *testing.T, line string, header http.Header) kubeaccess.Request {
	t.Helper()
	method, target, _ := strings.Cut(line, " ")
	q, err := kubeaccess.Parse(method, target, header)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func TestRuleAllowsWhatItNamesAndNothingElse(t *testing.T) {
	const web = "/api/v1/namespaces/shop/pods/web"
	read := kubeaccess.Rule{Verbs: []string{"get", "list", "watch"}, Resources: []string{"*"}}
	all := kubeaccess.Rule{Verbs: []string{"*"}, Resources: []string{"*"}}
	everything := kubeaccess.Rule{Verbs: []string{"*"}, Resources: []string{"*/*"}}
	shop := kubeaccess.Rule{Verbs: []string{"get", "list"}, Resources: []string{"pods", "pods/log"}, Namespaces: []string{"shop"}, APIGroups: []string{""}}
	tests := []struct {
		rule kubeaccess.Rule
		line string
		want bool
	}{
		{kubeaccess.Rule{}, "GET " + web, false},
		{read, "GET " + web, true},
		{read, "GET " + web + "/log", true},
		{read, "GET /api/v1/pods?watch=1", true},
		{read, "DELETE " + web, false},
		{read, "GET " + web + "/exec", false},
		{read, "GET /metrics", false},
		{all, "DELETE " + web, true},
		{all, "PATCH " + web + "/status", true},
		{shop, "GET " + web, true},
		{shop, "GET " + web + "/log", true},
		{shop, "GET " + web + "/status", false},
		{shop, "GET /api/v1/pods", false},
		{shop, "GET /api/v1/namespaces/other/pods", false},
		{shop, "GET /api/v1/namespaces/shop", false},
		{shop, "GET /apis/metrics.k8s.io/v1beta1/namespaces/shop/pods", false},
		{kubeaccess.Rule{Verbs: []string{"get"}, Resources: []string{"pods/exec"}}, "GET " + web + "/exec", false},
		{kubeaccess.Rule{Verbs: []string{"create"}, Resources: []string{"pods/exec"}}, "GET " + web + "/exec", true},
		{kubeaccess.Rule{Verbs: []string{"create"}, Resources: []string{"pods/*"}}, "POST " + web + "/attach", true},
		{kubeaccess.Rule{Verbs: []string{"update"}, Resources: []string{"*/scale"}}, "PUT /apis/apps/v1/namespaces/shop/deployments/web/scale", true},
		{kubeaccess.Rule{Verbs: []string{"update"}, Resources: []string{"*/scale"}}, "PUT /apis/apps/v1/namespaces/shop/deployments/web", false},
		{kubeaccess.Rule{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}}, "GET /metrics", true},
		{kubeaccess.Rule{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}}, "GET /metrics/slis", false},
		{kubeaccess.Rule{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics/*"}}, "GET /metrics/slis", true},
		{kubeaccess.Rule{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}}, "GET " + web, false},
		{everything, "POST " + web + "/exec", true},
		{everything, "GET /api/v1/nodes/n/proxy/pods", true},
		{everything, "POST " + web + "/eviction", true},
	}
	for _, test := range tests {
		q := parse(t, test.line, nil)
		if got := test.rule.Allows(&q); got != test.want {
			t.Errorf("%+v allows %s = %v", test.rule, test.line, got)
		}
	}
}

// U6: a role that may read, or even one that may do anything to any resource, opens no connection unless it names it.
func TestWhatOpensAConnectionHasToBeNamed(t *testing.T) {
	const web = "/api/v1/namespaces/shop/pods/web"
	rules := []kubeaccess.Rule{
		{Verbs: []string{"get", "list", "watch"}, Resources: []string{"*"}},
		{Verbs: []string{"*"}, Resources: []string{"*", "pods", "nodes", "services", "serviceaccounts"}, NonResourceURLs: []string{"*"}},
	}
	for _, line := range []string{
		"GET " + web + "/exec", "POST " + web + "/exec?command=sh", "GET " + web + "/attach", "GET " + web + "/portforward?ports=80", "GET " + web + "/proxy",
		"GET " + web + "/proxy/metrics", "HEAD " + web + "/proxy/metrics", "GET /api/v1/nodes/n1/proxy/run/shop/web/sh", "GET /api/v1/namespaces/shop/services/db:80/proxy/",
		"GET /api/v1/proxy/nodes/n1", "PATCH " + web + "/ephemeralcontainers", "GET " + web + "/ephemeralcontainers",
		"POST /api/v1/namespaces/shop/serviceaccounts/default/token", "POST " + web + "/eviction",
	} {
		for _, header := range []http.Header{nil, websocket} {
			q := parse(t, line, header)
			for _, rule := range rules {
				if rule.Allows(&q) || kubeaccess.Discovery(q) {
					t.Errorf("%s (upgrade %v) is allowed by %+v", line, header != nil, rule)
				}
			}
		}
	}
}

func TestDiscoveryChangesNothing(t *testing.T) {
	tests := map[string]bool{
		"GET /api": true, "GET /api/v1": true, "GET /apis": true, "GET /apis/": true, "GET /apis/apps/v1": true, "HEAD /version": true,
		"GET /openapi/v3/apis/apps/v1": true, "GET /healthz": true, "GET /livez/ping": true, "GET /readyz?verbose": true,
		"POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews": true, "POST /apis/authentication.k8s.io/v1/selfsubjectreviews": true,
		"POST /apis/authorization.k8s.io/v1/subjectaccessreviews": false, "POST /apis/apps/v1/selfsubjectaccessreviews": false,
		"POST /api/v1": false, "GET /apisx": false, "GET /": false, "GET /metrics": false, "GET /logs/": false, "GET /api/v1/pods": false,
		"DELETE /healthz": false, "GET /apis/apps/v1/deployments": false,
	}
	for line, want := range tests {
		if got := kubeaccess.Discovery(parse(t, line, nil)); got != want {
			t.Errorf("Discovery(%s) = %v", line, got)
		}
	}
}

func TestARequestInWordsIsFitToBePrinted(t *testing.T) {
	tests := map[string]string{
		"POST /api/v1/namespaces/shop/pods/web/exec":        `create pods/exec "web" in namespace "shop"`,
		"GET /apis/apps/v1/deployments":                     "list deployments of apps",
		"DELETE /metrics":                                   `delete path "/metrics"`,
		"GET /apis/%E2%80%AEa/v1/p%20o/%E2%80%AEb/%1Fx":     "",
		"GET /apis/g/v1/p%20o%E2%80%AE/%E2%80%AEb/x%22y%20": `get "p o\u202e"/"x\"y " of g "\u202eb"`,
	}
	for line, want := range tests {
		method, target, _ := strings.Cut(line, " ")
		q, err := kubeaccess.Parse(method, target, nil)
		if want == "" {
			if err == nil {
				t.Errorf("%s is taken", line)
			}
			continue
		}
		if got := q.Describe(); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", line, got, err, want)
		}
	}
}

// An upgrade asks for a connection: no question that every client asks before anything needs one, and behind the front door of
// an aggregated API is a server of somebody else's, which may agree to it.
func TestAnUpgradeIsNeitherDiscoveryNorReading(t *testing.T) {
	reading := kubeaccess.Rule{Verbs: []string{"get", "head"}, NonResourceURLs: []string{"*"}}
	for _, line := range []string{
		"GET /apis/metrics.k8s.io/v1beta1", "HEAD /apis/metrics.k8s.io/v1beta1", "GET /api", "GET /openapi/v3", "GET /healthz", "GET /metrics",
		"POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
	} {
		q := parse(t, line, websocket)
		if kubeaccess.Discovery(q) || reading.Allows(&q) || q.Verb == "get" || q.Verb == "head" {
			t.Errorf("%s as an upgrade is taken for %s", line, q.Verb)
		}
		if q := parse(t, line, nil); !kubeaccess.Discovery(q) && !reading.Allows(&q) {
			t.Errorf("%s is not allowed any more", line)
		}
	}
	opens := kubeaccess.Rule{Verbs: []string{"create"}, NonResourceURLs: []string{"/apis/metrics.k8s.io/*"}}
	upgraded := parse(t, "GET /apis/metrics.k8s.io/v1beta1", websocket)
	if !opens.Allows(&upgraded) {
		t.Error("a rule that names it does not allow it")
	}
}
