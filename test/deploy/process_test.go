package deploy

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// program is the path of one of the built programs. They are what is tested, so they have to be there.
func program(t testing.TB, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "bin", name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%s is not built: run make build first", name)
		}
		t.Skipf("SKIPPED: %s is not built: run make build first", name)
	}
	return path
}

// process is a program that runs until it is ended, or the test is.
type process struct {
	t     testing.TB
	cmd   *exec.Cmd
	log   string // file
	ended chan struct{}
}

// start runs a program whose output goes to a file in dir. It ends when its standard input does, so also when this
// process is killed.
func start(t testing.TB, dir, name string, args ...string) *process {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p := &process{t: t, cmd: exec.CommandContext(context.WithoutCancel(t.Context()), args[0], args[1:]...), log: log.Name(), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	lifeline, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is told by its log
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = lifeline.Close()
		p.stop()
	})
	return p
}

// stop asks the process to end, and waits until it has.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(time.Minute):
		p.t.Errorf("%s does not end", p.cmd.Path)
		p.kill()
	}
}

// kill ends the process without a warning.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// said is the end of what the process has written.
func (p *process) said() string {
	text, _ := os.ReadFile(p.log)
	return string(text[max(0, len(text)-4000):])
}

// cpu is the processor time of the process and of all its children, those that have ended and those that run.
func (p *process) cpu() time.Duration {
	p.t.Helper()
	return cpuOf(p.t, p.cmd.Process.Pid)
}

func cpuOf(t testing.TB, pid int) time.Duration {
	t.Helper()
	const tick = 10 * time.Millisecond // the kernel's USER_HZ is 100 for programs, whatever its own is
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if os.IsNotExist(err) {
		return 0 // it has ended, and its parent counts it
	}
	if err != nil {
		t.Skipf("SKIPPED: processor time is read from /proc: %v", err)
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) // from the third on
	var total time.Duration
	for _, at := range []int{14, 15, 16, 17} { // utime, stime, cutime, cstime
		ticks, err := strconv.ParseInt(string(fields[at-3]), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		total += time.Duration(ticks) * tick
	}
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for child := range strings.FieldsSeq(string(children)) {
		if id, err := strconv.Atoi(child); err == nil {
			total += cpuOf(t, id)
		}
	}
	return total
}

// peak and resident are the process's own memory in bytes, without that of its children.
func (p *process) peak() float64     { return p.memory("VmHWM:") }
func (p *process) resident() float64 { return p.memory("VmRSS:") }

func (p *process) memory(field string) float64 {
	p.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.t.Skipf("SKIPPED: memory is read from /proc: %v", err)
	}
	_, rest, _ := bytes.Cut(status, []byte(field))
	kibibytes, err := strconv.ParseFloat(strings.Fields(string(rest))[0], 64)
	if err != nil {
		p.t.Fatal(err)
	}
	return kibibytes * 1024
}
