package mirror

import (
	"bufio"
	"compress/zlib"
	"context"
	"crypto"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/hash"

	"github.com/pluralsh/plural/workspace/snapshot"
)

// packWriter makes packs of objects that are here, one after the other and without deltas: what is kept is one state of
// each file, which has little to gain from them, and memory stays at one object.
type packWriter struct {
	store   *store
	file    *os.File // nil between two packs
	out     *bufio.Writer
	deflate *zlib.Writer
	at      int64
	entries []entry
	// most is how large a pack grows before the next is begun; zero means that there is one, of at most maxPack.
	most int64
	// left are files over the limit that belong to what is written.
	left map[plumbing.Hash]int64
}

func newPackWriter(s *store, most int64) *packWriter {
	return &packWriter{
		store: s, out: bufio.NewWriterSize(nil, 1<<16), deflate: zlib.NewWriter(nil), most: most, left: map[plumbing.Hash]int64{},
	}
}

// add writes one object.
func (w *packWriter) add(kind plumbing.ObjectType, id plumbing.Hash, body []byte) error {
	if err := w.begin(); err != nil {
		return err
	}
	sum := crc32.NewIEEE()
	counted := &counter{w: io.MultiWriter(w.out, sum)}
	if _, err := counted.Write(objectHeader(kind, len(body))); err != nil {
		return err
	}
	w.deflate.Reset(counted)
	if _, err := w.deflate.Write(body); err != nil {
		return err
	}
	if err := w.deflate.Close(); err != nil {
		return err
	}
	w.entries = append(w.entries, entry{id: id, at: uint32(w.at), sum: sum.Sum32()})
	w.at += counted.n
	switch {
	case w.most > 0 && w.at > w.most:
		return w.finish()
	case w.at > maxPack-sumSize:
		return &snapshot.LimitError{What: "pack", Size: w.at, Max: maxPack}
	}
	return nil
}

func (w *packWriter) begin() (err error) {
	if w.file != nil {
		return nil
	}
	if w.file, err = os.CreateTemp(w.store.dir, tempPrefix); err != nil {
		return err
	}
	w.out.Reset(w.file)
	w.at, w.entries = int64(len(packHeader(0))), w.entries[:0]
	_, err = w.out.Write(packHeader(0)) // the number is not known yet
	return err
}

// finish completes the pack that was begun, if there is one, and puts it into the store.
func (w *packWriter) finish() error {
	if err := w.store.leave(w.left); err != nil {
		return err
	}
	if w.file == nil {
		return nil
	}
	defer w.discard()
	if err := w.out.Flush(); err != nil {
		return fmt.Errorf("write pack: %w", err)
	}
	if _, err := w.file.WriteAt(packHeader(len(w.entries)), 0); err != nil {
		return fmt.Errorf("write pack: %w", err)
	}
	if _, err := w.file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("write pack: %w", err)
	}
	hasher := hash.New(crypto.SHA1)
	if _, err := io.Copy(hasher, w.file); err != nil {
		return fmt.Errorf("write pack: %w", err)
	}
	sum := hasher.Sum(nil)
	if _, err := w.file.Write(sum); err != nil {
		return fmt.Errorf("write pack: %w", err)
	}
	return w.store.install(w.file, w.entries, sum)
}

// discard removes what was not finished.
func (w *packWriter) discard() {
	if w.file != nil {
		_ = errors.Join(w.file.Close(), os.Remove(w.file.Name())) // a finished one has another name by now
		w.file = nil
	}
}

// copyTree adds a commit with all that it holds and that is not in seen.
func (w *packWriter) copyTree(ctx context.Context, from *snapshot.Objects, commit string, seen snapshot.Seen) error {
	if seen[plumbing.NewHash(commit)] == plumbing.CommitObject {
		return nil
	}
	take := func(id snapshot.Hash, kind plumbing.ObjectType) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		body, err := from.Read(id, kind, w.store.MaxBlob())
		if err != nil {
			return err
		}
		return w.add(kind, plumbing.NewHash(string(id)), body)
	}
	root, err := rootOf(from, commit)
	if err != nil {
		return err
	}
	leave := func(id snapshot.Hash) error {
		size, left := from.LeftOut(id)
		if !left {
			return plumbing.ErrObjectNotFound
		}
		w.left[plumbing.NewHash(string(id))] = size
		return nil
	}
	if err := from.WalkLacking(root, seen, take, leave); err != nil {
		return err
	}
	seen[plumbing.NewHash(commit)] = plumbing.CommitObject
	return take(snapshot.Hash(commit), plumbing.CommitObject)
}

// rootOf opens a commit and gives its root tree.
func rootOf(objects *snapshot.Objects, commit string) (snapshot.Hash, error) {
	s, err := objects.Snapshot(snapshot.Hash(commit))
	if err != nil {
		return "", err
	}
	if s.Commit().ID != commit {
		return "", fmt.Errorf("%s is a tag, and no commit", commit)
	}
	root, _, err := s.Hash(".")
	return root, err
}

func packHeader(objects int) []byte {
	return binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(objects))
}

// objectHeader is an object's kind and size as packs have it: four bits of size, then seven a byte.
func objectHeader(kind plumbing.ObjectType, size int) []byte {
	b := byte(kind)<<4 | byte(size&0x0f)
	var header []byte
	for size >>= 4; size > 0; size >>= 7 {
		header = append(header, b|0x80)
		b = byte(size & 0x7f)
	}
	return append(header, b)
}

// counter counts what is written through it.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}
