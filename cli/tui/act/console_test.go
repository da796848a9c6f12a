package act_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/google/go-cmp/cmp"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/tui/act"
	"github.com/pluralsh/plural/cli/tui/model"
	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/cli/tui/pane"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/test/support/needs"
	"github.com/pluralsh/plural/workspace"
)

var update = flag.Bool("update", false, "write the golden files anew")

// asProgram has this test binary be the program that is run.
const asProgram = "ACT_TEST_IS_THE_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(program(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// seen is what the program finds when it is run.
type seen struct {
	Args []string `json:"args"`
	// Stdin is what could be read, Terminal whether there is one to ask on, Leads whether it leads a session of its own.
	Stdin    string `json:"stdin"`
	Terminal bool   `json:"terminal"`
	Leads    bool   `json:"leads"`
	Env      string `json:"env"`
}

// program does what the words in its arguments say.
func program(args []string) int {
	if file := os.Getenv("ACT_TEST_RAN"); file != "" {
		f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			fmt.Fprintln(f, strings.Join(args, " "))
			_ = f.Close()
		}
	}
	has := func(word string) bool {
		return slices.ContainsFunc(args, func(arg string) bool { return strings.Contains(arg, word) })
	}
	switch {
	case has("broken"):
		fmt.Fprint(os.Stderr, "error: service broken is not there\n"+
			"  cause: services/ has no broken.yaml\n  fix:   plural service list\n")
		return 1
	case has("--dry-run"):
		if has("4f9c2a1") {
			fmt.Fprintf(os.Stderr, "this takes back who can open or do what: access/ada.yaml\n%s4f9c2a1\n", ui.ToConfirm)
		}
		fmt.Fprint(os.Stderr, "it waits for nobody\n")
		change := "+  suspend: true"
		if file := os.Getenv("ACT_TEST_CHANGE"); file != "" {
			text, _ := os.ReadFile(file)
			change = string(text)
		}
		fmt.Fprintf(os.Stdout, "--- a/services/web.yaml\n+++ b/services/web.yaml\n@@ -4,3 +4,4 @@\n spec:\n   namespace: web\n%s\n", change)
		return 0
	case has("port-forward"):
		fmt.Fprintln(os.Stdout, "Forwarding from 127.0.0.1:8080 -> 80")
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGTERM)
		<-stop
		return 143
	case has("slow"), has("stubborn"):
		stop := make(chan os.Signal, 1)
		if has("slow") {
			signal.Notify(stop, syscall.SIGTERM)
		} else {
			// Signals go to nobody. With none to come at all, Go would end a process that waits for ever.
			signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM)
		}
		fmt.Fprintln(os.Stdout, "ready")
		if file := os.Getenv("ACT_TEST_READY"); file != "" {
			_ = os.WriteFile(file, nil, 0o600)
		}
		<-stop
		fmt.Fprint(os.Stderr, "error: interrupted\n")
		return 130
	case has("noisy"):
		for i := range 100_000 {
			fmt.Fprintf(os.Stdout, "line %d\n", i)
		}
		return 0
	case has("observe"):
		_, err := os.Open("/dev/tty")
		text, _ := io.ReadAll(os.Stdin)
		sid, _, _ := syscall.Syscall(syscall.SYS_GETSID, 0, 0, 0)
		_ = json.NewEncoder(os.Stdout).Encode(seen{args, string(text), err == nil, int(sid) == os.Getpid(), os.Getenv("ACT_TEST_WORD")})
		return 0
	case has("undo"), has("resume"):
		commit := exec.Command("git", "commit", "--quiet", "--allow-empty", "-m", strings.Join(args, " "))
		commit.Dir = os.Getenv("ACT_TEST_REPO")
		if out, err := commit.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "error: %v: %s\n", err, out)
			return 1
		}
	}
	fmt.Fprintf(os.Stderr, "looking\nobserved: %s\n", args[len(args)-1])
	return 0
}

// console does with messages what the console does: it has a stack of panes, and a line where something is told.
type console struct {
	t     *testing.T
	world *pane.World
	desk  *act.Desk
	stack []pane.Pane
	told  []pane.Told
	asked pane.Question
	// copied is what went to the clipboard.
	copied string
	list   rows
	// ran is a file with the commands that were run.
	ran string
	env []string
}

// rows is a pane that points to subjects.
type rows struct {
	subjects []pane.Subject
	unmarked int
}

func (r *rows) Subjects() []pane.Subject { return r.subjects }
func (r *rows) Marked() int              { return len(r.subjects) }
func (r *rows) Unmark()                  { r.unmarked++ }

