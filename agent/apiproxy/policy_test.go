package apiproxy_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/agent/apiproxy"
	"github.com/pluralsh/plural/internal/kubeaccess"
)

// TestThePolicyNarrows holds modes and rules to requests, also to those that look like reading (U6). What passes is the API server's.
func TestThePolicyNarrows(t *testing.T) {
	o, policy := options(server(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }), apiproxy.Policy{})
	rt := transport(hub(t, handler(t, o)))
	ns := "/api/v1/namespaces/shop"
	readers := apiproxy.Rule{Groups: []string{"plural:devs"}, Rule: kubeaccess.Rule{
		Verbs: []string{"get", "list", "watch"}, Resources: []string{"*"}, Namespaces: []string{"shop"},
	}}
	others := apiproxy.Rule{Users: []string{"plural:bob"}, Rule: kubeaccess.Rule{Verbs: []string{"*"}, Resources: []string{"*/*"}}}
	for _, tt := range []struct {
		method, target string
		// passes names the policies that let it through.
		passes string
	}{
		{"GET", ns + "/pods", "full read-only rules"},
		{"GET", ns + "/pods/web", "full read-only rules"},
		{"GET", ns + "/pods?watch=true", "full read-only rules"},
		{"GET", ns + "/pods/web/log?follow=true", "full read-only rules"},
		{"GET", "/api/v1/namespaces/bank/pods", "full read-only"},
		{"GET", "/api/v1/pods", "full read-only"},
		{"GET", "/metrics", "full read-only"},
		{"GET", "/api", "full read-only rules"},
		{"GET", "/apis/apps/v1", "full read-only rules"},
		{"GET", "/openapi/v3", "full read-only rules"},
		{"GET", "/version", "full read-only rules"},
		{"POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "full read-only rules"},
		{"POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", "full"},
		{"POST", ns + "/pods", "full"},
		{"PUT", ns + "/pods/web", "full"},
		{"PATCH", ns + "/pods/web", "full"},
		{"DELETE", ns + "/pods/web", "full"},
		{"DELETE", ns + "/pods", "full"},
		{"GET", ns + "/pods/web/exec?command=sh", "full"},
		{"POST", ns + "/pods/web/exec?command=sh", "full"},
		{"GET", ns + "/pods/web/attach", "full"},
		{"GET", ns + "/pods/web/portforward", "full"},
		{"GET", ns + "/pods/web/proxy/x", "full"},
		{"GET", ns + "/services/web/proxy/", "full"},
		{"GET", "/api/v1/nodes/n/proxy/run/x", "full"},
		{"GET", "/api/v1/proxy/nodes/n", "full"},
		{"PATCH", ns + "/pods/web/ephemeralcontainers", "full"},
		{"POST", ns + "/pods/web/eviction", "full"},
		{"POST", ns + "/serviceaccounts/default/token", "full"},
	} {
		for name, p := range map[string]apiproxy.Policy{
			"full": {Mode: apiproxy.Full}, "read-only": {Mode: apiproxy.ReadOnly}, "off": {Mode: apiproxy.Off},
			"rules": {Mode: apiproxy.Full, Rules: []apiproxy.Rule{others, readers}}, "nonsense": {Mode: "rea-donly"},
		} {
			policy.Store(&p)
			got := do(t, rt, ask(t.Context(), t, ana(), tt.method, tt.target, ""))
			passes := strings.Contains(" "+tt.passes+" ", " "+name+" ") || name == "nonsense" && tt.passes == "full read-only rules" && isDiscovery(t, tt.method, tt.target)
			if want := map[bool]int{true: http.StatusTeapot, false: http.StatusForbidden}[passes]; got.Status != want {
				t.Errorf("%s: %s %s: %d", name, tt.method, tt.target, got.Status)
			}
			if s := got; s.Status == http.StatusForbidden && !strings.Contains(s.status(t).Message, "plural-system/plural-agent-reach") {
				t.Errorf("%s: the message does not say whose policy it is: %s", name, s.Body)
			}
		}
	}
}

func isDiscovery(t *testing.T, method, target string) bool {
	t.Helper()
	q, err := kubeaccess.Parse(method, target, nil)
	if err != nil {
		t.Fatal(err)
	}
	return kubeaccess.Discovery(q)
}

func TestAPolicyIsReadStrictly(t *testing.T) {
	got, err := apiproxy.ParsePolicy(map[string]string{"mode": " read-only\n", "rules": "- users: [\"plural:ana\"]\n  verbs: [get]\n  resources: [pods]\n"})
	want := apiproxy.Policy{Mode: apiproxy.ReadOnly, Rules: []apiproxy.Rule{{
		Users: []string{"plural:ana"}, Rule: kubeaccess.Rule{Verbs: []string{"get"}, Resources: []string{"pods"}},
	}}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	if got, err := apiproxy.ParsePolicy(nil); err != nil || got.Mode != apiproxy.Full {
		t.Errorf("nothing said: %v, %v", got, err)
	}
	for name, data := range map[string]map[string]string{
		"unknown key": {"modus": "off"}, "unknown mode": {"mode": "readonly"}, "no list": {"rules": "verbs: [get]"},
		"unknown field": {"rules": "- verbs: [get]\n  resource: [pods]"}, "duplicate field": {"rules": "- verbs: [get]\n  verbs: [list]\n  resources: [pods]"},
		"no verbs": {"rules": "- resources: [pods]"}, "no resources": {"rules": "- verbs: [get]"}, "empty list": {"rules": "[]"}, "null": {"rules": "null"},
		"bomb": {"rules": "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: [*b,*b,*b,*b,*b,*b,*b,*b,*b]"},
	} {
		p, err := apiproxy.ParsePolicy(data)
		e, ok := errors.AsType[*apiproxy.PolicyError](err)
		if !ok || e.Fix == "" || !strings.Contains(err.Error(), "plural-system/plural-agent-reach") || p.Mode != "" {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
}

func FuzzPolicy(f *testing.F) {
	f.Add("read-only", "- verbs: [get]\n  resources: [pods]\n")
	f.Add("", "- {groups: [\"plural:x\"], verbs: [\"*\"], nonResourceURLs: [/metrics]}")
	f.Fuzz(func(t *testing.T, mode, rules string) {
		p, err := apiproxy.ParsePolicy(map[string]string{"mode": mode, "rules": rules})
		if err == nil && (p.Mode == "" || strings.TrimSpace(rules) != "" && len(p.Rules) == 0) {
			t.Errorf("%q %q is read as %v", mode, rules, p)
		}
	})
}
