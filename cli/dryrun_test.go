package cli

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/ui"
)

// dryRuns is how each command with --dry-run is called in the office, and what it says where it cannot succeed there.
var dryRuns = map[string]struct{ args, fails string }{
	"plural agent install":           {args: "edge-1 --kubeconfig nothing", fails: "no package of the repo puts an agent on cluster edge-1"},
	"plural agent upgrade":           {},
	"plural application create":      {args: "grafana --redirect-uri https://grafana.example.com/login --group ops", fails: "no keys to sign"},
	"plural application delete":      {args: "grafana", fails: "no application"},
	"plural application rotate":      {args: "grafana", fails: "no application"},
	"plural application rotate-keys": {fails: "the group hub"},
	"plural auth end":                {args: "ada"},
	"plural auth token create":       {args: "grace"},
	"plural auth token delete":       {args: "ada laptop"},
	"plural cluster create":          {args: "edge-9 tags.env=prod"},
	"plural cluster delete":          {args: "edge-2 --yes"},
	"plural cluster edit":            {args: "edge-1", fails: "editor"},
	"plural cluster register":        {args: "edge-1 --kubeconfig nothing", fails: "no cluster to register"},
	"plural cluster set":             {args: "edge-1 tag.env=prod"},
	"plural cluster token":           {args: "edge-1 --hub https://hub.example.com"},
	"plural cluster upgrade":         {args: "edge-1", fails: "no package of the repo puts an agent"},
	"plural crypto groups create":    {args: "ops --member alice"},
	"plural crypto groups delete":    {args: "ops", fails: `there is no group`},
	"plural crypto init":             {},
	"plural crypto revoke":           {args: "bob", fails: "a member of no group"},
	"plural crypto rotate":           {},
	"plural crypto share":            {args: "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p --name carol --group fleet"},
	"plural deploy":                  {},
	"plural down":                    {args: "."},
	"plural hub install":             {args: "--set repo=https://git.example.com/fleet.git"},
	"plural hub upgrade":             {fails: "no hub"},
	"plural local create":            {args: "scratch"},
	"plural local delete":            {args: "scratch", fails: "no cluster"},
	"plural package add":             {args: "hub --set repo=https://git.example.com/fleet.git"},
	"plural package publish":         {args: "nothing oci://127.0.0.1:1/nothing", fails: "nothing"},
	"plural package remove":          {args: "agent"},
	"plural package set":             {args: "agent tag=1.2.3"},
	"plural package upgrade":         {},
	"plural secret delete":           {args: "secrets/db.yaml password"},
	"plural secret set":              {args: "secrets/db.yaml user"},
	"plural service ack":             {args: "web"},
	"plural service create":          {args: "api --path apps/api --cluster edge-1"},
	"plural service delete":          {args: "web"},
	"plural service edit":            {args: "web", fails: "editor"},
	"plural service resume":          {args: "web"},
	"plural service rollback":        {args: "web"},
	"plural service set":             {args: "web replicas=3"},
	"plural service suspend":         {args: "web"},
	"plural source add":              {args: "charts --helm https://charts.example.com"},
	"plural source delete":           {args: "podinfo"},
	"plural source edit":             {args: "podinfo", fails: "editor"},
	"plural source set":              {args: "podinfo --ref 6.8.0"},
	"plural undo":                    {},
	"plural update":                  {args: "--version 1.2.3 --from nowhere", fails: "is not verified"},
}

func TestWhatMakesACommitHasADryRun(t *testing.T) {
	_, all := commands()
	for _, cmd := range all {
		if cmd.Flags().Lookup("message") != nil && cmd.Flags().Lookup("dry-run") == nil {
			t.Errorf("%s commits, and has no --dry-run", cmd.CommandPath())
		}
	}
}

