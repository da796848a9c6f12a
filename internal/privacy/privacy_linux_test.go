package privacy_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pluralsh/plural/internal/privacy"
)

const nobody = 65534

// The test binary is its own child: it holds a secret in its environment, or looks for another's.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && os.Args[1] == "hold":
		os.Exit(hold())
	case len(os.Args) > 2 && os.Args[1] == "look":
		_, err := os.ReadFile(filepath.Join("/proc", os.Args[2], "environ"))
		fmt.Fprintln(os.Stdout, errors.Is(err, fs.ErrPermission), err)
		os.Exit(0)
	case len(os.Args) > 1 && os.Args[1] == "close":
		os.Exit(closed(os.Args[2:]))
	case len(os.Args) > 1 && os.Args[1] == "limit":
		var core unix.Rlimit
		err := unix.Getrlimit(unix.RLIMIT_CORE, &core)
		dumpable, asked := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
		fmt.Fprintln(os.Stdout, core.Cur, dumpable, errors.Join(err, asked))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// closed allows itself core files as large as it may, closes itself, and starts this program again; or ends by a signal that writes
// one, where there is nothing to start.
func closed(start []string) int {
	var core unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_CORE, &core)
	core.Cur = core.Max
	if err := errors.Join(err, unix.Setrlimit(unix.RLIMIT_CORE, &core), privacy.Close()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if len(start) == 0 {
		debug.SetTraceback("crash")
		panic("it ends by a signal")
	}
	child := exec.Command("/proc/self/exe", start...)
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	if err := child.Run(); err != nil {
		return 1
	}
	return 0
}

// hold closes itself when it is asked to, says what it can still do itself, and stays until its input ends.
func hold() int {
	if os.Getenv("CLOSE") != "" {
		if err := privacy.Close(); err != nil {
			fmt.Fprintln(os.Stdout, err)
			return 1
		}
	}
	_, program := os.Readlink("/proc/self/exe")
	_, memory := os.ReadFile("/proc/self/statm")
	_, descriptors := os.ReadDir("/proc/self/fd")
	child := exec.Command("/proc/self/exe", "look", fmt.Sprint(os.Getppid()))
	started := child.Run()
	fmt.Fprintln(os.Stdout, errors.Join(program, memory, descriptors, started))
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

func TestNoOtherProcessOfTheUserReadsTheEnvironment(t *testing.T) {
	for _, closed := range []bool{false, true} {
		t.Run(fmt.Sprint("closed ", closed), func(t *testing.T) {
			holder := asNobody(t, "hold")
			holder.Env = []string{"PLURAL_IDENTITY=secret"}
			if closed {
				holder.Env = append(holder.Env, "CLOSE=1")
			}
			in, err := holder.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := holder.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := holder.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = in.Close(); _ = holder.Wait() }()
			said, err := bufio.NewReader(out).ReadString('\n')
			if fields := strings.Fields(said); err != nil || len(fields) != 1 || fields[0] != "<nil>" {
				t.Errorf("the process itself: %q, %v", said, err)
			}
			seen, err := asNobody(t, "look", fmt.Sprint(holder.Process.Pid)).Output()
			if err != nil || strings.HasPrefix(string(seen), "true") != closed {
				t.Errorf("another of the same user was kept from it: %s%v", seen, err)
			}
		})
	}
}

// asNobody is this program again, as the user that has no rights; as the same user where there is no right to become it.
func asNobody(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", args...)
	cmd.Env = []string{}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	return cmd
}

func TestAClosedProcessWritesNoCoreFile(t *testing.T) {
	crashes := exec.CommandContext(t.Context(), "/proc/self/exe", "close")
	crashes.Dir = t.TempDir()
	err := crashes.Run()
	ended, ok := crashes.ProcessState.Sys().(syscall.WaitStatus)
	if err == nil || !ok || ended.Signal() != unix.SIGABRT {
		t.Fatalf("it did not end by its signal: %v", err)
	}
	if left, err := os.ReadDir(crashes.Dir); ended.CoreDump() || err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}

// An editor, terraform or a shell of a person's has the core files that its own settings say.
func TestWhatAClosedProcessStartsMayWriteCoreFiles(t *testing.T) {
	var core unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &core); err != nil {
		t.Fatal(err)
	}
	said, err := exec.CommandContext(t.Context(), "/proc/self/exe", "close", "limit").CombinedOutput()
	if want := fmt.Sprintln(core.Max, 1, nil); err != nil || string(said) != want {
		t.Errorf("its limit, and whether it is dumpable: %s%v, want %s", said, err, want)
	}
}
