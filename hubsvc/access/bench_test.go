package access_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pluralsh/plural/hubsvc/access"
	"github.com/pluralsh/plural/hubsvc/auth"
	"github.com/pluralsh/plural/internal/kubeaccess"
	"github.com/pluralsh/plural/internal/principal"
	"github.com/pluralsh/plural/workspace/fleet"
)

// What a company of 50,000 people has, each of them in some groups.
const (
	benchUsers    = 50_000
	benchGroups   = 2_000
	benchBindings = 10_000
	benchRoles    = 200
	benchClusters = 100
	perFile       = 1_000
)

// BenchmarkAccess prints lines "bench NAME VALUE UNIT": how long it takes until the access of a large fleet can be decided, from files
// on disk (the best of a few times), and how long one decision takes for a user of 20 groups whom no role allows what they ask.
func BenchmarkAccess(b *testing.B) {
	root := largeFleet(b)
	var least time.Duration
	var rules *access.Rules
	var people *auth.Directory
	for range 3 {
		start := time.Now()
		f, err := fleet.Load(os.DirFS(root))
		if err != nil {
			b.Fatal(err)
		}
		people, rules = auth.NewDirectory(f), access.New(f)
		if took := time.Since(start); least == 0 || took < least {
			least = took
		}
	}
	figure("access_load_50000_ms", float64(least.Microseconds())/1000, "ms", 1000)

	ada, _ := people.User("u00000")
	if len(ada.Groups) != 20 || len(rules.Held(ada)) != 20*benchBindings/benchGroups {
		b.Fatalf("%d groups, %d grants", len(ada.Groups), len(rules.Held(ada)))
	}
	figure("access_check_us", float64(decisionTime(b, rules, ada).Nanoseconds())/1000, "us", 10)
}

// decisionTime asks for what no role allows, so that all of them are looked at.
func decisionTime(b *testing.B, rules *access.Rules, who principal.Person) time.Duration {
	b.Helper()
	q, err := kubeaccess.Parse("DELETE", "/apis/apps/v1/namespaces/shop/deployments/web", nil)
	if err != nil {
		b.Fatal(err)
	}
	const times = 20_000
	start := time.Now()
	for range times {
		if rules.Kubernetes(who, "c050", q) == nil {
			b.Fatal("allowed")
		}
	}
	return time.Since(start) / times
}

func figure(name string, value float64, unit string, bar float64) {
	fmt.Printf("bench %s %.4g %s\n", name, value, unit) //nolint:forbidigo // what make bench reads
	if value > bar {
		fmt.Printf("# %s is over its bar of %g %s\n", name, bar, unit) //nolint:forbidigo // the same
	}
}

// largeFleet writes the fleet in files of many documents. The first user is in 20 groups, each other one in four.
func largeFleet(b *testing.B) string {
	b.Helper()
	root := b.TempDir()
	write := func(name string, text []byte) {
		if err := os.WriteFile(filepath.Join(root, name), text, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	for _, folder := range []string{"access", "clusters"} {
		if err := os.Mkdir(filepath.Join(root, folder), 0o700); err != nil {
			b.Fatal(err)
		}
	}
	write("plural.yaml", []byte(head+"Workspace\nmetadata: {name: demo}\nspec: {}\n"))
	document := func(n int, kind string) string {
		switch kind {
		case "clusters/clusters":
			return fmt.Sprintf("Cluster\nmetadata:\n  name: c%03d\nspec:\n  tags: {env: %s}\n", n, []string{"dev", "prod"}[n%2])
		case "access/users":
			groups, in := "", 4
			if n == 0 {
				in = 20
			}
			for g := range in {
				groups += fmt.Sprintf("    - g%04d\n", (n+g*97)%benchGroups)
			}
			return fmt.Sprintf("User\nmetadata:\n  name: u%05d\nspec:\n  groups:\n%s"+
				"  tokens:\n    - name: laptop\n      hash: %q\n", n, groups, fleet.HashToken(fmt.Sprint(n)))
		case "access/roles":
			return fmt.Sprintf("Role\nmetadata:\n  name: r%03d\nspec:\n  fleet: [view]\n  kubernetes:\n"+
				"    - verbs: [get, list, watch]\n      resources: [\"*\"]\n"+
				"    - clusters: {matchLabels: {env: dev}}\n      namespaces: [n%d]\n"+
				"      verbs: [create, update, patch, delete]\n      resources: [deployments, pods/exec]\n", n, n)
		}
		return fmt.Sprintf("RoleBinding\nmetadata:\n  name: b%05d\nspec:\n  role: r%03d\n  groups: [g%04d]\n", n, n%benchRoles, n%benchGroups)
	}
	for kind, count := range map[string]int{
		"clusters/clusters": benchClusters, "access/users": benchUsers, "access/roles": benchRoles, "access/bindings": benchBindings,
	} {
		for first := 0; first < count; first += perFile {
			var text bytes.Buffer
			for n := first; n < min(first+perFile, count); n++ {
				text.WriteString("---\n" + head + document(n, kind))
			}
			write(fmt.Sprintf("%s-%05d.yaml", kind, first), text.Bytes())
		}
	}
	return root
}
