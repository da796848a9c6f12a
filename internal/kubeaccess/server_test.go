package kubeaccess_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/internal/kubeaccess"
	"github.com/pluralsh/plural/test/support/kubetest"
)

// The words with which an API server refuses somebody who may do nothing say how it read the request.
func TestAPIServerReadsTheSameVerbResourceAndPlace(t *testing.T) {
	config := rest.CopyConfig(kubetest.Start(t).RESTConfig)
	config.Impersonate = rest.ImpersonationConfig{UserName: "nobody", Groups: []string{"nothing"}}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	const web = "/api/v1/namespaces/shop/pods/web"
	for _, line := range []string{
		"GET /api/v1/pods", "GET /api/v1/pods/", "GET /api/v1/pods?watch", "GET /api/v1/pods?watch=true", "GET /api/v1/pods?watch=FALSE", "GET /api/v1/pods?watch=0&watch=1",
		"GET /api/v1/pods?limit=much&watch=1", "GET /api/v1/watch/pods", "GET /api/v1/watch/namespaces/shop/pods/web", "DELETE /api/v1/watch/namespaces/shop/pods",
		"GET /api/v1/namespaces/shop/pods", "POST /api/v1/namespaces/shop/pods", "DELETE /api/v1/namespaces/shop/pods", "DELETE /api/v1/namespaces/shop/pods/",
		"GET /api/v1/namespaces/shop/pods?fieldSelector=metadata.name%3Dweb", "GET /api/v1/pods?fieldSelector=metadata.name%21%3Dweb",
		"GET " + web, "HEAD " + web, "PUT " + web, "PATCH " + web, "DELETE " + web, "GET " + web + "?watch=1", "GET " + web + "/log", "GET " + web + "/log?follow=1",
		"PUT " + web + "/status", "POST " + web + "/eviction", "POST " + web + "/binding", "PATCH " + web + "/ephemeralcontainers", "POST " + web + "/exec?command=ls",
		"POST " + web + "/attach", "POST " + web + "/portforward", "POST " + web + "/proxy/a/b/c", "GET " + web + "/unknown/a/b",
		"GET /api/v1/namespaces", "GET /api/v1/namespaces/shop", "DELETE /api/v1/namespaces/shop", "PUT /api/v1/namespaces/shop/finalize", "PATCH /api/v1/namespaces/shop/status",
		"GET /api/v1/namespaces/shop/finalize/x", "GET /api/v1/nodes/n1", "GET /api/v1/nodes/n1/status", "POST /api/v1/nodes/n1/proxy/run",
		"POST /api/v1/namespaces/shop/services/https:db:80/proxy/x", "POST /api/v1/namespaces/shop/serviceaccounts/default/token",
		"GET /apis/apps/v1/namespaces/shop/deployments/web/scale", "DELETE /apis/apps/v1/deployments", "GET /apis/no.such.group/v9/things/x",
		"GET /apis/rbac.authorization.k8s.io/v1/clusterroles/system:node", "GET /apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
		"GET /metrics", "POST /metrics", "HEAD /metrics", "POST /apis/apps", "DELETE /api/v1", "GET /", "GET /logs/x", "POST /apis/apps/v1/",
	} {
		method, target, _ := strings.Cut(line, " ")
		want := refusal(t, client, config.Host, method, target)
		q, err := kubeaccess.Parse(method, target, nil)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if got := words(q); got != want {
			t.Errorf("%s:\n read here as   %s\n by the server  %s", line, got, want)
		}
	}
}

// refusal is what the API server says that nobody may do.
func refusal(t *testing.T, client *http.Client, host, method, target string) string {
	t.Helper()
	asked := method
	if method == http.MethodHead {
		asked = http.MethodGet // a HEAD has no answer to read; the server takes resources' for the same
	}
	request, err := http.NewRequestWithContext(t.Context(), asked, host+target, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var status metav1.Status
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err != nil || json.Unmarshal(text, &status) != nil || status.Code != http.StatusForbidden {
		t.Fatalf("%s %s: %d, %v: %.300s", method, target, answer.StatusCode, err, text)
	}
	if method == http.MethodHead && !strings.Contains(status.Message, "resource") {
		return strings.Replace(status.Message, `cannot get path`, `cannot head path`, 1)
	}
	return status.Message
}

// words are the API server's, for the same request.
func words(q kubeaccess.Request) string {
	if !q.Resource {
		return fmt.Sprintf(`forbidden: User "nobody" cannot %s path %q`, q.Verb, q.Path)
	}
	resource, subject := q.Kind, q.Kind
	if q.Subresource != "" {
		resource += "/" + q.Subresource
	}
	if q.Group != "" {
		subject += "." + q.Group
	}
	if q.Name != "" {
		subject += fmt.Sprintf(" %q", q.Name)
	}
	place := "at the cluster scope"
	if q.Namespace != "" {
		place = fmt.Sprintf("in the namespace %q", q.Namespace)
	}
	return fmt.Sprintf(`%s is forbidden: User "nobody" cannot %s resource %q in API group %q %s`, subject, q.Verb, resource, q.Group, place)
}
