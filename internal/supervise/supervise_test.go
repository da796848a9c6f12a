package supervise_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pluralsh/plural/internal/parentwatch"
	"github.com/pluralsh/plural/internal/supervise"
)

// TestMain lets the test binary stand in for the processes that are supervised, and for a supervisor of its own.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "live":
			<-parentwatch.Bind(context.Background(), os.Stdin).Done()
			return
		case "fail":
			os.Exit(3)
		case "supervise":
			ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
			defer stop()
			if err := supervise.Run(ctx, supervise.Dir(os.Args[2]), slog.New(slog.DiscardHandler)); err != nil {
				os.Exit(1)
			}
			return
		}
	}
	os.Exit(m.Run())
}

// start runs a supervisor in this process until the test ends.
func start(t *testing.T) supervise.Dir {
	t.Helper()
	dir := supervise.Dir(t.TempDir())
	ctx, cancel := context.WithCancel(context.Background())
	var group errgroup.Group
	group.Go(func() error { return supervise.Run(ctx, dir, slog.New(slog.DiscardHandler)) })
	t.Cleanup(func() {
		cancel()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func want(t *testing.T, dir supervise.Dir, name, mode string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := dir.Set(supervise.Process{Name: name, Command: []string{self, mode}}); err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, yes func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if yes() {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	t.Fatalf("never: %s", what)
}

func state(t *testing.T, dir supervise.Dir, name string) supervise.State {
	t.Helper()
	states, err := dir.Status()
	if err != nil {
		t.Fatal(err)
	}
	return states[name]
}

func alive(pid int) bool { return pid != 0 && syscall.Kill(pid, 0) == nil }

func TestAProcessThatIsKilledComesBack(t *testing.T) {
	dir := start(t)
	want(t, dir, "hub", "live")
	eventually(t, "hub runs", func() bool { return state(t, dir, "hub").PID != 0 })
	first := state(t, dir, "hub").PID
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "hub runs again", func() bool { s := state(t, dir, "hub"); return s.PID != 0 && s.PID != first })
	if s := state(t, dir, "hub"); s.Restarts != 1 || s.Exit != "signal: killed" {
		t.Errorf("state = %+v", s)
	}
}

func TestAProcessThatFailsIsStartedEverLater(t *testing.T) {
	dir := start(t)
	want(t, dir, "hub", "fail")
	eventually(t, "hub failed twice", func() bool { return state(t, dir, "hub").Restarts >= 2 })
	if s := state(t, dir, "hub"); s.Exit != "exit status 3" {
		t.Errorf("exit = %q", s.Exit)
	}
}

func TestStopAndStart(t *testing.T) {
	dir := start(t)
	want(t, dir, "hub", "live")
	eventually(t, "hub runs", func() bool { return state(t, dir, "hub").PID != 0 })
	pid := state(t, dir, "hub").PID
	if err := dir.Stop("hub", true); err != nil {
		t.Fatal(err)
	}
	eventually(t, "hub is down", func() bool { return state(t, dir, "hub").PID == 0 && !alive(pid) })
	if err := dir.Stop("hub", false); err != nil {
		t.Fatal(err)
	}
	eventually(t, "hub is up", func() bool { return alive(state(t, dir, "hub").PID) })
	if s := state(t, dir, "hub"); s.Restarts != 0 {
		t.Errorf("a stop that was asked for counts as a restart: %+v", s)
	}
	if err := dir.Stop("nobody", true); err == nil || !strings.Contains(err.Error(), `"nobody"`) {
		t.Errorf("Stop of an unknown process: %v", err)
	}
}

func TestASupervisorOfItsOwnIsStoppedWithAllItsProcesses(t *testing.T) {
	dir, pid := detached(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := dir.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	if alive(pid) {
		t.Error("its process is still there")
	}
	if states, err := dir.Status(); err != nil || len(states) != 0 {
		t.Errorf("Status = %v, %v", states, err)
	}
}

func TestProcessesEndWithASupervisorThatIsKilled(t *testing.T) {
	dir, pid := detached(t)
	supervisor, err := dir.Running()
	if err != nil || supervisor == 0 {
		t.Fatalf("Running = %d, %v", supervisor, err)
	}
	if err := syscall.Kill(supervisor, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its process is gone", func() bool { return !alive(pid) })
	if running, err := dir.Running(); running != 0 || err != nil {
		t.Errorf("Running = %d, %v", running, err)
	}
}

func TestASecondSupervisorIsRefused(t *testing.T) {
	dir := start(t)
	eventually(t, "the first runs", func() bool { pid, err := dir.Running(); return err == nil && pid == os.Getpid() })
	if err := supervise.Run(t.Context(), dir, slog.New(slog.DiscardHandler)); !errors.Is(err, supervise.ErrRunning) {
		t.Errorf("Run = %v", err)
	}
}

// Looking for a supervisor takes its lock for an instant. One that starts in that instant must not give up.
func TestASupervisorStartsWhileOthersLookForIt(t *testing.T) {
	dir := supervise.Dir(t.TempDir())
	lock := filepath.Join(string(dir), "supervisor.lock")
	file, err := os.Create(lock)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var group errgroup.Group
	group.Go(func() error { return supervise.Run(ctx, dir, slog.New(slog.DiscardHandler)) })
	if pid, err := dir.Running(); pid != 0 || err != nil { // an empty file is no supervisor
		t.Errorf("Running = %d, %v", pid, err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it runs", func() bool { pid, err := dir.Running(); return err == nil && pid == os.Getpid() })
	cancel()
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

func TestASupervisorThatCannotStartIsSaidAtOnce(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := supervise.Dir(t.TempDir())
	err = dir.Start(t.Context(), self, "fail")
	if err == nil || !strings.Contains(err.Error(), "ended with status 3") || !strings.Contains(err.Error(), "supervisor.log") {
		t.Errorf("Start = %v", err)
	}
}

func TestTwoWishesAtOnceDoNotMix(t *testing.T) {
	dir := supervise.Dir(t.TempDir())
	var group errgroup.Group
	for range 20 {
		group.Go(func() error { return dir.Set(supervise.Process{Name: "hub", Command: []string{"/bin/true"}}) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if wanted, err := dir.Wanted(); err != nil || len(wanted) != 1 {
		t.Errorf("Wanted = %v, %v", wanted, err)
	}
}

// detached starts a supervisor process with one process of its own.
func detached(t *testing.T) (dir supervise.Dir, pid int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir = supervise.Dir(filepath.Join(t.TempDir(), "fleet"))
	if err := os.MkdirAll(string(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	want(t, dir, "hub", "live")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := dir.Start(ctx, self, "supervise", string(dir)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "hub runs", func() bool { pid = state(t, dir, "hub").PID; return alive(pid) })
	return dir, pid
}
