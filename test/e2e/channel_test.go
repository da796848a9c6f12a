package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReverseChannel is how people reach clusters that nothing can dial into, and what the clusters tell them. The stories
// share a fleet, whose hub and agents hardly ever ask on their own; the last ones take parts of it away.
func TestReverseChannel(t *testing.T) {
	r := reach(t)
	known := new(people)
	story := func(name string, tell func(*testing.T, *reached, *people)) {
		ok := t.Run(name, func(t *testing.T) {
			own := r.as(t)
			all := *known
			for _, u := range []**user{&all.alice, &all.bob} {
				if *u != nil {
					*u = (*u).as(own)
				}
			}
			tell(t, own, &all)
			*known = all
		})
		if !ok && known.alice == nil {
			t.FailNow() // the rest needs them
		}
	}
	story("the fleet's roles and the cluster's own let a person in", peopleComeIn)
	story("contexts hold no secret, and kubectl works with them", contextsHoldNoSecret)
	story("the audit says who did what, under the request's own id", auditTells)
	story("a commit reaches three clusters long before they ask", hintsArrive)
	story("sinks hear once of what failed on three clusters, and that it recovered", sinksHear)
	story("a suspended service is left alone until it is resumed", suspendedIsLeftAlone)
	story("a stream shows a change at once, and goes on after a restart of the hub", streamShows)
	story("watches and kubectl go on after the hub was killed", hubDies)
	story("kubectl goes on after an agent was killed", agentDies)
	story("no token and no content is anywhere but where it belongs", nothingLeaks)
	story("a token that is taken back ends what it opened", tokenTakenBack)
	story("a role that is taken away ends what it allowed", roleTakenAway)
	story("a cluster that leaves, or gets another key, is cut off", clustersLeave)
}

// people are the users that stories share.
type people struct{ alice, bob *user }

// Roles: who reads opens no shell.
const (
	readers = `apiVersion: plural.sh/v1alpha1
kind: Role
metadata: {name: reader}
spec:
  kubernetes:
  - {clusters: {names: [edge-1]}, namespaces: [demo], verbs: [get, list, watch], resources: [pods, pods/log, configmaps, secrets]}
---
apiVersion: plural.sh/v1alpha1
kind: RoleBinding
metadata: {name: dev-reads}
spec: {role: reader, groups: [dev]}
`
	shells = `apiVersion: plural.sh/v1alpha1
kind: Role
metadata: {name: shell}
spec:
  fleet: [view]
  kubernetes:
  - {clusters: {names: [edge-1]}, namespaces: [demo], verbs: [create], resources: [pods/exec]}
---
apiVersion: plural.sh/v1alpha1
kind: RoleBinding
metadata: {name: dev-opens}
spec: {role: shell, users: [alice]}
`
	// bobs is a binding of one user.
	bobs = `apiVersion: plural.sh/v1alpha1
kind: RoleBinding
metadata: {name: bob-reads}
spec: {role: reader, users: [bob]}
`
)

// shopFiles are two services that run everywhere.
func shopFiles() map[string]string {
	return map[string]string{
		"services/shop.yaml": service("shop", "apps/shop"), "apps/shop/config.yaml": configMap("shop", "one"), "apps/shop/web.yaml": workload("shop"),
		"services/twin.yaml": service("twin", "apps/twin"), "apps/twin/config.yaml": configMap("twin", "one"),
	}
}

func peopleComeIn(t *testing.T, r *reached, p *people) {
	files := shopFiles()
	files["access/roles.yaml"] = readers
	r.commit("Add a shop, and who may read", files)
	p.alice = r.newUser("alice", "dev")
	if committed := r.git("show", "HEAD"); strings.Contains(committed, p.alice.token) || !strings.Contains(committed, "sha256:") {
		t.Errorf("the token's commit is\n%s", committed)
	}
	p.bob = r.newUser("bob", "ops")
	r.commit("Let bob read", map[string]string{"access/bob-reads.yaml": bobs})
	alice := p.alice
	kubectl := func(cluster string, args ...string) []string { return append([]string{"kubectl", cluster}, args...) }

	alice.cannot(`User "plural:alice" cannot list resource "pods" in API group "" in the namespace "demo"`,
		"plural", kubectl("edge-1", "get", "pods", "-n", namespace)...)
	r.letIn("alice")
	r.letIn("bob")
	r.operator.pod("edge-1")
	alice.can("shop-", "plural", kubectl("edge-1", "get", "pods", "-n", namespace)...)
	alice.cannot(`cluster edge-1: user "alice" may not list pods in namespace "podinfo": bind a Role with a kubernetes rule for it to alice in access/`,
		"plural", kubectl("edge-1", "get", "pods", "-n", "podinfo")...)
	alice.cannot(`may not create pods/exec`, "plural", kubectl("edge-1", "exec", "-n", namespace, r.operator.pod("edge-1"), "--", "env")...)
	there := alice.cannot(`the hub has no cluster "edge-2" for you`, "plural", kubectl("edge-2", "get", "pods")...)
	gone := alice.cannot(`the hub has no cluster "nobody" for you`, "plural", kubectl("nobody", "get", "pods")...)
	if strings.ReplaceAll(there, "edge-2", "nobody") != gone {
		t.Errorf("a cluster that one may not see shows: %q, and one that is not there: %q", there, gone)
	}
	p.bob.can("shop-", "plural", kubectl("edge-1", "get", "pods", "-n", namespace)...)
}

