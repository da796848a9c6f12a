package ledger

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/test/support/needs"
	"github.com/pluralsh/plural/workspace"
)

// say tells the test that started this process.
func say(words ...any) { fmt.Println(words...) } //nolint:forbidigo // its standard output is what that test reads

// TestMain is also the process that is killed: it acquires the lock, says so, and records a step when it is told to.
func TestMain(m *testing.M) {
	dir := os.Getenv("LEDGER_CHILD")
	if dir == "" {
		os.Exit(m.Run())
	}
	held, err := open(dir).Acquire(context.Background(), Lock{Purpose: "plural deploy"})
	if err != nil {
		say(err)
		os.Exit(1)
	}
	say("holds", held.Lock.ID)
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	say("updates")
	say(held.Update(context.Background(), step("app", "child"), nil))
}

func open(dir string) *Ledger {
	repo, err := workspace.Find(dir)
	if err != nil {
		panic(err)
	}
	l, err := Open(repo)
	if err != nil {
		panic(err)
	}
	return l
}

// step records a step of an installation.
func step(installation, name string) func(*Record) {
	return func(r *Record) {
		if r.Installations[installation] == nil {
			r.Installations[installation] = &Installation{Package: installation, Version: "1.0.0", Steps: map[string]*Step{}}
		}
		r.Installations[installation].Steps[name] = &Step{Kind: "service", Digest: name}
	}
}

func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// origin is a bare repository that counts the pushes it took.
type origin struct {
	testing.TB
	dir, url string
}

func newOrigin(t testing.TB) *origin {
	t.Helper()
	needs.Program(t, "git", "git")
	home := t.TempDir()
	config := filepath.Join(home, "config")
	must(t, os.WriteFile(config, []byte("[user]\n\tname = Ada\n\temail = ada@example.com\n[init]\n\tdefaultBranch = main\n"), 0o600))
	t.Setenv("GIT_CONFIG_GLOBAL", config)
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	o := &origin{TB: t, dir: filepath.Join(home, "origin.git")}
	git(t, home, "init", "-q", "--bare", o.dir)
	o.url = "file://" + o.dir
	o.hook("post-receive", "cat >> "+filepath.Join(o.dir, "pushed"))
	return o
}

func (o *origin) hook(name, script string) {
	o.Helper()
	must(o, os.WriteFile(filepath.Join(o.dir, "hooks", name), []byte("#!/bin/sh\n"+script+"\n"), 0o700))
}

// pushes is how often the record was moved.
func (o *origin) pushes() int {
	o.Helper()
	text, err := os.ReadFile(filepath.Join(o.dir, "pushed"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		o.Fatal(err)
	}
	return strings.Count(string(text), Ref+"\n")
}

// clone is an installation repo of an operator's.
func (o *origin) clone() string {
	o.Helper()
	dir := o.TempDir()
	git(o, dir, "clone", "-q", o.url, "fleet")
	dir = filepath.Join(dir, "fleet")
	must(o, os.WriteFile(filepath.Join(dir, workspace.Manifest), []byte("kind: Workspace\n"), 0o600))
	return dir
}

// server lets git's own HTTP server answer for the origin.
func (o *origin) server() *httptest.Server {
	o.Helper()
	git(o, o.dir, "config", "http.receivepack", "true")
	backend := &cgi.Handler{
		Path: needs.Program(o, "git", "git"), Args: []string{"http-backend"},
		Env: []string{"GIT_PROJECT_ROOT=" + filepath.Dir(o.dir), "GIT_HTTP_EXPORT_ALL=1"},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "ada" || password != "hunter2!" {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, r)
	}))
	o.Cleanup(server.Close)
	return server
}

func sealed(t testing.TB, text string) []byte {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	must(t, err)
	var out bytes.Buffer
	w, err := age.Encrypt(&out, id.Recipient())
	must(t, err)
	_, err = w.Write([]byte(text))
	must(t, err)
	must(t, w.Close())
	return out.Bytes()
}

