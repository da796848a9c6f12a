package kubeaccess_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pluralsh/plural/internal/kubeaccess"
)

var websocket = http.Header{"Connection": {"keep-alive, Upgrade"}, "Upgrade": {"websocket"}}

func TestRequestIsReadAsTheAPIServerReadsIt(t *testing.T) {
	const pods = "/api/v1/namespaces/shop/pods"
	tests := map[string]kubeaccess.Request{
		"GET /":                           {Verb: "get", Path: "/"},
		"HEAD /healthz":                   {Verb: "head", Path: "/healthz"},
		"POST /apis/apps/v1":              {Verb: "post", Path: "/apis/apps/v1"},
		"GET " + pods:                     {Verb: "list", Resource: true, Version: "v1", Kind: "pods", Namespace: "shop", Path: pods},
		"HEAD " + pods + "/web":           {Verb: "get", Resource: true, Version: "v1", Kind: "pods", Namespace: "shop", Name: "web", Path: pods + "/web"},
		"OPTIONS " + pods:                 {Verb: "options", Resource: true, Version: "v1", Kind: "pods", Namespace: "shop", Path: pods},
		"GET " + pods + "/":               {Verb: "list", Resource: true, Version: "v1", Kind: "pods", Namespace: "shop", Path: pods + "/"},
		"GET " + pods + "?watch":          {Verb: "watch", Resource: true, Version: "v1", Kind: "pods", Namespace: "shop", Path: pods, Endless: true},
		"GET " + pods + "?watch=False":    {Verb: "list", Resource: true, Version: "v1", Kind: "pods", Namespace: "shop", Path: pods},
		"GET " + pods + "?watch=0&watch=": {Verb: "list", Resource: true, Version: "v1", Kind: "pods", Namespace: "shop", Path: pods},
		"GET " + pods + "?limit=x&watch=1": {
			Verb: "watch", Resource: true, Version: "v1", Kind: "pods", Namespace: "shop", Path: pods,
			Endless: true,
		},
		"GET " + pods + "/web?watch=1": {
			Verb: "get", Resource: true, Version: "v1", Kind: "pods", Namespace: "shop", Name: "web",
			Path: pods + "/web",
		},
		"GET " + pods + "/web/log?follow=true": {
			Verb: "get", Resource: true, Version: "v1", Kind: "pods", Subresource: "log",
			Namespace: "shop", Name: "web", Path: pods + "/web/log", Endless: true,
		},
		"GET " + pods + "/web/exec?command=sh": {
			Verb: "create", Resource: true, Version: "v1", Kind: "pods", Subresource: "exec",
			Namespace: "shop", Name: "web", Path: pods + "/web/exec",
		},
		"DELETE " + pods + "/web/proxy/a/b": {
			Verb: "create", Resource: true, Version: "v1", Kind: "pods", Subresource: "proxy",
			Namespace: "shop", Name: "web", Path: pods + "/web/proxy/a/b", Endless: true,
		},
		"GET /api/v1/proxy/nodes/n1": {
			Verb: "create", Resource: true, Version: "v1", Kind: "nodes", Subresource: "proxy",
			Name: "n1", Path: "/api/v1/proxy/nodes/n1", Endless: true,
		},
		"GET /api/v1/watch/namespaces/shop/pods/web": {
			Verb: "watch", Resource: true, Version: "v1", Kind: "pods", Namespace: "shop",
			Name: "web", Path: "/api/v1/watch/namespaces/shop/pods/web", Endless: true,
		},
		"GET /apis/apps/v1/deployments?fieldSelector=metadata.name%3Dweb": {
			Verb: "list", Resource: true, Group: "apps", Version: "v1",
			Kind: "deployments", Name: "web", Path: "/apis/apps/v1/deployments",
		},
		"DELETE /api/v1/namespaces/shop": {
			Verb: "delete", Resource: true, Version: "v1", Kind: "namespaces", Namespace: "shop",
			Name: "shop", Path: "/api/v1/namespaces/shop",
		},
		"PUT /api/v1/namespaces/shop/finalize": {
			Verb: "update", Resource: true, Version: "v1", Kind: "namespaces",
			Subresource: "finalize", Namespace: "shop", Name: "shop", Path: "/api/v1/namespaces/shop/finalize",
		},
		"GET /apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode": {
			Verb: "get", Resource: true,
			Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "clusterroles", Name: "system:node",
			Path: "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node",
		},
	}
	for line, want := range tests {
		method, target, _ := strings.Cut(line, " ")
		if got, err := kubeaccess.Parse(method, target, nil); err != nil || got != want {
			t.Errorf("%s:\n got %+v, %v\nwant %+v", line, got, err, want)
		}
	}
}

