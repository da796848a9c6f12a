// Package skew owns the proof that programs of different releases work together as docs/releases.md says: programs built from
// earlier commits of this repository, and those in bin/, share hubs, agents, state on disk and installation repos.
//
// It refuses to know how any part works. What it does with each pair is what people do: a service is deployed by a commit, changed by
// the next, and pruned.
package skew

import (
	"context"
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pluralsh/plural/test/support/needs"
)

// Bounds of what brings an earlier release here: a cold build compiles all that the programs link.
const (
	fetchTimeout = 2 * time.Minute
	buildTimeout = 15 * time.Minute
)

//go:embed releases.txt
var releaseList string

// release is the programs of one release.
type release struct {
	name          string
	plural, agent string // paths
	// What they say that they are, to hub and people: a test that has the wrong program proves nothing.
	pluralVersion, agentVersion string
}

// earlier are the names and commits of releases.txt.
func earlier(t *testing.T) (list [][2]string) {
	t.Helper()
	for line := range strings.Lines(releaseList) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0 || fields[0] == "#":
		case len(fields) != 2:
			t.Fatalf("releases.txt: %q: write a name and a commit", line)
		default:
			list = append(list, [2]string{fields[0], fields[1]})
		}
	}
	if len(list) == 0 {
		t.Fatal("releases.txt names no release")
	}
	return list
}

// current is the programs in bin/. They are what is tested, so they have to be there.
func current(t *testing.T) release {
	t.Helper()
	r := release{name: "this"}
	for name, path := range map[string]*string{"plural": &r.plural, "plural-agent": &r.agent} {
		var err error
		if *path, err = filepath.Abs(filepath.Join(root, "bin", name)); err == nil {
			_, err = os.Stat(*path)
		}
		if err != nil {
			unavailable(t, "bin/"+name+" is not built: run make build first")
		}
	}
	r.askVersions(t)
	return r
}

// askVersions has the programs say what they are: "plural 1.2.3 (...)" and "plural-agent version 1.2.3".
func (r *release) askVersions(t *testing.T) {
	t.Helper()
	r.pluralVersion, r.agentVersion = wordOf(t, 1, r.plural, "version"), wordOf(t, 2, r.agent, "--version")
}

// wordOf is one word of what a program prints.
func wordOf(t *testing.T, n int, name string, args ...string) string {
	t.Helper()
	out, err := command(t, commandTimeout, ".", nil, name, args...)
	words := strings.Fields(string(out))
	if err != nil || len(words) <= n {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return words[n]
}

// root is the folder of this repository.
const root = "../.."

// build makes the programs of an earlier commit in a folder that ends with the test. Sources and build share nothing with this
// clone but git's objects and go's caches.
func build(t *testing.T, name, commit string) release {
	t.Helper()
	fetchCommit(t, commit)
	dir := t.TempDir()
	sources := filepath.Join(dir, "src")
	index := "GIT_INDEX_FILE=" + filepath.Join(dir, "index")
	for _, args := range [][]string{{"read-tree", commit}, {"checkout-index", "--all", "--prefix=" + sources + "/"}} {
		if out, err := command(t, fetchTimeout, root, []string{index}, "git", args...); err != nil {
			t.Fatalf("take commit %s out of this clone: %v\n%s", commit, err, out)
		}
	}
	r := release{name: name, plural: filepath.Join(dir, "plural"), agent: filepath.Join(dir, "plural-agent")}
	flags := "-s -w -X github.com/pluralsh/plural/internal/buildinfo.version=0.0.0-" + commit[:12]
	out, err := command(t, buildTimeout, sources, []string{"CGO_ENABLED=0", "GOFLAGS=-trimpath", "GOWORK=off"},
		"go", "build", "-buildvcs=false", "-ldflags", flags, "-o", dir, "./cmd/plural", "./cmd/plural-agent")
	if err != nil {
		t.Fatalf("build %s (%s): %v\n%s", name, commit, err, out)
	}
	r.askVersions(t)
	return r
}

// fetchCommit sees that this clone has a commit. A shallow one fetches it alone.
func fetchCommit(t *testing.T, commit string) {
	t.Helper()
	needs.Program(t, "git", "git")
	if _, err := command(t, fetchTimeout, root, nil, "git", "cat-file", "-e", commit+"^{commit}"); err == nil {
		return
	}
	if out, err := command(t, fetchTimeout, root, nil, "git", "fetch", "-q", "--depth=1", "origin", commit); err != nil {
		unavailable(t, "this clone has not the commit "+commit+" of releases.txt, and its origin does not give it (git fetch --unshallow "+
			"brings all there are): "+string(out))
	}
}

// unavailable ends a test for which something is missing, as package needs does.
func unavailable(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(what)
	}
	t.Skip("SKIPPED, NOT TESTED: " + what)
}

// command runs a program to its end.
func command(t *testing.T, limit time.Duration, dir string, env []string, name string, args ...string) ([]byte, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	return cmd.CombinedOutput()
}
