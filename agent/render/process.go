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
	"time"

	"github.com/pluralsh/plural/internal/sandbox"
)

// errWall is why a context ended that a render outlived.
var errWall = errors.New("render took too long")

// progressRoom is what a child may say beside its result.
const progressRoom = 8 << 20

// conversation is one child, from its start to its end.
type conversation struct {
	*sandbox.Child
	limits Limits
	born   time.Time
	stdin  io.WriteCloser
	// stdout ends after what an answer may hold, and answers are read from it.
	stdout  *io.LimitedReader
	answers *json.Decoder
	// stop kills the child.
	stop context.CancelFunc
	// unsent waits until everything was said, and returns what went wrong with that.
	unsent func() error
}

// start starts a child. The caller must end the conversation.
func (r *Renderer) start(limits Limits) (*conversation, error) {
	ctx, stop := context.WithCancel(context.Background())
	c, err := startIn(ctx, r.Command)
	if err != nil {
		stop()
		return nil, err
	}
	c.limits, c.stop, c.born = limits, stop, time.Now()
	return c, nil
}

// startIn starts a child that is killed when ctx ends.
func startIn(ctx context.Context, command []string) (*conversation, error) {
	child, err := sandbox.Command(ctx, command)
	if err != nil {
		return nil, fmt.Errorf("start child: %w", err)
	}
	child.Env = []string{"GOGC=400"} // it lives too briefly to tidy up often, and its memory is bounded
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
	c := &conversation{Child: child, stdin: stdin, stdout: &io.LimitedReader{R: stdout}}
	c.answers = json.NewDecoder(c.stdout)
	return c, nil
}

// say has send write to the child's stdin in another goroutine, so that a child that talks before it listens blocks nobody, and
// lets the child answer as much as it may. When sending fails, other than by the child's own will, the child is killed.
func (c *conversation) say(send func(io.WriteCloser) error) {
	c.stdout.N = c.limits.Output + progressRoom
	sent := make(chan error, 1)
	go func() {
		err := send(c.stdin)
		if err != nil && !broken(err) {
			c.stop()
		}
		sent <- err
	}()
	c.unsent = sync.OnceValue(func() error { return <-sent })
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
	c.stop()
	if broken(unsent) {
		unsent = nil
	}
	return exit, unsent
}

// question is what a child is asked.
type question struct {
	limits Limits
	// tenant's children may be asked, and the one that answers kept for the tenant; empty: a new one, which is gone afterwards.
	tenant string
	lookup Lookup
	// send writes the question; first says that the child was asked nothing before.
	send func(w io.Writer, first bool) error
}

// converse asks a child, and returns its last answer. A child that answered before fails a question only by taking all of its
// time: what else it cannot answer is for a new one to say, within the same time.
func (r *Renderer) converse(ctx context.Context, q question) (*answer, error) {
	timed, cancel := context.WithTimeoutCause(ctx, q.limits.Wall, errWall)
	defer cancel()
	if child := r.warm.take(q.tenant, q.limits); child != nil {
		last, err := r.ask(ctx, timed, child, q, false)
		var failed *Error
		switch {
		case err == nil && (last.Error == nil || last.Error.Reason == Invalid || last.Error.Reason == Refused):
			return last, nil
		case timed.Err() != nil, err != nil && !errors.As(err, &failed):
			return last, err
		}
	}
	child, err := r.start(q.limits)
	if err != nil {
		return nil, err
	}
	return r.ask(ctx, timed, child, q, true)
}

// ask asks one child until timed ends, which is ctx with the question's own end. The child is gone when it returns, or is kept for
// the tenant.
func (r *Renderer) ask(ctx, timed context.Context, child *conversation, q question, first bool) (*answer, error) {
	spare := context.AfterFunc(timed, child.stop)
	child.say(func(w io.WriteCloser) error { return q.send(w, first) })
	looker := looker{lookup: q.lookup, limits: q.limits, replies: json.NewEncoder(child.stdin)}
	last, at, heard := receive(child.answers, func(l *lookup) error { return looker.answer(timed, child.unsent, l) })
	if last != nil && last.Again && q.tenant != "" && child.unsent() == nil && spare() {
		r.warm.keep(q.tenant, child, r.Warm)
		return last, nil
	}
	dying := heard != nil && ended(heard, child.stdout)
	exit, unsent := child.end(dying)

	var refused *Error
	switch {
	case last != nil && (last.Error == nil || timed.Err() == nil): // a failure after the end is told as the end's
		return last, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case unsent != nil:
		return nil, unsent
	case errors.As(heard, &refused):
		refused.File = at
		return nil, refused
	case child.stdout.N <= 0:
		return nil, place{file: at}.limit("renders to more than %d MiB", q.limits.Output>>20)
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
	case sandbox.Recursion:
		return at.limit("rendering recurses without end")
	case sandbox.Memory:
		return at.tooMuchMemory(c.limits)
	case sandbox.Killed:
		return at.limit("rendering was killed by the system: it takes too much memory or processor time")
	}
	return &Error{Reason: Crash, File: at.file, Message: fmt.Sprintf("the render process died: %v", exit)}
}
