package gitsource

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/pluralsh/plural/internal/gitexec"
	"github.com/pluralsh/plural/internal/httpclient"
)

// process is one run of the upload-pack program, on this machine or at the far end of an SSH connection. It greets, and
// takes one request.
type process struct {
	in  io.WriteCloser
	out io.Reader
	// ended waits for the end and says what was wrong; kill brings it about. Both may be called twice.
	ended func() error
	kill  func()
}

// Read gives what the program writes. When it ends in failure, the reason is the error.
func (p *process) Read(b []byte) (int, error) {
	n, err := p.out.Read(b)
	if errors.Is(err, io.EOF) {
		if why := p.ended(); why != nil {
			err = why
		}
	}
	return n, err
}

// Close implements io.Closer.
func (p *process) Close() error {
	p.kill()
	return nil
}

// stream is git over a program's input and output.
type stream struct {
	start func(ctx context.Context, version int) (*process, error)
	close func()
	count *httpclient.Counter
	stall time.Duration
	// open has greeted and waits for its request, in protocol version 2 or in 0.
	open   *process
	openV2 bool
}

func (s *stream) run(ctx context.Context, version int) (*process, error) {
	s.count.Request()
	p, err := s.start(ctx, version)
	if err != nil {
		return nil, err
	}
	p.out = httpclient.Unstalled(ctx, p.out, s.stall, p.kill)
	return p, nil
}

func (s *stream) greet(ctx context.Context, look lookout) (*greeting, error) {
	s.hangUp()
	p, err := s.run(ctx, 2)
	if err != nil {
		return nil, err
	}
	g, err := readGreeting(p, look)
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	s.open, s.openV2 = p, g.v2
	return g, nil
}

func (s *stream) ask(ctx context.Context, version int, body string) (io.ReadCloser, error) {
	p := s.open
	s.open = nil
	if p != nil && s.openV2 != (version == 2) {
		p.kill()
		p = nil
	}
	if p == nil {
		var err error
		if p, err = s.run(ctx, version); err != nil {
			return nil, err
		}
		if _, err := readGreeting(p, lookout{}); err != nil {
			return nil, errors.Join(err, p.Close())
		}
	}
	if _, err := io.WriteString(p.in, body); err != nil {
		return nil, errors.Join(fmt.Errorf("send request: %w", err), p.Close())
	}
	return p, nil
}

func (s *stream) hangUp() {
	if s.open != nil {
		s.open.kill()
		s.open = nil
	}
}

func (s *stream) rest() {
	s.hangUp()
	s.close()
}

// newLocal is git over the git program of this machine, for repositories on its disk.
func newLocal(dir string, count *httpclient.Counter, stall time.Duration) *stream {
	start := func(ctx context.Context, version int) (*process, error) {
		cmd := gitexec.Command(ctx, "", "-c", "uploadpack.allowFilter=true", "upload-pack", dir)
		cmd.Env = append(cmd.Env, fmt.Sprintf("GIT_PROTOCOL=version=%d", version))
		complaint := &tail{}
		cmd.Stderr = complaint
		in, err := cmd.StdinPipe()
		if err != nil {
			return nil, err
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return nil, err
		}
		if err := cmd.Start(); err != nil {
			return nil, fmt.Errorf("start git: %w", err)
		}
		ended := sync.OnceValue(func() error { return complaint.explain(cmd.Wait()) })
		kill := sync.OnceFunc(func() {
			_ = cmd.Process.Kill() // it may have ended by itself
			_ = ended()
		})
		return &process{in: in, out: count.Reader(out), ended: ended, kill: kill}, nil
	}
	return &stream{start: start, close: func() {}, count: count, stall: stall}
}

// tail keeps the first part of what a program complains about.
type tail struct{ gitexec.Complaint }

// explain puts the program's own words in the place of its exit status.
func (t *tail) explain(err error) error {
	if said := t.String(); err != nil && said != "" {
		return &RemoteError{Text: said}
	}
	return err
}
