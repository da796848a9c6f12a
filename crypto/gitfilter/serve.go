package gitfilter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/pluralsh/plural/crypto/seal"
)

// Direction is the way that a file goes.
type Direction string

// The directions, in git's words.
const (
	// Clean is from the work tree into git.
	Clean Direction = "clean"
	// Smudge is from git into the work tree.
	Smudge Direction = "smudge"
)

// Request is one file that git wants turned.
type Request struct {
	Direction Direction
	// Path is relative to the repository's root, with slashes.
	Path string
	// Treeish is the commit or tree that is being checked out; empty when git does not say.
	Treeish string
	// Content is only good until the request is answered.
	Content []byte
}

// Handler turns files.
type Handler interface {
	// Handle returns what git is to take in place of the content. It is called for one file at a time.
	Handle(ctx context.Context, r Request) ([]byte, error)
	// Explain is told why a file was refused, also when Handle was not asked for it. Git itself only says that it was.
	Explain(path string, err error)
}

// Serve speaks version 2 of git's protocol for filters that live for many files, until git closes in. A file that is
// refused, or larger than seal.MaxFile, is an error to git and not to Serve, whose errors mean that git and it do not
// understand each other.
func Serve(ctx context.Context, in io.Reader, out io.Writer, h Handler) error {
	s := &session{packets: newPackets(in, out), handler: h}
	if err := s.greet(); err != nil {
		return fmt.Errorf("greet git: %w", err)
	}
	for {
		err := s.serveOne(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("serve git: %w", err)
		}
	}
}

type session struct {
	*packets
	handler Handler
	buf     []byte // the content of the last file, used again
}

// greet agrees with git on the version and the directions.
func (s *session) greet() error {
	hello, err := s.lines()
	if err != nil {
		return unexpected(err)
	}
	if len(hello) == 0 || hello[0] != "git-filter-client" || !slices.Contains(hello[1:], "version=2") {
		return fmt.Errorf("git sent %.100q: want a git-filter-client of version 2: this command is for git to run", hello)
	}
	s.list("git-filter-server", "version=2")
	if err := s.flush(); err != nil {
		return err
	}
	offered, err := s.lines()
	if err != nil {
		return unexpected(err)
	}
	var agreed []string
	for _, direction := range []Direction{Clean, Smudge} {
		if capability := "capability=" + string(direction); slices.Contains(offered, capability) {
			agreed = append(agreed, capability)
		}
	}
	s.list(agreed...)
	return s.flush()
}

// unexpected is for where git must not end.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// serveOne answers one request. The error is io.EOF when git has none.
func (s *session) serveOne(ctx context.Context) error {
	r, err := s.request()
	if err != nil {
		return err
	}
	s.buf, err = s.content(s.buf, seal.MaxFile)
	switch {
	case errors.Is(err, errTooLarge):
		s.refuse(r.Path, fmt.Errorf("it is larger than %d MiB, which is the most that is sealed", seal.MaxFile>>20))
		return s.flush()
	case err != nil:
		return err
	}
	r.Content = s.buf
	if err := ctx.Err(); err != nil {
		return err
	}
	result, err := s.handler.Handle(ctx, r)
	if err != nil {
		s.refuse(r.Path, err)
		return s.flush()
	}
	s.list("status=success")
	s.file(result)
	s.list() // the status stays as it is
	return s.flush()
}

func (s *session) refuse(path string, err error) {
	s.handler.Explain(path, err)
	s.list("status=error")
}

// request reads what git wants; the content follows.
func (s *session) request() (Request, error) {
	lines, err := s.lines()
	if err != nil {
		return Request{}, err
	}
	var r Request
	for _, line := range lines {
		key, value, _ := strings.Cut(line, "=")
		switch key {
		case "command":
			r.Direction = Direction(value)
		case "pathname":
			r.Path = value
		case "treeish":
			r.Treeish = value
		}
	}
	if r.Direction != Clean && r.Direction != Smudge || r.Path == "" {
		return Request{}, fmt.Errorf("git sent %.200q, which asks for nothing that was agreed on", lines)
	}
	return r, nil
}
