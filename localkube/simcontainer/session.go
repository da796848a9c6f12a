package simcontainer

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/remotecommand"
)

// session is one program's view of its streams, which are never nil here.
type session struct {
	in       io.Reader
	out, err io.Writer
	terminal bool
	size     *atomic.Pointer[remotecommand.TerminalSize] // the last that was reported
	files    *Files
	env      []corev1.EnvVar
	pod      string
}

// newSession puts a terminal's habits between the program and the streams, if there is a terminal. The function that
// is returned ends what the session started.
func newSession(ctx context.Context, c Container, streams Streams) (*session, func()) {
	s := &session{
		in: streams.Stdin, out: streams.Stdout, err: streams.Stderr, terminal: streams.Terminal,
		size: new(atomic.Pointer[remotecommand.TerminalSize]), files: c.Files, env: c.Env, pod: c.Pod,
	}
	if s.in == nil {
		s.in = strings.NewReader("")
	}
	if s.out == nil {
		s.out = io.Discard
	}
	if s.err == nil {
		s.err = io.Discard
	}
	if !streams.Terminal {
		return s, func() {}
	}
	s.in, s.out = newTerminal(s.in, s.out)
	s.err = s.out
	ctx, cancel := context.WithCancel(ctx)
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		s.followSize(ctx, streams.Resize)
	}()
	return s, func() {
		cancel()
		<-followed
	}
}

// followSize keeps the last size, and keeps whoever reports sizes from waiting.
func (s *session) followSize(ctx context.Context, sizes <-chan remotecommand.TerminalSize) {
	for {
		select {
		case <-ctx.Done():
			return
		case size, ok := <-sizes:
			if !ok {
				return
			}
			s.size.Store(&size)
		}
	}
}

// complain writes a line to standard error.
func (s *session) complain(format string, args ...any) {
	fmt.Fprintf(s.err, format+"\n", args...)
}

// fail complains and returns the code.
func (s *session) fail(code int, format string, args ...any) int {
	s.complain(format, args...)
	return code
}