func TestTheRecordComesBackAsItWasWritten(t *testing.T) {
	o := newOrigin(t)
	ada, bob := o.clone(), o.clone()
	state := sealed(t, "state")
	full := func(r *Record) {
		r.Installations["db"] = &Installation{
			Package: "postgres", Version: "1.2.3", PayloadDigest: "sha256:00", DependsOn: []string{"net"}, Protected: true,
			Steps: map[string]*Step{"net": {
				Kind: "terraform", Digest: "d", Parts: map[string]string{"tool": "1.11.4"}, Needs: []string{"x"},
				Finished: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), By: "Ada <ada@example.com>",
				Commit:   "1de9c9a3b5d6fd0e5f1a2b3c4d5e6f7081920a3b",
				Services: map[string][]string{"db": {"mgmt"}}, Namespaces: map[string]string{"db": "db"},
				State: "sealed/db/net/state", Product: "terraform", Version: "1.11.4",
			}},
		}
	}
	held, err := open(ada).Acquire(t.Context(), Lock{Purpose: "plural deploy"})
	must(t, err)
	must(t, held.Update(t.Context(), full, map[string][]byte{"sealed/db/net/state": state}))
	must(t, held.Release(t.Context()))

	l := open(bob)
	got, err := l.Read(t.Context())
	must(t, err)
	want := &Record{Installations: map[string]*Installation{}}
	full(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	text, err := l.File(t.Context(), "sealed/db/net/state")
	if err != nil || !bytes.Equal(text, state) {
		t.Errorf("the state is %q, %v", text, err)
	}
	if _, err := l.File(t.Context(), "sealed/db/net/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	for _, dir := range []string{ada, bob} {
		if status := git(t, dir, "status", "--porcelain"); status != "?? plural.yaml" {
			t.Errorf("the work tree or the index was touched: %q", status)
		}
	}
}

func TestFilesGoWithTheStepsThatTheyBelongTo(t *testing.T) {
	l := open(newOrigin(t).clone())
	held, err := l.Acquire(t.Context(), Lock{})
	must(t, err)
	add := func(r *Record) {
		step("a", "one")(r)
		step("a", "two")(r)
		r.Installations["a"].Steps["one"].State = "sealed/a/one"
		r.Installations["a"].Steps["two"].State = "sealed/a/two"
	}
	must(t, held.Update(t.Context(), add, map[string][]byte{
		"sealed/a/one": sealed(t, "x"), "sealed/a/two": sealed(t, "y"), "sealed/a/nobodys": sealed(t, "z"),
	}))
	names := func() string {
		return git(t, l.root, "ls-tree", "-r", "--name-only", Ref)
	}
	if got := names(); got != "record.json\nsealed/a/one\nsealed/a/two" {
		t.Errorf("the record holds %q", got)
	}
	must(t, held.Update(t.Context(), func(r *Record) { r.Installations["a"].Steps["two"].State = "" }, nil))
	if got := names(); got != "record.json\nsealed/a/one" {
		t.Errorf("the record holds %q", got)
	}
	must(t, held.Update(t.Context(), func(r *Record) { delete(r.Installations, "a") }, nil))
	if got := names(); got != "record.json" {
		t.Errorf("the record holds %q", got)
	}
}

func TestWhatIsNotSealedIsRefused(t *testing.T) {
	held, err := open(newOrigin(t).clone()).Acquire(t.Context(), Lock{})
	must(t, err)
	for path, content := range map[string][]byte{
		"sealed/state": []byte(`{"version": 4}`), "other/file": []byte("x"), "record.json": []byte("{}"), "sealed/../x": nil, "/sealed/x": nil,
		"modules/x": sealed(t, "x"),
	} {
		if err := held.Update(t.Context(), func(*Record) { t.Error("the record was changed") }, map[string][]byte{path: content}); err == nil {
			t.Errorf("%q was taken", path)
		}
	}
}

func TestReadingWritesNothing(t *testing.T) {
	o := newOrigin(t)
	l := open(o.clone())
	for range 2 {
		r, err := l.Read(t.Context())
		must(t, err)
		if diff := cmp.Diff(&Record{Installations: map[string]*Installation{}}, r); diff != "" {
			t.Error(diff)
		}
	}
	if n := o.pushes(); n != 0 {
		t.Errorf("%d pushes", n)
	}
	held, err := l.Acquire(t.Context(), Lock{})
	must(t, err)
	must(t, held.Update(t.Context(), step("a", "one"), nil))
	before := o.pushes()
	must(t, held.Update(t.Context(), step("a", "one"), nil)) // says nothing new
	if _, err := open(o.clone()).Read(t.Context()); err != nil {
		t.Error(err)
	}
	if n := o.pushes(); n != before || before != 2 {
		t.Errorf("%d pushes, then %d", before, n)
	}
}

