// Package guide owns what is checked of the guide: that its pages, followed to the letter, lead where they say.
//
// Every command of every page runs, in the page's order, in a fresh home, on real programs, clusters, git hosts and registries;
// what the page shows of a command's output has to be in what it prints. Names that a page takes from its reader's world
// (contexts, git.example.com, ...) stand for what the test has made: each page's table of them is in the test's log. A command that
// is not run is on a list, with the reason.
package guide

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// pages are the pages of docs/guide, with what has to be there before the reader begins, and the commands that do not run.
var pages = map[string]struct {
	world   func(s *shell)
	skipped map[string]string
}{
	"README.md": {world: func(*shell) {}},
	"local.md":  {world: func(s *shell) { s.downAfterwards("fleet") }},
	"existing.md": {world: func(s *shell) {
		s.clusters("https://hub.example.com", "prod", "edge", "far")
		s.gitHost("fleet", "public:packages")
		s.fast()
	}},
	"kind.md": {
		world: func(s *shell) {
			s.clusters("http://192.0.2.10:30080", "kind-home", "kind-edge")
			s.gitHost("fleet")
			s.stands("--interval=10s", "--allow-loopback,--interval=1s,--poll-interval=1s,--report-interval=2s")
		},
		skipped: map[string]string{
			"kind create cluster --name home --config kind.yaml":               noDocker,
			"kind create cluster --name edge":                                  noDocker,
			"kind load docker-image ghcr.io/pluralsh/plural:0.1.0 --name home": noDocker,
			"kind delete cluster --name edge":                                  noDocker,
			"kind delete cluster --name home":                                  noDocker,
		},
	},
	"ci.md": {world: func(s *shell) {
		s.clusters("https://hub.example.com", "prod")
		s.gitHost("fleet")
	}},
	"packages.md": {
		world: func(s *shell) {
			s.registry()
			s.downAfterwards("fleet")
		},
		skipped: map[string]string{"docker run -d -p 5000:5000 registry:3": noDocker},
	},
	"moving.md": {
		world:   func(*shell) {},
		skipped: map[string]string{"make compare REPO=$HOME/src/fleet": "it builds programs in this clone; cmd/rendercompare has its tests"},
	},
	"upgrades.md": {world: func(s *shell) {
		s.gitHost("public:packages")
		s.downAfterwards("fleet")
	}},
}

const noDocker = "tests have no Docker, and something else in its place"

// folder is where the pages are.
var folder = filepath.Join("..", "..", "docs", "guide")

func TestEveryPageOfTheGuideLeadsWhereItSays(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(folder, "*.md"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(strings.TrimSuffix(name, ".md"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			p, err := readPage(string(text))
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			about, known := pages[name]
			if !known {
				t.Fatalf("%s is in no list of this test", file)
			}
			for _, fault := range unaccounted(p, about.skipped) {
				t.Error(fault)
			}
			s := newShell(t)
			about.world(s)
			for _, r := range s.replacements {
				t.Logf("%s: %q stands for %q", name, r[0], r[1])
			}
			for i := range p.steps {
				follow(t, s, name, &p.steps[i], about.skipped)
			}
		})
	}
	for name := range pages {
		if !slices.Contains(files, filepath.Join(folder, name)) {
			t.Errorf("%s is no page", name)
		}
	}
}

// readme is where strangers begin: nobody asks tests, and what is built is there.
var readme = filepath.Join("..", "..", "README.md")

func TestTheReadmesFirstMinuteLeadsWhereItSays(t *testing.T) {
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	p, err := readPage(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(p.steps) == 0 {
		t.Fatal("nothing of it runs")
	}
	s := newShell(t)
	s.replacements = [][2]string{{"make demo", "plural up --local ~/plural-demo"}, {"plural undo", "plural undo --yes"}}
	s.downAfterwards("plural-demo")
	for i := range p.steps {
		follow(t, s, "README.md", &p.steps[i], nil)
	}
}

// typed is a line that looks like something to type.
var typed = regexp.MustCompile(`^\s*(?:- )?(?:run: )?((?:plural|kubectl|kind|git|docker|helm|terraform) .*)$`)

// unaccounted finds commands in blocks that are not run, unless a command that is run is the same: such as a
// CI's configuration, whose commands the page runs too.
func unaccounted(p *page, skipped map[string]string) (faults []string) {
	has := map[string]bool{}
	for i := range p.steps {
		has[p.steps[i].command] = true
	}
	for command := range skipped {
		if !has[command] {
			faults = append(faults, fmt.Sprintf("the page does not have the command %q, which is listed as not run", command))
		}
	}
	for _, line := range p.others {
		if m := typed.FindStringSubmatch(line); m != nil && !has[m[1]] {
			faults = append(faults, fmt.Sprintf("%q is in a block that is not run", m[1]))
		}
	}
	return faults
}

// looks are commands that change nothing, so they are repeated until they print what is shown.
var looks = regexp.MustCompile(`^(plural (status|cluster (list|get)|service (list|get)|source (list|get)|why|package outdated|kubectl \S+ get) ?|kubectl .*get |git pull|git log|curl )`)

// follow does one step of a page.
func follow(t *testing.T, s *shell, name string, do *step, skipped map[string]string) {
	t.Helper()
	if do.file != "" {
		s.write(filepath.Join(s.folder(), do.file), s.here(do.content))
		return
	}
	if reason, ok := skipped[do.command]; ok {
		t.Logf("%s:%d: NOT RUN: %s: %s", name, do.line, do.command, reason)
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
