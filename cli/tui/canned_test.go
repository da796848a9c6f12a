package tui

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/test/support/needs"
	"github.com/pluralsh/plural/workspace"
)

func ago(d time.Duration) *time.Time { return new(today.Add(-d)) }

const (
	head     = "3f2c91a4d0c3bb1d6f5a91e9a6f9e9a1c7b2d3e4"
	upstream = "c81e728d9d4c2f636f067f89cc14862c0a1b2c3d"
	// hostile is what somebody may have called something: a title for the window, a colour, a direction mark, a line break.
	hostile = "\x1b]0;owned\x07\x1b[31mred\u202egpj.exe\r\nnext 世界"
)

// longest is a name as long as they can be.
var longest = "edge-" + strings.Repeat("very-", 49) + "xyz"

// fleet are answers about a fleet with something of everything.
func fleet() map[string]any {
	var clusters []v1.Cluster
	var rows []v1.Deployment
	regions := []string{"ap", "eu", "us"}
	for i := range 12 {
		c := v1.Cluster{
			Name: fmt.Sprintf("edge-%s-%02d", regions[i%3], i), Phase: v1.Healthy, Services: 6, Ready: 6, KubernetesVersion: "v1.35.1",
			AgentVersion: "0.3.1", LastReport: ago(time.Duration(i) * time.Second),
			Tags: map[string]string{"env": []string{"prod", "dev"}[i%2], "region": regions[i%3]},
		}
		switch i {
		case 3:
			c.Phase, c.LastReport, c.Ready, c.Message = v1.Stale, ago(7*time.Minute), 0, "no report for 7 minutes"
		case 5:
			c.Phase, c.Ready, c.Message = v1.Degraded, 5, "payments: Deployment web: 1 of 3 replicas are ready"
		case 6:
			c.Phase, c.Ready, c.Message = v1.Failed, 5, "payments: values.yaml:14: "+hostile
		case 7:
			c.Phase, c.Ready = v1.Progressing, 5
		case 8:
			c.Phase, c.LastReport, c.KubernetesVersion, c.AgentVersion, c.Ready = v1.Unregistered, nil, "", "", 0
			c.Message = "plural cluster register edge-us-08 puts an agent into it"
		case 9:
			c.Held = &v1.Waiting{Token: "t0k3n", Count: 2, Names: []string{"old-blog", "old-shop"}, Message: "2 services would be removed"}
			c.Phase, c.Ready = v1.Held, 5
		case 11:
			c.Name = longest
		}
		clusters = append(clusters, c)
		for s, name := range []string{"cert-manager", "ingress", "payments", "podinfo", "search", "zz-日本語"} {
			d := v1.Deployment{
				Cluster: c.Name, Service: name, Phase: v1.Healthy, Version: "1.2." + fmt.Sprint(s), Objects: 4 + s, Ready: 4 + s,
				Key: "k1", AppliedKey: "k1",
			}
			switch {
			case i == 3:
				d.Phase = v1.Stale
			case i == 5 && s == 2:
				d = payments()
			case i == 6 && s == 2:
				d.Phase, d.Ready, d.Message = v1.Failed, 0, "values.yaml:14: unknown field "+hostile
			case i == 7 && s == 4:
				d.Phase, d.Ready, d.Version = v1.Progressing, 3, "2.0.0-rc.14+build.20260314"
			case i == 8:
				d.Phase, d.Ready = v1.Unregistered, 0
			case i == 9 && s == 0:
				d.Phase, d.Held = v1.Held, &v1.Waiting{Token: "t0k3n", Count: 2, Names: []string{"ConfigMap a", "ConfigMap b"}}
			case i == 10 && s == 1:
				d.Suspended = true
			}
			rows = append(rows, d)
		}
	}
	services := []v1.Service{
		{
			Name: "cert-manager", Phase: v1.Held, Source: "jetstack", Ref: ">=1.14 <2", Path: ".", Renderer: "helm", Namespace: "cert-manager",
			Clusters: 12, Ready: 9, Commit: upstream,
		},
		{
			Name: "ingress", Phase: v1.Healthy, Source: ".", Path: "apps/ingress", Renderer: "kustomize", Namespace: "ingress", Clusters: 12,
			Ready: 10, Commit: head, Suspended: true,
		},
		{
			Name: "payments", Phase: v1.Failed, Source: ".", Path: "apps/payments", Renderer: "kustomize", Namespace: "payments", Clusters: 12,
			Ready: 8, Commit: head, Message: "edge-ap-06: values.yaml:14: unknown field",
		},
		{
			Name: "podinfo", Phase: v1.Healthy, Source: "podinfo", Ref: "6.7.0", Path: "kustomize", Renderer: "kustomize", Namespace: "podinfo",
			Clusters: 12, Ready: 10, Commit: upstream,
		},
		{
			Name: "search", Phase: v1.Progressing, Source: ".", Path: "apps/search", Renderer: "raw", Namespace: "search", Clusters: 12,
			Ready: 9, Commit: head,
		},
		{Name: "zz-日本語", Phase: v1.Healthy, Source: ".", Path: "apps/zz", Renderer: "raw", Namespace: "zz", Clusters: 12, Ready: 10, Commit: head},
	}
	sources := []v1.Source{
		{
			Name: ".", Kind: "git", URL: "https://git.example.com/fleet.git", Ref: "main", Commit: head, LastFetch: ago(41 * time.Second),
			Age: 41, Fetches: 900,
		},
		{
			Name: "jetstack", Kind: "helm", URL: "https://charts.jetstack.io", Commit: upstream, LastFetch: ago(time.Hour), Age: 3700, Fetches: 40,
			Failures: 12, Error: "GET https://charts.jetstack.io/index.yaml: 503 Service Unavailable",
			Refs: []v1.SourceRef{{Ref: ">=1.14 <2", Commit: upstream, Revision: "1.14.2"}},
		},
		{
			Name: "podinfo", Kind: "git", URL: "https://github.com/stefanprodan/podinfo", Ref: "6.7.0", Commit: upstream,
			LastFetch: ago(2 * time.Minute), Age: 120, Fetches: 31,
		},
		{Name: "private", Kind: "oci", URL: "oci://registry.example.com/app"},
	}
	upgrades := []v1.Upgrade{
		{
			Installation: "cert-manager", Package: "cert-manager", Catalog: "plural", Version: "1.14.2", Newest: "1.15.0", Policy: "manual",
			State: v1.UpgradeAvailable, Reasons: []v1.UpgradeReason{{
				Code: v1.ReasonManual, Message: "upgrades are left to people", Fix: "plural package upgrade cert-manager",
			}},
		},
		{Installation: "hub", Package: "hub", Catalog: "plural", Version: "0.3.1", Policy: "minor", State: v1.UpgradeCurrent},
		{
			Installation: "monitoring", Package: "prometheus", Catalog: "oci://registry.example.com/packages", Version: "2.1.0", Newest: "2.2.0",
			Target: "2.2.0", Policy: "patch", State: v1.UpgradeBlocked,
			Reasons: []v1.UpgradeReason{{Code: v1.ReasonPolicy, Message: "the step is larger than patch"}},
		},
		{
			Installation: "redis", Package: "redis", Catalog: "plural", Version: "7.0.1", Newest: "7.0.2", Target: "7.0.2", Policy: "patch",
			State: v1.UpgradeRolling,
		},
	}
	events := []v1.Event{
		{
			Time: *ago(3 * time.Second), Cluster: "edge-us-05", Service: "payments", Reason: "Degraded", Warning: true,
			Message: "Deployment web: 1 of 3 replicas are ready",
		},
		{Time: *ago(4 * time.Second), Cluster: "edge-us-05", Service: "payments", Reason: "Applied", Message: "commit 3f2c91a"},
		{Time: *ago(7 * time.Minute), Cluster: "edge-ap-03", Reason: "Silent", Warning: true, Message: "no report for three beats"},
		{Time: *ago(50 * time.Hour), Service: "search", Reason: "Held", Warning: true, Message: "a chart that cannot be fetched " + hostile},
		{Time: *ago(51 * time.Hour), Reason: "Commit", Message: "Raise the replicas of payments"},
	}
	summary := v1.Summary{
		Commit:   v1.Commit{ID: head, Subject: "Raise the replicas of payments", Author: "Ada", Time: ago(41 * time.Second)},
		Head:     v1.Commit{ID: head},
		Clusters: v1.Counts{}, Services: v1.Counts{}, Deployments: v1.Counts{},
	}
	answers := map[string]any{
		"/v1/deployments": list(rows...), "/v1/clusters": list(clusters...), "/v1/services": list(services...),
		"/v1/sources": list(sources...), "/v1/upgrades": list(upgrades...), "/v1/events": picked(events),
		"/v1/me": v1.Me{Name: "ada", Verbs: []string{"view", "sync", "edit"}}, "/v1/summary": &summary,
		"/v1/status": v1.Status{
			Workspace: "acme", Hub: "http://hub.example.com", Version: "0.3.1", Commit: summary.Commit, Head: summary.Commit,
			Clusters: summary.Clusters, Services: summary.Services, Deployments: summary.Deployments, Unhealthy: []v1.Deployment{payments()},
		},
		"/v1/kube/token": v1.KubeToken{Token: "k", Expires: today.Add(time.Hour)},
	}
	for i := range clusters {
		c := &clusters[i]
		summary.Clusters[c.Phase]++
		own := of(rows, func(d *v1.Deployment) bool { return d.Cluster == c.Name })
		answers["/v1/clusters/"+c.Name] = v1.ClusterDetail{Cluster: *c, Deployments: own}
		answers["/v1/clusters/"+c.Name+"/connections"] = list(v1.Connection{
			Cluster: c.Name, Name: "c1", Host: "plural-agent-0", Replica: "hub-1", Since: *ago(3 * time.Hour), Streams: 2,
		})
		answers["/v1/clusters/"+c.Name+"/agent/logs"] = flowing(agentLog, nil)
	}
	for i := range services {
		s := services[i]
		summary.Services[s.Phase]++
		s.Deployments = of(rows, func(d *v1.Deployment) bool { return d.Service == s.Name })
		answers["/v1/services/"+s.Name] = s
		answers["/v1/services/"+s.Name+"/history"] = list(revisions()[:2]...)
	}
	for i := range rows {
		d := &rows[i]
		summary.Deployments[d.Phase]++
		answers["/v1/deployments/"+d.Cluster+"/"+d.Service] = *d
		at := "/v1/clusters/" + d.Cluster + "/services/" + d.Service
		answers[at+"/objects"] = objects
		answers[at+"/events"] = list(kubernetes()...)
		answers[at+"/diff"] = difference()
		answers["/v1/clusters/"+d.Cluster+"/pods/payments/web-7d9f-x2x4p/logs"] = flowing(podLog, nil)
		answers["/v1/clusters/"+d.Cluster+"/pods/payments/web-7d9f-k8s7q/logs"] = flowing("", nil)
		answers["/k8s/"+d.Cluster+"/api/v1/namespaces/payments/pods/web-7d9f-x2x4p"] = livePod
	}
	for i := range sources {
		name := sources[i].Name
		if name == "." {
			name = v1.OwnSource
		}
		answers["/v1/sources/"+name] = sources[i]
	}
	answers["/v1/history"] = list(revisions()...)
	for _, r := range revisions() {
		answers["/v1/history/"+r.ID] = r
	}
	return answers
}

