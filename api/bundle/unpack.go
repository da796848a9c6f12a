package bundle

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// maxWindow bounds what one zstd frame may ask the decoder to hold; the encoder's default level needs 8 MiB.
const maxWindow = 16 << 20

// Unpack reads a whole bundle into memory. Anything but regular files and folders with plain, unique paths is an
// *EntryError, too much of anything a *LimitError; what follows the archive's end is an error too. Whether it is the
// bundle that was asked for, [Files.Key] tells.
func Unpack(r io.Reader, lim Limits) (*Files, error) {
	lim = lim.withDefaults()
	z, err := zstd.NewReader(&limitedReader{r: r, left: lim.Packed, err: &LimitError{Limit: "bytes packed", Max: lim.Packed}},
		zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, fmt.Errorf("start decompression: %w", err)
	}
	defer z.Close()
	// Headers and padding are not content, so the stream may be longer than its files, but only by so much a file.
	most := lim.Unpacked + int64(lim.Entries)*(tarOverhead+2*int64(lim.PathLength))
	stream := &limitedReader{r: z, left: most, err: &LimitError{Limit: "bytes unpacked", Max: lim.Unpacked}}
	files, err := readTar(stream, lim)
	if err != nil {
		return nil, fmt.Errorf("unpack bundle: %w", err)
	}
	return files, nil
}

const (
	tarOverhead = 4 * 512
	// tarEnd is what every archive ends with, also one without files.
	tarEnd = 2 * 512
)

func readTar(stream *limitedReader, lim Limits) (*Files, error) {
	most := stream.left
	u := &unpacker{tree: newTree(), lim: lim}
	archive := tar.NewReader(stream)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if err := u.add(header, archive); err != nil {
			return nil, err
		}
	}
	if n, err := io.CopyN(io.Discard, stream, 1); n != 0 {
		return nil, errors.New("bytes after the end of the archive")
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}
	if most-stream.left < tarEnd {
		return nil, fmt.Errorf("archive is not whole: %w", io.ErrUnexpectedEOF)
	}
	return &Files{root: u.tree.root}, nil
}

type unpacker struct {
	tree  *tree
	lim   Limits
	bytes int64
}

func (u *unpacker) add(header *tar.Header, content io.Reader) error {
	if err := checkHeader(header); err != nil {
		return err
	}
	name := header.Name
	if header.Typeflag == tar.TypeDir {
		name = strings.TrimSuffix(name, "/")
	}
	if err := u.lim.checkPath(name); err != nil {
		return err
	}
	if header.Typeflag == tar.TypeDir {
		return u.tree.addDir(name, u.lim.Entries)
	}
	if u.bytes += header.Size; u.bytes > u.lim.Unpacked {
		return &LimitError{Limit: "bytes unpacked", Max: u.lim.Unpacked, Path: name}
	}
	// Grown by what arrives, not by what the header promises.
	var data bytes.Buffer
	if _, err := io.Copy(&data, content); err != nil {
		return fmt.Errorf("read %q: %w", name, err)
	}
	return u.tree.addFile(name, fs.FileMode(header.Mode).Perm(), data.Bytes(), u.lim.Entries)
}

// checkHeader admits exactly what Pack writes.
func checkHeader(h *tar.Header) error {
	if h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeDir {
		return &EntryError{Path: clip(h.Name), Reason: "only regular files and folders are allowed"}
	}
	if h.Size < 0 || h.Typeflag == tar.TypeDir && h.Size != 0 {
		return &EntryError{Path: clip(h.Name), Reason: "impossible size"}
	}
	switch {
	case h.Typeflag == tar.TypeDir && h.Mode != 0o755,
		h.Typeflag == tar.TypeReg && h.Mode != 0o644 && h.Mode != 0o664 && h.Mode != 0o755:
		return &EntryError{Path: clip(h.Name), Reason: fmt.Sprintf("mode %o", h.Mode)}
	case h.Format != tar.FormatUSTAR && h.Format != tar.FormatPAX:
		return &EntryError{Path: clip(h.Name), Reason: "unknown kind of tar header"}
	}
	for record := range h.PAXRecords {
		if record != "path" {
			return &EntryError{Path: clip(h.Name), Reason: fmt.Sprintf("extended header %q", clip(record))}
		}
	}
	return nil
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
