// Package sops owns the decryption of files that sops encrypted for age recipients.
//
// It knows the documented format and nothing else: no key services, no clouds, no files, no writing. What came from other
// tools' key managers alone is named and refused.
//
// What the format protects: values, their order, and the place of each encrypted value. It does not protect comments, the
// names of values that stand in clear, nor whether "1" is a number or a text.
//
// Data passes through in one line: the text becomes a tree of values and comments in document order (yaml.go, json.go,
// dotenv.go), its metadata yields the file's data key (metadata.go), a walk opens each value under its path and hashes all
// of them (walk.go), and only when the hash is the one that the file carries is the tree written out again.
package sops

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"filippo.io/age"
)

// Bounds of what is read.
const (
	// MaxFile is the largest file, in bytes.
	MaxFile = 8 << 20
	// maxKeys is how many age recipients a file may have, and maxKey how long the data key sealed to one may be.
	maxKeys, maxKey = 256, 64 << 10
	// maxPath is how long a value's path may be, in bytes; every value's cipher reads all of it.
	maxPath  = 8 << 10
	maxDepth = 100
	// maxMarks bounds the marks that part values from each other, and so what a parsed file takes of memory.
	maxMarks = 250_000
)

// ErrDamaged is wrapped by errors about files that were cut off, altered, or edited without sops.
var ErrDamaged = errors.New("is damaged")

// NoIdentityError says that none of the given identities opens a file.
type NoIdentityError struct {
	// Recipients are the age recipients that the file is sealed to.
	Recipients []string
	// Others are kinds of keys it is sealed to besides, such as "pgp".
	Others []string
}

// Error names the first few recipients.
func (e *NoIdentityError) Error() string {
	const most = 5
	names := e.Recipients
	if len(names) > most {
		names = append(slices.Clone(names[:most]), fmt.Sprintf("%d more", len(e.Recipients)-most))
	}
	text := "no identity here opens it; it is sealed to " + strings.Join(names, ", ")
	if len(e.Others) > 0 {
		text += " (and by " + strings.Join(e.Others, ", ") + ", which are not used)"
	}
	return text + ": add a recipient with sops updatekeys"
}

// UnsupportedError says that a file needs what this package leaves out.
type UnsupportedError struct {
	// What is what it needs; Fix is what would do instead.
	What, Fix string
}

func (e *UnsupportedError) Error() string {
	return "needs " + e.What + ", which is not supported: " + e.Fix
}

// What would do instead.
const (
	fixKeys   = "add an age recipient to its one key group with sops updatekeys, or seal it with plural crypto"
	fixFormat = "keep it as YAML, JSON, an env file or a binary file"
	fixSize   = "split it, or seal it with plural crypto"
)

// document is a sops file, parsed.
type document struct {
	tree   []branch
	fields fields
	// print writes the tree as it is now.
	print func() ([]byte, error)
}

// IsSOPS says whether a file is one that sops wrote: it carries its metadata. The file's name helps, as it helps sops.
func IsSOPS(name string, data []byte) bool {
	if len(data) > MaxFile || !bytes.Contains(data, []byte(sealedPrefix)) {
		return false
	}
	switch format(name, data) {
	case dotenvFile:
		return dotenvMark().Match(data)
	case jsonFile, binaryFile:
		return hasTopLevelKey(data, metadataKey)
	case iniFile:
		return iniMark().Match(data)
	default:
		return yamlMark().Match(data) || hasTopLevelKey(data, metadataKey)
	}
}

// Open returns the plaintext of a file in its own format: YAML, JSON, dotenv, or the bytes of a binary file. Comments of a
// YAML or dotenv file are opened too. Errors are *NoIdentityError, *UnsupportedError, or wrap ErrDamaged; they hold keys of the
// file, never values. Nothing is returned unless every value and the file's MAC were verified.
func Open(name string, data []byte, ids ...age.Identity) ([]byte, error) {
	if len(data) > MaxFile {
		return nil, &UnsupportedError{fmt.Sprintf("more than %d MiB", MaxFile>>20), fixSize}
	}
	if bytes.Count(data, []byte{','})+bytes.Count(data, []byte{'\n'})+bytes.Count(data, []byte{':'}) > maxMarks {
		return nil, &UnsupportedError{"more values than anybody writes", fixSize}
	}
	kind := format(name, data)
	if kind == iniFile {
		return nil, &UnsupportedError{"the INI format", fixFormat}
	}
	if kind == yamlFile {
		return openYAML(data, ids)
	}
	parse := map[kindOfFile]func([]byte) (*document, error){jsonFile: parseJSON, binaryFile: parseBinary, dotenvFile: parseDotenv}
	doc, err := parse[kind](data)
	if err != nil {
		return nil, err
	}
	if err := doc.open(ids); err != nil {
		return nil, err
	}
	return doc.print()
}

// open turns the tree into plaintext, or leaves an error and a tree that is good for nothing.
func (d *document) open(ids []age.Identity) error {
	meta, err := readMetadata(d.fields)
	if err != nil {
		return err
	}
	key, err := meta.dataKey(ids)
	if err != nil {
		return err
	}
	w, err := newWalk(meta, key)
	if err != nil {
		return err
	}
	for _, b := range d.tree {
		if err := w.branch(b, spot{}); err != nil {
			return err
		}
	}
	return w.verify()
}

type kindOfFile int

const (
	yamlFile kindOfFile = iota
	jsonFile
	binaryFile
	dotenvFile
	iniFile
)

// format is what sops takes a file for, by its name. What sops would take for binary may have been written with another
// type asked for, so there the content decides.
func format(name string, data []byte) kindOfFile {
	switch path.Ext(name) {
	case ".yaml", ".yml":
		return yamlFile
	case ".json":
		return jsonFile
	case ".env":
		return dotenvFile
	case ".ini":
		return iniFile
	}
	switch trimmed := bytes.TrimLeft(data, " \t\r\n"); {
	case bytes.HasPrefix(trimmed, []byte("{")):
		if hasTopLevelKey(data, binaryKey) {
			return binaryFile
		}
		return jsonFile
	case dotenvMark().Match(data):
		return dotenvFile
	default:
		return yamlFile
	}
}

const metadataKey = "sops"

// Where each format keeps its metadata: at the beginning of a line.
func yamlMark() *regexp.Regexp   { return regexp.MustCompile(`(?m)^["']?sops["']?[ \t]*:`) }
func dotenvMark() *regexp.Regexp { return regexp.MustCompile(`(?m)^sops_mac=`) }
func iniMark() *regexp.Regexp    { return regexp.MustCompile(`(?m)^\[sops\]`) }

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrDamaged}, args...)...)
}
