// Package archive owns the unpacking of untrusted tar archives into memory.
//
// It refuses to know where the archive came from or whose it is: digests and signatures are for whoever fetched it.
// What comes out is a function of the files' names, contents and executable bits alone; owners, times and all other
// modes are dropped, and so are empty folders, so that git gives the same tree on every machine.
//
// [Unpack] tells gzip from plain tar by the first bytes, takes regular files and folders with plain, unique paths, and
// holds everything else against the archive as a whole: an [EntryError] or a [LimitError] says where. [UnpackChart]
// goes one step further for Helm charts, whose files stand below one folder.
package archive

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// Limits bound what Unpack accepts. A zero field means its value in [DefaultLimits].
type Limits struct {
	// Packed and Unpacked are bytes of the archive and of all its files together, File of one of them.
	Packed, Unpacked, File int64
	// Entries counts what the archive lists, and the folders that are implied.
	Entries int
	// PathLength is in bytes, PathDepth in path elements.
	PathLength, PathDepth int
}

// DefaultLimits are those of what leaves the hub again: a bundle as a whole, a git object as one file.
func DefaultLimits() Limits {
	return Limits{Packed: 32 << 20, Unpacked: 128 << 20, File: 32 << 20, Entries: 50_000, PathLength: 1024, PathDepth: 64}
}

// ChartLimits are Helm's own for a chart's files, within the default ones.
func ChartLimits() Limits {
	l := DefaultLimits()
	l.Unpacked, l.File = 100<<20, 5<<20
	return l
}

func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	for _, f := range []struct{ value, standard *int64 }{
		{&l.Packed, &d.Packed},
		{&l.Unpacked, &d.Unpacked},
		{&l.File, &d.File},
	} {
		if *f.value == 0 {
			*f.value = *f.standard
		}
	}
	for _, f := range []struct{ value, standard *int }{
		{&l.Entries, &d.Entries},
		{&l.PathLength, &d.PathLength},
		{&l.PathDepth, &d.PathDepth},
	} {
		if *f.value == 0 {
			*f.value = *f.standard
		}
	}
	return l
}

// LimitError says which of the Limits was exceeded.
type LimitError struct {
	// Limit is what was counted, "entries" for example; Max is the bound.
	Limit string
	Max   int64
	// Path is where it happened, empty when it concerns the whole archive.
	Path string
}

func (e *LimitError) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("archive exceeds %d %s", e.Max, e.Limit)
	}
	return fmt.Sprintf("archive exceeds %d %s at %q", e.Max, e.Limit, clip(e.Path))
}

// EntryError refuses one entry of an archive.
type EntryError struct {
	Path   string
	Reason string
}

func (e *EntryError) Error() string { return fmt.Sprintf("refuse %q: %s", clip(e.Path), e.Reason) }

// ErrFormat refuses what is no tar file, plain or in gzip, or holds more than one.
var ErrFormat = errors.New("not a tar file, plain or in gzip")

// ErrNoFiles refuses an archive without a single file.
var ErrNoFiles = errors.New("archive holds no files")

const (
	blockSize = 512
	// overhead is what the stream may hold for each entry beside its content and its name: headers and padding.
	overhead = 4 * blockSize
	// magicSize is as much as is needed to know a tar file.
	magicSize = blockSize
)

// Unpack reads a whole archive, with nothing after its end.
func Unpack(r io.Reader, l Limits) (*Files, error) {
	l = l.withDefaults()
	packed := &limitedReader{r: r, left: l.Packed, err: &LimitError{Limit: "bytes packed", Max: l.Packed}}
	plain, err := decompress(packed)
	if err != nil {
		return nil, fmt.Errorf("unpack archive: %w", err)
	}
	most := l.Unpacked + int64(l.Entries)*(overhead+2*int64(l.PathLength))
	stream := &limitedReader{r: plain, left: most, err: &LimitError{Limit: "bytes unpacked", Max: l.Unpacked}}
	files, err := readTar(stream, l)
	if err != nil {
		return nil, fmt.Errorf("unpack archive: %w", err)
	}
	return files, nil
}

// UnpackChart reads a chart's archive and takes away the one folder that all of it stands below.
func UnpackChart(r io.Reader) (*Files, error) {
	files, err := Unpack(r, ChartLimits())
	if err != nil {
		return nil, err
	}
	if files, err = files.onlyFolder(); err != nil {
		return nil, fmt.Errorf("unpack chart: %w", err)
	}
	if n, ok := files.root.entries["Chart.yaml"]; !ok || n.IsDir() {
		return nil, fmt.Errorf("unpack chart: %w", &EntryError{Path: "Chart.yaml", Reason: "is missing: not a chart"})
	}
	return files, nil
}

// decompress goes by what the archive starts with, since media types and names are only claims.
func decompress(r io.Reader) (io.Reader, error) {
	buffered := bufio.NewReaderSize(r, magicSize)
	magic, err := buffered.Peek(magicSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if bytes.HasPrefix(magic, []byte{0x1f, 0x8b}) {
		return gzip.NewReader(buffered)
	}
	switch {
	case len(magic) == 0:
		return nil, fmt.Errorf("%w: it is empty", ErrFormat)
	case bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return nil, fmt.Errorf("%w: it is compressed by zstd", ErrFormat)
	case bytes.HasPrefix(magic, []byte("PK\x03\x04")):
		return nil, fmt.Errorf("%w: it is a zip file", ErrFormat)
	case len(magic) < magicSize:
		return nil, fmt.Errorf("%w: it is only %d bytes long", ErrFormat, len(magic))
	}
	return buffered, nil
}

func readTar(stream *limitedReader, l Limits) (*Files, error) {
	most := stream.left
	u := &unpacker{tree: newTree(), lim: l}
	archive := tar.NewReader(stream)
	var end int64 // of the last entry
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, tarError(err)
		}
		if err := u.add(header, archive); err != nil {
			return nil, err
		}
		end = (most - stream.left + blockSize - 1) / blockSize * blockSize
	}
	if most-stream.left < end+blockSize {
		return nil, fmt.Errorf("archive is not whole: %w", io.ErrUnexpectedEOF)
	}
	if err := onlyZeros(stream); err != nil {
		return nil, err
	}
	if u.tree.root.prune() == 0 {
		return nil, ErrNoFiles
	}
	return &Files{root: u.tree.root}, nil
}

func tarError(err error) error {
	switch {
	case errors.Is(err, tar.ErrHeader):
		return fmt.Errorf("%w: %w", ErrFormat, err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("archive is not whole: %w", err)
	}
	return err
}

// onlyZeros reads the rest, which tar pads with zeros: anything else is content that this reader would not have seen.
func onlyZeros(r io.Reader) error {
	buf := make([]byte, 8<<10)
	for {
		n, err := r.Read(buf)
		if len(bytes.Trim(buf[:n], "\x00")) > 0 {
			return fmt.Errorf("%w: bytes after its end", ErrFormat)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// clip keeps an oversized path out of error texts.
func clip(path string) string {
	const most = 128
	if len(path) <= most {
		return path
	}
	path = path[:most]
	for !utf8.ValidString(path) && len(path) > most-utf8.UTFMax {
		path = path[:len(path)-1]
	}
	return path + "…"
}

type limitedReader struct {
	r    io.Reader
	left int64
	err  error
}

// Read fails only when there is more than the limit, so an archive of exactly that size passes.
func (l *limitedReader) Read(p []byte) (int, error) {
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1]
	}
	n, err := l.r.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, l.err
	}
	return n, err
}