// payments is a deployment with everything that can be wrong with one.
func payments() v1.Deployment {
	return v1.Deployment{
		Service: "payments", Cluster: "edge-us-05", Phase: v1.Degraded, Key: "k2", AppliedKey: "k1", Version: "1.3.0", AppliedVersion: "1.2.0",
		Objects: 6, Ready: 5, Message: "Deployment web: 1 of 3 replicas are ready: back-off pulling image registry.example.com/web:bad",
		Problems: []v1.Problem{{
			Object: "Deployment payments/web", Reason: "NotReady", Message: "image cannot be pulled " + hostile, File: "services/payments.yaml",
			Line: 7, Fix: "mend the tag",
		}},
		Held: &v1.Waiting{Token: "abc123", Count: 3, Names: []string{"ConfigMap payments/a", "ConfigMap payments/b"}, Message: "3 objects would be deleted"},
		Tests: []v1.Test{
			{Name: "smoke", Outcome: v1.TestFailed, Message: "answered 500", Log: "GET /\n500 oops\n", Tries: 3, Took: 1.5},
			{Name: "dns", Outcome: v1.TestPassed, Took: 0.25},
		},
		Notes: []string{"somebody else owns spec.replicas of Deployment payments/web, which is left to them"},
	}
}

func of(rows []v1.Deployment, fits func(*v1.Deployment) bool) []v1.Deployment {
	var some []v1.Deployment
	for i := range rows {
		if fits(&rows[i]) {
			some = append(some, rows[i])
		}
	}
	return some
}

