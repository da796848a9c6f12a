package bundle

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// Pack writes the bundle of the inputs in fsys to w. The bytes depend on the inputs' content alone: entries are
// sorted, times and owners are zero. Folders appear only when they are empty, as git trees may be. A symbolic link
// or a submodule among the inputs is an *EntryError, too much of anything a *LimitError; w then holds a part that
// must be thrown away.
func Pack(w io.Writer, fsys fs.FS, inputs []string, lim Limits) error {
	lim = lim.withDefaults()
	roots, err := outermost(fsys, inputs)
	if err != nil {
		return err
	}
	out := &limitedWriter{w: w, left: lim.Packed, max: lim.Packed}
	z, err := zstd.NewWriter(out, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault))
	if err != nil {
		return fmt.Errorf("start compression: %w", err)
	}
	p := &packer{fsys: fsys, tar: tar.NewWriter(z), lim: lim}
	for _, root := range roots {
		p.root = root
		if err := fs.WalkDir(fsys, root, p.visit); err != nil {
			return errors.Join(fmt.Errorf("pack bundle: %w", err), z.Close())
		}
	}
	if err := errors.Join(p.tar.Close(), z.Close()); err != nil {
		return fmt.Errorf("pack bundle: %w", err)
	}
	return nil
}

// outermost sorts the inputs and drops those that lie inside another one.
func outermost(fsys fs.FS, inputs []string) ([]string, error) {
	sorted := slices.Clone(inputs)
	// By whole elements, so that a folder stands right before what it holds and the archive is sorted like a walk.
	slices.SortFunc(sorted, func(a, b string) int { return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/")) })
	if slices.Contains(sorted, ".") {
		sorted = []string{"."}
	}
	var roots []string
	for _, in := range slices.Compact(sorted) {
		if !fs.ValidPath(in) {
			return nil, &EntryError{Path: in, Reason: "not a plain relative path"}
		}
		if n := len(roots); n > 0 && strings.HasPrefix(in, roots[n-1]+"/") {
			if _, err := fs.Stat(fsys, in); err != nil {
				return nil, fmt.Errorf("find input: %w", err)
			}
			continue
		}
		roots = append(roots, in)
	}
	return roots, nil
}

type packer struct {
	fsys    fs.FS
	tar     *tar.Writer
	lim     Limits
	root    string
	entries int
	bytes   int64
}

func (p *packer) visit(name string, d fs.DirEntry, err error) error {
	if err != nil {
		return err
	}
	if p.entries++; p.entries > p.lim.Entries {
		return &LimitError{Limit: "entries", Max: int64(p.lim.Entries), Path: name}
	}
	if name != "." {
		if err := p.lim.checkPath(name); err != nil {
			return err
		}
	}
	switch {
	case d.IsDir():
		return p.folder(name)
	case d.Type() == fs.ModeSymlink:
		return &EntryError{Path: name, Reason: "symbolic link; bundles hold regular files only: replace it by a copy or name its target as an input"}
	case d.Type() != 0:
		return &EntryError{Path: name, Reason: "submodule or special file; bundles hold regular files only: make it a source of its own"}
	}
	return p.file(name, d)
}

func (p *packer) folder(name string) error {
	entries, err := fs.ReadDir(p.fsys, name)
	if err != nil || len(entries) > 0 || name == "." {
		return err
	}
	return p.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755})
}

func (p *packer) file(name string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	if p.bytes += info.Size(); p.bytes > p.lim.Unpacked {
		return &LimitError{Limit: "bytes unpacked", Max: p.lim.Unpacked, Path: name}
	}
	data, err := fs.ReadFile(p.fsys, name)
	if err != nil {
		return err
	}
	if int64(len(data)) != info.Size() {
		return &EntryError{Path: name, Reason: "changed while it was read"}
	}
	mode := int64(gitMode(info.Mode()) & 0o777)
	if name == p.root {
		// A file that is an input itself enters the key by its blob id, which knows no mode; nor may the bytes, then.
		mode = 0o644
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: info.Size()}
	if err := p.tar.WriteHeader(header); err != nil {
		return err
	}
	_, err = p.tar.Write(data)
	return err
}

// gitMode maps a file's permissions to the three that git has for regular files.
func gitMode(mode fs.FileMode) uint32 {
	switch {
	case mode.Perm()&0o111 != 0:
		return 0o100755
	case mode.Perm() == 0o664:
		return 0o100664
	default:
		return 0o100644
	}
}

type limitedWriter struct {
	w         io.Writer
	left, max int64
}

func (l *limitedWriter) Write(p []byte) (int, error) {
	if l.left -= int64(len(p)); l.left < 0 {
		return 0, &LimitError{Limit: "bytes packed", Max: l.max}
	}
	return l.w.Write(p)
}
