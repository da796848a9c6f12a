package diff_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/diff"
	"github.com/pluralsh/plural/cli/ui"
)

// BenchmarkOneChangeOnTenThousandClusters is what a person waits for after editing one file that ten services on ten thousand
// clusters are made of.
func BenchmarkOneChangeOnTenThousandClusters(b *testing.B) {
	dir := b.TempDir()
	b.Setenv("HOME", dir)
	var clusters, services strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&clusters, "---\napiVersion: plural.sh/v1alpha1\nkind: Cluster\nmetadata: {name: edge-%d}\nspec: {tags: {env: prod}}\n", i)
		if i%500 == 499 {
			write(b, dir, fmt.Sprintf("clusters/%d.yaml", i), clusters.String())
			clusters.Reset()
		}
	}
	for i := range 10 {
		fmt.Fprintf(&services, "---\napiVersion: plural.sh/v1alpha1\nkind: Service\nmetadata: {name: web%d}\n"+
			"spec: {source: {path: app}, clusters: {matchLabels: {env: prod}}, parameters: {name: '{{ .cluster.name }}'}}\n", i)
	}
	write(b, dir, "plural.yaml", "apiVersion: plural.sh/v1alpha1\nkind: Workspace\nmetadata: {name: demo}\nspec: {}\n")
	write(b, dir, "services/all.yaml", services.String())
	write(b, dir, "app/cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: one}\n")
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "first"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	write(b, dir, "app/cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: two}\n")
	for b.Loop() {
		var out bytes.Buffer
		cmd := diff.NewCmdDiff(&cmdutil.Factory{
			Globals: cmdutil.Globals{Dir: dir}, IO: &ui.Streams{In: strings.NewReader(""), Out: &out, ErrOut: &out, Width: 80},
			Now: time.Now, Getenv: func(string) string { return "" },
		})
		cmd.SetArgs([]string{})
		if err := cmd.ExecuteContext(b.Context()); err != nil || !strings.Contains(out.String(), "100000 changed, 0 deleted on 10000 of 10000 clusters") {
			b.Fatal(err, out.String())
		}
	}
}

func write(b *testing.B, dir, name, text string) {
	b.Helper()
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		b.Fatal(err)
	}
}
