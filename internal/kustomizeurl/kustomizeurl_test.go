package kustomizeurl

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAddressesMeanWhatKustomizeTakesThemFor(t *testing.T) {
	git := func(url, ref, path string) Remote { return Remote{Kind: Git, URL: url, Ref: ref, Path: path} }
	for text, want := range map[string]Remote{
		"https://github.com/org/repo":                               git("https://github.com/org/repo", "", "."),
		"https://github.com/org/repo/deep/base?ref=v1":              git("https://github.com/org/repo", "v1", "deep/base"),
		"https://github.com/org/repo//deep/base?ref=v1&timeout=90s": git("https://github.com/org/repo", "v1", "deep/base"),
		"https://github.com/org/repo.git/base?version=v1":           git("https://github.com/org/repo.git", "v1", "base"),
		"github.com/org/repo/base?ref=a%2Fb":                        git("https://github.com/org/repo", "a/b", "base"),
		"GitHub.com/org/repo":                                       git("https://github.com/org/repo", "", "."),
		"git::https://git.example.com/org/repo//x":                  git("https://git.example.com/org/repo", "", "x"),
		"git@github.com:org/repo.git//base?ref=v1":                  git("git@github.com:org/repo.git", "v1", "base"),
		"git@git.example.com:org/repo":                              git("git@git.example.com:org/repo", "", "."),
		"ssh://git@git.example.com:2222/org/repo/x?ref=v1":          git("ssh://git@git.example.com:2222/org/repo", "v1", "x"),
		"https://dev.azure.com/org/project/_git/repo/x/y?ref=v1":    git("https://dev.azure.com/org/project/_git/repo", "v1", "x/y"),
		"https://git.example.com/a/b/c/repo.git":                    git("https://git.example.com/a/b/c/repo.git", "", "."),
		"https://example.com/x/crds.yaml":                           {Kind: HTTP, URL: "https://example.com/x/crds.yaml", Path: "crds.yaml"},
		"https://example.com/install":                               {Kind: HTTP, URL: "https://example.com/install", Path: "install"},
		"https://github.com/o/r/releases/download/v1/x.yml":         {Kind: HTTP, URL: "https://github.com/o/r/releases/download/v1/x.yml", Path: "x.yml"},
	} {
		got, err := Parse(text)
		if err != nil || !Is(text) {
			t.Errorf("%s: is one %v, %v", text, Is(text), err)
			continue
		}
		if diff := cmp.Diff(want, got[0]); diff != "" {
			t.Errorf("%s:\n%s", text, diff)
		}
	}
	for _, text := range []string{"../base", "base.yaml", "https/x", "a@b", "key=../file", "c:d/e", "github.company/x"} {
		if Is(text) {
			t.Errorf("%q is no address", text)
		}
	}
}

func TestWhatMustNotBeFetchedIsNoRemote(t *testing.T) {
	for text, want := range map[string]string{
		"https://ada:hunter2@github.com/org/repo":  "credential",
		"https://hunter2@github.com/org/repo":      "credential",
		"ssh://ada:hunter2@github.com/org/repo":    "credential",
		"git::https://hunter2@example.com/o/r":     "credential",
		"file:///etc/passwd":                       "file URL",
		"FILE:///etc/passwd":                       "file URL",
		"ftp://example.com/o/r":                    "no scheme",
		"ext::sh -c x% ://y":                       "",
		"https://github.com/org/repo//../../etc":   "leaves the repository",
		"https://github.com/org/repo/../../../etc": "leaves the repository",
		"https://github.com/org/repo?ref=--exec=x": "its ref",
		"https://github.com/org/repo?ref=a%0ab":    "its ref",
		"git@-oProxyCommand=x:org/repo":            "names no host",
		"https://github.com/org/repo?ref=%zz":      "cannot be read",
	} {
		got, err := Parse(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, repo := range []string{"https://ada:hunter2@example.com", "file:///charts", "../charts", ""} {
		if got, err := Chart(repo, "web", "1"); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("chart of %q: %+v, %v", repo, got, err)
		}
	}
}

func TestTheQueryOfAFileIsNotRepeated(t *testing.T) {
	list, err := Parse("https://example.com/x.yaml?token=hunter2")
	if err != nil {
		t.Fatal(err)
	}
	if said := list[0].Shown() + list[0].Command() + list[0].Root(); strings.Contains(said, "hunter2") {
		t.Error(said)
	}
}

func TestTheSameRemoteIsKnownByAnySpelling(t *testing.T) {
	parse := func(text string) Remote {
		list, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return list[0]
	}
	chart := func(repo, version string) Remote {
		r, err := Chart(repo, "web", version)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	same := [][]Remote{
		{parse("https://GitHub.com:443/org/repo.git?ref=v1"), parse("git@github.com:org/repo//x?ref=v1"), parse("ssh://git@github.com:22/org/repo.git?ref=v1")},
		{parse("https://github.com/org/repo")},
		{parse("https://github.com/org/repo?ref=v2")},
		{parse("https://github.com/org/repo2?ref=v1")},
		{parse("ssh://git@github.com:2222/org/repo?ref=v1")},
		{parse("https://example.com/x.yaml?a=b"), parse("HTTPS://EXAMPLE.com:443/x.yaml?a=b")},
		{parse("https://example.com/x.yaml")},
		{chart("https://example.com/charts", "1"), chart("https://example.com/charts/", "1")},
		{chart("https://example.com/charts", "2")},
		{chart("oci://example.com/charts", "1"), chart("oci://example.com/charts/", "1")},
	}
	roots := map[string]int{}
	for i, list := range same {
		for _, r := range list {
			if j, ok := roots[r.Root()]; ok && j != i {
				t.Errorf("%s is seen where %s is", r.Shown(), same[j][0].Shown())
			}
			roots[r.Root()] = i
			if !r.Same(list[0]) || r.Root() != list[0].Root() {
				t.Errorf("%s is not %s", r.Shown(), list[0].Shown())
			}
		}
	}
}

func FuzzRemotesStayInTheirFolder(f *testing.F) {
	for _, text := range []string{
		"https://github.com/org/repo//x?ref=v1", "git@host:a/b.git//c", "https://example.com/..", "https://h/%2e%2e/%2e%2e", "ssh://a/b/c//../..",
		"https://a:b@c/d/e", "k=https://x/y/z.yaml", "https://h/a/b?ref=../../x",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, err := Parse(WithoutKey(text))
		if err != nil {
			return
		}
		for _, r := range list {
			local := r.Local()
			if !fs.ValidPath(local) || !strings.HasPrefix(local, r.Root()) || strings.Count(r.Root(), "/") != 1 || strings.Contains(r.Root(), "..") {
				t.Errorf("%q is seen at %q", text, local)
			}
			if strings.ContainsAny(r.Ref, " \n") || strings.HasPrefix(r.Ref, "-") || fmt.Sprint(r.Kind) == "" {
				t.Errorf("%q has the ref %q", text, r.Ref)
			}
		}
	})
}
