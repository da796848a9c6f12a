package lockfile

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

var somewhere = "sha256:" + strings.Repeat("0a", 32)

func sample() *Lock {
	l := &Lock{}
	l.Set(Entry{Name: "web", Package: "web", Catalog: "platform", Version: "1.0.0", Digest: somewhere, Requires: map[string]string{"ingress": "traefik", "dns": "dns-eu"}})
	l.Set(Entry{Name: "dns-eu", Package: "external-dns", Catalog: "builtin", Version: "1.2.0-rc.1", Digest: somewhere})
	l.Set(Entry{Name: "traefik", Package: "traefik", Catalog: "builtin", Version: "3.0.0", Digest: somewhere})
	return l
}

const sampleText = `# Written by plural: which version of each package this repository holds. Do not edit it.
apiVersion: plural.sh/v1alpha1
kind: Lock
packages:
  - name: dns-eu
    package: external-dns
    catalog: builtin
    version: 1.2.0-rc.1
    digest: sha256:0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a
  - name: traefik
    package: traefik
    catalog: builtin
    version: 3.0.0
    digest: sha256:0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a
  - name: web
    package: web
    catalog: platform
    version: 1.0.0
    digest: sha256:0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a
    requires:
      dns: dns-eu
      ingress: traefik
`

func TestALockIsWrittenSortedAndReadBack(t *testing.T) {
	text, err := sample().Encode()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sampleText, string(text)); diff != "" {
		t.Error(diff)
	}
	back, err := Load(fstest.MapFS{File: {Data: text}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sample(), back); diff != "" {
		t.Error(diff)
	}
}

func TestARepositoryWithoutALockHasAnEmptyOne(t *testing.T) {
	for _, files := range []fstest.MapFS{{}, {File: {Data: []byte("# nothing\n")}}} {
		if l, err := Load(files); err != nil || len(l.Packages) != 0 {
			t.Errorf("%v, %v", l, err)
		}
	}
}

func TestALockChangesByName(t *testing.T) {
	l := sample()
	before := l.Clone()
	l.Set(Entry{Name: "web", Package: "web", Catalog: "platform", Version: "2.0.0", Digest: somewhere})
	l.Remove("traefik")
	l.Remove("nobody")
	if e, ok := l.Entry("web"); !ok || e.Version != "2.0.0" || len(l.Packages) != 2 {
		t.Errorf("%+v", l)
	}
	if _, ok := l.Entry("traefik"); ok {
		t.Error("what was removed is there")
	}
	if diff := cmp.Diff(sample(), before); diff != "" {
		t.Errorf("the clone changed: %s", diff)
	}
}

func TestALockThatNobodyWroteIsRefusedWithTheFix(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"conflict":     {strings.Replace(sampleText, "packages:", "<<<<<<< HEAD\npackages:", 1), "plural.lock:4: merge conflict in the file: take either side, then resolve anew"},
		"newer":        {strings.Replace(sampleText, "v1alpha1", "v9", 1), `unknown apiVersion "plural.sh/v9": it may be of a newer plural`},
		"another kind": {strings.Replace(sampleText, "kind: Lock", "kind: Locke", 1), `unknown kind "Locke"`},
		"field":        {strings.Replace(sampleText, "    version: 3.0.0", "    version: 3.0.0\n    vresion: 1", 1), "plural.lock:14: unknown field \"vresion\""},
		"twice":        {strings.Replace(sampleText, "- name: traefik", "- name: web", 1), `the installation "web" is there twice`},
		"name":         {strings.Replace(sampleText, "- name: traefik", "- name: ../x", 1), `bad name "../x"`},
		"version":      {strings.Replace(sampleText, "3.0.0", "3.x", 1), `bad version "3.x"`},
		"digest":       {strings.Replace(sampleText, "sha256:0a", "sha256:0A", 1), `bad digest "sha256:0A0a`},
		"dependency":   {strings.Replace(sampleText, "dns: dns-eu", "dns: -x", 1), `bad dependency "dns": "-x"`},
		"not YAML":     {"packages: [", "git checkout plural.lock"},
		"documents":    {sampleText + "---\na: b\n", "more than one document"},
		"large":        {strings.Repeat("#", maxSize+1), "larger than 8 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(fstest.MapFS{File: {Data: []byte(test.text)}})
			var refused *Error
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error = %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestALockThatCouldNotBeReadIsNotWritten(t *testing.T) {
	l := &Lock{Packages: []Entry{{Name: "x\ny", Package: "x", Catalog: "builtin", Version: "1.0.0", Digest: somewhere}}}
	if _, err := l.Encode(); err == nil {
		t.Error("it is written")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(sampleText))
	f.Add([]byte("packages: [{requires: {? [a] : b}}]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := Parse(text)
		if err != nil {
			var refused *Error
			if !errors.As(err, &refused) || strings.ContainsAny(err.Error(), "\x1b\n") {
				t.Fatalf("error = %q", err)
			}
			return
		}
		written, err := l.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(written)
		if err != nil {
			t.Fatal(err)
		}
		if len(l.Packages) > 0 && !cmp.Equal(l, again) {
			t.Error(cmp.Diff(l, again))
		}
	})
}

func TestALockThatIsADeviceIsNotOpened(t *testing.T) {
	device := fstest.MapFS{File: {Data: []byte(sampleText), Mode: fs.ModeDevice | fs.ModeCharDevice | 0o644}}
	if _, err := Load(device); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("got %v", err)
	}
}
