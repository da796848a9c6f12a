package access_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/pluralsh/plural/hubsvc/access"
	"github.com/pluralsh/plural/internal/kubeaccess"
	"github.com/pluralsh/plural/internal/principal"
	"github.com/pluralsh/plural/workspace/fleet"
)

const head = "apiVersion: plural.sh/v1alpha1\nkind: "

// rules are those of a fleet of the clusters dev, prod and hidden.
func rules(t testing.TB, documents ...string) *access.Rules {
	t.Helper()
	files := fstest.MapFS{
		"plural.yaml": {Data: []byte(head + "Workspace\nmetadata: {name: demo}\nspec: {}\n")},
		"clusters/all.yaml": {Data: []byte(head + "Cluster\nmetadata: {name: dev}\nspec: {tags: {env: dev}}\n---\n" +
			head + "Cluster\nmetadata: {name: prod}\nspec: {tags: {env: prod}}\n---\n" + head + "Cluster\nmetadata: {name: hidden}\n")},
	}
	for i, d := range documents {
		files[fmt.Sprintf("access/%03d.yaml", i)] = &fstest.MapFile{Data: []byte(head + d)}
	}
	f, err := fleet.Load(files)
	if err != nil {
		t.Fatal(err)
	}
	return access.New(f)
}

func user(name string) string { return "User\nmetadata: {name: " + name + "}\n" }

func role(name, spec string) string {
	return "Role\nmetadata: {name: " + name + "}\nspec: " + spec + "\n"
}

func binding(name, spec string) string {
	return "RoleBinding\nmetadata: {name: " + name + "}\nspec: " + spec + "\n"
}

