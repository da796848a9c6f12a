package gitfilter_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/pluralsh/plural/crypto/gitcmd"
	"github.com/pluralsh/plural/crypto/gitfilter"
	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/sealer"
	"github.com/pluralsh/plural/crypto/trust"
)

// What the test binary finds in its environment when git runs it as the filter.
const (
	envIdentity  = "GITFILTER_TEST_IDENTITY"  // an age identity, empty for none
	envConfirmed = "GITFILTER_TEST_CONFIRMED" // folder of the trust.Store
)

func TestMain(m *testing.M) {
	if _, isFilter := os.LookupEnv(envConfirmed); isFilter {
		if err := serve(); err != nil {
			fmt.Fprintln(os.Stderr, "filter:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// serve is what the command does that git is told to run.
func serve() error {
	ctx := context.Background()
	repo, err := gitcmd.Find(ctx, ".")
	if err != nil {
		return err
	}
	_, err = os.Lstat(filepath.Join(repo.GitDir, "plural", "locked"))
	f, err := gitfilter.New(gitfilter.Config{
		Repo: repo, Locked: err == nil, Notes: os.Stderr, Identities: identities,
		Confirmed: trust.Store{Dir: os.Getenv(envConfirmed)},
	})
	if err != nil {
		return err
	}
	defer f.Close()
	return gitfilter.Serve(ctx, os.Stdin, os.Stdout, f)
}

func identities() ([]age.Identity, error) {
	text := os.Getenv(envIdentity)
	if text == "" {
		return nil, nil
	}
	return age.ParseIdentities(strings.NewReader(text))
}

// clone is a git repository with a policy, a person, and the filter set up.
type clone struct {
	testing.TB
	dir      string
	identity *age.X25519Identity // of the person that git runs for; nil: somebody without any
	trust    trust.Store
}

const repository = "0123456789abcdef0123456789abcdef"

// newClone makes a repository whose secrets/** and .env are sealed for the group "prod", in which alice is, and whose
// team/** is for "ops", in which bob is alone. Alice works in it.
func newClone(tb testing.TB) *clone {
	tb.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		if os.Getenv("CI") != "" {
			tb.Fatal("git is not installed")
		}
		tb.Skip("SKIPPED: git is not installed")
	}
	alice, bob := identity(tb), identity(tb)
	c := &clone{TB: tb, dir: filepath.Join(tb.TempDir(), "repo"), identity: alice, trust: trust.Store{Dir: tb.TempDir()}}
	if err := os.Mkdir(c.dir, 0o700); err != nil {
		tb.Fatal(err)
	}
	c.git("init", "-q", "-b", "main")
	c.setUp()
	c.writePolicy("secrets/**", "prod", ".env", "prod", "team/**", "ops")
	c.change(func(s *groups.Set) (groups.Changes, error) { return s.SetPerson("alice", publicKey(alice)) })
	c.change(func(s *groups.Set) (groups.Changes, error) { return s.SetPerson("bob", publicKey(bob)) })
	c.change(func(s *groups.Set) (groups.Changes, error) {
		return s.Create(repository, "prod", []groups.Member{{Kind: groups.Person, Name: "alice"}}, groups.CreateOptions{})
	})
	c.change(func(s *groups.Set) (groups.Changes, error) {
		return s.Create(repository, "ops", []groups.Member{{Kind: groups.Person, Name: "bob"}}, groups.CreateOptions{})
	})
	c.confirm()
	c.commit("begin")
	return c
}

func identity(tb testing.TB) *age.X25519Identity {
	tb.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		tb.Fatal(err)
	}
	return id
}

func publicKey(id *age.X25519Identity) []byte { return []byte(id.Recipient().String() + "\n") }

// setUp tells git about the filter, as the program does in a clone.
func (c *clone) setUp() {
	c.Helper()
	self, err := os.Executable()
	if err != nil {
		c.Fatal(err)
	}
	c.git("config", "filter.plural.process", self)
	c.git("config", "filter.plural.required", "true")
	attributes := c.git("rev-parse", "--git-path", "info/attributes")
	c.write(attributes, "/secrets/** filter=plural -text\n/.env filter=plural -text\n/team/** filter=plural -text\n/.plural/** !filter\n")
}

// writePolicy takes patterns, each with a group.
func (c *clone) writePolicy(pairs ...string) {
	c.Helper()
	text := "apiVersion: plural.sh/v1alpha1\nkind: Seal\nmetadata: {name: seal}\nspec:\n  repository: " + repository + "\n  paths:\n"
	for i := 0; i < len(pairs); i += 2 {
		text += fmt.Sprintf("  - pattern: %q\n    groups: [%s]\n", pairs[i], pairs[i+1])
	}
	c.write(policy.File, text)
}

// change changes .plural in the work tree.
func (c *clone) change(make func(*groups.Set) (groups.Changes, error)) {
	c.Helper()
	set, err := groups.Load(os.DirFS(c.dir))
	if err != nil {
		c.Fatal(err)
	}
	changes, err := make(set)
	if err != nil {
		c.Fatal(err)
	}
	for path, content := range changes {
		if content == nil {
			err = os.Remove(filepath.Join(c.dir, path))
		} else {
			c.write(path, string(content))
		}
		if err != nil {
			c.Fatal(err)
		}
	}
}

// rotate gives the group its next identity.
func (c *clone) rotate(group string) {
	c.Helper()
	c.change(func(s *groups.Set) (groups.Changes, error) {
		changes, _, err := s.Rotate(repository, s.Unlock(repository, []age.Identity{c.identity}), []string{group}, nil, nil)
		return changes, err
	})
	c.confirm()
}

func (c *clone) vault() *sealer.Vault {
	c.Helper()
	v, err := sealer.Open(sealer.Config{
		Files: os.DirFS(c.dir), Confirmed: c.trust,
		Identities: func() ([]age.Identity, error) { return []age.Identity{c.identity}, nil },
	})
	if err != nil {
		c.Fatal(err)
	}
	return v
}

// confirm is the person saying yes to who can read what.
func (c *clone) confirm() {
	c.Helper()
	if err := c.trust.Confirm(repository, c.vault().Statement()); err != nil {
		c.Fatal(err)
	}
}

func (c *clone) command(args ...string) *exec.Cmd {
	args = append([]string{"-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always", "-c", "gc.auto=0"}, args...)
	cmd := exec.CommandContext(c.Context(), "git", args...)
	cmd.Dir = c.dir
	text := ""
	if c.identity != nil {
		text = c.identity.String()
	}
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "GIT_EDITOR=true",
		"GORACE=atexit_sleep_ms=0", // or each filter would end with a second's sleep
		envIdentity+"="+text, envConfirmed+"="+c.trust.Dir)
	return cmd
}

// git runs git, which must succeed, and returns what it wrote.
func (c *clone) git(args ...string) string {
	c.Helper()
	out, notes, err := c.try(args...)
	if err != nil {
		c.Fatalf("git %v: %v\n%s%s", args, err, out, notes)
	}
	return out
}

// try runs git, and returns what it wrote and what it said.
func (c *clone) try(args ...string) (out, notes string, err error) {
	c.Helper()
	var stdout, stderr bytes.Buffer
	cmd := c.command(args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	return strings.TrimSuffix(stdout.String(), "\n"), stderr.String(), err
}

func (c *clone) write(name, text string) {
	c.Helper()
	path := name
	if !filepath.IsAbs(name) {
		path = filepath.Join(c.dir, name)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		c.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.Fatal(err)
	}
}

func (c *clone) read(name string) string {
	c.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, name))
	if err != nil {
		c.Fatal(err)
	}
	return string(text)
}

// touch makes git look at the file again.
func (c *clone) touch(name string) {
	c.Helper()
	c.write(name, c.read(name))
}

// commit stages everything and returns the commit's name.
func (c *clone) commit(message string) string {
	c.Helper()
	c.git("add", "-A")
	c.git("commit", "-q", "--allow-empty", "-m", message)
	return c.git("rev-parse", "HEAD")
}

// stored is what git holds under a name like "HEAD:secrets/a".
func (c *clone) stored(name string) []byte {
	c.Helper()
	out, err := c.command("cat-file", "blob", name).Output()
	if err != nil {
		c.Fatalf("git cat-file blob %s: %v", name, err)
	}
	return out
}

// status fails unless git sees exactly these differences.
func (c *clone) status(want string) {
	c.Helper()
	if out := c.git("status", "--porcelain"); out != want {
		c.Errorf("git status shows %q, want %q", out, want)
	}
}

// clean fails when git sees any difference.
func (c *clone) clean() {
	c.Helper()
	c.status("")
}
