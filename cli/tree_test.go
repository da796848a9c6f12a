package cli

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/manual"
	"github.com/pluralsh/plural/cli/ui"
)

// commands are all that help shows, and that do something.
func commands() (root *cobra.Command, all []*cobra.Command) {
	f := &cmdutil.Factory{IO: &ui.Streams{Out: io.Discard, ErrOut: io.Discard}, Now: now, Getenv: func(string) string { return "" }}
	root = newRoot(f)
	complete(root, f)
	visit(root, func(cmd *cobra.Command) {
		for c := cmd; c != nil; c = c.Parent() {
			if c.Hidden {
				return
			}
		}
		if !cmd.IsAdditionalHelpTopicCommand() && cmd.Runnable() {
			all = append(all, cmd)
		}
	})
	return root, all
}

func TestEveryCommandHasTwoExamples(t *testing.T) {
	_, all := commands()
	for _, cmd := range all {
		if n := len(strings.Split(strings.TrimSpace(cmd.Example), "\n")); n < 2 {
			t.Errorf("%s has %d examples", cmd.CommandPath(), n)
		}
	}
}

// TestVerbsAreFew holds the words for what can be done to a few, the same with every noun.
func TestVerbsAreFew(t *testing.T) {
	common := []string{"list", "get", "create", "set", "delete", "edit", "status", "events", "sync", "doctor", "upgrade", "config", "token"}
	own := map[string][]string{
		"access":      {"who-can", "explain", "report"},
		"agent":       {"run", "install"},
		"application": {"rotate", "rotate-keys"},
		"audit":       {"export", "verify"},
		"auth":        {"login", "logout", "end"},
		"cluster":     {"register"},
		"config":      {"unset", "path"},
		"crypto": {
			"init", "unlock", "lock", "share", "revoke", "rotate", "encrypt", "decrypt", "export", "import", "members", "groups", "confirm",
		},
		"groups":  {"confirm"},
		"hub":     {"serve", "hint", "install", "open"},
		"kube":    {"run", "proxy", "shell"},
		"local":   {"kubeconfig", "stop", "start"},
		"package": {"search", "show", "add", "remove", "outdated", "graph", "new", "lint", "publish"},
		"service": {"tree", "suspend", "resume", "ack", "history", "rollback", "restart", "render", "diff"},
		"sim":     {"run", "init", "replay"},
		"source":  {"add"},
	}
	_, all := commands()
	for _, cmd := range all {
		if !cmd.HasParent() || !cmd.Parent().HasParent() || cmd.HasSubCommands() && !slices.Contains(common, cmd.Name()) {
			continue
		}
		if !slices.Contains(common, cmd.Name()) && !slices.Contains(own[cmd.Parent().Name()], cmd.Name()) {
			t.Errorf("%s: %q is no verb of %s's: take one that others have, or say here why not", cmd.CommandPath(), cmd.Name(), cmd.Parent().Name())
		}
	}
}

var argumentName = regexp.MustCompile(`[A-Z]{2,}`)

func TestEveryArgumentCompletes(t *testing.T) {
	_, all := commands()
	for _, cmd := range all {
		_, arguments, _ := strings.Cut(cmd.Use, " ")
		if argumentName.MatchString(arguments) && cmd.ValidArgsFunction == nil {
			t.Errorf("%s: nothing completes %q: name it as other commands do, or add it to ownArguments", cmd.CommandPath(), arguments)
		}
	}
}

// TestEveryFlagCompletes tries flags that take a value; those whose help names all values complete with these.
func TestEveryFlagCompletes(t *testing.T) {
	named := regexp.MustCompile(`^(?:with --[a-z]+: )?((?:[a-z]+, )*[a-z]+ or [a-z]+)\b`)
	_, all := commands()
	for _, cmd := range all {
		cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
			if flag.NoOptDefVal != "" || flag.Hidden {
				return
			}
			fn, ok := cmd.GetFlagCompletionFunc(flag.Name)
			if !ok {
				t.Errorf("%s --%s: nothing completes it", cmd.CommandPath(), flag.Name)
				return
			}
			m := named.FindStringSubmatch(flag.Usage)
			if m == nil {
				return
			}
			got, _ := fn(cmd, nil, "")
			for word := range strings.SplitSeq(strings.ReplaceAll(m[1], " or ", ", "), ", ") {
				if !slices.ContainsFunc(got, func(c string) bool { return c == word || strings.HasPrefix(c, word+"\t") }) {
					t.Errorf("%s --%s: %q does not complete, only %q", cmd.CommandPath(), flag.Name, word, got)
				}
			}
		})
	}
}

// TestTheReferenceIsCurrent compares docs with what the commands say.
func TestTheReferenceIsCurrent(t *testing.T) {
	root, _ := commands()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	docs := filepath.Join("..", "docs")
	var want []string
	for _, p := range manual.Reference(root) {
		want = append(want, p.Name)
		got, err := os.ReadFile(filepath.Join(docs, filepath.FromSlash(p.Name)))
		if diff := cmp.Diff(string(got), string(p.Text)); diff != "" || err != nil {
			t.Errorf("docs/%s is stale: run make generate\n%v %s", p.Name, err, diff)
		}
	}
	var have []string
	for _, folder := range []string{"commands", "help"} {
		entries, _ := os.ReadDir(filepath.Join(docs, folder))
		for _, e := range entries {
			have = append(have, folder+"/"+e.Name())
		}
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("pages of commands that are gone: run make generate\n%s", diff)
	}
}

func TestKubectlCallsTheProgramByItsOwnName(t *testing.T) {
	for name, want := range map[string]string{
		"/usr/bin/plural": "plural", "bin/kubectl-plural": "kubectl plural", "plural-1.2.3": "plural", "kubectl_complete-plural": "kubectl plural",
	} {
		if got, _ := calledAs(name, nil); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if _, args := calledAs("kubectl_complete-plural", []string{"cluster", ""}); args[0] != cobra.ShellCompRequestCmd || len(args) != 3 {
		t.Error(args)
	}
	var out strings.Builder
	f := &cmdutil.Factory{IO: &ui.Streams{Out: &out, ErrOut: io.Discard}, Now: now, Getenv: func(string) string { return "" }}
	if code := run(t.Context(), f, "kubectl plural", []string{"cluster", "get", "--help"}); code != 0 || !strings.Contains(out.String(), "  kubectl plural cluster get NAME") {
		t.Error(code, out.String())
	}
}
