package render

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"syscall"

	"github.com/pluralsh/plural/internal/walls"
)

// errWall is why a context ended that a render outlived.
var errWall = errors.New("render took too long")

// progressRoom is what a child may say beside its result.
const progressRoom = 8 << 20

// conversation is one child, from its start to its end.
type conversation struct {
	*walls.Child
	limits Limits
	stdin  io.WriteCloser
	// stdout ends after what an answer may hold.
	stdout *io.LimitedReader
	// stop kills the child.
	stop context.CancelFunc
	// unsent waits until everything was said, and returns what went wrong with that.
	unsent func() error
}

// start starts a child that is killed when timed ends, and has send write to its stdin in another goroutine, so that a child
// that talks before it listens blocks nobody. When sending fails, other than by the child's own will, the child is killed. The
// caller must end the conversation.
func (r *Renderer) start(timed context.Context, stop context.CancelFunc, limits Limits, send func(io.WriteCloser) error) (*conversation, error) {
	child, err := walls.Command(timed, r.Command)
	if err != nil {
		return nil, fmt.Errorf("start child: %w", err)
	}
	stdin, err := child.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("pipe to child: %w", err)
	}
	stdout, err := child.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("pipe from child: %w", err)
	}
	if err := child.Start(); err != nil {
		return nil, fmt.Errorf("start child: %w", err)
	}
	sent := make(chan error, 1)
	go func() {
		err := send(stdin)
		if err != nil && !broken(err) {
			stop()
		}
		sent <- err
	}()
	return &conversation{
		Child: child, limits: limits, stdin: stdin, stop: stop,
		stdout: &io.LimitedReader{R: stdout, N: limits.Output + progressRoom},
		unsent: sync.OnceValue(func() error { return <-sent }),
	}, nil
}

// end waits for the child, which is killed unless it is dying of itself. It returns how the child ended, and what kept it from
// hearing everything unless that was its own end.
func (c *conversation) end(dying bool) (exit, unsent error) {
	if !dying {
		c.stop()
	}
	_ = c.stdin.Close()
	unsent = c.unsent()
	exit = c.Wait()
	if broken(unsent) {
		unsent = nil
	}
	return exit, unsent
}

// converse starts a child, asks it by send, and returns its last answer. The child is gone when it returns.
func (r *Renderer) converse(ctx context.Context, limits Limits, find Lookup, send func(io.Writer) error) (*answer, error) {
	timed, stop := context.WithTimeoutCause(ctx, limits.Wall, errWall)
	defer stop()
	child, err := r.start(timed, stop, limits, func(w io.WriteCloser) error { return send(w) })
	if err != nil {
		return nil, err
	}
	looker := looker{lookup: find, limits: limits, replies: json.NewEncoder(child.stdin)}
	last, at, heard := receive(child.stdout, func(l *lookup) error { return looker.answer(timed, child.unsent, l) })
	dying := heard != nil && ended(heard, child.stdout)
	exit, unsent := child.end(dying)

	var refused *Error
	switch {
	case last != nil:
		return last, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case unsent != nil:
		return nil, unsent
	case errors.As(heard, &refused):
		refused.File = at
		return nil, refused
	case child.stdout.N <= 0:
		return nil, place{file: at}.limit("renders to more than %d MiB", limits.Output>>20)
	case !dying:
		return nil, &Error{Reason: Crash, File: at, Message: fmt.Sprintf("the render process talks nonsense: %v", heard)}
	}
	return nil, child.verdict(place{file: at}, exit, context.Cause(timed))
}

// broken tells a pipe that ended because the child did from a file that could not be read.
func broken(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, fs.ErrClosed)
}

// ended tells a child that stopped talking from one that talks nonsense, or too much.
func ended(heard error, mouth *io.LimitedReader) bool {
	return mouth.N > 0 && (errors.Is(heard, io.EOF) || errors.Is(heard, io.ErrUnexpectedEOF))
}

// verdict names why the child died without an answer.
func (c *conversation) verdict(at place, exit, stopped error) *Error {
	if errors.Is(stopped, errWall) {
		return at.limit("rendering takes longer than %v", c.limits.Wall)
	}
	switch c.Autopsy(exit) {
	case walls.Recursion:
		return at.limit("rendering recurses without end")
	case walls.Memory:
		return at.tooMuchMemory(c.limits)
	case walls.Killed:
		return at.limit("rendering was killed by the system: it takes too much memory or processor time")
	}
	return &Error{Reason: Crash, File: at.file, Message: fmt.Sprintf("the render process died: %v", exit)}
}
