package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// link makes symbolic links, as name and target.
func (r *repo) link(links map[string]string) {
	r.t.Helper()
	for name, target := range links {
		file := filepath.Join(r.dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			r.t.Fatal(err)
		}
		if err := os.Symlink(target, file); err != nil {
			r.t.Fatal(err)
		}
	}
}

func TestFollowFindsWhatAFileSystemWouldFind(t *testing.T) {
	r := newRepo(t)
	r.write("base/x.yaml", "x")
	r.write("base/deep/y.yaml", "y")
	r.link(map[string]string{
		"file": "base/x.yaml", "folder": "base", "apps/up": "../base", "apps/chain": "up/deep", "again": "./apps//chain/../deep/",
		"base/here": ".", "apps/file": "../file",
	})
	r.commit("README.md", "")
	s := open(t, r, "HEAD")
	work, err := Worktree(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		".": ".", "base/x.yaml": "base/x.yaml", "file": "base/x.yaml", "apps/file": "base/x.yaml", "folder/deep": "base/deep",
		"apps/up/x.yaml": "base/x.yaml", "apps/chain/y.yaml": "base/deep/y.yaml", "again": "base/deep", "base/here/here/deep": "base/deep",
	} {
		id, mode, err := s.Hash(want)
		if err != nil {
			t.Fatal(err)
		}
		for _, snap := range []*Snapshot{s, work} {
			if got, err := snap.Follow(name); err != nil || got != (Target{want, id, mode}) {
				t.Errorf("%s: %+v, %v, want %s", name, got, err, want)
			}
		}
		if real, err := filepath.EvalSymlinks(filepath.Join(r.dir, name)); err != nil || real != filepath.Join(r.dir, want) {
			t.Errorf("%s: the file system finds %s, %v", name, real, err)
		}
	}
	for _, name := range []string{"folder/gone", "file/below", "gone", "apps/up/x.yaml/below"} {
		if _, err := s.Follow(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, want that it does not exist", name, err)
		}
	}
}

func TestFollowRefusesLinksThatLeadToNothingInTheRepository(t *testing.T) {
	r := newRepo(t)
	r.write("base/x.yaml", "x")
	links := map[string]string{
		"absolute": "/etc/passwd", "outside": "base/../../etc", "far": "../../../../../etc/passwd", "dangling": "base/gone",
		"loop": "loop", "a": "b", "b": "a", "folder-loop": "folder-loop/x", "below": "base/x.yaml/y", "chain41": "link0", "via": "outside/x",
	}
	for i := range 41 {
		links[fmt.Sprintf("link%d", i)] = fmt.Sprintf("link%d", i+1)
	}
	links["link41"] = "base/x.yaml"
	r.link(links)
	r.commit("README.md", "")
	s := open(t, r, "HEAD")
	for name, reason := range map[string]string{
		"absolute": "is no path inside the repository", "outside": "leads out of the repository", "far": "leads out of the repository",
		"dangling": "leads to nothing", "below": "leads to nothing", "via": "leads out of the repository",
		"loop": errTooFar.Error(), "a": errTooFar.Error(), "folder-loop": errTooFar.Error(), "chain41": errTooFar.Error(),
	} {
		var link *LinkError
		if _, err := s.Follow(name); !errors.As(err, &link) || link.Reason != reason {
			t.Errorf("%s: %v, want that it %s", name, err, reason)
		}
	}
	if got, err := s.Follow("link5"); err != nil || got.Path != "base/x.yaml" {
		t.Errorf("37 links: %+v, %v", got, err)
	}
}

// FuzzFollow writes any text into a link, and wants what Follow finds to be what the file system finds.
func FuzzFollow(f *testing.F) {
	for _, text := range []string{"base/x", "../x", "/etc/passwd", "base/../base/./x", "a//b", "base/up/base/x", "link", "base\\x", "..", strings.Repeat("base/../", 200)} {
		f.Add(text)
	}
	dir := f.TempDir()
	r := repo{t: f, dir: dir}
	r.write("base/x", "x")
	r.link(map[string]string{"base/up": ".."})
	link := filepath.Join(dir, "link")
	f.Fuzz(func(t *testing.T, text string) {
		os.Remove(link)
		if os.Symlink(text, link) != nil {
			return // no file system takes it
		}
		s, err := Worktree(dir)
		if err != nil {
			t.Fatal(err)
		}
		found, err := s.Follow("link")
		if err != nil {
			return // leads nowhere, or too far
		}
		if real, err := filepath.EvalSymlinks(link); err != nil || real != filepath.Join(dir, found.Path) {
			t.Errorf("%q leads to %s, and for the file system to %s, %v", text, found.Path, real, err)
		}
	})
}
