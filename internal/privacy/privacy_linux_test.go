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
	}
	os.Exit(m.Run())
}

// hold closes itself when it is asked to, says what it can still do itself, and stays until its input ends.
func hold() int {
	if os.Getenv("CLOSE") != "" {
		if err := privacy.Close(); err != nil {
			fmt.Fprintln(os.Stdout, err)
			return 1
		}
	}
	var core unix.Rlimit
	limited := unix.Getrlimit(unix.RLIMIT_CORE, &core)
	_, program := os.Readlink("/proc/self/exe")
	_, memory := os.ReadFile("/proc/self/statm")
	_, descriptors := os.ReadDir("/proc/self/fd")
	child := exec.Command("/proc/self/exe", "look", fmt.Sprint(os.Getppid()))
	started := child.Run()
	fmt.Fprintln(os.Stdout, core.Max, errors.Join(limited, program, memory, descriptors, started))
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
			if fields := strings.Fields(said); err != nil || len(fields) != 2 || fields[1] != "<nil>" || closed && fields[0] != "0" {
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
