//go:build linux && (amd64 || arm64)

package sandbox_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pluralsh/plural/internal/sandbox"
)

// programName is the name under which the test binary is a program that is not ours.
const programName = "walled-program"

var generous = sandbox.Limits{CPU: time.Minute, Memory: 512 << 20}

// become is a child that becomes the program at a path.
func become(path string) int {
	fmt.Fprintln(os.Stderr, sandbox.Exec(path, generous))
	return 125
}

// program does what its stdin says, from behind the walls.
func program() int {
	order, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	verb, argument, _ := strings.Cut(strings.TrimSpace(order), " ")
	switch verb {
	case "sleep":
		_ = unix.Prctl(unix.PR_SET_PDEATHSIG, 0, 0, 0, 0)
		fmt.Fprintln(os.Stdout, os.Getpid())
		<-time.After(time.Hour)
	case "eat":
		var held [][]byte
		for {
			held = append(held, make([]byte, 64<<20))
			for i := 0; i < 64<<20; i += 4096 {
				held[len(held)-1][i] = 1
			}
		}
	case "try":
		if json.NewEncoder(os.Stdout).Encode(report(argument)) != nil {
			return 1
		}
	}
	return 0
}

// reported is what the program says of itself.
type reported struct {
	Ended       map[string]string
	Environment []string
	Folder      string
	Files       unix.Rlimit
	Passwd      string
}

func report(address string) reported {
	r := reported{Ended: tried(trespasses(address)), Environment: os.Environ()}
	r.Folder, _ = os.Getwd()
	_ = unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &r.Files)
	if data, err := os.ReadFile("/etc/passwd"); err == nil {
		r.Passwd = string(data)
	}
	return r
}

// trespasses are what a program must not be able to do; what a program may is in TestAProgramRunsBehindWalls.
func trespasses(address string) map[string]func() error {
	own := filepath.Dir(os.Args[0])
	return map[string]func() error{
		"read a file":          func() error { _, err := os.ReadFile("/etc/passwd"); return err },
		"read a process":       func() error { _, err := os.ReadFile("/proc/self/environ"); return err },
		"read another process": func() error { _, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", os.Getppid())); return err },
		"list the root":        func() error { _, err := os.ReadDir("/"); return err },
		"list a folder":        func() error { _, err := os.ReadDir(filepath.Dir(own)); return err },
		"read beside it":       func() error { _, err := os.ReadFile(filepath.Join(own, "..", "secret")); return err },
		"follow a link out":    func() error { _, err := os.ReadFile(filepath.Join(own, "link")); return err },
		"create a file":        func() error { return os.WriteFile(filepath.Join(own, "new"), nil, 0o600) },
		"create in /tmp":       func() error { return os.WriteFile("/tmp/walls-program", nil, 0o600) },
		"write a file":         func() error { return os.WriteFile(filepath.Join(own, "file"), []byte("x"), 0o600) },
		"remove a file":        func() error { return os.Remove(filepath.Join(own, "file")) },
		"make a folder":        func() error { return os.Mkdir(filepath.Join(own, "folder"), 0o700) },
		"link a file":          func() error { return os.Symlink("/etc/passwd", filepath.Join(own, "link2")) },
		"change a mode":        func() error { return os.Chmod(filepath.Join(own, "file"), 0o777) },
		"dial":                 func() error { _, err := net.Dial("tcp", address); return err },
		"listen":               func() error { _, err := net.Listen("tcp", "127.0.0.1:0"); return err },
		"unix socket":          func() error { _, err := net.Dial("unix", "/var/run/docker.sock"); return err },
		"pair of sockets":      func() error { _, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0); return err },
		"run a program beside": func() error { return exec.Command("/bin/true").Run() },
		"run a program of /etc": func() error {
			return syscall.Exec("/etc/passwd", []string{"passwd"}, nil)
		},
		"kill the parent":     func() error { return syscall.Kill(os.Getppid(), 0) },
		"kill everybody":      func() error { return syscall.Kill(-1, 0) },
		"outlive the parent":  func() error { return unix.Prctl(unix.PR_SET_PDEATHSIG, 0, 0, 0, 0) },
		"leave the group":     func() error { return syscall.Setpgid(0, os.Getppid()) },
		"leave the session":   func() error { _, err := syscall.Setsid(); return err },
		"raise a limit":       func() error { return unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20}) },
		"own a signal":        raw(unix.SYS_FCNTL, 0, unix.F_SETOWN, uintptr(os.Getppid())),
		"raw fork":            raw(unix.SYS_CLONE, uintptr(unix.SIGCHLD)),
		"raw vfork":           raw(unix.SYS_CLONE, unix.CLONE_VFORK|unix.CLONE_VM|uintptr(unix.SIGCHLD)),
		"raw socket":          raw(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_DGRAM),
		"raw ptrace":          raw(unix.SYS_PTRACE),
		"raw mount":           raw(unix.SYS_MOUNT),
		"raw unshare":         raw(unix.SYS_UNSHARE, unix.CLONE_NEWUSER),
		"raw io_uring":        raw(unix.SYS_IO_URING_SETUP),
		"raw bpf":             raw(unix.SYS_BPF),
		"raw openat2":         raw(unix.SYS_OPENAT2),
		"raw process_vm":      raw(unix.SYS_PROCESS_VM_READV),
		"raw pidfd":           raw(unix.SYS_PIDFD_OPEN, uintptr(os.Getppid())),
		"raw keyctl":          raw(unix.SYS_KEYCTL),
		"raw memfd":           raw(unix.SYS_MEMFD_CREATE),
		"a foreign numbering": raw(0x40000000 + unix.SYS_SOCKET),
	}
}

