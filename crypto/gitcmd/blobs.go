package gitcmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"

	"github.com/pluralsh/plural/internal/gitexec"
)

// MaxBlob bounds what Get returns, in bytes.
const MaxBlob = 64 << 20

// ErrTooLarge means that a blob is larger than MaxBlob.
var ErrTooLarge = fmt.Errorf("larger than %d MiB", MaxBlob>>20)

// Blobs reads file contents from the object store, by one process of git. It is safe for concurrent use, and answers one
// caller at a time. What git has once read of the index it does not read again: a caller that outlives a change of the
// index opens other Blobs.
type Blobs struct {
	mu     sync.Mutex // guards all below
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr gitexec.Complaint
	broken error
}

// Blobs starts the process. It ends with ctx, or by Close, which must be called.
func (r *Repo) Blobs(ctx context.Context) (*Blobs, error) {
	b := &Blobs{cmd: r.command(ctx, "cat-file", "--batch")}
	b.cmd.Stderr = &b.stderr
	in, err := b.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start git cat-file: %w", err)
	}
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start git cat-file: %w", err)
	}
	b.in, b.out = in, bufio.NewReaderSize(out, 64<<10)
	if err := b.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start git cat-file: %w", err)
	}
	return b, nil
}

// Get reads one blob and tells its name. The name given is an object's, or like ":0:PATH" for the index, "HEAD:PATH" for a
// commit. Ok is false when there is none, or when it is no file. The error is ErrTooLarge for one that is.
func (b *Blobs) Get(name string) (content []byte, oid string, ok bool, err error) {
	if strings.ContainsAny(name, "\n\x00") {
		return nil, "", false, fmt.Errorf("read %q: git cannot be asked for a path with a line break", name)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken != nil {
		return nil, "", false, b.broken
	}
	content, oid, ok, err = b.ask(name)
	if err != nil && !errors.Is(err, ErrTooLarge) {
		b.broken = fmt.Errorf("read %q: git cat-file: %w", name, b.cause(err))
		return nil, "", false, b.broken
	}
	if err != nil {
		err = fmt.Errorf("read %q: %w", name, err)
	}
	return content, oid, ok, err
}

func (b *Blobs) ask(name string) (content []byte, oid string, ok bool, err error) {
	if _, err := io.WriteString(b.in, name+"\n"); err != nil {
		return nil, "", false, err
	}
	line, err := b.out.ReadString('\n')
	if err != nil {
		return nil, "", false, err
	}
	line = strings.TrimSuffix(line, "\n")
	if rest, found := strings.CutPrefix(line, name+" "); found && (rest == "missing" || rest == "ambiguous") {
		return nil, "", false, nil
	}
	words := strings.Split(line, " ")
	if len(words) != 3 {
		return nil, "", false, fmt.Errorf("unexpected answer %.100q", line)
	}
	size, err := strconv.ParseInt(words[2], 10, 64)
	if err != nil {
		return nil, "", false, fmt.Errorf("unexpected answer %.100q", line)
	}
	if words[1] != "blob" || size > MaxBlob {
		if _, err := io.CopyN(io.Discard, b.out, size+1); err != nil {
			return nil, "", false, err
		}
		if words[1] != "blob" {
			return nil, "", false, nil
		}
		return nil, words[0], true, ErrTooLarge
	}
	content = make([]byte, size+1) // a line break follows
	if _, err := io.ReadFull(b.out, content); err != nil {
		return nil, "", false, err
	}
	return content[:size:size], words[0], true, nil
}

// cause waits for a process that went away, which says why.
func (b *Blobs) cause(err error) error {
	_ = b.in.Close()
	_ = b.cmd.Wait()
	if text := b.stderr.String(); text != "" {
		return errors.New(text)
	}
	return err
}

// Close ends the process and waits for it. It may be called twice.
func (b *Blobs) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken != nil {
		return nil
	}
	b.broken = errors.New("closed")
	_ = b.in.Close()
	if err := b.cmd.Wait(); err != nil {
		return fmt.Errorf("end git cat-file: %w", err)
	}
	return nil
}