func ask(t testing.TB, line string) kubeaccess.Request {
	t.Helper()
	method, target, _ := strings.Cut(line, " ")
	q, err := kubeaccess.Parse(method, target, nil)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func TestEachVerbOfTheFleetImpliesTheOnesBefore(t *testing.T) {
	r := rules(t, user("ada"), role("r", "{fleet: [sync]}"), binding("b", "{role: r, users: [ada]}"))
	ada, bob, operator := principal.Person{Name: "ada"}, principal.Person{Name: "bob"}, principal.Person{Name: "operator", Operator: true}
	for _, test := range []struct {
		who  principal.Person
		verb string
		want bool
	}{
		{ada, access.View, true},
		{ada, access.Sync, true},
		{ada, access.Edit, false},
		{ada, access.Admin, false},
		{ada, "", false},
		{ada, "all", false},
		{bob, access.View, false},
		{principal.Person{}, access.View, false},
		{operator, access.Admin, true},
	} {
		err := r.Fleet(test.who, test.verb)
		if (err == nil) != test.want {
			t.Errorf("%s may %s: %v", test.who.Name, test.verb, err)
		}
		var denied *access.Denied
		if err != nil && (!errors.As(err, &denied) || denied.Fix == "" || denied.Person != test.who.Name) {
			t.Errorf("error = %+v", err)
		}
	}
}

func TestWhatNoRoleAllowsIsDenied(t *testing.T) {
	r := rules(t, user("ada"), user("eve"),
		role("reader", `{kubernetes: [{verbs: [get, list, watch], resources: ["*"]}]}`),
		role("debug", `{kubernetes: [{clusters: {matchLabels: {env: dev}}, namespaces: [shop], verbs: [create], resources: [pods/exec]}]}`),
		binding("a", "{role: reader, groups: [staff]}"), binding("b", "{role: debug, users: [ada]}"))
	ada := principal.Person{Name: "ada", Groups: []string{"other", "staff"}}
	only, nobody := principal.Person{Name: "ada"}, principal.Person{Name: "eve", Groups: []string{"ada"}}
	operator := principal.Person{Name: "operator", Operator: true}
	tests := []struct {
		who     principal.Person
		cluster string
		line    string
		want    bool
	}{
		{ada, "prod", "GET /api/v1/pods", true},
		{ada, "prod", "DELETE /api/v1/pods", false},
		{ada, "none", "GET /api/v1/pods", false},
		{ada, "dev", "GET /api/v1/namespaces/shop/pods/web/exec", true},
		{ada, "dev", "POST /api/v1/namespaces/other/pods/web/exec", false},
		{ada, "prod", "GET /api/v1/namespaces/shop/pods/web/exec", false},
		{only, "prod", "GET /api/v1/pods", false},
		{only, "dev", "GET /api", true},
		{only, "prod", "GET /api", false},
		{nobody, "dev", "GET /api", false},
		{nobody, "dev", "GET /api/v1/pods", false},
		{principal.Person{}, "dev", "GET /version", false},
		{operator, "prod", "DELETE /api/v1/nodes", true},
		{operator, "none", "GET /api", false},
	}
	for _, test := range tests {
		if err := r.Kubernetes(test.who, test.cluster, ask(t, test.line)); (err == nil) != test.want {
			t.Errorf("%s at %s: %s: %v", test.who.Name, test.cluster, test.line, err)
		}
	}
	var denied *access.Denied
	err := r.Kubernetes(ada, "prod", ask(t, "POST /api/v1/namespaces/shop/pods/web/exec"))
	if !errors.As(err, &denied) || denied.Cluster != "prod" || !strings.Contains(err.Error(), `create pods/exec "web" in namespace "shop"`) {
		t.Errorf("error = %v", err)
	}
}

func TestVerbsForToolsAllowOneThingAndNothingElse(t *testing.T) {
	r := rules(t, user("prometheus"), user("git"), user("viewer"), user("syncer"), user("admin"), user("auditor"), user("nobody"),
		role("m", "{fleet: [metrics]}"), role("h", "{fleet: [hint]}"), role("v", "{fleet: [view]}"),
		role("s", "{fleet: [sync]}"), role("a", "{fleet: [admin]}"), role("u", "{fleet: [audit]}"), binding("u", "{role: u, users: [auditor]}"),
		binding("m", "{role: m, users: [prometheus]}"), binding("h", "{role: h, users: [git]}"), binding("v", "{role: v, users: [viewer]}"),
		binding("s", "{role: s, users: [syncer]}"), binding("a", "{role: a, users: [admin]}"))
	verbs := []string{access.View, access.Sync, access.Edit, access.Admin, access.Metrics, access.Hint, access.Audit, "", "x"}
	for name, want := range map[string]string{
		"prometheus": "metrics", "git": "hint", "auditor": "audit", "nobody": "", "viewer": "view", "syncer": "view sync hint",
		"admin": "view sync edit admin metrics hint",
	} {
		var may []string
		for _, verb := range verbs {
			if r.Fleet(principal.Person{Name: name}, verb) == nil {
				may = append(may, verb)
			}
		}
		if got := strings.Join(may, " "); got != want {
			t.Errorf("%s may %q, want %q", name, got, want)
		}
	}
	if r.Sees(principal.Person{Name: "prometheus"}, "dev") || r.Sees(principal.Person{Name: "git"}, "dev") {
		t.Error("a tool sees clusters")
	}
	err := r.Fleet(principal.Person{Name: "git"}, access.Metrics)
	if err == nil || err.Error() != `user "git" may not read the hub's figures: bind a Role with fleet: [metrics] to them in access/` {
		t.Errorf("error = %v", err)
	}
}

func TestAClusterIsSeenByWhoMayDoSomethingWithIt(t *testing.T) {
	r := rules(t, user("ada"), user("bob"), user("eve"),
		role("dev", `{kubernetes: [{clusters: {names: [dev]}, verbs: [get], resources: [pods]}]}`), role("view", "{fleet: [view]}"),
		binding("a", "{role: dev, users: [ada]}"), binding("b", "{role: view, users: [bob]}"))
	for name, want := range map[string]string{"ada": "dev", "bob": "dev prod hidden", "eve": "", "operator": "dev prod hidden"} {
		var seen []string
		for _, cluster := range []string{"dev", "prod", "hidden", "none"} {
			if r.Sees(principal.Person{Name: name, Operator: name == "operator"}, cluster) {
				seen = append(seen, cluster)
			}
		}
		if got := strings.Join(seen, " "); got != want {
			t.Errorf("%s sees %q, want %q", name, got, want)
		}
	}
}

func TestAFleetWithoutAccessAllowsNothing(t *testing.T) {
	r := access.New(&fleet.Fleet{})
	ada := principal.Person{Name: "ada"}
	if r.Fleet(ada, access.View) == nil || r.Kubernetes(ada, "dev", ask(t, "GET /api")) == nil || r.Sees(ada, "dev") {
		t.Error("something is allowed")
	}
}

// The check stands before every request of kubectl.
func BenchmarkKubernetes(b *testing.B) {
	documents := []string{user("ada"), binding("b", "{role: r0, users: [ada]}")}
	for i := range 20 {
		documents = append(documents,
			role(fmt.Sprintf("r%d", i), `{kubernetes: [{clusters: {names: [dev]}, verbs: [get, list], resources: [pods, services, "deployments"], namespaces: [a, b, c]}]}`),
			binding(fmt.Sprintf("b%d", i), fmt.Sprintf("{role: r%d, groups: [g%d]}", i, i)))
	}
	r := rules(b, documents...)
	ada := principal.Person{Name: "ada", Groups: []string{"g1", "g2", "g3", "g4", "g5", "g6", "g7", "g8", "g9", "g10"}}
	q := ask(b, "DELETE /api/v1/namespaces/shop/pods/web")
	b.ReportAllocs()
	for b.Loop() {
		if r.Kubernetes(ada, "dev", q) == nil {
			b.Fatal("allowed")
		}
	}
}

// TestGrantsDecideAsTheRulesDo asks for everything both ways: whoever reads the grants must not see another answer than the hub gives.
func TestGrantsDecideAsTheRulesDo(t *testing.T) {
	r := rules(t, user("ada"), "User\nmetadata: {name: bob}\nspec: {groups: [ops]}\n",
		role("reader", `{fleet: [view], kubernetes: [{verbs: [get, list, watch], resources: ["*"]}]}`),
		role("shell", `{kubernetes: [{clusters: {names: [dev]}, namespaces: [shop], verbs: [create], resources: [pods/exec]},
			{verbs: [get], nonResourceURLs: [/metrics]}]}`),
		role("pusher", `{fleet: [hint]}`),
		binding("b1", "{role: reader, users: [ada, ada], groups: [ops]}"),
		binding("b2", "{role: shell, groups: [ops]}"), binding("b3", "{role: pusher, users: [ada]}"))
	for _, who := range []principal.Person{{Name: "ada"}, {Name: "bob", Groups: []string{"ops"}}, {Name: "eve"}} {
		held := r.Held(who)
		for _, verb := range []string{access.View, access.Sync, access.Edit, access.Admin, access.Metrics, access.Hint} {
			some := slices.ContainsFunc(held, func(h access.Held) bool { return h.Fleet(verb) })
			if err := r.Fleet(who, verb); (err == nil) != some {
				t.Errorf("%s, %s: %v, grants say %v", who.Name, verb, err, some)
			}
		}
		for _, line := range []string{
			"GET /api/v1/pods", "GET /api/v1/namespaces/shop/pods/web/exec", "POST /api/v1/namespaces/other/pods/web/exec",
			"GET /metrics", "GET /version",
			"DELETE /api/v1/namespaces/shop/pods/web",
		} {
			for _, cluster := range []string{"dev", "prod"} {
				some := slices.ContainsFunc(held, func(h access.Held) bool { return len(h.Kubernetes(cluster, ask(t, line))) > 0 })
				if err := r.Kubernetes(who, cluster, ask(t, line)); (err == nil) != some {
					t.Errorf("%s, %s on %s: %v, grants say %v", who.Name, line, cluster, err, some)
				}
			}
		}
	}
	if held := r.Held(principal.Person{Name: "ada"}); len(held) != 2 || held[0].Binding.Metadata.Name != "b1" || held[0].Group != "" {
		t.Errorf("ada has %d grants", len(held))
	}
	shell := r.Grants()[1]
	if names, all := shell.Clusters(0); all || !slices.Equal(names, []string{"dev"}) {
		t.Errorf("clusters %q, all %v", names, all)
	}
	if _, all := shell.Clusters(1); !all {
		t.Error("a rule without clusters is not about all")
	}
}