func revisions() []v1.Revision {
	return []v1.Revision{
		{
			Commit: v1.Commit{ID: head, Subject: "Raise the replicas of payments", Author: "Ada Lovelace", Time: ago(41 * time.Second)},
			Email:  "ada@example.com", Files: []string{"services/payments.yaml"}, Result: v1.ResultCurrent,
		},
		{
			Commit: v1.Commit{ID: "8f14e45fceea167a5a36dedd4bea2543aabbccdd", Subject: "Try " + hostile, Author: "Eve\x1b[2J", Time: ago(2 * time.Hour)},
			Files:  []string{"services/payments.yaml", "services/search.yaml"}, LeftOut: 3, RevertedBy: head, Result: v1.ResultSuperseded,
		},
		{
			Commit: v1.Commit{ID: "45c48cce2e2d7fbdea1afc51c7c6ad26aabbccdd", Subject: "Add search", Author: "Grace Hopper", Time: ago(50 * time.Hour)},
			Files:  []string{"services/search.yaml"}, Merge: true, Result: v1.ResultSuperseded,
		},
	}
}

func kubernetes() []v1.ObjectEvent {
	return []v1.ObjectEvent{
		{
			Time: *ago(time.Minute), First: ago(time.Hour), Object: "p1", Kind: "Pod", Namespace: "payments", Name: "web-7d9f-x2x4p",
			Reason: "BackOff", Message: "Back-off pulling image " + hostile, Warning: true, Count: 14, From: "kubelet",
		},
		{
			Time: *ago(2 * time.Minute), Object: "d", Kind: "Deployment", Namespace: "payments", Name: "web", Reason: "ScalingReplicaSet",
			Message: "Scaled up replica set web-7d9f to 3", Count: 1, From: "deployment-controller",
		},
	}
}

