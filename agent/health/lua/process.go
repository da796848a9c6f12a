package lua

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/pluralsh/plural/internal/sandbox"
)

// errWall is why a context ended that an evaluation outlived.
var errWall = errors.New("the script took too long")

// child is the process, seen from its parent.
type child struct {
	process *sandbox.Child
	kill    context.CancelFunc
	in      io.WriteCloser
	out     *bufio.Reader
}

// start returns a child that is ready. It lives until end, whatever becomes of ctx.
func start(ctx context.Context, command []string) (*child, error) {
	life, kill := context.WithCancel(context.WithoutCancel(ctx))
	process, err := sandbox.Command(life, command)
	if err != nil {
		kill()
		return nil, err
	}
	c := &child{process: process, kill: kill}
	if err := c.launch(); err != nil {
		kill()
		return nil, err
	}
	// A child on a busy machine may be slow to start: that is not the script's time.
	if _, err := c.ask(ctx, nil, startPatience); err != nil {
		c.end()
		return nil, err
	}
	return c, nil
}

func (c *child) launch() error {
	in, err := c.process.StdinPipe()
	if err != nil {
		return fmt.Errorf("pipe to child: %w", err)
	}
	out, err := c.process.StdoutPipe()
	if err != nil {
		return fmt.Errorf("pipe from child: %w", err)
	}
	c.in, c.out = in, bufio.NewReaderSize(out, maxReply)
	return c.process.Start()
}

// ask sends a line and returns the child's next one. After an error the child is of no use: the caller ends it.
func (c *child) ask(ctx context.Context, line []byte, wall time.Duration) ([]byte, error) {
	timed, cancel := context.WithTimeoutCause(ctx, wall, errWall)
	defer cancel()
	stop := context.AfterFunc(timed, c.kill)
	_, unsent := c.in.Write(line)
	said, unread := c.out.ReadSlice('\n')
	inTime := stop()
	switch {
	case unread == nil && unsent == nil && inTime:
		return said, nil
	case errors.Is(context.Cause(timed), errWall):
		return nil, &BoundError{fmt.Sprintf("the script takes longer than %v", wall)}
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(unread, bufio.ErrBufferFull):
		return nil, &BoundError{fmt.Sprintf("the script's reply has more than %d bytes", maxReply)}
	}
	return nil, c.buried()
}

// buried says why a child that stopped talking is dead.
func (c *child) buried() error {
	// It closed its end of the pipe, or spoke when nobody asked; either way it has nothing more to do.
	_ = c.in.Close()
	timeout := time.AfterFunc(time.Second, c.kill)
	exit := c.process.Wait()
	timeout.Stop()
	switch c.process.Autopsy(exit) {
	case sandbox.Memory:
		return &BoundError{fmt.Sprintf("the script takes more than %d MiB of memory", memory>>20)}
	case sandbox.Recursion:
		return &BoundError{"the script recurses without end"}
	case sandbox.Killed:
		return &BoundError{"the script was killed by the system: it takes too much memory"}
	}
	// The Go runtime does not always say that it had no memory: it may fault where it expected some.
	return &BoundError{fmt.Sprintf("the script's process died, most likely because it may take no more than %d MiB of memory: %v", memory>>20, exit)}
}

// end kills the child and waits for it; it may have been waited for before.
func (c *child) end() {
	c.kill()
	_ = c.in.Close()
	_ = c.process.Wait()
}
