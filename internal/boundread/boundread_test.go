package boundread

import (
	"errors"
	"io/fs"
	"testing"
	"testing/fstest"
)

// unopened fails a test that opens a file.
type unopened struct {
	fstest.MapFS
	t *testing.T
}

func (u unopened) Open(name string) (fs.File, error) {
	u.t.Errorf("%s is opened", name)
	return u.MapFS.Open(name)
}

func TestWhatIsNoFileIsNotOpened(t *testing.T) {
	for _, mode := range []fs.FileMode{fs.ModeDir, fs.ModeNamedPipe, fs.ModeDevice | fs.ModeCharDevice} {
		text, err := File(unopened{fstest.MapFS{"a": {Mode: mode}}, t}, "a", 10)
		if !errors.Is(err, ErrNotRegular) || text != nil || err.Error() != "a: not a regular file: put the file itself there" {
			t.Errorf("%v: %q, %v", mode, text, err)
		}
	}
}

func TestNoMoreIsReadThanOneByteBeyondTheBound(t *testing.T) {
	for text, want := range map[string]string{"": "", "12": "12", "123": "123", "12345": "123"} {
		if got, err := File(fstest.MapFS{"a": {Data: []byte(text)}}, "a", 2); err != nil || string(got) != want {
			t.Errorf("%q: got %q, %v", text, got, err)
		}
	}
}

func TestThatThereIsNoFileIsTold(t *testing.T) {
	if _, err := File(fstest.MapFS{}, "a", 2); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error is %v", err)
	}
}