// TestDryRunsLeaveEverythingAsItWas runs each of them, and looks at the clone, the origin and the person's own files.
func TestDryRunsLeaveEverythingAsItWas(t *testing.T) {
	office := newOffice(t)
	before := office.state(t)
	tried := map[string]bool{}
	_, all := commands()
	for _, cmd := range all {
		if cmd.Flags().Lookup("dry-run") == nil {
			continue
		}
		row, ok := dryRuns[cmd.CommandPath()]
		if !ok {
			t.Errorf("%s is not tried here: say how it is called", cmd.CommandPath())
			continue
		}
		tried[cmd.CommandPath()] = true
		office.try(t, cmd, row.args, row.fails, before)
	}
	for command := range dryRuns {
		if !tried[command] {
			t.Errorf("%s has no --dry-run any more", command)
		}
	}
}

func (o *office) try(t *testing.T, cmd *cobra.Command, args, fails, before string) {
	t.Run(cmd.CommandPath(), func(t *testing.T) {
		got := o.plural(t, append(strings.Fields(cmd.CommandPath() + " " + args)[1:], "--dry-run")...)
		if (got.code == ui.ExitOK) != (fails == "") || !strings.Contains(got.errOut, fails) {
			t.Errorf("%d: %q\n%s", got.code, got.out, got.errOut)
		}
		if got.code != ui.ExitOK && got.out != "" {
			t.Errorf("stdout of a failure: %q", got.out)
		}
		if diff := cmp.Diff(before, o.state(t)); diff != "" {
			t.Error(diff)
		}
	})
}

// office is a desk whose fleet is committed and pushed.
type office struct {
	*desk
	origin string
}

func newOffice(t *testing.T) *office {
	t.Helper()
	o := &office{desk: newDesk(t)}
	o.origin = filepath.Join(filepath.Dir(o.repo), "origin.git")
	t.Setenv("PLURAL_CONFIG_DIR", o.config)
	t.Chdir(o.repo)
	const head = "apiVersion: plural.sh/v1alpha1\nkind: "
	for name, text := range map[string]string{
		"clusters/edge-1.yaml":   head + "Cluster\nmetadata: {name: edge-1}\n",
		"clusters/edge-2.yaml":   head + "Cluster\nmetadata: {name: edge-2}\n",
		"services/web.yaml":      head + "Service\nmetadata: {name: web}\nspec:\n  source: {path: apps/web}\n  clusters: {names: [edge-1]}\n  parameters: {replicas: \"1\"}\n",
		"sources/podinfo.yaml":   head + "Source\nmetadata: {name: podinfo}\nspec: {git: {url: https://example.com/podinfo, ref: 6.7.0}}\n",
		"apps/web/settings.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {color: blue}\n",
		"apps/api/settings.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: api}\n",
	} {
		path := filepath.Join(o.repo, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	o.git(t, "add", "-A")
	o.git(t, "commit", "-q", "-m", "Begin")
	if got := o.plural(t, "service", "set", "web", "replicas=2", "--no-push"); got.code != ui.ExitOK {
		t.Fatal(got.errOut)
	}
	if got := o.plural(t, "validate"); got.code != ui.ExitOK {
		t.Fatal(got.errOut)
	}
	o.git(t, "clone", "-q", "--bare", o.repo, o.origin)
	o.git(t, "remote", "add", "origin", o.origin)
	o.git(t, "fetch", "-q")
	return o
}

func (o *office) git(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = o.repo
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// state is the clone, its refs, the origin's, and what the person has beside it, as text.
func (o *office) state(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(o.git(t, "status", "--porcelain", "--untracked-files=all"))
	b.WriteString(o.git(t, "for-each-ref"))
	b.WriteString(o.git(t, "stash", "list"))
	b.WriteString(o.git(t, "--git-dir", o.origin, "for-each-ref"))
	b.WriteString(o.git(t, "rev-parse", "HEAD"))
	for _, root := range []string{o.repo, o.config} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "catalogs") { // git's own notes, and copies that may go at any time
				return filepath.SkipDir
			}
			if !entry.Type().IsRegular() {
				return nil
			}
			text, err := os.ReadFile(path)
			fmt.Fprintf(&b, "%x %s\n", sha256.Sum256(text), path)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}