// installed copies the test binary into a folder of programs, beside files that tempt.
func installed(t *testing.T) (path string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	from, err := os.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	outer := t.TempDir()
	folder := filepath.Join(outer, "programs")
	path = filepath.Join(folder, programName)
	if err := errors.Join(os.Mkdir(folder, 0o755), os.WriteFile(filepath.Join(outer, "secret"), []byte("hunter2"), 0o644),
		os.WriteFile(filepath.Join(folder, "file"), []byte("data"), 0o644), os.Symlink("../secret", filepath.Join(folder, "link"))); err != nil {
		t.Fatal(err)
	}
	to, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(to, from)
	if err := errors.Join(err, to.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// behindWalls is a child of this process that becomes the program.
func behindWalls(t *testing.T, path, order string) *sandbox.Child {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child, err := sandbox.Command(t.Context(), []string{self, "exec", path})
	if err != nil {
		t.Fatal(err)
	}
	child.Stdin = strings.NewReader(order + "\n")
	return child
}

func TestAProgramBehindWallsCanTrespassNowhere(t *testing.T) {
	address, connections := listener(t)
	child := behindWalls(t, installed(t), "try "+address)
	out, err := child.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, child.LastWords())
	}
	var r reported
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if len(r.Ended) != len(trespasses("")) {
		t.Errorf("%d attempts answered, want %d", len(r.Ended), len(trespasses("")))
	}
	for name, end := range r.Ended {
		if end != "EPERM" && end != "EACCES" {
			t.Errorf("%s: %s, want EPERM or EACCES", name, end)
		}
	}
	if len(r.Environment) != 0 || r.Folder != "/" || r.Files.Max > 256 || r.Passwd != "" {
		t.Errorf("it sees environment %q, folder %q, limit of files %d, passwd %q", r.Environment, r.Folder, r.Files.Max, r.Passwd)
	}
	if n := connections.Load(); n != 0 {
		t.Errorf("the listener saw %d connections", n)
	}
}

func TestAProgramThatEatsMemoryDies(t *testing.T) {
	child := behindWalls(t, installed(t), "eat")
	exit := child.Run()
	if death := child.Autopsy(exit); death != sandbox.Memory && death != sandbox.Killed {
		t.Errorf("%s: %v: %s", death, exit, child.LastWords())
	}
}

func TestAScriptRunsBehindWallsAndCannotForkOrWrite(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "script")
	script := `#!/bin/sh
read order
echo "heard $order" 2>/dev/null >/dev/null
echo "heard $order"
(echo forked)
/bin/true && echo ran
echo x >"` + folder + `/new" && echo wrote
exec /bin/echo became
`
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ from, to, want string }{
		{"", "", "heard it\n"},
		{"(echo forked)\n", "", "heard it\n"},
		{"(echo forked)\n/bin/true && echo ran\n", "", "heard it\nbecame\n"},
	} {
		if err := os.WriteFile(path, []byte(strings.Replace(script, test.from, test.to, 1)), 0o755); err != nil {
			t.Fatal(err)
		}
		out, _ := behindWalls(t, path, "it").Output() // a shell ends where it cannot fork
		if string(out) != test.want {
			t.Errorf("without %q it printed %q, want %q", test.from, out, test.want)
		}
	}
	if _, err := os.Stat(filepath.Join(folder, "new")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the script wrote a file: %v", err)
	}
}

func TestAProgramEndsWithItsParent(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The parent that dies is a shell, and the program holds the other end of its stdout.
	parent := exec.CommandContext(t.Context(), "/bin/sh", "-c", `echo sleep | "$0" exec "$1" & wait`, self, installed(t))
	stdout, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var words bytes.Buffer
	parent.Stderr = &words
	parent.WaitDelay = time.Second
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscan(stdout, &pid); err != nil {
		t.Fatalf("%v: %s", err, words.String())
	}
	late := time.AfterFunc(20*time.Second, func() {
		t.Errorf("process %d lives on", pid)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	})
	defer late.Stop()
	_ = parent.Process.Kill()
	_, _ = io.Copy(io.Discard, stdout) // the pipe ends when the program, its last writer, does
	_ = parent.Wait()
}

func TestAMissingProgramIsAnErrorAndTheExitSaysSo(t *testing.T) {
	child := behindWalls(t, filepath.Join(t.TempDir(), "none"), "")
	exit := child.Run()
	var ended *exec.ExitError
	if !errors.As(exit, &ended) || ended.ExitCode() != 125 || !strings.Contains(child.LastWords(), "no such file") {
		t.Errorf("%v: %s", exit, child.LastWords())
	}
}
