package archive

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// maxName is the longest name that file systems take, in bytes.
const maxName = 255

type unpacker struct {
	tree    *tree
	lim     Limits
	entries int
	bytes   int64
}

func (u *unpacker) add(header *tar.Header, content io.Reader) error {
	if u.entries++; u.entries > u.lim.Entries {
		return &LimitError{Limit: "entries", Max: int64(u.lim.Entries), Path: header.Name}
	}
	if header.Typeflag == tar.TypeXGlobalHeader {
		return nil // git archive notes its commit in one
	}
	if err := checkHeader(header); err != nil {
		return err
	}
	name := strings.TrimPrefix(header.Name, "./")
	if header.Typeflag == tar.TypeDir {
		if name = strings.TrimSuffix(name, "/"); name == "" || name == "." {
			return nil // the folder that was packed
		}
	}
	if err := u.lim.checkPath(name); err != nil {
		return err
	}
	if header.Typeflag == tar.TypeDir {
		return u.tree.addDir(name, u.lim.Entries)
	}
	return u.file(name, header, content)
}

func (u *unpacker) file(name string, header *tar.Header, content io.Reader) error {
	if header.Size > u.lim.File {
		return &LimitError{Limit: "bytes in one file", Max: u.lim.File, Path: name}
	}
	if u.bytes += header.Size; u.bytes > u.lim.Unpacked {
		return &LimitError{Limit: "bytes unpacked", Max: u.lim.Unpacked, Path: name}
	}
	// Grown by what arrives, not by what the header promises.
	var data bytes.Buffer
	if _, err := io.Copy(&data, content); err != nil {
		return fmt.Errorf("read %q: %w", clip(name), tarError(err))
	}
	mode := fs.FileMode(0o644)
	if header.Mode&0o111 != 0 {
		mode = 0o755
	}
	return u.tree.addFile(name, mode, data.Bytes(), u.lim.Entries)
}

func checkHeader(h *tar.Header) error {
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeDir:
	case tar.TypeSymlink, tar.TypeLink:
		return &EntryError{Path: h.Name, Reason: "a link; only regular files and folders are taken"}
	default:
		return &EntryError{Path: h.Name, Reason: "a special file; only regular files and folders are taken"}
	}
	if h.Size < 0 || h.Typeflag == tar.TypeDir && h.Size != 0 {
		return &EntryError{Path: h.Name, Reason: "impossible size"}
	}
	for record := range h.PAXRecords {
		if strings.HasPrefix(record, "GNU.sparse.") {
			return &EntryError{Path: h.Name, Reason: "a sparse file; only regular files and folders are taken"}
		}
	}
	return nil
}

// checkPath refuses what could mean something else than a plain relative path on any system.
func (l Limits) checkPath(path string) error {
	switch {
	case len(path) > l.PathLength:
		return &LimitError{Limit: "bytes of path", Max: int64(l.PathLength), Path: path}
	case !fs.ValidPath(path), path == ".":
		return &EntryError{Path: path, Reason: "not a plain relative path"}
	case strings.ContainsFunc(path, unsafeRune):
		return &EntryError{Path: path, Reason: "backslash or control character in path"}
	case len(path) > 1 && path[1] == ':':
		return &EntryError{Path: path, Reason: "starts like a drive"}
	case strings.Count(path, "/") >= l.PathDepth:
		return &LimitError{Limit: "folders in depth", Max: int64(l.PathDepth), Path: path}
	}
	for name := range strings.SplitSeq(path, "/") {
		if len(name) > maxName {
			return &LimitError{Limit: "bytes of name", Max: maxName, Path: path}
		}
	}
	return nil
}

func unsafeRune(r rune) bool { return r == '\\' || r < 0x20 || r == 0x7f }
