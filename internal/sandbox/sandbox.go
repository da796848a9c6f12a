// Package sandbox owns the sandbox of a child process that works on untrusted input.
//
// It refuses to know what the child is for. A parent starts the child by Command; the child's main calls Raise before
// it reads the first byte of what it is sent, and from then on can open no file, make no socket and run no program,
// where the kernel can say so (Linux). Whatever a stranger's input does to it, the parent only ever sees an answer, or
// a dead process whose death Autopsy explains.
//
// A program that is not ours is run by Exec instead, behind walls that leave it what a program needs to start.
package sandbox

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"golang.org/x/sys/unix"
)

// Limits are what a process may take once its walls stand.
type Limits struct {
	// CPU is processor time. Zero means without end, for a process that lives long.
	CPU time.Duration
	// Memory is in bytes, beyond what the process holds when the walls go up.
	Memory int64
}

// maxStack bounds a goroutine's stack: recursion ends long before memory does.
const maxStack = 64 << 20

// Raise takes from this process, for good, what working on a stranger's input never needs. On a kernel that cannot
// take it, the refusing HTTP transport and the empty environment of Command stand alone.
func Raise(l Limits) error {
	debug.SetTraceback("none")
	debug.SetMaxStack(maxStack)
	debug.SetMemoryLimit(l.Memory / 10 * 9)
	http.DefaultTransport = refuser{}
	http.DefaultClient = &http.Client{Transport: refuser{}}
	if err := lowerAll(map[int]uint64{unix.RLIMIT_CORE: 0, unix.RLIMIT_NOFILE: 64, unix.RLIMIT_FSIZE: 0}); err != nil {
		return err
	}
	if err := lowerCPU(l.CPU); err != nil {
		return err
	}
	if err := limitMemory(l.Memory); err != nil {
		return err
	}
	return filterSyscalls()
}

// lowerCPU bounds processor time: the backstop for a parent that died without closing the pipe.
func lowerCPU(most time.Duration) error {
	if most == 0 {
		return nil
	}
	return lowerAll(map[int]uint64{unix.RLIMIT_CPU: uint64((most + time.Second - 1) / time.Second)})
}

// lowerAll sets limits that nothing in this process can raise again; one that is already lower stays.
func lowerAll(limits map[int]uint64) error {
	for resource, most := range limits {
		var now unix.Rlimit
		if err := unix.Getrlimit(resource, &now); err != nil {
			return fmt.Errorf("read limit of resource %d: %w", resource, err)
		}
		most = min(most, now.Max)
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return fmt.Errorf("limit resource %d: %w", resource, err)
		}
	}
	return nil
}

// ErrNoFence says that this system cannot keep a program from files.
var ErrNoFence = errors.New("no fence around files: that takes Linux 5.13 or newer with Landlock, on amd64 or arm64")

// errNetwork is what every HTTP client of this process answers.
var errNetwork = errors.New("this process has no network")

// refuser is an http.RoundTripper that never leaves the process.
type refuser struct{}

func (refuser) RoundTrip(*http.Request) (*http.Response, error) { return nil, errNetwork }

// WatchMemory returns when this process holds more than most bytes: time to say so and exit. It sees growth between
// two looks only, which is why the kernel watches as well where it can.
func WatchMemory(most int64) {
	looks := time.NewTicker(10 * time.Millisecond)
	defer looks.Stop()
	for MemoryHeld() <= most {
		<-looks.C
	}
}

// MemoryHeld is what the Go runtime has from the system, in bytes.
func MemoryHeld() int64 {
	use := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(use)
	return int64(use[0].Value.Uint64() - use[1].Value.Uint64())
}

// ExitWithParent ends the process when nobody holds the other end of stdin any more. It has no end of its own: it
// lives exactly as long as the process.
func ExitWithParent(stdin io.Reader) {
	_, _ = io.Copy(io.Discard, stdin)
	os.Exit(1) //nolint:forbidigo // a process whose parent is gone has nobody to return to
}
