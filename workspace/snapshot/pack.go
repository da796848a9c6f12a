package snapshot

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

// Bounds of one pack.
const (
	maxObject   = maxBlob
	maxObjects  = 4 << 20
	maxInflated = 8 << 30
)

// receivePack brings a pack from a stranger into a generation's folder. The pack is written beside, measured object by
// object, and indexed, before it gets its name: an interrupted process leaves a temporary file and nothing else. The
// index is named first, because a pack without one would count as damage.
func receivePack(ctx context.Context, from io.Reader, dir string) error {
	tmp, err := os.CreateTemp(dir, tempPrefix)
	if err != nil {
		return fmt.Errorf("receive pack: %w", err)
	}
	defer os.Remove(tmp.Name())
	defer tmp.Close()
	n, err := io.Copy(tmp, io.LimitReader(from, maxPack+1))
	if err != nil {
		return fmt.Errorf("receive pack: %w", err)
	}
	if n > maxPack {
		return &LimitError{What: "pack", Size: n, Max: maxPack}
	}
	if err := measurePack(&contextFile{ctx, tmp}, n); err != nil {
		return fmt.Errorf("check pack: %w", err)
	}
	return installPack(ctx, tmp, dir)
}

// installPack indexes a pack that is already within bounds and gives both files their names.
func installPack(ctx context.Context, pack *os.File, dir string) error {
	if _, err := pack.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("index pack: %w", err)
	}
	index := &idxfile.Writer{}
	parser, err := packfile.NewParser(packfile.NewScanner(&contextFile{ctx, pack}), index)
	if err != nil {
		return fmt.Errorf("index pack: %w", err)
	}
	name, err := parser.Parse()
	if err != nil {
		return fmt.Errorf("index pack: %w", err)
	}
	table, err := index.Index()
	if err != nil {
		return fmt.Errorf("index pack: %w", err)
	}
	var buf bytes.Buffer
	if _, err := idxfile.NewEncoder(&buf).Encode(table); err != nil {
		return fmt.Errorf("index pack: %w", err)
	}
	base := filepath.Join(dir, "pack-"+name.String())
	if err := writeFile(base+".idx", buf.Bytes()); err != nil {
		return fmt.Errorf("write pack index: %w", err)
	}
	if err := errors.Join(pack.Sync(), os.Rename(pack.Name(), base+".pack"), syncDir(dir)); err != nil {
		return fmt.Errorf("keep pack: %w", err)
	}
	return nil
}

// measurePack inflates every object once, into nothing, and compares it with its header and the limits: what follows
// trusts these sizes when it asks for memory.
func measurePack(r io.ReadSeeker, size int64) error {
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return err
	}
	scanner := packfile.NewScanner(r)
	_, count, err := scanner.Header()
	if err != nil {
		return err
	}
	// No object takes fewer than nine bytes: a byte of header and the shortest zlib stream.
	if int64(count) > size/9 || count > maxObjects {
		return &LimitError{What: "pack's number of objects", Size: int64(count), Max: min(size/9, maxObjects)}
	}
	var total int64
	for range count {
		n, err := measureObject(scanner)
		if err != nil {
			return err
		}
		if total += n; total > maxInflated {
			return &LimitError{What: "pack, inflated,", Size: total, Max: maxInflated}
		}
	}
	return nil
}

func measureObject(scanner *packfile.Scanner) (int64, error) {
	header, err := scanner.NextObjectHeader()
	if err != nil {
		return 0, err
	}
	what := fmt.Sprintf("object at offset %d of the pack", header.Offset)
	if header.Length > maxObject {
		return 0, &LimitError{What: what, Size: header.Length, Max: maxObject}
	}
	head := &prefix{}
	n, _, err := scanner.NextObject(head)
	if err != nil {
		return 0, err
	}
	if n != header.Length {
		return 0, fmt.Errorf("%s: %d bytes where its header says %d", what, n, header.Length)
	}
	if header.Type == plumbing.OFSDeltaObject || header.Type == plumbing.REFDeltaObject {
		result, ok := deltaResult(head.kept)
		if !ok {
			return 0, fmt.Errorf("%s: malformed delta", what)
		}
		if result > maxObject {
			return 0, &LimitError{What: what, Size: int64(min(result, 1<<62)), Max: maxObject}
		}
	}
	return n, nil
}

// deltaResult reads the size that a delta promises to grow to, the second of the two numbers it starts with.
func deltaResult(delta []byte) (uint64, bool) {
	_, n := binary.Uvarint(delta)
	if n <= 0 {
		return 0, false
	}
	result, n := binary.Uvarint(delta[n:])
	return result, n > 0
}

// prefix keeps the first bytes of what is written to it.
type prefix struct{ kept []byte }

func (p *prefix) Write(b []byte) (int, error) {
	if room := 2*binary.MaxVarintLen64 - len(p.kept); room > 0 {
		p.kept = append(p.kept, b[:min(room, len(b))]...)
	}
	return len(b), nil
}

// contextFile lets a deadline stop the work on a pack, which knows no context itself.
type contextFile struct {
	ctx context.Context //nolint:containedctx // io.Reader leaves no other way to pass it
	f   *os.File
}

func (c *contextFile) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.f.Read(p)
}

func (c *contextFile) Seek(offset int64, whence int) (int64, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.f.Seek(offset, whence)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
