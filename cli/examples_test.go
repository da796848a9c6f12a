package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
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

	"github.com/rogpeppe/go-internal/txtar"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/templates"
)

// examples are the command lines of all commands' help and of the pages, each with where it is first found. Those of the guide run
// in test/guide.
func examples(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	add := func(line, from string) {
		if _, known := found[line]; !known {
			found[line] = from
		}
	}
	_, all := commands()
	for _, cmd := range all {
		for line := range strings.Lines(cmd.Example) {
			add(strings.TrimSpace(line), cmd.CommandPath()+" --help")
		}
	}
	pages := []string{filepath.Join("..", "README.md")}
	err := filepath.WalkDir(filepath.Join("..", "docs"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && slices.Contains([]string{"decisions", "commands", "guide"}, entry.Name()) {
			return filepath.SkipDir
		}
		if err == nil && strings.HasSuffix(path, ".md") {
			pages = append(pages, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range typedIn(string(text)) {
			add(line, page)
		}
	}
	return found
}

var (
	// remark is what stands behind a command for its reader.
	remark = regexp.MustCompile(`\s+#.*$`)
	// command is a line that runs the program.
	command = regexp.MustCompile(`^(\$ |[a-z]+ [a-z0-9]+ \| |source <\()?plural [a-z-]`)
)

// typedIn are the command lines in the blocks of a page.
func typedIn(text string) (lines []string) {
	inBlock, begun := false, ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") {
			inBlock = !inBlock
			continue
		}
		if before, continued := strings.CutSuffix(line, `\`); continued && inBlock {
			begun += before
			continue
		}
		line, begun = begun+line, ""
		if inBlock && command.MatchString(line) {
			lines = append(lines, strings.TrimPrefix(remark.ReplaceAllString(line, ""), "$ "))
		}
	}
	return lines
}

// TestEveryExampleRuns runs what people copy from help and pages, each in the same installation repo, against a hub's canned answers.
func TestEveryExampleRuns(t *testing.T) {
	all, apart := examples(t), examplesApart(t)
	room := newShowroom(t) // where we then are
	used := map[string]bool{}
	for _, line := range slices.Sorted(maps.Keys(all)) {
		t.Run(line, func(t *testing.T) {
			name, why := apart.of(line)
			used[name] = true
			if why.notRun != "" {
				if err := parses(line); err != nil && strings.HasPrefix(line, "plural ") && !strings.HasSuffix(line, " ...") {
					t.Errorf("%s: %v", all[line], err)
				}
				return
			}
			room.prepare(t, line)
			got := room.run(t, line)
			if (got.code == ui.ExitOK) != (why.says == "") || !strings.Contains(got.errOut, why.says) {
				t.Errorf("%s: it ends with %d\n%s%s", all[line], got.code, got.out, got.errOut)
			}
			room.tidy(t)
		})
	}
	notRun := 0
	for name, why := range apart {
		if !used[name] {
			t.Errorf("%q is listed in apart.txt, and is no example any more", name)
		}
		if why.notRun != "" {
			notRun++
		}
	}
	if notRun > mostNotRun {
		t.Errorf("%d lines are listed as not run, where there were %d: they only become fewer", notRun, mostNotRun)
	}
}

// TestExamplesTakePackagesThatTheirReaderHas keeps help from naming packages that no catalog of a new fleet has: all but web,
// which is what plural package new makes on every page that speaks of it.
func TestExamplesTakePackagesThatTheirReaderHas(t *testing.T) {
	builtin, err := fs.Glob(templates.Catalog(), "*")
	if err != nil {
		t.Fatal(err)
	}
	looked := 0
	for line, from := range examples(t) {
		words := strings.Fields(line)
		if len(words) < 4 || words[1] != "package" || !slices.Contains([]string{"add", "show"}, words[2]) {
			continue
		}
		looked++
		if name, _, _ := strings.Cut(words[3], "@"); name != "web" && !slices.Contains(builtin, name) {
			t.Errorf("%s: %s: a new fleet's catalog has %v, and no %s", from, line, builtin, name)
		}
	}
	if looked < 3 {
		t.Errorf("%d examples were looked at", looked)
	}
}

// mostNotRun is how many lines of apart.txt may name examples that are not run. It may only be made smaller.
const mostNotRun = 71

// apartness is why an example does not simply work in the showroom.
type apartness struct {
	// notRun is the reason; empty when it runs.
	notRun string
	// says is in the error with which it ends.
	says string
}

// aparts are by the example, or by what all of them begin with: "plural sim *".
type aparts map[string]apartness

// of is what is said of a line, with the name under which that stands.
func (a aparts) of(line string) (name string, why apartness) {
	if why, ok := a[line]; ok {
		return line, why
	}
	for name, why := range a {
		if begins, ok := strings.CutSuffix(name, "*"); ok && strings.HasPrefix(line+" ", begins) {
			return name, why
		}
	}
	return line, apartness{}
}

// examplesApart reads testdata/examples/apart.txt: lines below a heading "# not run: REASON" or "# fails: TEXT OF THE ERROR".
func examplesApart(t *testing.T) aparts {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "examples", "apart.txt"))
	if err != nil {
		t.Fatal(err)
	}
	all := aparts{}
	var why apartness
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		reason, isNotRun := strings.CutPrefix(line, "# not run: ")
		says, isFailing := strings.CutPrefix(line, "# fails: ")
		switch {
		case isNotRun:
			why = apartness{notRun: reason}
		case isFailing:
			why = apartness{says: says}
		case line != "":
			all[line] = why
		}
	}
	return all
}

// showroom is a place where what examples speak of is there.
type showroom struct {
	// root has what is kept, and the folder now, in which examples run.
	root, now string
	hub       string
	// commit is what examples call 4f9c2a1.
	commit string
	// stamp tells whether anything was written since the showroom was tidy.
	stamp string
}

func newShowroom(t *testing.T) *showroom {
	t.Helper()
	s := &showroom{root: t.TempDir()}
	s.now = filepath.Join(s.root, "now")
	hub := httptest.NewServer(http.HandlerFunc(s.answer))
	t.Cleanup(hub.Close)
	s.hub = hub.URL
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(s.root, "bin")
	for name, value := range map[string]string{
		"HOME": filepath.Join(s.now, "home"), "PATH": bin + ":" + os.Getenv("PATH"), "PLURAL_HUB": s.hub,
		"PLURAL_CONFIG_DIR": filepath.Join(s.now, "config"), "PLURAL_CACHE_DIR": filepath.Join(s.root, "cache"),
		"XDG_STATE_HOME": filepath.Join(s.now, "state"), "KUBECONFIG": filepath.Join(s.now, "home", "kubeconfig"),
		"PLURAL_ALLOW_FILE_SOURCES": "1", "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "alice", "GIT_AUTHOR_EMAIL": "alice@localhost",
		"GIT_COMMITTER_NAME": "alice", "GIT_COMMITTER_EMAIL": "alice@localhost",
		"EDITOR": "true", "NO_COLOR": "1",
	} {
		t.Setenv(name, value)
	}
	archive, err := txtar.ParseFile(filepath.Join("testdata", "examples", "world.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{bin, filepath.Join(s.now, "home"), filepath.Join(s.now, "state")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(program, filepath.Join(bin, "plural")); err != nil { // see TestMain
		t.Fatal(err)
	}
	s.must(t, ".", "plural init fleet --name fleet --no-seal")
	setup := ""
	for _, file := range archive.Files {
		if file.Name == "setup" {
			setup = string(file.Data)
			continue
		}
		path := filepath.Join(s.now, filepath.FromSlash(file.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, bytes.ReplaceAll(file.Data, []byte("ROOT"), []byte(s.now)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for line := range strings.Lines(setup) {
		s.must(t, "fleet", strings.TrimSpace(line))
	}
	s.commit = strings.TrimSpace(s.must(t, "fleet", "git rev-parse --short HEAD~1"))
	s.keep(t)
	return s
}

// must runs a line that sets up the showroom, and gives what it prints.
func (s *showroom) must(t *testing.T, folder, line string) string {
	t.Helper()
	t.Chdir(filepath.Join(s.now, folder))
	got := s.run(t, line)
	if got.code != ui.ExitOK {
		t.Fatalf("%s: %d\n%s%s", line, got.code, got.out, got.errOut)
	}
	return got.out
}

// making are lines that make something by a name, which must not be there.
var making = regexp.MustCompile(`^plural (cluster|cl|service|svc|source|src|package|pkg|crypto groups) (create|add) ([a-z0-9-]+)`)

// prepare does what whoever types the line has done before. It is no matter if it was not needed.
func (s *showroom) prepare(t *testing.T, line string) {
	t.Helper()
	m := making.FindStringSubmatch(line)
	switch {
	case m != nil && strings.HasPrefix(m[1], "p"):
		s.run(t, "plural package remove "+m[3]+" --orphans")
		s.run(t, "plural package remove "+m[3])
	case m != nil:
		s.run(t, "plural "+m[1]+" delete "+m[3])
	case strings.Contains(line, "auth token create"):
		s.run(t, "git rm -q access/ada.yaml")
	case strings.Contains(line, " --redo"):
		s.run(t, "plural undo")
	case strings.HasPrefix(line, "plural application"):
		s.run(t, "plural crypto groups create hub --member alice --path 'secrets/hub/**'")
		s.run(t, "plural application rotate-keys")
		if !strings.Contains(line, "create") {
			s.run(t, "plural application create grafana --redirect-uri https://grafana.example.com/login --group staff")
			s.run(t, "plural application create wiki --redirect-uri https://wiki.example.com/callback --group staff")
		}
	case strings.HasPrefix(line, "plural service resume") || strings.HasPrefix(line, "plural svc resume"):
		s.run(t, "plural service suspend web")
	}
}

// plainly is a line that is run without a shell.
var plainly = regexp.MustCompile(`^plural ([^|<>&$;"~]|\|\|)*$`)

// run types a line. What would go on for ever ends when it has said something.
func (s *showroom) run(t *testing.T, line string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var errOut bytes.Buffer
	out := &hearing{cancel: func() {}}
	for name, here := range map[string]string{"https://hub.example.com": s.hub, "4f9c2a1": s.commit} {
		line = strings.ReplaceAll(line, name, here)
	}
	if endless.MatchString(line) {
		out.cancel = cancel
	}
	words, err := split(line)
	if err != nil || strings.Contains(line, "='") || !plainly.MatchString(strings.Join(strings.Split(line, "'"), "")) {
		cmd := exec.CommandContext(ctx, "bash", "-c", line)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader("hunter2"), out, &errOut
		err := cmd.Run()
		if err != nil {
			fmt.Fprintln(&errOut, err)
		}
		return result{ui.Code(cmd.ProcessState.ExitCode()), out.String(), errOut.String()}
	}
	f := &cmdutil.Factory{
		IO: &ui.Streams{In: strings.NewReader("hunter2"), Out: out, ErrOut: &errOut, Width: 100}, Version: "test",
		Now: now, Getenv: os.Getenv,
	}
	code := ui.Code(run(ctx, f, "plural", answering(words[1:])))
	if ctx.Err() != nil && endless.MatchString(line) && out.Len() > 0 {
		code = ui.ExitOK // it was interrupted
	}
	return result{code, out.String(), errOut.String()}
}

// answering is args with the answers that a person would give, and without the wait for what only a real hub observes.
func answering(args []string) []string {
	root := newRoot(&cmdutil.Factory{IO: &ui.Streams{Out: io.Discard, ErrOut: io.Discard}, Now: now, Getenv: os.Getenv})
	cmd, rest, err := root.Find(args)
	if err != nil || cmd.DisableFlagParsing || cmd == root || slices.Contains(args, "--") {
		return args
	}
	if cmd.ParseFlags(rest) != nil {
		return args
	}
	args = append(slices.Clone(args), "--yes")
	if flag := cmd.Flags().Lookup("wait"); flag != nil && flag.DefValue == "true" && !flag.Changed {
		args = append(args, "--wait=false")
	}
	if flag := cmd.Flags().Lookup("confirm"); flag != nil && !flag.Changed && cmd.Flags().NArg() > 0 {
		args = append(args, "--confirm="+cmd.Flags().Arg(0))
	}
	return args
}

// endless are lines that go on.
var endless = regexp.MustCompile(` (--watch|-f|-w)( |$)`)

// hearing cancels when something is written.
type hearing struct {
	bytes.Buffer
	cancel func()
}

func (h *hearing) Write(text []byte) (int, error) {
	h.cancel()
	return h.Buffer.Write(text)
}

// keep remembers the showroom as it is.
func (s *showroom) keep(t *testing.T) {
	t.Helper()
	s.copies(t, s.now, filepath.Join(s.root, "kept"))
	s.stamp = s.looks(t)
}

// looks tells whether anything was written since.
func (s *showroom) looks(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(s.now, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && !entry.IsDir() {
			fmt.Fprintln(&b, path, info.Size(), info.ModTime().UnixNano())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// tidy puts everything back where an example has changed something.
func (s *showroom) tidy(t *testing.T) {
	t.Helper()
	if s.looks(t) == s.stamp {
		return
	}
	entries, err := os.ReadDir(s.now)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		dir := filepath.Join(s.now, entry.Name())
		if entry.Name() != "fleet" {
			err = os.RemoveAll(dir)
		} else { // where we are
			err = empty(dir)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s.copies(t, filepath.Join(s.root, "kept"), s.now)
	s.stamp = s.looks(t)
}

// copies copies with modes, since identities are only for their owner.
func (s *showroom) copies(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", from+"/.", to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		if err := os.RemoveAll(filepath.Join(dir, entry.Name())); err != nil {
			return err
		}
	}
	return err
}

// served are paths of things that have names.
var (
	served = regexp.MustCompile(`^(services|clusters|sources)/[^/]+`)
	within = regexp.MustCompile(`^clusters/edge-1/services/[^/]+`)
)

// answer is what a hub says that has whatever examples speak of, and has served what was pushed last.
func (s *showroom) answer(w http.ResponseWriter, r *http.Request) {
	path := served.ReplaceAllStringFunc(strings.TrimPrefix(r.URL.Path, "/v1/"), func(named string) string {
		kind, _, _ := strings.Cut(named, "/")
		return kind + "/" + map[string]string{"services": "web", "clusters": "edge-1", "sources": "podinfo"}[kind]
	})
	answer, ok := everything()[within.ReplaceAllString(path, "clusters/edge-1/services/web")]
	switch {
	case r.Method == http.MethodPost:
		w.WriteHeader(http.StatusAccepted)
	case !ok:
		w.WriteHeader(http.StatusNotFound)
		answer = v1.Error{Message: "no such thing"}
	}
	body, err := json.Marshal(answer)
	if err != nil {
		panic(err)
	}
	if head, err := os.ReadFile(filepath.Join(s.now, "origin.git", "refs", "heads", "main")); err == nil {
		body = bytes.ReplaceAll(body, []byte("0123456789"), bytes.TrimSpace(head))
	}
	_, _ = w.Write(body)
}
