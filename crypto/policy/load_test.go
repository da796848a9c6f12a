package policy

import (
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
)

// torn is a repository on a disk that fails where each file would end.
type torn struct {
	fstest.MapFS
	err error
}

func (t torn) Open(name string) (fs.File, error) {
	file, err := t.MapFS.Open(name)
	return tornFile{file, t.err}, err
}

type tornFile struct {
	fs.File
	err error
}

func (f tornFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	if errors.Is(err, io.EOF) {
		err = f.err
	}
	return n, err
}

func TestPolicyThatIsReadInPartIsNotTakenForAShorterOne(t *testing.T) {
	whole := fstest.MapFS{File: {Data: []byte(sealYAML("groups: [{name: ops}]", `paths: [{pattern: "secrets/**", groups: [ops]}]`))}}
	if _, err := Load(whole); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("input/output error")
	p, err := Load(torn{whole, broken})
	if !errors.Is(err, broken) || p != nil || !strings.Contains(err.Error(), "read "+File) {
		t.Errorf("policy %v, error %v", p, err)
	}
}