func newConsole(t *testing.T, env ...string) *console {
	t.Helper()
	needs.Program(t, "git", "git")
	hub, err := client.New("http://127.0.0.1:1", "", "test")
	if err != nil {
		t.Fatal(err)
	}
	c := &console{t: t, ran: filepath.Join(t.TempDir(), "ran")}
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	repo := newRepo(t)
	c.world = &pane.World{
		Context: t.Context(), Fleet: model.New(clock), Hub: hub, Repo: repo, Look: paint.NewLook(paint.Options{}), Now: clock,
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c.env = append(os.Environ(), asProgram+"=1", "ACT_TEST_RAN="+c.ran, "ACT_TEST_REPO="+repo.Root(), "SHELL=/bin/bash",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	c.env = append(c.env, env...)
	c.desk = act.New(c.world, act.Runner{Program: self, Env: c.env})
	t.Cleanup(c.desk.Close)
	return c
}

func newRepo(t *testing.T) *workspace.Repo {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, workspace.Manifest), []byte("kind: Workspace\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"init", "--quiet"},
		{"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "--allow-empty", "-m", "begin"},
	} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	repo, err := workspace.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	return repo
}

// do carries commands out, with all that comes of them.
func (c *console) do(cmd tea.Cmd) {
	c.t.Helper()
	if cmd == nil {
		return
	}
	switch msg := cmd().(type) {
	case nil:
	case pane.Push:
		c.stack = append(c.stack, msg.Pane)
		c.do(msg.Pane.Init())
	case pane.Back:
		if closing, ok := c.stack[len(c.stack)-1].(pane.Closing); ok {
			closing.Close()
		}
		c.stack = c.stack[:len(c.stack)-1]
	case pane.Ended: // whom that calls is the console's to say
	case pane.Told:
		c.told = append(c.told, msg)
	case pane.Question:
		c.asked = msg
	default:
		if all := reflect.ValueOf(msg); all.Kind() == reflect.Slice && all.Type().Elem() == reflect.TypeFor[tea.Cmd]() {
			for i := range all.Len() { // tea.Batch and tea.Sequence
				c.do(all.Index(i).Interface().(tea.Cmd))
			}
			return
		}
		if fmt.Sprintf("%T", msg) == "tea.setClipboardMsg" {
			c.copied = fmt.Sprint(msg)
			return
		}
		next, ok := c.desk.Update(msg)
		if !ok {
			c.t.Fatalf("nobody takes a %T", msg)
		}
		c.do(next)
	}
}

// press presses keys: on the pane on top, or else on the rows.
func (c *console) press(names ...string) {
	c.t.Helper()
	for _, name := range names {
		if len(c.stack) > 0 {
			c.do(c.stack[len(c.stack)-1].Update(pressed(name)))
			continue
		}
		cmd, ok := c.desk.Key(pressed(name), &c.list)
		if !ok {
			c.t.Fatalf("%s is no action's", name)
		}
		c.do(cmd)
	}
}

func pressed(name string) tea.KeyPressMsg {
	switch name {
	case "enter":
		return tea.KeyPressMsg{Code: tea.KeyEnter}
	case "esc":
		return tea.KeyPressMsg{Code: tea.KeyEscape}
	case "down":
		return tea.KeyPressMsg{Code: tea.KeyDown}
	case "backspace":
		return tea.KeyPressMsg{Code: tea.KeyBackspace}
	case "delete":
		return tea.KeyPressMsg{Code: tea.KeyDelete}
	}
	return tea.KeyPressMsg{Code: []rune(name)[0], Text: name}
}

// commands are those that were run, without the flags that all have.
func (c *console) commands() []string {
	text, err := os.ReadFile(c.ran)
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSpace(strings.ReplaceAll(string(text), "--no-input --yes --color=never ", "")), "\n")
}

// last is what was told last.
func (c *console) last() string {
	if len(c.told) == 0 {
		return ""
	}
	return c.told[len(c.told)-1].Text
}

// draw is the pane on top.
func (c *console) draw(width, height int) string {
	return strings.Join(c.stack[len(c.stack)-1].Draw(width, height), "\n")
}

// golden compares the pane on top with files, at several sizes, with colours and without.
func (c *console) golden(name string) {
	c.t.Helper()
	mono := c.world.Look
	for _, size := range [][2]int{{80, 24}, {120, 40}, {200, 60}} {
		c.compare(fmt.Sprintf("%s-%dx%d.mono", name, size[0], size[1]), c.draw(size[0], size[1]))
		for i, line := range strings.Split(c.draw(size[0], size[1]), "\n") {
			if paint.Width(line) > size[0] {
				c.t.Errorf("line %d of %s takes %d cells of %d", i, name, paint.Width(line), size[0])
			}
		}
	}
	c.world.Look = paint.NewLook(paint.Options{Color: true, Dark: true})
	c.compare(name+"-80x24.dark", c.draw(80, 24))
	c.world.Look = paint.NewLook(paint.Options{ASCII: true})
	c.compare(name+"-80x24.ascii", c.draw(80, 24))
	c.world.Look = mono
}

func (c *console) compare(name, got string) {
	c.t.Helper()
	got += "\n"
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		c.t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		c.t.Errorf("%s: %s", name, diff)
	}
}

// Subjects of the tests.

func onCluster(service, cluster string) pane.Subject {
	return pane.Subject{Kind: pane.KindDeployment, Name: service, Service: service, Cluster: cluster}
}

func service(name string) pane.Subject {
	return pane.Subject{Kind: pane.KindService, Name: name, Service: name}
}

func clusterOf(name string) pane.Subject {
	return pane.Subject{Kind: pane.KindCluster, Name: name, Cluster: name}
}

func suspended(s pane.Subject) pane.Subject {
	s.Suspended = true
	return s
}

func held(s pane.Subject) pane.Subject {
	s.Phase, s.Token = v1.Held, "t0ken"
	return s
}

// waitFor waits until a file is there.
func waitFor(ctx context.Context, t *testing.T, file string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(file); err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(ctx.Err())
		case <-tick.C:
		}
	}
}