// letIn has the cluster's own RBAC let a user do nearly everything in one namespace of edge-1.
func (r *reached) letIn(name string) {
	r.t.Helper()
	kubeconfig := filepath.Join(r.home, "edge-1.kubeconfig")
	out, err := r.command(filepath.Join(r.bin, "plural"), "local", "kubeconfig", "edge-1").Output()
	if err != nil {
		r.t.Fatal(err)
	}
	r.outside(kubeconfig, string(out))
	r.eventually("the namespace is there", timeout, func() bool {
		return r.operator.asks("edge-1", "/api/v1/namespaces/"+namespace) == http.StatusOK
	})
	grant := r.command("kubectl", "--kubeconfig", kubeconfig, "create", "rolebinding", name, "--clusterrole", "admin", "--user", "plural:"+name, "-n", namespace)
	if out, err := grant.CombinedOutput(); err != nil {
		r.t.Fatalf("let %s in: %v\n%s", name, err, out)
	}
}

func contextsHoldNoSecret(t *testing.T, r *reached, p *people) {
	p.alice.can("export KUBECONFIG=", "plural", "kube", "config", "edge-1", "--kubeconfig", p.alice.kubeconfig())
	text, err := os.ReadFile(p.alice.kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	p.alice.can("shop-", "kubectl", "--context", "plural/edge-1", "-n", namespace, "get", "pods")
	p.alice.can("one", "kubectl", "-n", namespace, "get", "configmap", "shop", "-o", "jsonpath={.data.value}")
	p.alice.can("simulated", "kubectl", "-n", namespace, "logs", r.operator.pod("edge-1"))
	h := newHunt(t, p.alice.secrets())
	h.search("kubeconfig", text)
	if len(h.finds) > 0 {
		t.Errorf("the contexts hold %v", h.found())
	}
}

// secrets are the user's token, and those that tools got for it by now.
func (u *user) secrets() []string {
	u.t.Helper()
	all := []string{u.token}
	files, err := filepath.Glob(filepath.Join(u.home, "cache/plural/tokens/*"))
	if err != nil || len(files) == 0 {
		u.t.Errorf("%s has got no token for a cluster: %v", u.name, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			u.t.Fatal(err)
		}
		var kept struct {
			Token string `json:"token"`
		}
		if err := json.Unmarshal(text, &kept); err != nil || kept.Token == "" {
			u.t.Fatalf("%s holds no token: %v", file, err)
		}
		all = append(all, kept.Token)
	}
	return all
}

// record is what a test reads of the audit.
type record struct {
	ID, Stage, Person, Cluster, Verb, Resource, Subresource, Namespace, Decision, Cause string
	Status                                                                              int
}

// records are the hub's, the oldest first.
func (r *reached) records() []record {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(r.data, "audit/audit.jsonl"))
	if err != nil {
		r.t.Fatal(err)
	}
	var all []record
	for line := range strings.Lines(string(text)) {
		var one record
		if err := json.Unmarshal([]byte(line), &one); err == nil { // the last line may still be written
			all = append(all, one)
		}
	}
	return all
}

// recorded waits for a record.
func (r *reached) recorded(what string, is func(record) bool) (found record) {
	r.t.Helper()
	r.eventually("the audit tells of "+what, timeout, func() bool {
		for _, one := range r.records() {
			if is(one) {
				found = one
				return true
			}
		}
		return false
	})
	return found
}

func auditTells(t *testing.T, r *reached, p *people) {
	r.recorded("a list of pods", func(one record) bool {
		return one.Person == "alice" && one.Cluster == "edge-1" && one.Verb == "list" && one.Resource == "pods" && one.Namespace == namespace &&
			one.Decision == "allowed" && one.Status == 200
	})
	r.recorded("a list that the cluster refused", func(one record) bool {
		return one.Person == "alice" && one.Verb == "list" && one.Resource == "pods" && one.Decision == "allowed" && one.Status == 403
	})
	refused := r.recorded("a session that a role refused", func(one record) bool {
		return one.Person == "alice" && one.Resource == "pods" && one.Subresource == "exec" && one.Decision == "denied"
	})
	if refused.Status != 403 || refused.Cause == "" {
		t.Errorf("the record is %+v", refused)
	}
	var review struct {
		Status struct {
			UserInfo struct {
				Username string
				Extra    map[string][]string
			}
		}
	}
	out := p.alice.can("plural:alice", "plural", "kubectl", "edge-1", "auth", "whoami", "-o", "json")
	if err := json.Unmarshal([]byte(out), &review); err != nil {
		t.Fatal(err)
	}
	ids := review.Status.UserInfo.Extra["plural.sh/request-id"]
	if len(ids) != 1 {
		t.Fatalf("the cluster knows the request by %q", ids)
	}
	r.recorded("the request that the cluster knows by the same id", func(one record) bool {
		return one.ID == ids[0] && one.Stage == "end" && one.Person == "alice" && one.Resource == "selfsubjectreviews" && one.Status == 201
	})
}