func TestWithoutARemoteTheCloneHoldsTheRecordAndARemoteThatComesLaterGetsIt(t *testing.T) {
	o := newOrigin(t)
	dir := o.clone()
	git(t, dir, "remote", "remove", "origin")
	held, err := open(dir).Acquire(t.Context(), Lock{})
	must(t, err)
	must(t, held.Update(t.Context(), step("a", "one"), nil))
	must(t, held.Release(t.Context()))
	git(t, dir, "remote", "add", "origin", o.url)
	l := open(dir)
	r, err := l.Read(t.Context())
	must(t, err)
	if r.Installations["a"] == nil {
		t.Error("the record was forgotten")
	}
	held, err = l.Acquire(t.Context(), Lock{})
	must(t, err)
	must(t, held.Release(t.Context()))
	r, err = open(o.clone()).Read(t.Context())
	must(t, err)
	if r.Installations["a"] == nil || r.Lock != nil {
		t.Errorf("the remote got %+v", r)
	}
}

func TestOneOfManyOperatorsHoldsTheLockAndTheOthersAreToldWhoDoes(t *testing.T) {
	o := newOrigin(t)
	clones := []string{o.clone(), o.clone()}
	var group sync.WaitGroup
	var mu sync.Mutex
	var holders []*Held
	for i := range 20 {
		group.Go(func() {
			held, err := open(clones[i%2]).Acquire(t.Context(), Lock{Purpose: "plural deploy", Commit: "c0ffee"})
			mu.Lock()
			defer mu.Unlock()
			var locked *LockedError
			switch {
			case err == nil:
				holders = append(holders, held)
			case !errors.As(err, &locked):
				t.Errorf("%v", err)
			case locked.Lock.Holder == "" || locked.Lock.ID == "" || locked.Lock.Host == "" || locked.Lock.Since.IsZero():
				t.Errorf("the lock is not told: %v", err)
			}
		})
	}
	group.Wait()
	if len(holders) != 1 {
		t.Fatalf("%d hold the lock", len(holders))
	}
	lock := holders[0].Lock
	for _, dir := range clones {
		_, err := open(dir).Acquire(t.Context(), Lock{})
		var locked *LockedError
		if !errors.As(err, &locked) {
			t.Fatalf("%v", err)
		}
		if diff := cmp.Diff(lock, locked.Lock); diff != "" {
			t.Error(diff)
		}
		for _, fact := range []string{"Ada <ada@example.com>", lock.ID, lock.Host, lock.Since.Format(time.RFC3339), `"plural deploy"`} {
			if !strings.Contains(err.Error(), fact) {
				t.Errorf("%q does not tell %q", err, fact)
			}
		}
		if !strings.Contains(locked.Fix(), "--unlock "+lock.ID) {
			t.Errorf("the fix is %q", locked.Fix())
		}
	}
	must(t, holders[0].Release(t.Context()))
	must(t, holders[0].Release(t.Context()))
	if err := holders[0].Update(t.Context(), step("a", "b"), nil); !errors.Is(err, ErrReleased) {
		t.Errorf("an update after the release: %v", err)
	}
	held, err := open(clones[1]).Acquire(t.Context(), Lock{})
	must(t, err)
	if held.TookOver != nil {
		t.Errorf("a released lock was taken over: %+v", held.TookOver)
	}
}

