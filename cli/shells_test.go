package cli

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/google/go-cmp/cmp"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/test/support/needs"
)

// tab is a line at whose end a person presses tab: with the words that there are, each with what is said of it, and what the line
// becomes in zsh where one word is left.
type tab struct {
	line    string
	words   []string
	becomes string
}

// tabs are pressed in the clone of completers.
var tabs = []tab{
	{line: "plural service get ", words: []string{"api\tcharts podinfo", "web"}},
	{line: "plural service get w", words: []string{"web"}, becomes: "plural service get web "},
	{line: "plural diff s", words: []string{"svc/"}, becomes: "plural diff svc/"},
	{line: "plural diff svc/", words: []string{"svc/api\tcharts podinfo", "svc/web"}},
	{line: "plural diff svc/w", words: []string{"svc/web"}, becomes: "plural diff svc/web "},
	{line: "plural status -l env", words: []string{"env=prod"}, becomes: "plural status -l env=prod "},
	{line: "plural status --selector=env=p", words: []string{"--selector=env=prod"}, becomes: "plural status --selector=env=prod "},
	{
		line:  "plural service ack --cluster edge-1,",
		words: []string{"edge-1,edge-2"}, becomes: "plural service ack --cluster edge-1,edge-2 ",
	},
	{
		line:  "plural why --live --context edge-1=",
		words: []string{"edge-1=admin@edge\ta"}, becomes: "plural why --live --context edge-1=admin@edge ",
	},
	{line: "plural service list --filter hea", words: []string{"health:"}, becomes: "plural service list --filter health:"},
	{
		line:  "plural service list --filter health:deg",
		words: []string{"health:degraded"}, becomes: "plural service list --filter health:degraded ",
	},
	{line: "plural service list --output=y", words: []string{"--output=yaml"}, becomes: "plural service list --output=yaml "},
	{line: "plural service list -o jsonp", words: []string{"jsonpath=\tas kubectl has it"}, becomes: "plural service list -o jsonpath="},
	{line: "plural --hu", words: []string{"--hub\tthe hub's URL"}, becomes: "plural --hub "},
	{line: "plural -C ap", words: []string{"apps/"}, becomes: "plural -C apps/"},
	{line: "plural --dir=ap", words: []string{"--dir=apps/"}, becomes: "plural --dir=apps/"},
	{line: "plural -C ../fleet service get w", words: []string{"web"}, becomes: "plural -C ../fleet service get web "},
	{line: "plural crypto decrypt wi", words: []string{"with space.yaml"}, becomes: `plural crypto decrypt with\ space.yaml `},
	{line: "plural kube run edge-1 -- helm -f wi", words: []string{"with space.yaml"}, becomes: `plural kube run edge-1 -- helm -f with\ space.yaml `},
	{line: "plural service create ", words: nil, becomes: "plural service create "},
}

// atTheHub are lines that a person types outside of a clone.
var atTheHub = []tab{
	{line: "plural service get ", words: []string{"redis\thealthy, 2/2 clusters", "worker\tfailed, 1/2 clusters"}},
	{line: "plural source get ", words: []string{"podinfo\thttps://example.com/podinfo"}},
}

// completers is a folder with a clone, a home, and this program on PATH, and the environment of shells in it.
func completers(t *testing.T) (dir string, env []string) {
	t.Helper()
	dir = t.TempDir()
	const head = "apiVersion: plural.sh/v1alpha1\nkind: "
	for name, text := range map[string]string{
		"fleet/plural.yaml":         head + "Workspace\nmetadata: {name: demo}\n",
		"fleet/clusters/edges.yaml": head + "Cluster\nmetadata: {name: edge-1}\nspec: {tags: {env: prod}}\n---\n" + head + "Cluster\nmetadata: {name: edge-2}\n",
		"fleet/services/web.yaml":   head + "Service\nmetadata: {name: web}\n",
		"fleet/services/api.yaml":   head + "Service\nmetadata: {name: api}\nspec: {source: {name: charts}, helm: {chart: podinfo}}\n",
		// No shell is to be given this.
		"fleet/services/evil.yaml":   head + "Service\nmetadata: {name: \"w$(touch${IFS}evil)\"}\n",
		"fleet/applications.txt":     "a file beside the folder apps\n",
		"fleet/apps/web/values.yaml": "a: 1\n",
		"fleet/with space.yaml":      "a: 1\n",
		"home/.kube/config":          "contexts:\n- name: admin@edge\n  context: {cluster: a}\n",
		"elsewhere/file":             "no clone\n",
	} {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(program, filepath.Join(dir, "bin", "plural")); err != nil { // see TestMain
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "git", "-C", filepath.Join(dir, "fleet"), "init", "-q").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	home := filepath.Join(dir, "home")
	return dir, []string{
		"HOME=" + home, "ZDOTDIR=" + home, "PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH"), "TERM=xterm", "LC_ALL=C.UTF-8",
	}
}