func difference() v1.Diff {
	return v1.Diff{Objects: []v1.ObjectDiff{
		{
			Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "payments", Name: "web", Action: v1.ObjectChanged, Fields: []v1.FieldDiff{
				{Path: "spec.replicas", Live: "2", Desired: "3"},
				{Path: "spec.template.spec.containers[web].image", Live: `"registry.example.com/web:1.2.0"`, Desired: `"registry.example.com/web:bad"`},
				{Path: `metadata.annotations["` + hostile + `"]`, Desired: `"` + hostile + `"`},
			},
		},
		{Version: "v1", Kind: "ConfigMap", Namespace: "payments", Name: "old", Action: v1.ObjectDeleted},
		{Version: "v1", Kind: "Secret", Namespace: "payments", Name: "keys", Action: v1.ObjectChanged, Hidden: true},
	}}
}

// objects is what a tree of objects, or whoever looks for pods, is told.
func objects(w http.ResponseWriter, r *http.Request) {
	o := func(kind, group, name, uid, owner string, health v1.ObjectHealth, message string) v1.Object {
		return v1.Object{
			UID: uid, Group: group, Version: "v1", Kind: kind, Resource: strings.ToLower(kind) + "s", Namespace: "payments", Name: name,
			Owner: owner, Health: health, Message: message, Created: ago(3 * time.Hour), Applied: owner == "",
		}
	}
	all := []v1.Object{
		o("Deployment", "apps", "web", "d", "", v1.ObjectDegraded, "1 of 3 replicas are ready"),
		o("ReplicaSet", "apps", "web-7d9f", "r", "d", v1.ObjectProgressing, ""),
		o("Pod", "", "web-7d9f-x2x4p", "p1", "r", v1.ObjectDegraded, "back-off pulling image "+hostile),
		o("Pod", "", "web-7d9f-k8s7q", "p2", "r", v1.ObjectHealthy, ""),
		o("Service", "", "web", "s", "", v1.ObjectHealthy, ""),
		o("ConfigMap", "", "日本語", "c", "", v1.ObjectUnknown, ""),
	}
	if !strings.Contains(r.Header.Get("Accept"), "event-stream") {
		_ = json.NewEncoder(w).Encode(list(all...))
		return
	}
	text, _ := json.Marshal(v1.ObjectChanges{Changed: all})
	flowing(fmt.Sprintf("event: objects\ndata: %s\n\nevent: ready\ndata: {}\n\n", text), nil)(w, r)
}

