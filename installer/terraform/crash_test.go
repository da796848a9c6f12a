package terraform_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pluralsh/plural/installer/terraform"
	"github.com/pluralsh/plural/test/support/needs"
)

// slow is a module of three resources, each of which writes to a file outside that it was made. The second tells that it
// has begun, and waits until it is let go.
func slow(dir string) string {
	script := func(text string) string {
		return `
  provisioner "local-exec" {
    command     = ` + strconv.Quote(text) + `
    working_dir = ` + strconv.Quote(dir) + `
  }`
	}
	return `
resource "terraform_data" "first" {` + script("echo first >> made") + `
}
resource "terraform_data" "second" {
  depends_on = [terraform_data.first]` + script("echo second >> made; echo begun > begun; read x < go || true") + `
}
resource "terraform_data" "third" {
  depends_on = [terraform_data.second]` + script("echo third >> made") + `
}`
}

// gate is a folder with the two pipes of a slow module.
func gate(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"begun", "go"} {
		if err := unix.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// begun waits until the second resource is being made.
func begun(t *testing.T, dir string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "begun"))
	if err != nil || string(raw) != "begun\n" {
		t.Fatalf("it has not begun: %v", err)
	}
}

// release lets it go on.
func release(t *testing.T, dir string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func made(t *testing.T, dir string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "made"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(raw)), " ")
}

// start runs the victim on a module and waits until it is in its middle.
func start(t *testing.T, m terraform.Module, dir string) *exec.Cmd {
	t.Helper()
	source := t.TempDir()
	text, err := fs.ReadFile(m.Files, "main.tf")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(source, "main.tf"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	victim := exec.CommandContext(t.Context(), os.Args[0])
	victim.Env = append(os.Environ(), "TERRAFORM_TEST_DIR="+m.Dir, "TERRAFORM_TEST_TOOL="+needs.Terraform(t),
		"TERRAFORM_TEST_MODULE="+source)
	victim.Stderr = t.Output()
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = victim.Wait()
		if pipe, err := os.OpenFile(filepath.Join(dir, "begun"), os.O_WRONLY|unix.O_NONBLOCK, 0); err == nil {
			_ = pipe.Close() // nobody waits in vain for what has ended
		}
	}()
	begun(t, dir)
	return victim
}

// kill ends the victim, and not its terraform.
func kill(t *testing.T, victim *exec.Cmd) {
	t.Helper()
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
}

// runs is the process of the terraform that works in a folder.
func runs(t *testing.T, m terraform.Module) int {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(m.Dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(raw), `"terraform":`)
	pid, err := strconv.Atoi(strings.TrimRight(rest, "}"))
	if !ok || err != nil {
		t.Fatalf("the lock says %s", raw)
	}
	return pid
}

func TestARunThatIsKilledGoesOnAndTheNextOneWaitsForIt(t *testing.T) {
	tool := find(t)
	dir := gate(t)
	m := module(t, slow(dir))
	m.Cache = filepath.Join(m.Dir, "cache")
	victim := start(t, m, dir)
	kill(t, victim)

	log := &lines{}
	waits := log.come("which is at work in " + m.Dir)
	ended := make(chan error, 1)
	var work *terraform.Work
	go func() {
		var err error
		work, err = tool.Prepare(t.Context(), m, log)
		ended <- err
	}()
	<-waits
	release(t, dir)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	defer func() { _ = work.Close() }()
	summary, err := work.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !summary.Empty {
		t.Errorf("there is more to do: %v", summary)
	}
	if got := made(t, dir); got != "first second third" {
		t.Errorf("made %s", got)
	}
}

// What terraform was making when it was killed itself is not in its state, and nothing else is made again. OpenTofu had
// not yet written down what it made before.
func TestARunWhoseTerraformIsKilledTooNeedsNoMending(t *testing.T) {
	tool := find(t)
	dir := gate(t)
	m := module(t, slow(dir))
	m.Cache = filepath.Join(m.Dir, "cache")
	victim := start(t, m, dir)
	kill(t, victim)
	if err := syscall.Kill(runs(t, m), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	// Its script lives on, and holds the folder's lock. Its lock on the state is a file that nobody has any more.
	if _, err := os.Stat(filepath.Join(m.Dir, "module", ".terraform.tfstate.lock.info")); err != nil {
		t.Fatal(err)
	}
	log := &lines{}
	work, err := tool.Prepare(t.Context(), m, log)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = work.Close() }()
	if !strings.Contains(log.String(), "left running when it was killed") {
		t.Errorf("nothing is said of it:\n%s", log)
	}
	applied := make(chan error, 1)
	go func() {
		_, err := work.Apply(t.Context())
		applied <- err
	}()
	begun(t, dir)
	release(t, dir)
	if err := <-applied; err != nil {
		t.Fatal(err)
	}
	want := "first second second third"
	if tool.Product == terraform.OpenTofu {
		want = "first second first second third"
	}
	if got := made(t, dir); got != want {
		t.Errorf("made %s, want %s", got, want)
	}
}

