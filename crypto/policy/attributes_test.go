package policy

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pluralsh/plural/test/support/needs"
)

func TestAttributesMeanToGitWhatMatchMeans(t *testing.T) {
	p := pathsOf(t, "secrets/**", "*.pem", "**/*.secret.yaml", "a b/\"q\".txt", "#x", "!y", "[!a-c]z", "[[]k", "[]]k", "[*]s", "é?/x", "one", "deep/**/end", "**/last/*")
	paths := []string{
		"secrets", "secrets/a", "secrets/a/b", "xsecrets/a", "a.pem", "d/a.pem", "x.secret.yaml", "a/b/x.secret.yaml", "secret.yaml",
		"a b/\"q\".txt", "#x", "d/#x", "!y", "z", "az", "bz", "dz", "[k", "]k", "*s", "xs", "éa/x", "ééa/x", "éa/b/x",
		"one", "d/one", "one/two", "deep/end", "deep/a/end", "deep/a/b/end", "deepend", "last/a", "a/last/b", "last/a/b",
		".gitattributes", "secrets/.gitignore", "clusters/a.secret.yaml", "plural.yaml", ".plural/last/a", "tab\there", `back\slash`,
	}
	g := newGit(t)
	agree(t, g, p, paths)
}

func TestAttributesAgreeWithMatchForRandomPatterns(t *testing.T) {
	g := newGit(t)
	// A small alphabet makes patterns meet paths.
	letters := []string{"a", "b", "ab", "-", ".", " ", `"`, "#", "!", "é", "]", ".yaml"}
	literal := rapid.SampledFrom(letters)
	wild := rapid.SampledFrom([]string{"*", "?", "[ab]", "[!a]", "[^b-]", "[a-b]", "[]a]", "[[]", "[*?]", "[!]]"})
	part := rapid.OneOf(literal, literal, wild)
	segment := rapid.OneOf(
		rapid.Map(rapid.SliceOfN(part, 1, 4), func(all []string) string { return strings.Join(all, "") }),
		rapid.SampledFrom([]string{"**", "a", "clusters", ".plural", ".gitignore"}),
	)
	pattern := rapid.Map(rapid.SliceOfN(segment, 1, 5), func(all []string) string { return strings.Join(all, "/") }).
		Filter(func(p string) bool { return checkPattern(p) == nil })
	name := rapid.OneOf(
		rapid.Map(rapid.SliceOfN(rapid.OneOf(literal, rapid.SampledFrom([]string{"*", "?", "[", `\`})), 1, 4), func(all []string) string { return strings.Join(all, "") }),
		rapid.SampledFrom([]string{"a", "b", "clusters", ".plural", ".gitignore"}),
	)
	path := rapid.Map(rapid.SliceOfN(name, 1, 5), func(all []string) string { return strings.Join(all, "/") }).
		Filter(func(p string) bool { return checkPath(p) == nil })
	rapid.Check(t, func(rt *rapid.T) {
		p := &Policy{}
		for i, one := range rapid.SliceOfNDistinct(pattern, 1, 4, rapid.ID).Draw(rt, "patterns") {
			p.Paths = append(p.Paths, Pattern{Pattern: one, Groups: []string{fmt.Sprint("g", i)}, Line: i + 1})
		}
		p.ranked = rank(p.Paths)
		agree(rt, g, p, rapid.SliceOfN(path, 1, 30).Draw(rt, "paths"))
	})
}

type failer interface {
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Helper()
}

// agree asks git and Match about every path.
func agree(t failer, g git, p *Policy, paths []string) {
	t.Helper()
	sealed, err := g.sealed(p.Attributes(), paths)
	if err != nil {
		t.Fatal(err)
	}
	for i, path := range paths {
		if checkPath(path) != nil {
			continue
		}
		if _, must, _ := p.Match(path); must != sealed[i] {
			t.Errorf("%q: git seals it: %v, Match: %v, under\n%s", path, sealed[i], must, p.Attributes())
		}
	}
}

// git is the real program in a repository of its own.
type git struct{ dir string }

func newGit(t *testing.T) git {
	t.Helper()
	needs.Program(t, "git", "git")
	g := git{t.TempDir()}
	if out, err := g.command("init", "-q").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return g
}

func (g git) command(args ...string) *exec.Cmd {
	cmd := exec.Command("git", append([]string{"-c", "core.ignorecase=false"}, args...)...)
	cmd.Dir = g.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull, "HOME="+g.dir)
	return cmd
}

// sealed says for each path whether git gives it to the filter. All attributes of a line must come together.
func (g git) sealed(attributes []byte, paths []string) ([]bool, error) {
	if err := os.WriteFile(filepath.Join(g.dir, ".gitattributes"), attributes, 0o600); err != nil {
		return nil, err
	}
	cmd := g.command("check-attr", "-z", "--stdin", "filter", "diff", "merge", "text", "ident")
	cmd.Stdin = strings.NewReader(strings.Join(paths, "\x00") + "\x00")
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil || complaints.Len() > 0 {
		return nil, fmt.Errorf("git check-attr: %w: %s", err, complaints.String())
	}
	fields := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	const perPath = 15 // path, attribute and value, five times
	if len(fields) != perPath*len(paths) {
		return nil, fmt.Errorf("git check-attr gave %d fields for %d paths", len(fields), len(paths))
	}
	sealed := make([]bool, len(paths))
	for i := range paths {
		f := fields[perPath*i : perPath*(i+1)]
		switch values := strings.Join([]string{f[2], f[5], f[8], f[11], f[14]}, " "); values {
		case "plural plural plural unset unset":
			sealed[i] = true
		case strings.TrimSpace(strings.Repeat("unspecified ", 5)):
		default:
			return nil, fmt.Errorf("git gives %q the attributes %s", paths[i], values)
		}
	}
	return sealed, nil
}
