package mirror

import (
	"bytes"
	"context"
	"crypto"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/go-git/go-git/v5/plumbing/hash"

	"github.com/pluralsh/plural/workspace/snapshot"
)

// receive brings a pack from a stranger into the store. It is written beside, measured object by object, and indexed,
// before it gets its name: an interrupted process leaves a temporary file and nothing else. Unnamed says that files over the
// limit are in it whose ids are not known.
func (s *store) receive(ctx context.Context, from io.Reader) (unnamed bool, err error) {
	tmp, err := os.CreateTemp(s.dir, tempPrefix)
	if err != nil {
		return false, fmt.Errorf("receive pack: %w", err)
	}
	defer os.Remove(tmp.Name())
	defer tmp.Close()
	sum := &checksum{hash: hash.New(crypto.SHA1)}
	n, err := io.Copy(io.MultiWriter(tmp, sum), &contextReader{ctx, io.LimitReader(from, maxPack+1)})
	switch {
	case err != nil:
		return false, fmt.Errorf("receive pack: %w", err)
	case n > maxPack:
		return false, &snapshot.LimitError{What: "pack", Size: n, Max: maxPack}
	case n < shortestPack || !sum.matches():
		return false, errors.New("receive pack: it ends early, or was changed on the way: its checksum does not match")
	}
	found, err := s.cache.inspect(ctx, tmp, n)
	if err != nil {
		return false, err
	}
	if err := s.leave(found.left); err != nil {
		return false, err
	}
	return found.unnamed, s.install(tmp, found.entries, sum.last)
}

// install gives a pack its index and its name. The index is named first, because a pack without one counts as damage.
func (s *store) install(pack *os.File, entries []entry, sum []byte) error {
	name := packName(sum)
	if s.has(name) {
		return nil
	}
	if err := pack.Sync(); err != nil {
		return fmt.Errorf("keep pack: %w", err)
	}
	if err := writeIndex(s.dir, entries, sum); err != nil {
		return fmt.Errorf("write pack index: %w", err)
	}
	if err := errors.Join(os.Rename(pack.Name(), filepath.Join(s.dir, name)), syncDir(s.dir)); err != nil {
		return fmt.Errorf("keep pack: %w", err)
	}
	return s.add(name)
}

// checksum hashes all that is written to it but the last twenty bytes, which in a pack are that hash.
type checksum struct {
	hash hash.Hash
	last []byte
}

func (c *checksum) Write(b []byte) (int, error) {
	all := b
	if len(b) < sumSize || len(c.last) < sumSize {
		all = append(bytes.Clone(c.last), b...)
	} else {
		_, _ = c.hash.Write(c.last) // a hash takes everything
	}
	keep := max(0, len(all)-sumSize)
	_, _ = c.hash.Write(all[:keep])
	c.last = append(c.last[:0], all[keep:]...)
	return len(b), nil
}

func (c *checksum) matches() bool { return bytes.Equal(c.hash.Sum(nil), c.last) }

// contextReader ends reading with its context, for a source that does not know it.
type contextReader struct {
	ctx context.Context //nolint:containedctx // io.Reader leaves no other way to pass it
	r   io.Reader
}

func (c *contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