const (
	agentLog = "2026-03-14T15:09:20.000Z info  polled, nothing is new\n" +
		"2026-03-14T15:09:21.000Z warn  payments: apply: Deployment web: " + hostile + "\n" +
		"2026-03-14T15:09:22.000Z info  reported\n"
	podLog  = "listening on :8080\nGET /healthz 200\n" + hostile + "\nPOST /pay 500 upstream said: \x1b[1mno\x1b[0m\n"
	livePod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-7d9f-x2x4p","namespace":"payments","labels":{"app":"web"},
		"annotations":{"note":"\u001b[31mred\u202egpj"},"managedFields":[{"manager":"a"},{"manager":"b"}]},
		"spec":{"nodeName":"node-1","containers":[{"name":"web","image":"registry.example.com/web:bad"}]},
		"status":{"phase":"Pending","containerStatuses":[{"name":"web","ready":false,"restartCount":5,
		"state":{"waiting":{"reason":"ImagePullBackOff","message":"Back-off pulling image"}}}],
		"conditions":[{"type":"Ready","status":"False","reason":"ContainersNotReady"}]}}`
)

// clone is an installation repo with a history that is the same each time, made by git itself.
func clone(t *testing.T) (repo *workspace.Repo, newest string) {
	t.Helper()
	needs.Program(t, "git", "git")
	dir := t.TempDir()
	run := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = dir
		date := today.Add(-41 * time.Second).Format(time.RFC3339)
		cmd.Env = append(os.Environ(), "HOME="+dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_DATE="+date, "GIT_COMMITTER_DATE="+date,
			"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	commit := func(subject string, files map[string]string) {
		for name, text := range files {
			file := filepath.Join(dir, filepath.FromSlash(name))
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		run("add", ".")
		run("commit", "-qm", subject)
	}
	of := func(kind, name, spec string) string {
		return "apiVersion: plural.sh/v1alpha1\nkind: " + kind + "\nmetadata: {name: " + name + "}\nspec:\n" + spec
	}
	run("init", "-q", "-b", "main")
	commit("Begin", map[string]string{
		"plural.yaml":               of("Workspace", "acme", "  repo: {url: \"https://git.example.com/fleet.git\"}\n"),
		"clusters/edge-us-05.yaml":  of("Cluster", "edge-us-05", "  tags: {env: prod}\n"),
		"clusters/edge-ap-06.yaml":  of("Cluster", "edge-ap-06", "  tags: {env: dev}\n"),
		"services/payments.yaml":    of("Service", "payments", payment+"  parameters: {replicas: \"2\"}\n"),
		"services/search.yaml":      of("Service", "search", "  source: {path: apps/search}\n  namespace: search\n  clusters: {names: [edge-us-05]}\n"),
		"apps/payments/config.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {a: one}\n",
		"apps/search/config.yaml":   "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: search}\ndata: {a: one}\n",
	})
	commit("Raise the replicas of payments", map[string]string{
		"services/payments.yaml": of("Service", "payments", payment+"  parameters: {replicas: \"3\"}\n"),
	})
	repo, err := workspace.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	return repo, run("rev-parse", "HEAD")
}

const payment = "  source: {path: apps/payments}\n  namespace: payments\n  clusters: {names: [edge-us-05, edge-ap-06]}\n"
