package leakcheck

import (
	"fmt"
	"io"
	"io/fs"

	"github.com/pluralsh/plural/crypto/seal"
)

// File judges one file of a commit that lies open as a file system, as the hub sees it: without any identity. It is read only if
// it must be sealed, and of plaintext no more than its first bytes.
func (r Rules) File(fsys fs.FS, path string) (*Finding, error) {
	names, must, err := r.must(path)
	if err != nil || !must {
		return nil, err
	}
	content, err := readSealed(fsys, path)
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", path, err)
	}
	v, err := r.judge(path, names, content)
	if err != nil || v == nil {
		return nil, err
	}
	f := &Finding{Path: path, Kind: v.kind, Message: v.message}
	f.Fix = treeFix(*f)
	return f, nil
}

// readSealed reads the whole of a sealed file, and the beginning of any other.
func readSealed(fsys fs.FS, path string) ([]byte, error) {
	const head = 2 << 10 // what it takes to tell
	file, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // read only: nothing is lost
	begin, err := io.ReadAll(io.LimitReader(file, head))
	if err != nil || !seal.IsSealed(begin) {
		return begin, err
	}
	rest, err := io.ReadAll(io.LimitReader(file, seal.MaxFile+1-head))
	return append(begin, rest...), err
}