// A daemon that a script has started holds the folder's lock, and does not end with terraform.
func TestADaemonThatAKilledRunLeftStopsNobody(t *testing.T) {
	tool := find(t)
	dir := gate(t)
	if err := unix.Mkfifo(filepath.Join(dir, "stay"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := module(t, strings.Replace(slow(dir), "echo begun", "setsid sh -c 'read x < stay' < /dev/null > /dev/null 2>&1 & echo begun", 1))
	m.Cache = filepath.Join(m.Dir, "cache")
	victim := start(t, m, dir)
	defer func() { // the daemon ends
		if err := os.WriteFile(filepath.Join(dir, "stay"), nil, 0o600); err != nil {
			t.Error(err)
		}
	}()
	kill(t, victim)
	if err := syscall.Kill(runs(t, m), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	m.Files = files("")
	m.AllowDestroy = true
	applied(t, m)
	work, err := tool.Prepare(t.Context(), m, nil) // and the lock is one again
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = work.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tool.Prepare(ctx, m, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestARunThatIsStoppedKeepsItsStateAndGoesOnLater(t *testing.T) {
	tool := find(t)
	dir := gate(t)
	m := module(t, slow(dir))
	work, err := tool.Prepare(t.Context(), m, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	applied := make(chan error, 1)
	var result *terraform.Result
	go func() {
		var err error
		result, err = work.Apply(ctx)
		applied <- err
	}()
	begun(t, dir)
	why := errors.New("Ctrl-C")
	stop(why)
	err = <-applied
	var stopped *terraform.StoppedError
	if !errors.As(err, &stopped) || stopped.Killed || !errors.Is(err, why) {
		t.Fatalf("got %v", err)
	}
	if !strings.Contains(string(result.State), `"first"`) || strings.Contains(string(result.State), `"third"`) {
		t.Fatalf("the state is %s", result.State)
	}
	if err := errors.Join(work.Forget(), work.Close()); err != nil {
		t.Fatal(err)
	}
	// What was half made is made anew without anybody's leave.
	m.State = result.State
	if work, err = tool.Prepare(t.Context(), m, nil); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = work.Close() }()
	go func() {
		_, err := work.Apply(t.Context())
		applied <- err
	}()
	begun(t, dir)
	release(t, dir)
	if err := <-applied; err != nil {
		t.Fatal(err)
	}
	if got := made(t, dir); got != "first second second third" {
		t.Errorf("made %s", got)
	}
}

func TestARunThatDoesNotStopInTimeIsKilled(t *testing.T) {
	tool := find(t)
	dir := gate(t)
	m := module(t, strings.Replace(slow(dir), "read x", "trap '' INT TERM; read x", 1))
	m.Grace = 1 // it is not asked twice
	work, err := tool.Prepare(t.Context(), m, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = work.Close() }()
	ctx, stop := context.WithCancel(t.Context())
	applied := make(chan error, 1)
	go func() {
		_, err := work.Apply(ctx)
		applied <- err
	}()
	begun(t, dir)
	stop()
	var stopped *terraform.StoppedError
	if err := <-applied; !errors.As(err, &stopped) || !stopped.Killed {
		t.Fatalf("got %v", err)
	}
}

func TestAStateThatSomebodyElseHasLockedSaysWho(t *testing.T) {
	tool := find(t)
	dir := gate(t)
	m := module(t, slow(dir))
	work, err := tool.Prepare(t.Context(), m, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = work.Close() }()
	// A person runs terraform there by hand.
	other := exec.CommandContext(t.Context(), tool.Path, "apply", "-auto-approve", "-no-color")
	other.Dir = filepath.Join(m.Dir, "module")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	begun(t, dir)
	_, err = work.Plan(t.Context())
	var locked *terraform.LockedError
	if !errors.As(err, &locked) {
		t.Fatalf("got %v", err)
	}
	if !strings.Contains(locked.Who, "@") || locked.Since.IsZero() || len(locked.ID) != 36 || locked.Operation != "OperationTypeApply" {
		t.Errorf("got %+v", locked)
	}
	want := fmt.Sprintf("lock terraform state: %s holds it since %s (apply, lock %s)",
		locked.Who, locked.Since.Format(time.RFC3339), locked.ID)
	if !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	release(t, dir)
	if err := other.Wait(); err != nil {
		t.Fatal(err)
	}
	if _, err := work.Plan(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestLinesComeWhileTerraformRuns(t *testing.T) {
	tool := find(t)
	dir := gate(t)
	log := &lines{}
	work, err := tool.Prepare(t.Context(), module(t, slow(dir)), log)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = work.Close() }()
	come := log.come("terraform_data.first: Creation complete")
	applied := make(chan error, 1)
	go func() {
		_, err := work.Apply(t.Context())
		applied <- err
	}()
	begun(t, dir)
	<-come // while the second one waits
	release(t, dir)
	if err := <-applied; err != nil {
		t.Fatal(err)
	}
}

func TestASecondRunInOneFolderWaitsUntilTheFirstIsClosed(t *testing.T) {
	tool := find(t)
	m := module(t, "")
	first, err := tool.Prepare(t.Context(), m, nil)
	if err != nil {
		t.Fatal(err)
	}
	log := &lines{}
	waits := log.come("waiting for process " + strconv.Itoa(os.Getpid()))
	ended := make(chan error, 1)
	go func() {
		second, err := tool.Prepare(t.Context(), m, log)
		if err == nil {
			err = second.Close()
		}
		ended <- err
	}()
	<-waits
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}
