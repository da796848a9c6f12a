package local

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/internal/supervise"
	"github.com/pluralsh/plural/workspace/fleet"
)

func at(t *testing.T, repo, state string) Fleet {
	t.Helper()
	f, err := At(repo, state)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestAFolderHasOneFleetHoweverItIsReached(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "real"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "real"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	before := at(t, filepath.Join(dir, "link", "new", "fleet"), dir)
	if err := os.MkdirAll(filepath.Join(dir, "real", "new", "fleet"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"link/new/fleet", "real/new/fleet", "real/../link/new/fleet/"} {
		if after := at(t, filepath.Join(dir, path), dir); after != before {
			t.Errorf("%s is %+v, was %+v", path, after, before)
		}
	}
	t.Chdir(filepath.Join(dir, "real"))
	if relative := at(t, "new/fleet", dir); relative != before {
		t.Errorf("a relative path is %+v", relative)
	}
	if other := at(t, filepath.Join(dir, "real", "other", "fleet"), dir); other.Dir == before.Dir {
		t.Error("two folders of one name share a fleet")
	}
}

func TestAllListsTheFleetsThatWereEverUp(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	if all, err := All(state); err != nil || len(all) != 0 {
		t.Errorf("All before the first = %v, %v", all, err)
	}
	f := at(t, filepath.Join(t.TempDir(), "fleet"), state)
	for _, dir := range []string{f.Dir, filepath.Join(state, "no-fleet")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if members, err := f.Members(); err != nil || members != nil {
		t.Errorf("Members = %v, %v", members, err)
	}
	if err := f.keep(record{Repo: f.Repo, Hub: "http://127.0.0.1:1", Clusters: []string{"mgmt", "edge"}}); err != nil {
		t.Fatal(err)
	}
	if all, err := All(state); err != nil || len(all) != 1 || all[0] != f {
		t.Errorf("All = %v, %v", all, err)
	}
	if members, err := f.Members(); err != nil || !cmp.Equal(members, []string{"mgmt", "edge"}) {
		t.Errorf("Members = %v, %v", members, err)
	}
	if err := os.WriteFile(filepath.Join(f.Dir, recordFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Members(); err == nil {
		t.Error("a damaged record is no error")
	}
}

func TestPartsOfAFleetThatIsDownDoNotRun(t *testing.T) {
	f := Fleet{Dir: t.TempDir()}
	for _, p := range []supervise.Process{{Name: "hub"}, {Name: "cluster-b", Stopped: true}, {Name: "cluster-a"}} {
		if err := f.processes().Set(p); err != nil {
			t.Fatal(err)
		}
	}
	stale := `{"hub": {"pid": ` + strconv.Itoa(os.Getpid()) + `}}`
	if err := os.WriteFile(filepath.Join(f.Dir, "status.json"), []byte(stale), 0o600); err != nil {
		t.Fatal(err)
	}
	parts, err := f.Parts()
	want := []Part{{Name: "cluster-a"}, {Name: "cluster-b", Stopped: true}, {Name: "hub"}}
	if diff := cmp.Diff(want, parts); err != nil || diff != "" {
		t.Errorf("%v, parts (-want +got):\n%s", err, diff)
	}
	if clusters, err := f.Clusters(); err != nil || !cmp.Equal(clusters, []string{"a", "b"}) {
		t.Errorf("Clusters = %v, %v", clusters, err)
	}
	if err := f.Stop(t.Context(), "hub", true); !errors.Is(err, ErrDown) {
		t.Errorf("Stop = %v", err)
	}
	if err := f.Down(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if parts, err := f.Parts(); err != nil || len(parts) != 0 {
		t.Errorf("Parts after Down = %v, %v", parts, err)
	}
}

func TestOptionsAreRefusedBeforeAnythingIsMade(t *testing.T) {
	good := Options{Name: "fleet", Clusters: []string{"mgmt"}, Port: 8080}
	for want, change := range map[string]func(*Options){
		"at least one cluster": func(o *Options) { o.Clusters = nil },
		`cluster name "../x"`:  func(o *Options) { o.Clusters = []string{"../x"} },
		"named twice":          func(o *Options) { o.Clusters = []string{"a", "b", "a"} },
		"port 70000":           func(o *Options) { o.Port = 70000 },
		`name "My Fleet"`:      func(o *Options) { o.Name = "My Fleet" },
	} {
		o := good
		change(&o)
		o.Reporter = silent{}
		f := Fleet{Repo: filepath.Join(t.TempDir(), "repo"), Dir: filepath.Join(t.TempDir(), "fleet")}
		if _, err := f.Up(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
		if _, err := os.Stat(f.Dir); !os.IsNotExist(err) {
			t.Errorf("%s: something was made: %v", want, err)
		}
	}
}

type silent struct{}

func (silent) Start(string)          {}
func (silent) Detail(string, string) {}
func (silent) Done(string, string)   {}
func (silent) Fail(string, error)    {}

// manifest writes plural.yaml.
func (b *bringUp) write(t *testing.T, hub string) {
	t.Helper()
	text := "apiVersion: plural.sh/v1alpha1\nkind: Workspace\nmetadata: {name: fleet}\nspec:\n  hub: {url: \"" + hub + "\"}\n  repo: {url: \"file:///srv/fleet.git\", branch: live}\n"
	if err := os.WriteFile(filepath.Join(b.Repo, "plural.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTheHubsAddressIsThatOfTheRepoUnlessItsPortIsTaken(t *testing.T) {
	free, err := freePort(0)
	if err != nil {
		t.Fatal(err)
	}
	b := &bringUp{Fleet: Fleet{Repo: t.TempDir(), Dir: t.TempDir()}, Options: Options{Port: free}}
	if err := b.choose(record{}); err != nil || b.hubURL != "http://127.0.0.1:"+strconv.Itoa(free) || b.branch != "main" || b.origin != "file://"+b.Fleet.origin() {
		t.Errorf("a new repo: %s, %s, %s, %v", b.hubURL, b.branch, b.origin, err)
	}
	b.Port = 1
	b.write(t, "http://127.0.0.1:"+strconv.Itoa(free))
	broken := filepath.Join(b.Repo, "services")
	if err := os.Mkdir(broken, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(broken, "web.yaml"), []byte("kind: ["), 0o600); err != nil { // the hub's to say
		t.Fatal(err)
	}
	if err := b.choose(record{}); err != nil || b.hubURL != "http://127.0.0.1:"+strconv.Itoa(free) || b.branch != "live" || b.origin != "file:///srv/fleet.git" {
		t.Errorf("a repo that says so: %s, %s, %s, %v", b.hubURL, b.branch, b.origin, err)
	}
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:"+strconv.Itoa(free))
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if err := b.choose(record{Hub: "http://127.0.0.1:" + strconv.Itoa(free)}); err != nil || strings.HasSuffix(b.hubURL, ":"+strconv.Itoa(free)) {
		t.Errorf("its port is taken: %s, %v", b.hubURL, err)
	}
}

func TestTheRepoOfAnotherHubIsLeftAlone(t *testing.T) {
	b := &bringUp{Fleet: Fleet{Repo: t.TempDir(), Dir: t.TempDir()}, Options: Options{Port: 8080}}
	b.write(t, "https://hub.example.com")
	if err := b.choose(record{}); err == nil || !strings.Contains(err.Error(), "https://hub.example.com") {
		t.Errorf("choose = %v", err)
	}
}

func TestAFleetWhoseRepoIsGoneIsNotBegunAnew(t *testing.T) {
	b := &bringUp{Fleet: Fleet{Repo: filepath.Join(t.TempDir(), "fleet"), Dir: t.TempDir()}, Options: Options{Port: 8080}}
	if _, err := git.PlainInit(b.Fleet.origin(), true); err != nil {
		t.Fatal(err)
	}
	err := b.choose(record{})
	if err == nil || !strings.Contains(err.Error(), "git clone "+b.Fleet.origin()+" "+b.Repo) {
		t.Errorf("%v", err)
	}
}

func TestTheHookSurvivesAnyPath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), `a'b $(touch "c") d`)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	said := filepath.Join(dir, "said")
	program := filepath.Join(dir, "plural")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nprintf '%s\\n' \"$@\" > \"$(dirname \"$0\")/said.new\"\nmv \"$(dirname \"$0\")/said.new\" \"$(dirname \"$0\")/said\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	b := &bringUp{Fleet: Fleet{Dir: dir}, Options: Options{Plural: program}, hubURL: "http://127.0.0.1:8080"}
	if err := b.hintOnPush(); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), filepath.Join(b.Fleet.origin(), "hooks", "post-receive")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var text []byte
	if err := until(t.Context(), func() (bool, error) { // it runs in the background, as a push must not wait
		var err error
		text, err = os.ReadFile(said)
		return err == nil, err
	}); err != nil {
		t.Fatal(err)
	}
	want := "hub\nhint\n--url\nhttp://127.0.0.1:8080\n--token-file\n" + b.hookToken() + "\n"
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
}

func TestUpRenewsATokenThatExpiresSoonOrNever(t *testing.T) {
	b := &bringUp{Fleet: Fleet{Dir: t.TempDir()}}
	if err := os.Mkdir(b.hubDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := b.renewToken(t.Context()); err != nil {
		t.Errorf("before the first start: %v", err)
	}
	good := fleet.NewOperatorToken(time.Now().Add(fleet.OperatorLifetime))
	for _, before := range []string{"of an earlier release, of some length", fleet.NewOperatorToken(time.Now().Add(time.Hour)), good} {
		if err := os.WriteFile(b.TokenFile(), []byte(before+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := b.renewToken(t.Context()); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(b.TokenFile())
		after := strings.TrimSpace(string(text))
		if err != nil || fleet.OperatorDue(after, time.Now()) || (after == before) != (before == good) {
			t.Errorf("%.20s became %.30s, %v", before, after, err)
		}
		if info, err := os.Stat(b.TokenFile()); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
	}
}

func TestTheHubIsHandedTheIdentityUntilTheFleetIsDown(t *testing.T) {
	f := Fleet{Dir: t.TempDir()}
	if err := os.Mkdir(f.hubDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	file := f.identityFile()
	for _, up := range []struct {
		given, want string
		reads       string
	}{
		{},
		{given: "AGE-SECRET-KEY-1", want: "AGE-SECRET-KEY-1\n", reads: file},
		{given: "", want: "AGE-SECRET-KEY-1\n", reads: file}, // from a shell that has none
		{given: "AGE-SECRET-KEY-2", want: "AGE-SECRET-KEY-2\n", reads: file},
	} {
		b := &bringUp{Fleet: f, Options: Options{Identity: up.given}}
		reads, err := b.handOverIdentity(t.Context())
		if err != nil || reads != up.reads {
			t.Errorf("given %q: the hub reads %q, %v", up.given, reads, err)
		}
		text, err := os.ReadFile(file)
		if string(text) != up.want || err != nil && up.want != "" {
			t.Errorf("given %q: the file has %q, %v", up.given, text, err)
		}
		if info, err := os.Stat(file); err == nil && info.Mode().Perm() != 0o600 {
			t.Errorf("its mode is %v", info.Mode())
		}
	}
	killed := temporary(file) // what an up leaves that was killed while it wrote
	if err := os.WriteFile(killed, []byte("AGE-SECRET-KEY-3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.Down(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{file, killed} {
		if _, err := os.Stat(name); !os.IsNotExist(err) {
			t.Errorf("the fleet is down, and its hub's identity is still in %s: %v", name, err)
		}
	}
}

// handed is a fleet whose hub an earlier up handed an identity to.
func handed(t *testing.T) Fleet {
	t.Helper()
	f := Fleet{Dir: t.TempDir()}
	if err := os.Mkdir(f.hubDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	before := &bringUp{Fleet: f, Options: Options{Identity: "AGE-SECRET-KEY-1"}}
	if _, err := before.handOverIdentity(t.Context()); err != nil {
		t.Fatal(err)
	}
	return f
}

func own(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "alice.txt")
	if err := os.WriteFile(file, []byte("AGE-SECRET-KEY-2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// The hub went on with the identity of an earlier up, for its own file was named to it before any of the environment.
func TestAFileThatThePersonNamesTakesThePlaceOfAnIdentityThatTheHubKept(t *testing.T) {
	f, file := handed(t), own(t)
	b := &bringUp{Fleet: f, Options: Options{IdentityFile: file}}
	reads, err := b.handOverIdentity(t.Context())
	if err != nil || reads != file {
		t.Fatalf("the hub reads %q, %v; want %q", reads, err, file)
	}
	if err := b.dropIdentity(reads); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(f.identityFile()); !os.IsNotExist(err) {
		t.Errorf("the identity of the up before is still there: %v", err)
	}
}

func TestTheHubReadsThePersonsFileOnAfterAnUpFromAShellThatNamesNone(t *testing.T) {
	f := Fleet{Dir: t.TempDir()}
	if err := os.Mkdir(f.hubDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	file := own(t)
	command := []string{"plural", "hub", "serve", "--identity", file, "--with-parent"}
	if err := f.processes().Set(supervise.Process{Name: HubPart, Command: command}); err != nil {
		t.Fatal(err)
	}
	b := &bringUp{Fleet: f}
	if reads, err := b.handOverIdentity(t.Context()); err != nil || reads != file {
		t.Errorf("the hub reads %q, %v; want %q", reads, err, file)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if reads, err := b.handOverIdentity(t.Context()); err != nil || reads != "" {
		t.Errorf("the hub is to start with a file that is gone: %q, %v", reads, err)
	}
	b.Options.Identity = "AGE-SECRET-KEY-1"
	if reads, err := b.handOverIdentity(t.Context()); err != nil || reads != f.identityFile() {
		t.Errorf("the hub reads %q, not what it was handed: %v", reads, err)
	}
}

// It may be the only copy that is left, and it was deleted as soon as somebody named it.
func TestTheIdentityThatTheHubKeptStaysWhereThePersonNamesIt(t *testing.T) {
	f := handed(t)
	link := filepath.Join(t.TempDir(), "alice.txt")
	if err := os.Symlink(f.identityFile(), link); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{f.identityFile(), link} {
		b := &bringUp{Fleet: f, Options: Options{IdentityFile: file}}
		reads, err := b.handOverIdentity(t.Context())
		if err == nil {
			err = b.dropIdentity(reads)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(file); err != nil {
			t.Fatalf("the hub is to read %s: %v", file, err)
		}
	}
}

// Until the hub is told of another file, it is started with this one.
func TestAnUpThatFailsLeavesTheHubTheIdentityThatItHas(t *testing.T) {
	f := handed(t)
	if err := os.Mkdir(f.TokenFile(), 0o700); err != nil { // which nobody can renew
		t.Fatal(err)
	}
	b := &bringUp{Fleet: f, Options: Options{IdentityFile: own(t)}, hubURL: "http://127.0.0.1:8080"}
	if _, err := b.startHub(t.Context(), "hub"); err == nil {
		t.Fatal("the hub is up without a token")
	}
	if _, err := os.Stat(f.identityFile()); err != nil {
		t.Errorf("the hub of the up before has lost its identity: %v", err)
	}
}

func TestTheHooksTokenIsGoodForHintsAlone(t *testing.T) {
	b := &bringUp{Fleet: Fleet{Repo: t.TempDir(), Dir: t.TempDir()}, Options: Options{Plural: "plural"}, hubURL: "http://127.0.0.1:8080"}
	b.write(t, b.hubURL)
	files := map[string][]byte{}
	if err := b.letHookIn(files); err != nil || len(files) != 0 {
		t.Errorf("without a hook: %d files, %v", len(files), err)
	}
	if err := b.hintOnPush(); err != nil {
		t.Fatal(err)
	}
	token, err := os.ReadFile(b.hookToken())
	if err != nil {
		t.Fatal(err)
	}
	if err := b.letHookIn(files); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(b.Repo, "access", "local-hook.yaml")
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, files[hookFile], 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := fleet.Load(os.DirFS(b.Repo))
	if err != nil {
		t.Fatal(err)
	}
	user, ok := f.User("local-hook")
	if !ok || len(user.Spec.Tokens) != 1 || user.Spec.Tokens[0].Hash != fleet.HashToken(strings.TrimSpace(string(token))) {
		t.Errorf("the user is %+v", user)
	}
	if len(f.Roles) != 1 || !slices.Equal(f.Roles[0].Spec.Fleet, []string{"hint"}) || len(f.Roles[0].Spec.Kubernetes) != 0 {
		t.Errorf("the roles are %+v", f.Roles)
	}
	if info, err := os.Stat(b.hookToken()); err != nil || info.Mode().Perm() != 0o600 || strings.Contains(string(files[hookFile]), strings.TrimSpace(string(token))) {
		t.Errorf("the token is not kept to its owner: %v, %v", info.Mode(), err)
	}
	clear(files)
	if err := errors.Join(b.hintOnPush(), b.letHookIn(files)); err != nil || len(files) != 0 {
		t.Errorf("a second time: %d files, %v", len(files), err)
	}
}

func TestTheSampleIsForFleetsThatAreNewAlone(t *testing.T) {
	for file, want := range map[string]bool{"clusters/README.md": true, "clusters/a.yaml": false, "services/b.yml": false, "services/c.yaml": false} {
		b := &bringUp{Fleet: Fleet{Repo: t.TempDir()}}
		path := filepath.Join(b.Repo, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		files := map[string][]byte{}
		if err := b.addSample(files); err != nil || (len(files) > 0) != want {
			t.Errorf("beside %s: %d files, %v", file, len(files), err)
		}
	}
}

func TestWaitingForAFleetThatIsTakenDownEnds(t *testing.T) {
	b := &bringUp{Fleet: Fleet{Dir: t.TempDir()}}
	if err := b.await(t.Context(), "hub", HubPart, func() bool { return false }); !errors.Is(err, errTakenDown) {
		t.Errorf("await = %v", err)
	}
}

func TestUntilSaysWhyItsContextEnded(t *testing.T) {
	late := errors.New("not up in time")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(late)
	last := errors.New("still starting")
	if err := until(ctx, func() (bool, error) { return false, last }); !errors.Is(err, late) || !errors.Is(err, last) {
		t.Errorf("until = %v", err)
	}
}

func TestOtherFleetsThatRunAreKnown(t *testing.T) {
	state := t.TempDir()
	fleets := map[string]Fleet{}
	for _, name := range []string{"mine", "running", "down"} {
		f := at(t, filepath.Join(t.TempDir(), name), state)
		if err := os.MkdirAll(f.Dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := f.keep(record{Repo: f.Repo}); err != nil {
			t.Fatal(err)
		}
		fleets[name] = f
	}
	ctx, cancel := context.WithCancel(t.Context())
	var supervisors sync.WaitGroup
	defer supervisors.Wait()
	defer cancel()
	for _, name := range []string{"mine", "running"} {
		supervisors.Go(func() { _ = supervise.Run(ctx, fleets[name].processes(), slog.New(slog.DiscardHandler)) })
		err := until(t.Context(), func() (bool, error) { return fleets[name].Running() })
		if err != nil {
			t.Fatal(err)
		}
	}
	others, err := fleets["mine"].Others(state)
	if err != nil || len(others) != 1 || others[0] != fleets["running"] {
		t.Errorf("%v, %v", others, err)
	}
}
