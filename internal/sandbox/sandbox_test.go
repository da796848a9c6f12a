//go:build linux && (amd64 || arm64)

package sandbox_test

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pluralsh/plural/internal/sandbox"
)

// probe stands behind the walls, tries what a child must not be able to do, and prints how each try ended.
func probe(address string) int {
	if err := sandbox.Raise(sandbox.Limits{CPU: time.Minute, Memory: 512 << 20}); err != nil {
		panic(err)
	}
	ended := tried(attempts(address))
	// The walls must leave standing what the Go runtime needs: threads, timers, collections.
	var threads sync.WaitGroup
	for range 32 {
		threads.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			<-time.After(time.Millisecond)
			runtime.GC()
		})
	}
	threads.Wait()
	if json.NewEncoder(os.Stdout).Encode(ended) != nil {
		return 1
	}
	return 0
}

// tried is how each attempt ended.
func tried(attempts map[string]func() error) map[string]string {
	ended := map[string]string{}
	for name, try := range attempts {
		switch err := try(); {
		case err == nil:
			ended[name] = "succeeded"
		case errors.Is(err, syscall.EPERM):
			ended[name] = "EPERM"
		case errors.Is(err, syscall.EACCES):
			ended[name] = "EACCES"
		default:
			ended[name] = err.Error()
		}
	}
	return ended
}

// raw is a system call that no library words otherwise.
func raw(number uintptr, args ...uintptr) func() error {
	return func() error {
		args = append(args, 0, 0, 0, 0, 0, 0)
		if _, _, errno := syscall.RawSyscall6(number, args[0], args[1], args[2], args[3], args[4], args[5]); errno != 0 {
			return errno
		}
		return nil
	}
}

func attempts(address string) map[string]func() error {
	return map[string]func() error{
		"open a file":     func() error { _, err := os.ReadFile("/etc/passwd"); return err },
		"list a folder":   func() error { _, err := os.ReadDir("/"); return err },
		"stat a file":     func() error { _, err := os.Stat("/etc/passwd"); return err },
		"create a file":   func() error { _, err := os.Create("/tmp/walls-probe"); return err },
		"unlink a file":   func() error { return os.Remove("/tmp/walls-probe") },
		"rename a file":   func() error { return os.Rename("/tmp/walls-probe", "/tmp/walls-probe-2") },
		"dial":            func() error { _, err := net.Dial("tcp", address); return err },
		"listen":          func() error { _, err := net.Listen("tcp", "127.0.0.1:0"); return err },
		"unix socket":     func() error { _, err := net.Listen("unix", "/tmp/walls-probe-socket"); return err },
		"run a program":   func() error { return exec.Command("/bin/true").Run() },
		"kill":            func() error { return syscall.Kill(os.Getppid(), 0) },
		"raw socket":      raw(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM),
		"raw execve":      raw(unix.SYS_EXECVE),
		"raw execveat":    raw(unix.SYS_EXECVEAT),
		"raw openat2":     raw(unix.SYS_OPENAT2),
		"raw fork":        raw(unix.SYS_CLONE, uintptr(unix.SIGCHLD)),
		"raw ptrace":      raw(unix.SYS_PTRACE),
		"raw mount":       raw(unix.SYS_MOUNT),
		"raw unshare":     raw(unix.SYS_UNSHARE, unix.CLONE_NEWUSER),
		"raw io_uring":    raw(unix.SYS_IO_URING_SETUP),
		"raw bpf":         raw(unix.SYS_BPF),
		"raw tgkill":      raw(unix.SYS_TGKILL, uintptr(os.Getppid()), uintptr(os.Getppid())),
		"raw process_vm":  raw(unix.SYS_PROCESS_VM_READV),
		"own a signal":    raw(unix.SYS_FCNTL, 0, unix.F_SETOWN, uintptr(os.Getppid())),
		"choose a signal": raw(unix.SYS_FCNTL, 0, unix.F_SETSIG, uintptr(unix.SIGKILL)),
		"raise a limit":   func() error { return unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1024, Max: 1024}) },
	}
}

func TestR1ConfinedProcessCannotOpenDialRunOrKill(t *testing.T) {
	address, connections := listener(t)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(program, "confined-probe", address).Output()
	if err != nil {
		t.Fatal(err)
	}
	var ended map[string]string
	if err := json.Unmarshal(out, &ended); err != nil {
		t.Fatal(err)
	}
	if len(ended) != len(attempts("")) {
		t.Errorf("%d attempts answered, want %d", len(ended), len(attempts("")))
	}
	for name, end := range ended {
		if end != "EPERM" {
			t.Errorf("%s: %s, want EPERM", name, end)
		}
	}
	if n := connections.Load(); n != 0 {
		t.Errorf("the listener saw %d connections", n)
	}
}
