package terraform_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/pluralsh/plural/installer/terraform"
	"github.com/pluralsh/plural/test/support/needs"
)

// TestMain lets the test binary be the program that is killed in the middle of a run.
func TestMain(m *testing.M) {
	if os.Getenv("TERRAFORM_TEST_DIR") != "" {
		os.Exit(victim())
	}
	os.Exit(m.Run())
}

// victim applies a module as a caller would, until somebody kills it.
func victim() int {
	dir := os.Getenv("TERRAFORM_TEST_DIR")
	tool := &terraform.Tool{Path: os.Getenv("TERRAFORM_TEST_TOOL")}
	module := terraform.Module{Files: os.DirFS(os.Getenv("TERRAFORM_TEST_MODULE")), Dir: dir, Cache: filepath.Join(dir, "cache")}
	work, err := tool.Prepare(context.Background(), module, os.Stderr)
	if err == nil {
		_, err = work.Apply(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// find is the tool of this machine.
func find(t *testing.T) *terraform.Tool {
	t.Helper()
	t.Setenv("PLURAL_TERRAFORM", needs.Terraform(t))
	t.Setenv("TF_CLI_CONFIG_FILE", filepath.Join(t.TempDir(), "none.tfrc")) // nothing of this machine's own
	if err := os.WriteFile(os.Getenv("TF_CLI_CONFIG_FILE"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tool, err := terraform.Find(t.Context(), terraform.Want{})
	if err != nil {
		t.Fatal(err)
	}
	return tool
}

// told is an error as people read it: with what helps behind it.
func told(err error) string {
	var known interface {
		error
		Fix() string
	}
	if errors.As(err, &known) && known.Fix() != "" {
		return err.Error() + ": " + known.Fix()
	}
	return err.Error()
}

// files are those of a module.
func files(text string) fs.FS { return fstest.MapFS{"main.tf": {Data: []byte(text)}} }

// mapped are files by their names.
func mapped(texts map[string]string) fs.FS {
	all := fstest.MapFS{}
	for name, text := range texts {
		all[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return all
}

// module is one in a folder of its own.
func module(t *testing.T, text string) terraform.Module {
	t.Helper()
	dir := t.TempDir()
	return terraform.Module{Files: files(text), Dir: filepath.Join(dir, "work"), Cache: filepath.Join(dir, "cache")}
}

// prepared is a Work that is closed with the test.
func prepared(t *testing.T, m terraform.Module, log *lines) *terraform.Work {
	t.Helper()
	work, err := find(t).Prepare(t.Context(), m, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := work.Close(); err != nil {
			t.Error(err)
		}
	})
	return work
}

// applied runs a module once, and leaves its folder.
func applied(t *testing.T, m terraform.Module) *terraform.Result {
	t.Helper()
	work, err := find(t).Prepare(t.Context(), m, &lines{})
	if err != nil {
		t.Fatal(err)
	}
	result, err := work.Apply(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := work.Close(); err != nil {
		t.Fatal(err)
	}
	return result
}

// lines is a log that tells when a text has come.
type lines struct {
	mu    sync.Mutex
	text  bytes.Buffer
	waits map[string]chan struct{}
}

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(line)
	for text, come := range l.waits {
		if strings.Contains(l.text.String(), text) {
			close(come)
			delete(l.waits, text)
		}
	}
	return len(line), nil
}

// come is closed once the text stands in the log.
func (l *lines) come(text string) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	come := make(chan struct{})
	if strings.Contains(l.text.String(), text) {
		close(come)
		return come
	}
	if l.waits == nil {
		l.waits = map[string]chan struct{}{}
	}
	l.waits[text] = come
	return come
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// holding fails when a file below dir holds the text, except those that are named.
func holding(t *testing.T, dir, text string, except ...string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		for _, e := range except {
			if entry.Name() == e {
				return nil
			}
		}
		raw, err := os.ReadFile(name)
		if bytes.Contains(raw, []byte(text)) {
			t.Errorf("%s holds %q", name, text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