func TestInterleavedUpdatesLoseNothing(t *testing.T) {
	o := newOrigin(t)
	var operators sync.WaitGroup
	const each = 100
	for _, operator := range []string{"ada", "bob"} {
		l := open(o.clone())
		operators.Go(func() {
			for done := 0; done < each; {
				held, err := l.Acquire(t.Context(), Lock{Purpose: operator})
				if locked := (*LockedError)(nil); errors.As(err, &locked) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				var updates sync.WaitGroup
				for range each / 2 {
					name := fmt.Sprintf("%s-%d", operator, done)
					updates.Go(func() {
						if err := held.Update(t.Context(), step("app", name), nil); err != nil {
							t.Error(err)
						}
					})
					done++
				}
				updates.Wait()
				if err := held.Release(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	operators.Wait()
	r, err := open(o.clone()).Read(t.Context())
	must(t, err)
	if n := len(r.Installations["app"].Steps); n != 2*each {
		t.Errorf("%d updates are there", n)
	}
	if n := o.pushes(); n > each {
		t.Errorf("%d updates made %d pushes", 2*each, n)
	}
}

// child is another process that holds the lock.
type child struct {
	*exec.Cmd
	testing.TB
	in  *os.File
	out *bufio.Reader
	id  string
}

func startChild(t testing.TB, dir string) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "LEDGER_CHILD="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stderr = os.Stderr
	read, write, err := os.Pipe()
	must(t, err)
	cmd.Stdin = read
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	must(t, read.Close())
	c := &child{Cmd: cmd, TB: t, in: write, out: bufio.NewReader(out)}
	t.Cleanup(c.kill)
	line := c.line()
	id, ok := strings.CutPrefix(line, "holds ")
	if !ok {
		t.Fatalf("the child says %q", line)
	}
	c.id = id
	return c
}

func (c *child) line() string {
	line, err := c.out.ReadString('\n')
	if err != nil {
		c.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// kill ends the process and what it started, as nothing can be prevented from.
func (c *child) kill() {
	if c.ProcessState == nil {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
		_ = c.Wait()
		_ = c.in.Close()
	}
}

func TestALockWhoseProcessIsGoneIsTakenOverByTheSameCloneOnly(t *testing.T) {
	o := newOrigin(t)
	ada, bob := o.clone(), o.clone()
	c := startChild(t, ada)
	var locked *LockedError
	if _, err := open(ada).Acquire(t.Context(), Lock{}); !errors.As(err, &locked) || locked.Lock.ID != c.id || locked.Gone {
		t.Fatalf("while the process runs: %v", err)
	}
	c.kill()
	if _, err := open(bob).Acquire(t.Context(), Lock{}); !errors.As(err, &locked) || locked.Lock.ID != c.id || !locked.Gone {
		t.Fatalf("from another clone: %v", err)
	}
	copied := filepath.Join(t.TempDir(), "copy")
	if out, err := exec.Command("cp", "-a", ada, copied).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	if _, err := open(copied).Acquire(t.Context(), Lock{}); !errors.As(err, &locked) {
		t.Fatalf("from a copy of the clone: %v", err)
	}
	held, err := open(ada).Acquire(t.Context(), Lock{})
	must(t, err)
	if held.TookOver == nil || held.TookOver.ID != c.id {
		t.Errorf("it took over %+v", held.TookOver)
	}
	must(t, held.Update(t.Context(), step("a", "b"), nil))
}

func TestALockIsBrokenByItsIDAndWhoeverHeldItIsTold(t *testing.T) {
	o := newOrigin(t)
	ada, bob := open(o.clone()), open(o.clone())
	held, err := ada.Acquire(t.Context(), Lock{})
	must(t, err)
	var locked *LockedError
	if err := bob.Break(t.Context(), "another"); !errors.As(err, &locked) || locked.Lock.ID != held.Lock.ID {
		t.Fatalf("another id: %v", err)
	}
	must(t, bob.Break(t.Context(), held.Lock.ID))
	must(t, bob.Break(t.Context(), held.Lock.ID))
	theirs, err := bob.Acquire(t.Context(), Lock{})
	must(t, err)
	must(t, theirs.Update(t.Context(), step("a", "bobs"), nil))
	var lost *LostError
	if err := held.Update(t.Context(), step("a", "adas"), nil); !errors.As(err, &lost) || lost.Now == nil || lost.Now.ID != theirs.Lock.ID {
		t.Errorf("after the lock was broken: %v", err)
	}
	if err := held.Release(t.Context()); !errors.As(err, &lost) {
		t.Errorf("after the lock was broken: %v", err)
	}
	r, err := ada.Read(t.Context())
	must(t, err)
	if r.Installations["a"].Steps["adas"] != nil || r.Installations["a"].Steps["bobs"] == nil || r.Lock == nil {
		t.Errorf("the record is %+v", r)
	}
}

// A push is cut off while the remote holds it in a hook: before the ref moves in one case, after it in the other.
func TestAPushThatIsKilledLeavesARecordThatTheNextRunTakes(t *testing.T) {
	for hook, arrives := range map[string]bool{"pre-receive": false, "post-receive": true} {
		t.Run(hook, func(t *testing.T) {
			o := newOrigin(t)
			dir := o.clone()
			c := startChild(t, dir)
			reached := filepath.Join(t.TempDir(), "reached")
			must(t, syscall.Mkfifo(reached, 0o600))
			o.hook(hook, "cat >/dev/null\n: > "+reached+"\nexec sleep 600")
			_, err := fmt.Fprintln(c.in)
			must(t, err)
			if line := c.line(); line != "updates" {
				t.Fatal(line)
			}
			_, err = os.ReadFile(reached) // returns when the hook runs
			must(t, err)
			c.kill()
			must(t, os.Remove(filepath.Join(o.dir, "hooks", hook)))

			l := open(dir)
			r, err := l.Read(t.Context())
			must(t, err)
			if got := r.Installations["app"] != nil; got != arrives {
				t.Errorf("the update is there: %v", got)
			}
			held, err := l.Acquire(t.Context(), Lock{})
			must(t, err)
			if held.TookOver == nil || held.TookOver.ID != c.id {
				t.Errorf("it took over %+v", held.TookOver)
			}
			must(t, held.Update(t.Context(), step("app", "child"), nil))
			must(t, held.Release(t.Context()))
			r, err = open(o.clone()).Read(t.Context())
			must(t, err)
			if r.Installations["app"].Steps["child"] == nil || r.Lock != nil {
				t.Errorf("the record is %+v", r)
			}
		})
	}
}

func TestAnUpdateWhoseTimeIsOverLeavesTheOthersTheirs(t *testing.T) {
	o := newOrigin(t)
	held, err := open(o.clone()).Acquire(t.Context(), Lock{})
	must(t, err)
	reached, release := filepath.Join(t.TempDir(), "reached"), filepath.Join(t.TempDir(), "release")
	must(t, syscall.Mkfifo(reached, 0o600))
	o.hook("pre-receive", "cat >/dev/null\n[ -e "+release+" ] && exit 0\n: > "+reached+"\nexec sleep 600")
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error)
	go func() { first <- held.Update(ctx, step("a", "first"), nil) }()
	_, err = os.ReadFile(reached)
	must(t, err)
	others := make(chan error)
	for i := range 5 {
		go func() { others <- held.Update(t.Context(), step("a", fmt.Sprint(i)), nil) }()
	}
	must(t, os.WriteFile(release, nil, 0o600))
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the first: %v", err)
	}
	for range 5 {
		if err := <-others; err != nil {
			t.Errorf("another: %v", err)
		}
	}
	if n := len(held.Record().Installations["a"].Steps); n != 5 {
		t.Errorf("%d steps are recorded", n)
	}
}

func TestARemoteThatRefusesTheRefIsNamedWithTheFix(t *testing.T) {
	o := newOrigin(t)
	o.hook("update", `case "$1" in refs/plural/*) echo "prohibited by Gerrit" >&2; exit 1;; esac`)
	_, err := open(o.clone()).Acquire(t.Context(), Lock{})
	var refused *RefusedError
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "prohibited by Gerrit") || !strings.Contains(err.Error(), "hook declined") ||
		!strings.Contains(refused.Fix(), "refs/plural/*") {
		t.Errorf("the error is %v", err)
	}
}

func TestARemoteThatIsAwayIsNamedWithTheFix(t *testing.T) {
	o := newOrigin(t)
	l := open(o.clone())
	must(t, os.Rename(o.dir, o.dir+"-away"))
	_, err := l.Read(t.Context())
	var away *RemoteError
	if !errors.As(err, &away) || !strings.Contains(away.Fix(), "git ls-remote origin") {
		t.Errorf("the error is %v", err)
	}
}

func TestOverHTTPTheCredentialsAreGitsAndStayOutOfErrors(t *testing.T) {
	o := newOrigin(t)
	server := o.server()
	dir := o.clone()
	with := strings.Replace(server.URL, "http://", "http://ada:hunter2!@", 1) + "/origin.git"
	git(t, dir, "remote", "set-url", "origin", with)
	held, err := open(dir).Acquire(t.Context(), Lock{})
	must(t, err)
	must(t, held.Update(t.Context(), step("a", "one"), nil))
	must(t, held.Release(t.Context()))

	other := o.clone()
	for name, address := range map[string]string{
		"no password":    server.URL + "/origin.git",
		"wrong password": strings.Replace(with, "hunter2!", "hunter3!", 1),
		"no repository":  strings.Replace(with, "origin.git", "none.git", 1),
	} {
		git(t, other, "remote", "set-url", "origin", address)
		_, err := open(other).Read(t.Context()) // stdin of a test is no terminal: nobody is asked
		var away *RemoteError
		if !errors.As(err, &away) || strings.Contains(err.Error(), "hunter") {
			t.Errorf("%s: %v", name, err)
		}
	}
	git(t, other, "remote", "set-url", "origin", with)
	r, err := open(other).Read(t.Context())
	if err != nil || r.Installations["a"] == nil {
		t.Errorf("%v, %v", r, err)
	}
}

func TestARecordOfANewerProgramIsRefused(t *testing.T) {
	o := newOrigin(t)
	dir := o.clone()
	must(t, os.WriteFile(filepath.Join(dir, recordFile), []byte(`{"format": 2, "installations": [], "news": 1}`), 0o600))
	git(t, dir, "add", recordFile)
	git(t, dir, "commit", "-q", "-m", "newer")
	git(t, dir, "push", "-q", "origin", "HEAD:"+Ref)
	l := open(o.clone())
	_, err := l.Read(t.Context())
	_, locks := l.Acquire(t.Context(), Lock{})
	for _, err := range []error{err, locks} {
		var format *FormatError
		if !errors.As(err, &format) || !strings.Contains(err.Error(), "a newer plural wrote it") || !strings.Contains(format.Fix(), "newest plural") {
			t.Errorf("the error is %v", err)
		}
	}
}

func TestWhatIsNoRecordIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":         `{`,
		"no format":       `{}`,
		"unknown field":   `{"format": 1, "installations": {}, "x": 1}`,
		"two documents":   `{"format": 1} {}`,
		"a path as name":  `{"format": 1, "installations": {"../x": {"steps": {}}}}`,
		"no DNS label":    `{"format": 1, "installations": {"x\u001b[2J": {"steps": {}}}}`,
		"a step's escape": `{"format": 1, "installations": {"x": {"steps": {"s\n": {}}}}}`,
		"no whole commit": `{"format": 1, "installations": {"x": {"steps": {"s": {"commit": "c0ffee"}}}}}`,
		"a tag as commit": `{"format": 1, "installations": {"x": {"steps": {"s": {"commit": "` + strings.Repeat("c", 40) + `-x"}}}}}`,
		"another's hex":   `{"format": 1, "installations": {"x": {"steps": {"s": {"commit": "` + strings.Repeat("C", 40) + `"}}}}}`,
		"nothing in it":   `{"format": 1, "installations": {"x": null}}`,
		"no step":         `{"format": 1, "installations": {"x": {"steps": {"s": null}}}}`,
		"a file in clear": `{"format": 1, "installations": {"x": {"steps": {"s": {"state": "x"}}}}}`,
		"a path outside":  `{"format": 1, "installations": {"x": {"steps": {"s": {"state": "sealed/../x"}}}}}`,
		"a lock of none":  `{"format": 1, "lock": {"id": ""}}`,
		"too much":        `{"format": 1, "x": "` + strings.Repeat("x", maxRecord) + `"}`,
	} {
		if _, err := decode([]byte(text)); err == nil {
			t.Errorf("%s: it was taken", name)
		}
	}
}

func FuzzARecordThatIsReadIsWrittenTheSame(f *testing.F) {
	r := &Record{Installations: map[string]*Installation{}, Lock: &Lock{ID: "x", Since: time.Unix(0, 0).UTC()}}
	step("a", "b")(r)
	seed, err := r.encode()
	must(f, err)
	f.Add(seed)
	f.Add([]byte(`{"format": 1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := decode(text)
		if err != nil {
			return
		}
		once, err := r.encode()
		if err != nil {
			if strings.Contains(err.Error(), "MiB") {
				return
			}
			var bad *json.MarshalerError // a year beyond 9999
			if errors.As(err, &bad) {
				return
			}
			t.Fatal(err)
		}
		again, err := decode(once)
		must(t, err)
		twice, err := again.encode()
		must(t, err)
		if !bytes.Equal(once, twice) {
			t.Errorf("%s\nthen\n%s", once, twice)
		}
	})
}

func BenchmarkReadUnchanged(b *testing.B) {
	o := newOrigin(b)
	l := open(o.clone())
	held, err := l.Acquire(b.Context(), Lock{})
	must(b, err)
	must(b, held.Update(b.Context(), func(r *Record) {
		for i := range 50 {
			step(fmt.Sprint("package-", i), "chart")(r)
		}
	}, nil))
	must(b, held.Release(b.Context()))
	for b.Loop() {
		_, err := l.Read(b.Context())
		must(b, err)
	}
}