// hubs are one that answers at once, and one that never does.
func hubs(t *testing.T) (quick, never string) {
	t.Helper()
	answers := httptest.NewServer(&fakeHub{
		services: []v1.Service{
			{Name: "worker", Phase: v1.Failed, Clusters: 2, Ready: 1}, {Name: "redis", Phase: v1.Healthy, Clusters: 2, Ready: 2},
		},
		sources: []v1.Source{{Name: "podinfo", Kind: "git", URL: "https://example.com/podinfo"}},
	})
	t.Cleanup(answers.Close)
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(silent.Close)
	return answers.URL, silent.URL
}

// until does something again until it is right. What completes gives up after a part of a second, which a busy machine may need for
// less; a person presses tab again.
func until(t *testing.T, try func() (fault string)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for fault := try(); fault != ""; fault = try() {
		if ctx.Err() != nil {
			t.Error(fault)
			return
		}
	}
}

// fishes has one fish complete all lines it is given.
const fishes = "plural completion fish | source; for line in $argv; echo \"= $line\"; complete -C $line; end"

func TestFishCompletes(t *testing.T) {
	fish := needs.Program(t, "fish", "fish")
	dir, env := completers(t)
	quick, never := hubs(t)
	// Each line has to come right once, and is asked for again until it does.
	is := func(folder, hub string, want map[string]string) {
		until(t, func() string {
			cmd := exec.CommandContext(t.Context(), fish, append([]string{"--no-config", "-c", fishes}, slices.Sorted(maps.Keys(want))...)...)
			cmd.Dir, cmd.Env = filepath.Join(dir, folder), append(env, "PLURAL_HUB="+hub)
			var told bytes.Buffer
			cmd.Stderr = &told
			out, err := cmd.Output()
			if err != nil || told.Len() > 0 {
				return fmt.Sprintf("%v: %q", err, told.String())
			}
			fault := ""
			for _, answer := range strings.Split("\n"+strings.TrimSuffix(string(out), "\n"), "\n= ")[1:] {
				line, words, _ := strings.Cut(answer, "\n")
				if diff := cmp.Diff(want[line], words); diff != "" {
					fault += line + ":\n" + diff
					continue
				}
				delete(want, line)
			}
			if fault == "" && len(want) > 0 {
				fault = fmt.Sprintf("nothing is said of %q", slices.Sorted(maps.Keys(want)))
			}
			return fault
		})
	}
	words := func(of []tab) map[string]string {
		all := map[string]string{}
		for _, tab := range of {
			all[tab.line] = strings.Join(tab.words, "\n")
		}
		return all
	}
	is("fleet", never, words(tabs))
	silence := words(atTheHub)
	for line := range silence {
		silence[line] = ""
	}
	is("elsewhere", never, silence)
	is("elsewhere", quick, words(atTheHub))
}

// zshrc has ctrl-t tell what stands in the line, and empty it.
const zshrc = `
autoload -Uz compinit && compinit -D -u
source <(plural completion zsh)
PROMPT='% '
setopt no_beep
zle-line-init() { print -rn -- $'\x03' }; zle -N zle-line-init
told() { print -rn -- $'\x01'"$BUFFER"$'\x02'; BUFFER='' }; zle -N told; bindkey '^T' told
`

// terminal is an interactive zsh, and what it has printed that nobody has looked at.
type terminal struct {
	t       *testing.T
	keys    *os.File
	printed chan []byte
	rest    []byte
}

func newTerminal(t *testing.T, dir string, env []string) *terminal {
	t.Helper()
	zsh := needs.Program(t, "zsh", "zsh")
	if err := os.WriteFile(filepath.Join(dir, "..", "home", ".zshrc"), []byte(zshrc), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, zsh, "-d", "-i")
	cmd.Dir, cmd.Env = dir, env
	keys, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 50, Cols: 160})
	if err != nil {
		t.Fatal(err)
	}
	term := &terminal{t: t, keys: keys, printed: make(chan []byte)}
	go func() {
		defer close(term.printed)
		for {
			chunk := make([]byte, 4096)
			n, err := keys.Read(chunk)
			if err != nil {
				return
			}
			select {
			case term.printed <- chunk[:n]:
			case <-ctx.Done():
				return
			}
		}
	}()
	t.Cleanup(func() {
		end()
		_ = cmd.Wait() // it is killed
		_ = keys.Close()
	})
	term.until(3)
	return term
}

