package live_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/pluralsh/plural/cli/live"
)

const kubeconfig = `apiVersion: v1
kind: Config
clusters:
- {name: a, cluster: {server: "https://a.example"}}
- {name: b, cluster: {server: "https://b.example"}}
contexts:
- {name: edge-1, context: {cluster: a, user: u}}
- {name: admin@b, context: {cluster: b, user: u}}
users:
- {name: u, user: {token: t}}
`

func TestClustersAreReachedByTheContextsThatAreNamedOrCalledLikeThem(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		args     []string
		clusters string
		want     []string
		refused  string
	}{
		"called like it":       {nil, "edge-1 edge-2", []string{"edge-1 https://a.example"}, ""},
		"named":                {[]string{"--context", "edge-2=admin@b"}, "edge-1 edge-2", []string{"edge-1 https://a.example", "edge-2 https://b.example"}, ""},
		"named otherwise":      {[]string{"--context", "edge-1=admin@b"}, "edge-1", []string{"edge-1 https://b.example"}, ""},
		"none":                 {nil, "edge-2", nil, "no cluster of the fleet can be reached"},
		"no such context":      {[]string{"--context", "edge-1=c"}, "edge-1", nil, `no context "c"`},
		"a cluster not wanted": {[]string{"--context", "edge-3=admin@b"}, "edge-1", nil, `names cluster "edge-3"`},
		"no cluster at all":    {[]string{"--context", "admin@b"}, "edge-1", nil, "cannot read --context"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var o live.Options
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			o.AddFlags(flags, "ask")
			if err := flags.Parse(append([]string{"--live", "--kubeconfig", file}, tt.args...)); err != nil {
				t.Fatal(err)
			}
			found, err := o.Reach(t.TempDir(), strings.Fields(tt.clusters))
			if tt.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tt.refused) {
					t.Errorf("got %v, want %s", err, tt.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, name := range slices.Sorted(maps.Keys(found)) {
				got = append(got, name+" "+found[name].Host)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWaysToClustersAreOfUseWithLiveAlone(t *testing.T) {
	var o live.Options
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.AddFlags(flags, "ask")
	if err := flags.Parse([]string{"--context", "a=b"}); err != nil {
		t.Fatal(err)
	}
	if err := o.Check(); err == nil {
		t.Error("--context is taken without --live")
	}
}
