package access

import (
	"encoding/csv"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/hubsvc/access"
	"github.com/pluralsh/plural/hubsvc/auth"
	"github.com/pluralsh/plural/workspace/fleet"
)

const head = "apiVersion: plural.sh/v1alpha1\nkind: "

// of is what a fleet of the clusters dev and prod says of people.
func of(t *testing.T, documents ...string) *policy {
	t.Helper()
	files := fstest.MapFS{
		"plural.yaml":      {Data: []byte(head + "Workspace\nmetadata: {name: demo}\nspec: {}\n")},
		"clusters/dev.yml": {Data: []byte(head + "Cluster\nmetadata: {name: dev}\n---\n" + head + "Cluster\nmetadata: {name: prod}\n")},
	}
	for i, d := range documents {
		files[fmt.Sprintf("access/%03d.yaml", i)] = &fstest.MapFile{Data: []byte(head + d)}
	}
	f, err := fleet.Load(files)
	if err != nil {
		t.Fatal(err)
	}
	return &policy{"", f, access.New(f), auth.NewDirectory(f), map[string][]string{}}
}

func TestAQuestionIsTheRequestThatTheHubWouldSee(t *testing.T) {
	for _, test := range []struct {
		verb, resource, namespace string
		want                      string // empty: refused
		open                      bool
	}{
		{"get", "pods", "", "get pods", true},
		{"list", "pods", "shop", `list pods in namespace "shop"`, false},
		{"watch", "deployments", "", "watch deployments of apps", true},
		{"watch", "deployments.apps", "", "watch deployments of apps", true},
		{"patch", "deployments.apps/scale", "", "patch deployments/scale of apps", true},
		{"deletecollection", "certificates.cert-manager.io", "", "deletecollection certificates of cert-manager.io", true},
		{"create", "pods/exec", "", "create pods/exec", true},
		{"get", "pods/exec", "", "create pods/exec", true},
		{"exec", "pods", "", "create pods/exec", true},
		{"portforward", "pods", "", "create pods/portforward", true},
		{"proxy", "nodes", "", "create nodes/proxy", false},
		{"get", "pods/log", "", "get pods/log", true},
		{"get", "nodes", "", "get nodes", false},
		{"get", "namespaces", "shop", `get namespaces in namespace "shop"`, false},
		{"create", "selfsubjectaccessreviews", "", "create selfsubjectaccessreviews of authorization.k8s.io", false},
		{"get", "/metrics", "", `get path "/metrics"`, false},
		{"view", "fleet", "", "view the fleet", false},
		{"hint", "fleet", "", "hint the fleet", false},
		{"get", "fleet", "", "", false},
		{"view", "fleet", "shop", "", false},
		{"get", "/metrics", "shop", "", false},
		{"list", "/metrics", "", "", false},
		{"get", "/a/../b", "", "", false},
		{"get", "widgets", "", "", false},
		{"*", "pods", "", "", false},
		{"get", "*", "", "", false},
		{"get", "", "", "", false},
		{"get", "pods/", "", "get pods", true},
		{"get", "pods/../secrets", "", "", false},
		{"get", "watch.x", "", "", false},
		{"get", "pods", "a/b", "", false},
		{"get", "pods\x1b[2J", "", "", false},
	} {
		asked, err := ask(test.verb, test.resource, test.namespace)
		switch {
		case (err == nil) != (test.want != ""):
			t.Errorf("%s %s: %v", test.verb, test.resource, err)
		case err == nil && (asked.describe("") != test.want || asked.open != test.open):
			t.Errorf("%s %s: %s, open %v; want %s, open %v", test.verb, test.resource, asked.describe(""), asked.open, test.want, test.open)
		}
	}
}

func TestWhoCanNamesTheRuleAndWhereItIsGood(t *testing.T) {
	p := of(t, "User\nmetadata: {name: ada}\n", "User\nmetadata: {name: bob}\n",
		`Role
metadata: {name: r}
spec:
  kubernetes:
    - {clusters: {matchLabels: {no: one}}, verbs: ["*"], resources: ["*"]}
    - {namespaces: [shop, web], verbs: [delete], resources: [pods]}
    - {clusters: {names: [prod]}, namespaces: ["*"], verbs: [delete], resources: [pods]}
`, "RoleBinding\nmetadata: {name: b}\nspec: {role: r, users: [bob, ada, bob], groups: [ops]}\n")
	for _, test := range []struct {
		namespace, cluster string
		want               []string
	}{
		{"", "", []string{"* shop web", "prod *"}},
		{"", "dev", []string{"dev shop web"}},
		{"shop", "dev", []string{"dev shop web"}},
		{"other", "dev", nil},
		{"other", "", []string{"prod *"}},
	} {
		asked, err := ask("delete", "pods", test.namespace)
		if err != nil {
			t.Fatal(err)
		}
		var want, got []string
		for _, who := range []string{"user/ada", "user/bob", "group/ops"} {
			for _, where := range test.want {
				want = append(want, who+" "+where)
			}
		}
		for _, w := range p.whoCan(asked, test.cluster) {
			got = append(got, strings.Join(slices.Concat([]string{w.Subject}, w.Clusters, w.Namespaces), " "))
		}
		if !slices.Equal(got, want) {
			t.Errorf("namespace %q, cluster %q: %q, want %q", test.namespace, test.cluster, got, want)
		}
	}
}

func TestNoCellIsAFormulaOrSteersATerminal(t *testing.T) {
	for cell, want := range map[string]string{"=1+1": "'=1+1", "+1": "'+1", "-1": "'-1", "@x": "'@x", "a=1": "a=1", "": ""} {
		if got := cmdutil.CSVCell(cell); got != want {
			t.Errorf("%q becomes %q, want %q", cell, got, want)
		}
	}
	var out strings.Builder
	lines := slices.Values([]line{{Subject: "=cmd|' /C calc'!A0", Groups: []string{"\x1b[2J", "a,b\"\n"}}})
	if err := writeCSV(&out, nil, lines, false); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(out.String())).ReadAll()
	if err != nil || len(rows) != 1 || len(rows[0]) != len(header(nil)) {
		t.Fatalf("%q, %v", rows, err)
	}
	if rows[0][0] != "'=cmd|' /C calc'!A0" || strings.ContainsAny(rows[0][4], "\x1b\n") {
		t.Errorf("%q", rows[0])
	}
}
