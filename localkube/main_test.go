package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/pluralsh/plural/localkube/rundir"
)

// program is the binary under test: the one that is named by the environment, or built here.
var program = os.Getenv("PLURAL_LOCALKUBE")

func TestMain(m *testing.M) {
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	if program != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "localkube-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "localkube")
	if output, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build localkube: %v\n%s", err, output)
		return 1
	}
	return m.Run()
}

// process is a running localkube.
type process struct {
	*exec.Cmd
	dir    string
	stdin  io.WriteCloser
	stderr *bytes.Buffer // to be read after it has ended
	ended  chan struct{}
}

// launch starts localkube on dir and ends it with the test at the latest.
func launch(t *testing.T, dir string, flags ...string) *process {
	t.Helper()
	p := &process{dir: dir, stderr: new(bytes.Buffer), ended: make(chan struct{})}
	p.Cmd = exec.Command(program, append([]string{"run", "--dir", dir, "--with-parent"}, flags...)...)
	p.Stderr = p.stderr
	var err error
	if p.stdin, err = p.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.Wait() // its outcome is in ProcessState
	}()
	t.Cleanup(func() {
		_ = p.Process.Kill() // it usually has ended
		<-p.ended
		if t.Failed() {
			t.Logf("localkube %s wrote:\n%s", strings.Join(flags, " "), p.stderr)
		}
	})
	return p
}

// ready waits for the readiness file of this process and returns it. One that was killed
// leaves its own behind until the next has started.
func (p *process) ready(t *testing.T) rundir.Ready {
	t.Helper()
	var ready rundir.Ready
	eventually(t, time.Minute, func() error {
		select {
		case <-p.ended:
			t.Fatalf("ended before it was ready: %s", p.ProcessState)
		default:
		}
		content, err := os.ReadFile(filepath.Join(p.dir, rundir.ReadyFile))
		if err != nil {
			return err
		}
		if err := json.Unmarshal(content, &ready); err != nil {
			return err
		}
		if ready.PID != p.Process.Pid {
			return fmt.Errorf("readiness file is of process %d", ready.PID)
		}
		return nil
	})
	return ready
}

// exit waits for the end of the process and returns its code.
func (p *process) exit(t *testing.T, within time.Duration) int {
	t.Helper()
	select {
	case <-p.ended:
		return p.ProcessState.ExitCode()
	case <-time.After(within):
		t.Fatalf("still running after %s", within)
		return 0
	}
}

// client reads the kubeconfig as any other program would.
func (p *process) client(t *testing.T) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(p.dir, rundir.KubeconfigFile))
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	return kubernetes.NewForConfigOrDie(config)
}

// eventually repeats check until it returns nil.
func eventually(t *testing.T, within time.Duration, check func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("not within %s: %v", within, err)
		case <-ticker.C:
		}
	}
}

// requireGone checks that nobody is told to use a cluster that has stopped.
func requireGone(t *testing.T, file string) {
	t.Helper()
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there (%v)", file, err)
	}
}

func TestStopsCleanlyAndKeepsDataAndPortOverARestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "one")
	first := launch(t, dir, "--name", "one")
	before := first.ready(t)
	checkKubeconfig(t, dir, "one", before.Server)
	applyWorkloads(t, first.client(t))
	awaitWorkloads(t, first.client(t))

	t.Run("second process on the folder is refused", func(t *testing.T) {
		second := launch(t, dir)
		if code := second.exit(t, 10*time.Second); code != 1 {
			t.Errorf("exit code %d, want 1", code)
		}
		if !strings.Contains(second.stderr.String(), "in use by another localkube") {
			t.Errorf("does not say why: %s", second.stderr)
		}
		if _, err := os.Stat(filepath.Join(dir, rundir.ReadyFile)); err != nil {
			t.Errorf("first one's readiness file: %v", err)
		}
	})

	if err := first.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := first.exit(t, 5*time.Second); code != 0 {
		t.Errorf("exit code %d after SIGTERM, want 0", code)
	}
	requireGone(t, filepath.Join(dir, rundir.ReadyFile))

	second := launch(t, dir, "--name", "one")
	after := second.ready(t)
	if after.Server != before.Server {
		t.Errorf("server moved from %s to %s over a restart", before.Server, after.Server)
	}
	awaitWorkloads(t, second.client(t))
	checkNewPodsGetNewAddresses(t, second.client(t))
}

func TestKeepsDataWhenItIsKilled(t *testing.T) {
	dir := t.TempDir()
	first := launch(t, dir)
	first.ready(t)
	applyWorkloads(t, first.client(t))
	awaitWorkloads(t, first.client(t))
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	first.exit(t, 10*time.Second)

	second := launch(t, dir)
	second.ready(t)
	awaitWorkloads(t, second.client(t))
}

func TestSeveralRunSideBySideAndEndWithTheirParent(t *testing.T) {
	root := t.TempDir()
	one := launch(t, filepath.Join(root, "one"), "--nodes", "1", "--ephemeral")
	two := launch(t, filepath.Join(root, "two"), "--nodes", "2", "--ephemeral")
	if a, b := one.ready(t), two.ready(t); a.Server == b.Server {
		t.Errorf("both serve on %s", a.Server)
	}
	for i, p := range []*process{one, two} {
		if got := len(simulatedNodes(t, p.client(t))); got != i+1 {
			t.Errorf("%s has %d nodes, want %d", p.dir, got, i+1)
		}
	}
	for _, p := range []*process{one, two} {
		if err := p.stdin.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []*process{one, two} {
		if code := p.exit(t, 5*time.Second); code != 0 {
			t.Errorf("exit code %d after the end of standard input, want 0", code)
		}
		requireGone(t, p.dir)
	}
}

func TestToldToStopDuringTheStartIsNoFailure(t *testing.T) {
	dir := t.TempDir()
	p := launch(t, dir)
	eventually(t, time.Minute, func() error {
		_, err := os.Stat(filepath.Join(dir, "store.sock:0"))
		return err
	})
	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code := p.exit(t, 5*time.Second); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	requireGone(t, filepath.Join(dir, rundir.ReadyFile))
}

func TestMistakesOnTheCommandLineExitWithTwo(t *testing.T) {
	for _, args := range [][]string{
		{},
		{"fly"},
		{"run"},
		{"run", "extra", "--dir", "x"},
		{"run", "--dir", "x", "--nodes", "0"},
		{"run", "--dir", "x", "--nodes", "many"},
		{"run", "--dir", "x", "--log-level", "loud"},
		{"run", "--unknown"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			if code := run(args); code != 2 {
				t.Errorf("exit code %d, want 2", code)
			}
		})
	}
}

func TestEphemeralRefusesAFolderThatHoldsSomething(t *testing.T) {
	dir := t.TempDir()
	mine := filepath.Join(dir, "mine")
	if err := os.WriteFile(mine, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code := run([]string{"run", "--dir", dir, "--ephemeral"}); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if _, err := os.Stat(mine); err != nil {
		t.Errorf("it is gone: %v", err)
	}
}

// checkKubeconfig checks that only its owner can use it, and that it names the context.
func checkKubeconfig(t *testing.T, dir, name, server string) {
	t.Helper()
	path := filepath.Join(dir, rundir.KubeconfigFile)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("kubeconfig has mode %v, want 0600", info.Mode().Perm())
	}
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if config.CurrentContext != name || config.Clusters[name] == nil || config.Clusters[name].Server != server {
		t.Errorf("kubeconfig has context %q, want %q on %s", config.CurrentContext, name, server)
	}
}