func TestUpgradeOpensAConnectionUnlessItWatches(t *testing.T) {
	const vm = "/apis/subresources.kubevirt.io/v1/namespaces/shop/virtualmachineinstances/vm/console"
	tests := map[string]string{
		"GET /api/v1/pods?watch=1":                        "watch",
		"GET /api/v1/namespaces/shop/pods/web/log":        "get",
		"GET /api/v1/namespaces/shop/pods/web":            "get",
		"GET /api/v1/namespaces/shop/pods/web/attach":     "create",
		"POST /api/v1/namespaces/shop/pods/w/portforward": "create",
		"GET " + vm: "create",
		// An upgrade must not turn one verb into another that a person may have.
		"PATCH /api/v1/namespaces/shop/pods/web/status": "patch",
	}
	for line, want := range tests {
		method, target, _ := strings.Cut(line, " ")
		got, err := kubeaccess.Parse(method, target, websocket)
		if err != nil || got.Verb != want || !got.Upgrade {
			t.Errorf("%s: verb %q, upgrade %v, %v; want %q", line, got.Verb, got.Upgrade, err, want)
		}
	}
	for _, header := range []http.Header{{"Upgrade": {"websocket"}}, {"Connection": {"Upgrade"}}, {"Connection": {"no-upgrade"}, "Upgrade": {"x"}}} {
		if got, err := kubeaccess.Parse("GET", vm, header); err != nil || got.Upgrade {
			t.Errorf("%v: upgrade %v, %v", header, got.Upgrade, err)
		}
	}
}

func TestTargetThatCanBeReadInTwoWaysIsRefused(t *testing.T) {
	for _, target := range []string{
		"", "?watch=1", "api/v1", "*", "http://other/api", "//api/v1", "/api//v1/pods", "/api/v1/pods//", "/./api", "/api/v1/..", "/api/v1/../../x",
		"/api/v1/%2e%2e/x", "/api/v1/.%2E/x", "/api/v1/%2e", "/api/v1/namespaces/a%2fb", "/api/v1/a%5Cb", "/api/v1/a\\b", "/api/v1/a;b", "/api/v1/a%3bb",
		"/api/v1/a%00b", "/api/v1/a%0d%0aX:", "/api/v1/a\r\nb", "/api/v1/a b", "/api/v1/a%252e", "/api/v1/%zz", "/api/v1/%2", "/api/v1/\x7f", "/api/v1/\xff",
		"/api/v1/%ff", "/api/v1/pods#x", "/api/v1/pods?watch=1;limit=1", "/api/v1/pods?a=%zz", "/api/v1/watch", "/apis/apps/v1/proxy/",
		"/api/v1/pods?x=" + strings.Repeat("y", kubeaccess.MaxTarget),
	} {
		got, err := kubeaccess.Parse("GET", target, nil)
		var bad *kubeaccess.PathError
		if !errors.As(err, &bad) || bad.Cause == "" || bad.Fix == "" || len(bad.Error()) > 400 {
			t.Errorf("%.80q: %+v, %v", target, got, err)
		}
	}
	for _, method := range []string{"", "CONNECT", "TRACE", "get", "GET\r\n", strings.Repeat("X", 5000)} {
		if _, err := kubeaccess.Parse(method, "/api/v1/pods", nil); err == nil || len(err.Error()) > 400 {
			t.Errorf("method %.20q: %v", method, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, target := range []string{"/api/v1/namespaces/a/pods/b/exec?command=sh", "/apis/apps/v1/watch/deployments", "/api/%2e%2e/v1", "/a?b;c"} {
		f.Add("GET", target, true)
	}
	f.Fuzz(func(t *testing.T, method, target string, upgrade bool) {
		var header http.Header
		if upgrade {
			header = websocket
		}
		q, err := kubeaccess.Parse(method, target, header)
		if err != nil {
			return
		}
		if q.Path[0] != '/' || strings.Contains(q.Path, "//") || strings.Contains(q.Path+"/", "/../") || strings.ContainsAny(q.Path, "\\;\x00\r\n") ||
			!utf8.ValidString(q.Path) || strings.Contains(q.Name+q.Kind+q.Namespace, "/") || q.Resource && q.Kind == "" {
			t.Errorf("%q gave %+v", target, q)
		}
	})
}
