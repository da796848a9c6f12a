package policy

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"testing/iotest"
)

// failing is a policy that is there, of which not all can be read.
type failing struct {
	fs.File
	text *strings.Reader
	err  error
}

func (f failing) Open(string) (fs.File, error) {
	if f.text == nil {
		return nil, &fs.PathError{Op: "open", Path: File, Err: f.err}
	}
	return f, nil
}

func (f failing) Read(p []byte) (int, error) {
	if f.text.Len() == 0 {
		return iotest.ErrReader(f.err).Read(p)
	}
	return f.text.Read(p)
}

func (failing) Close() error { return nil }

// whole is a policy that would be one, too, if it ended where the disk failed.
func whole() string {
	return sealYAML("groups: [{name: ops}]", `paths: [{pattern: "secrets/**", groups: [ops]}]`)
}

func TestPolicyThatCannotBeOpenedIsNotTakenForNone(t *testing.T) {
	_, err := Load(failing{err: fs.ErrPermission})
	if !errors.Is(err, fs.ErrPermission) || errors.Is(err, ErrNone) || !strings.Contains(err.Error(), File) {
		t.Errorf("error is %v", err)
	}
	if _, err := Load(fstest.MapFS{}); !errors.Is(err, ErrNone) {
		t.Errorf("none at all: %v", err)
	}
}

func TestPolicyThatIsReadInPartIsNotTakenForAShorterOne(t *testing.T) {
	if _, err := Load(fstest.MapFS{File: {Data: []byte(whole())}}); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("input/output error")
	p, err := Load(failing{text: strings.NewReader(whole()), err: broken})
	if !errors.Is(err, broken) || p != nil || !strings.Contains(err.Error(), "read "+File) {
		t.Errorf("policy %v, error %v", p, err)
	}
}
