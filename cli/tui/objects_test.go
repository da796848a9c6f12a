package tui

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
)

const (
	coreKinds = `{"kind": "APIGroupDiscoveryList", "items": [{"versions": [{"version": "v1", "resources": [
		{"resource": "pods", "responseKind": {"version": "v1", "kind": "Pod"}, "scope": "Namespaced", "singularResource": "pod",
			"verbs": ["get", "list"], "shortNames": ["po"]},
		{"resource": "bindings", "responseKind": {"version": "v1", "kind": "Binding"}, "scope": "Namespaced", "verbs": ["create"]}]}]}]}`
	groupKinds = `{"kind": "APIGroupDiscoveryList", "items": [{"metadata": {"name": "example.com"}, "versions": [{"version": "v1beta1", "resources": [
		{"resource": "widgets", "responseKind": {"group": "example.com", "version": "v1beta1", "kind": "Widget"}, "scope": "Cluster", "singularResource": "widget", "verbs": ["list"], "shortNames": ["wd"]}]}]}]}`
	columnsOfPods = `{"name": "Name", "type": "string", "format": "name"}, {"name": "Ready", "type": "string"}, {"name": "Status", "type": "string"},
		{"name": "Restarts", "type": "integer"}, {"name": "Age", "type": "string"}, {"name": "IP", "type": "string", "priority": 1}`
)

// podRow is a pod in the table that an API server makes of pods.
func podRow(name, ready, status string) string {
	return fmt.Sprintf(`{"cells": [%q, %q, %q, 3, "5d", "10.0.0.1"], "object": {"metadata": {"name": %[1]q, "namespace": "shop", "uid": %[1]q}}}`, name, ready, status)
}

func podTable(rows ...string) string {
	return `{"kind": "Table", "columnDefinitions": [` + columnsOfPods + `], "rows": [` + strings.Join(rows, ",") + `]}`
}

// reaching are answers about a fleet of n clusters, each of which has a pod.
func reaching(n int) map[string]any {
	answers := crashing()
	var clusters []v1.Cluster
	var rows []v1.Deployment
	for i := range n {
		name := fmt.Sprintf("c%02d", i)
		clusters = append(clusters, v1.Cluster{Name: name, Phase: v1.Healthy, Tags: map[string]string{"env": []string{"prod", "dev"}[i%2]}})
		rows = append(rows, v1.Deployment{Cluster: name, Service: "web", Phase: v1.Healthy})
		answers["/k8s/"+name+"/api"], answers["/k8s/"+name+"/apis"] = coreKinds, groupKinds
		answers["/k8s/"+name+"/api/v1/pods"] = podTable(podRow("web-"+name, "1/1", "Running"))
	}
	answers["/v1/clusters"], answers["/v1/deployments"] = list(clusters...), list(rows...)
	answers["/v1/kube/token"] = v1.KubeToken{Token: "k", Expires: today.Add(time.Hour)}
	return answers
}

func TestAnyKindIsListedOnTheClustersThatAreMeant(t *testing.T) {
	elsewhere(t)
	synctest.Test(t, func(t *testing.T) {
		s := open(t, set{hub: newHub(t, reaching(3)), now: clock()})
		s.press("j:pods<enter>")
		screen := s.screen(120, 40)
		lineOf(t, screen, "pods", "/@c01", "1 · as of")
		lineOf(t, screen, "CLUSTER", "NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE")
		lineOf(t, screen, "c01", "shop", "web-c01", "1/1", "Running", "3")
		if strings.Contains(screen, "web-c00") || strings.Contains(screen, "10.0.0.1") {
			t.Errorf("it shows too much:\n%s", screen)
		}
		s.press("<esc>") // the filter goes, and with it the choice of clusters
		s.pass(2 * time.Second)
		for _, name := range []string{"web-c00", "web-c01", "web-c02"} {
			lineOf(t, s.screen(120, 40), name)
		}
		s.press("/env:dev status:running<enter>")
		lineOf(t, s.screen(120, 40), "1 of 3")
		s.press("<esc>:wd @c02<enter>")
		s.shows("› wd", "c02: ") // its cluster says that there is no such list
	})
}

func TestAListOfObjectsIsAskedForAgainWhileItIsLookedAt(t *testing.T) {
	elsewhere(t)
	synctest.Test(t, func(t *testing.T) {
		h := newHub(t, reaching(1))
		s := open(t, set{hub: h, now: clock(), line: "pods"})
		s.shows("web-c00", "Running")
		h.set("/k8s/c00/api/v1/pods", podTable(podRow("web-new", "0/1", "CrashLoopBackOff"), podRow("api", "1/1", "Running")))
		s.pass(7 * time.Second)
		s.shows("web-new", "CrashLoopBackOff", "api")
		if screen := s.screen(120, 40); strings.Contains(screen, "web-c00") {
			t.Errorf("what is gone is shown:\n%s", screen)
		}
		s.press("f")
		s.shows("1 of 2 · faults", "web-new")
		asked := func() int {
			h.mu.Lock()
			defer h.mu.Unlock()
			return strings.Count(strings.Join(h.asked, " "), "/k8s/")
		}
		s.press(":clusters<enter>")
		before := asked()
		s.pass(time.Minute)
		if n := asked() - before; n > 0 {
			t.Errorf("nobody looks, and it asked %d times", n)
		}
	})
}

func TestNotEveryClusterOfALargeFleetIsAskedForObjects(t *testing.T) {
	elsewhere(t)
	synctest.Test(t, func(t *testing.T) {
		h := newHub(t, reaching(20))
		h.set("/k8s/c03/api/v1/pods", refusal(http.StatusForbidden, "ada may not list pods", ""))
		s := open(t, set{hub: h, now: clock(), line: "get pods"})
		s.shows("16 of 20 clusters asked", "web-c15", "c03: ", "ada may not list pods")
		if screen := s.screen(120, 40); strings.Contains(screen, "web-c16") {
			t.Errorf("got\n%s", screen)
		}
		s.press("/@c1*<enter>")
		s.pass(2 * time.Second)
		s.shows("web-c19", "10 · as of")
	})
}

func TestWordsForKindsAreCompletedAndSuggested(t *testing.T) {
	elsewhere(t)
	synctest.Test(t, func(t *testing.T) {
		s := open(t, set{hub: newHub(t, reaching(1)), now: clock()})
		s.press(":po")
		s.shows(":po   tab pods", "poddisruptionbudgets")
		s.press("<esc>:deplyo<enter>")
		s.shows(`there is no view "deplyo"; perhaps :deploy`)
		s.press(":pods<enter>:widg")
		s.shows("tab widgets") // which the cluster said it has
		s.press("<esc>:get nosuch<enter>")
		s.shows(`cluster c00 has no kind "nosuch"`)
	})
}
