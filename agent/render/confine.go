package render

import (
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"
)

// confine takes from this process, for good, what rendering never needs. It comes before the first byte of
// the input is parsed: after it no file can be opened, no socket made and no program run, where the kernel can say so
// (Linux); elsewhere the in-memory file system, the refusing transport and the empty environment stand alone.
func confine(limits Limits) error {
	debug.SetTraceback("none")
	debug.SetMaxStack(maxStack)
	debug.SetMemoryLimit(limits.Memory / 10 * 9)
	http.DefaultTransport = refuser{}
	http.DefaultClient = &http.Client{Transport: refuser{}}

	// Processor time is a backstop for a parent that died without closing the pipe: two busy threads reach it at the wall limit.
	seconds := 2 * uint64((limits.Wall+time.Second-1)/time.Second)
	for resource, most := range map[int]uint64{
		unix.RLIMIT_CORE:   0,
		unix.RLIMIT_CPU:    seconds + 1,
		unix.RLIMIT_NOFILE: 64,
		unix.RLIMIT_FSIZE:  0,
	} {
		if err := lower(resource, most); err != nil {
			return fmt.Errorf("limit resource %d: %w", resource, err)
		}
	}
	return confineKernel(limits)
}

// lower sets a limit that nothing in this process can raise again; a limit that is already lower stays.
func lower(resource int, most uint64) error {
	var now unix.Rlimit
	if err := unix.Getrlimit(resource, &now); err != nil {
		return err
	}
	most = min(most, now.Max)
	return unix.Setrlimit(resource, &unix.Rlimit{Cur: most, Max: most})
}

// errNetwork is what every HTTP client of this process answers.
var errNetwork = errors.New("rendering has no network")

// refuser is an http.RoundTripper that never leaves the process.
type refuser struct{}

func (refuser) RoundTrip(*http.Request) (*http.Response, error) { return nil, errNetwork }
