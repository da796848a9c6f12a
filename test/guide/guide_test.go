// Package guide owns what is checked of the README and the guide: that their pages, followed to the letter, lead where they say.
//
// Every command of every page runs, in the page's order, in a fresh home, on real programs, clusters, git hosts and registries;
// what the page shows of a command's output has to be in what it prints. The home is empty: whatever else a reader needs, such as
// a name for their commits, the pages say. Names that a page takes from its reader's world (contexts, git.example.com, ...) stand
// for what the test has made: each page's table of them is in the test's log. A block that is not run has a comment with the
// reason, which readers do not see; the log lists them.
package guide

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// root is where the pages are.
var root = filepath.Join("..", "..")

const (
	readme = "README.md"
	// beginning is what readers of the guide do first: their shell is ready for any other page after it.
	beginning = "docs/guide/README.md"
)

// pages are README.md and the pages of docs/guide, with what has to be there before the reader begins.
var pages = map[string]func(s *shell){
	readme: func(s *shell) {
		s.clusters("https://hub.example.com", "prod", "edge")
		s.gitHost("fleet")
		s.registry("registry.example.com")
		s.downAfterwards("plural-demo")
		s.oneself()
	},
	beginning:             func(*shell) {},
	"docs/guide/local.md": func(s *shell) { s.downAfterwards("fleet") },
	"docs/guide/existing.md": func(s *shell) {
		s.clusters("https://hub.example.com", "prod", "edge", "far")
		s.gitHost("fleet", "public:packages")
		s.fast()
	},
	"docs/guide/high-availability.md": func(s *shell) {
		s.clusters("https://hub.example.com", "prod")
		s.gitHost("fleet")
		s.fast()
	},
	"docs/guide/images.md": func(s *shell) {
		s.images()
		s.containerd()
		s.insecure("registry.example.com")
		s.clusters("https://hub.example.com", "prod", "edge")
		s.gitHost("fleet")
		s.fast()
	},
	"docs/guide/install.md": func(s *shell) { s.release("0.1.0") },
	"docs/guide/kind.md": func(s *shell) {
		s.clusters("http://192.0.2.10:30080", "kind-home", "kind-edge")
		s.gitHost("fleet")
		s.stands("--interval=10s", hurry)
	},
	"docs/guide/ci.md": func(s *shell) {
		s.clusters("https://hub.example.com", "prod")
		s.gitHost("fleet")
		s.stands("agent.memory: 256Mi", "agent.memory: 256Mi\nhub.flags: ["+hurry+"]")
		s.job(map[string]any{"repository_id": "1296269", "ref": "refs/heads/main", "environment": "fleet", "event_name": "push"})
	},
	"docs/guide/packages.md": func(s *shell) {
		s.registry("localhost:5000")
		s.downAfterwards("fleet")
	},
	"docs/guide/moving.md": func(*shell) {},
	"docs/guide/recovery.md": func(s *shell) {
		s.clusters("https://hub.example.com", "prod", "edge")
		s.gitHost("fleet")
		s.gitHostAt("https://git.example.net", "fleet")
		s.loses("https://git.example.com", "export LOST=")
		s.fast()
	},
	"docs/guide/upgrades.md": func(s *shell) {
		s.gitHost("public:packages")
		s.downAfterwards("fleet")
	},
}

// continued are pages that begin where another ends: in its reader's shell.
var continued = map[string]string{"docs/guide/existing.md": "docs/guide/uninstall.md"}

func TestEveryPageLeadsWhereItSays(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "docs", "guide", "*.md"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	next := slices.Collect(maps.Values(continued))
	for _, file := range files {
		name := "docs/guide/" + filepath.Base(file)
		if _, known := pages[name]; !known && !slices.Contains(next, name) {
			t.Errorf("%s is in no list of this test", file)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		t.Run(strings.TrimSuffix(name, ".md"), func(t *testing.T) {
			t.Parallel() // most of a page is waiting
			s := newShell(t)
			pages[name](s)
			for _, r := range s.replacements {
				t.Logf("%s: %q stands for %q", name, r[0], r[1])
			}
			if name != readme && name != beginning {
				followAll(t, s, beginning, read(t, beginning))
			}
			for page := name; page != ""; page = continued[page] {
				followAll(t, s, page, read(t, page))
			}
		})
	}
}

func read(t *testing.T, name string) *page {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	p, err := readPage(string(text))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for _, fault := range unaccounted(p) {
		t.Errorf("%s: %s", name, fault)
	}
	return p
}

func followAll(t *testing.T, s *shell, name string, p *page) {
	t.Helper()
	for i := range p.steps {
		follow(t, s, name, &p.steps[i])
	}
}

// typed is a line that looks like something to type.
var typed = regexp.MustCompile(`^\s*(?:- )?(?:run: )?((?:plural|kubectl|kind|git|docker|helm|terraform) .*)$`)

// unaccounted finds commands in blocks that are not run, unless a command that is run is the same: such as a
// CI's configuration, whose commands the page runs too.
func unaccounted(p *page) (faults []string) {
	has := map[string]bool{}
	for i := range p.steps {
		has[p.steps[i].command] = true
	}
	for _, line := range p.others {
		if m := typed.FindStringSubmatch(line); m != nil && !has[m[1]] {
			faults = append(faults, fmt.Sprintf("%q is in a block that is not run", m[1]))
		}
	}
	return faults
}

// looks are commands that change nothing, so they are repeated until they print what is shown.
var looks = regexp.MustCompile(`^(plural (status|cluster (list|get)|service (list|get)|source (list|get)|why|package outdated|kubectl \S+ get|auth login) ?|kubectl .*get |git pull|git log|curl )`)

// follow does one step of a page.
func follow(t *testing.T, s *shell, name string, do *step) {
	t.Helper()
	if do.file != "" {
		s.write(filepath.Join(s.folder(), do.file), s.here(do.content))
		return
	}
	if do.notRun != "" {
		t.Logf("%s:%d: NOT RUN: %s: %s", name, do.line, do.command, do.notRun)
		return
	}
	shown := make([]string, len(do.shown))
	for i, line := range do.shown {
		shown[i] = s.here(line)
	}
	began := time.Now()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		printed, err := s.run(do.command)
		lacks := missing(shown, printed)
		wrong := (err != nil) != do.fails()
		if !wrong && lacks == "" {
			t.Logf("%s:%d: $ %s (%.1fs)\n%s", name, do.line, do.command, time.Since(began).Seconds(), printed)
			return
		}
		if !looks.MatchString(do.command) || time.Since(began) > coming {
			if wrong {
				t.Fatalf("%s:%d: $ %s\nended with %v\n%s", name, do.line, do.command, err, printed)
			}
			t.Fatalf("%s:%d: $ %s\nthe page shows %q, which it does not print:\n%s", name, do.line, do.command, lacks, printed)
		}
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-ticker.C:
		}
	}
}
