// Package bundle owns the archive that carries a service's files from the hub to an agent.
//
// A bundle is a zstd-compressed tar of regular files, a function of its content alone: the same files give the same
// bytes on every machine. It is named before it exists: [Key] hashes the git ids of the declared inputs, so whoever
// has a commit knows the name without reading a file. [Pack] writes the archive, [Unpack] reads it back into memory
// within [Limits], and [Files.Key] recomputes the name from what was unpacked, so that a receiver believes neither
// the sender nor the cache between them.
//
// The package knows nothing of services, clusters or git repositories: it sees an fs.FS and a list of paths.
package bundle

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"unicode/utf8"
)

// KeyPrefix starts every key of this format.
const KeyPrefix = "b1-"

// Limits bound what Pack writes and Unpack accepts. A zero field means its value in [DefaultLimits].
type Limits struct {
	// Packed and Unpacked are bytes of the archive and of all its files together.
	Packed, Unpacked int64
	// Entries counts files and folders, named or implied.
	Entries int
	// PathLength is in bytes, PathDepth in path elements.
	PathLength, PathDepth int
}

// DefaultLimits are what the hub and the agents agree on.
func DefaultLimits() Limits {
	return Limits{Packed: 32 << 20, Unpacked: 128 << 20, Entries: 50_000, PathLength: 1024, PathDepth: 64}
}

func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	if l.Packed == 0 {
		l.Packed = d.Packed
	}
	if l.Unpacked == 0 {
		l.Unpacked = d.Unpacked
	}
	if l.Entries == 0 {
		l.Entries = d.Entries
	}
	if l.PathLength == 0 {
		l.PathLength = d.PathLength
	}
	if l.PathDepth == 0 {
		l.PathDepth = d.PathDepth
	}
	return l
}

// Input is one declared input of a bundle: a folder or a file of the repository, "." for all of it.
type Input struct {
	Path string
	// Hash is the git id of the tree or blob at Path, 40 lower-case hex digits.
	Hash string
	// Dir tells a tree from a blob.
	Dir bool
}

// Entry describes one file of a bundle.
type Entry struct {
	Path string
	// Mode is as git writes it: 0100644, 0100664 or 0100755.
	Mode uint32
	// Size is in bytes.
	Size int64
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
		return fmt.Sprintf("bundle exceeds %d %s: split the service or narrow its inputs", e.Max, e.Limit)
	}
	return fmt.Sprintf("bundle exceeds %d %s at %q: split the service or narrow its inputs", e.Max, e.Limit, e.Path)
}

// EntryError refuses one entry of a tree or of an archive.
type EntryError struct {
	Path   string
	Reason string
}

func (e *EntryError) Error() string { return fmt.Sprintf("refuse %q: %s", e.Path, e.Reason) }

// Key names the bundle that holds the inputs: KeyPrefix and a SHA-256 in hex. Order and repetition do not matter.
func Key(inputs []Input) string {
	lines := make([]string, len(inputs))
	for i, in := range inputs {
		kind := "blob"
		if in.Dir {
			kind = "tree"
		}
		lines[i] = kind + " " + in.Hash + " " + in.Path + "\x00"
	}
	slices.Sort(lines)
	sum := sha256.New()
	for _, line := range slices.Compact(lines) {
		sum.Write([]byte(line))
	}
	return KeyPrefix + hex.EncodeToString(sum.Sum(nil))
}

// ValidKey says whether key has the shape that [Key] gives.
func ValidKey(key string) bool {
	digits, ok := strings.CutPrefix(key, KeyPrefix)
	if !ok || len(digits) != 2*sha256.Size {
		return false
	}
	return strings.Trim(digits, "0123456789abcdef") == ""
}

// checkPath refuses what could mean something else than a plain relative path on any system.
func (l Limits) checkPath(path string) error {
	switch {
	case len(path) > l.PathLength:
		return &LimitError{Limit: "bytes of path", Max: int64(l.PathLength), Path: clip(path)}
	case !fs.ValidPath(path), path == ".":
		return &EntryError{Path: path, Reason: "not a plain relative path"}
	case strings.ContainsFunc(path, unsafeRune):
		return &EntryError{Path: path, Reason: "backslash or control character in path"}
	case strings.Count(path, "/") >= l.PathDepth:
		return &LimitError{Limit: "folders in depth", Max: int64(l.PathDepth), Path: path}
	}
	return nil
}

func unsafeRune(r rune) bool { return r == '\\' || r < 0x20 || r == 0x7f }

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