// until is what is printed up to a mark.
func (term *terminal) until(mark byte) string {
	term.t.Helper()
	late := time.After(time.Minute)
	for {
		if at := bytes.IndexByte(term.rest, mark); at >= 0 {
			text := string(term.rest[:at])
			term.rest = term.rest[at+1:]
			return text
		}
		select {
		case chunk, open := <-term.printed:
			if !open {
				term.t.Fatalf("zsh has ended: %q", term.rest)
			}
			term.rest = append(term.rest, chunk...)
		case <-late:
			term.t.Fatalf("zsh does not go on: %q", term.rest)
		}
	}
}

func (term *terminal) press(keys string) {
	term.t.Helper()
	if _, err := term.keys.WriteString(keys); err != nil {
		term.t.Fatal(err)
	}
}

// drawing is what terminals are told besides text.
var drawing = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]|\x1b[=>]|\r|.\b")

// tab types a line and presses tab: what is then on the screen, and in the line.
func (term *terminal) tab(line string) (screen, becomes string) {
	term.t.Helper()
	term.press(line + "\t\x14")
	return drawing.ReplaceAllString(term.until(1), ""), term.until(2)
}

// run has the shell run a command.
func (term *terminal) run(command string) {
	term.t.Helper()
	term.press(command + "\n")
	term.until(3)
}

func TestZshCompletesInATerminal(t *testing.T) {
	dir, env := completers(t)
	quick, never := hubs(t)
	term := newTerminal(t, filepath.Join(dir, "fleet"), append(env, "PLURAL_HUB="+never))
	lists := func(line string, words []string) {
		until(t, func() string {
			screen, becomes := term.tab(line)
			said := strings.Join(strings.Fields(screen), " ")
			for _, word := range words {
				if word, about, _ := strings.Cut(word, "\t"); becomes != line || !strings.Contains(said, strings.TrimSuffix(word+" -- "+about, " -- ")) {
					return fmt.Sprintf("%q becomes %q; of %q it says %q", line, becomes, word, screen)
				}
			}
			return ""
		})
	}
	becomes := func(line, want string) {
		until(t, func() string {
			if screen, becomes := term.tab(line); becomes != want {
				return fmt.Sprintf("%q becomes %q, want %q: %q", line, becomes, want, screen)
			}
			return ""
		})
	}
	for _, tab := range tabs {
		if tab.becomes == "" {
			lists(tab.line, tab.words)
			continue
		}
		becomes(tab.line, tab.becomes)
	}
	term.run("cd ../elsewhere; export PLURAL_HUB=" + quick)
	lists(atTheHub[0].line, atTheHub[0].words)
	becomes("plural service get w", "plural service get worker ")

	// Of a hub that says nothing the terminal says nothing.
	term.run("export XDG_CACHE_HOME=$PWD/cache PLURAL_HUB=" + never)
	screen, line := term.tab("plural service get ")
	if line != "plural service get " || strings.Contains(screen, "\n") || strings.Contains(screen, "error") {
		t.Errorf("%q: %q", line, screen)
	}
	if _, err := os.Stat(filepath.Join(dir, "fleet", "evil")); err == nil {
		t.Error("a name was run")
	}
}

// TestTheScriptOfPowerShellIsWhole looks at what can be seen of it without PowerShell: strings and brackets end, and nothing is left
// of the template that it was made from.
func TestTheScriptOfPowerShellIsWhole(t *testing.T) {
	got := plural(t, t.Context(), troubled(), false, "completion", "powershell")
	if left := regexp.MustCompile(`%!?\[?[0-9a-z]*\]?[sd]\b|%!`).FindString(got.out); left != "" || !strings.Contains(got.out, "-CommandName 'plural'") {
		t.Errorf("%q is left of a template: %s", left, got.out)
	}
	closes := map[rune]rune{')': '(', ']': '[', '}': '{'}
	var open []rune
	for number, line := range strings.Split(got.out, "\n") {
		var quote rune
		escaped := false
	line:
		for _, c := range line {
			switch {
			case escaped:
				escaped = false
			case c == '`' && quote != '\'':
				escaped = true
			case quote != 0:
				if c == quote {
					quote = 0
				}
			case c == '\'' || c == '"':
				quote = c
			case c == '#':
				break line
			case strings.ContainsRune("([{", c):
				open = append(open, c)
			case closes[c] != 0:
				if len(open) == 0 || open[len(open)-1] != closes[c] {
					t.Fatalf("line %d: %q closes nothing: %s", number+1, c, line)
				}
				open = open[:len(open)-1]
			}
		}
		if quote != 0 {
			t.Errorf("line %d: a string does not end: %s", number+1, line)
		}
	}
	if len(open) > 0 {
		t.Errorf("%q are never closed", open)
	}
}
