package leakcheck_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/pluralsh/plural/crypto/gitcmd"
	"github.com/pluralsh/plural/crypto/gitfilter"
	"github.com/pluralsh/plural/crypto/gitsetup"
	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/crypto/leakcheck"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/sealer"
	"github.com/pluralsh/plural/crypto/trust"

	"github.com/pluralsh/plural/test/support/needs"
)

const repositoryID = "00112233445566778899aabbccddeeff"

// What the program finds in its environment.
const (
	identityEnv  = "TEST_IDENTITY"
	confirmedEnv = "TEST_CONFIRMED"
)

// TestMain is also the program that git runs.
func TestMain(m *testing.M) {
	if len(os.Args) < 3 || os.Args[1] != "crypto" {
		os.Exit(m.Run())
	}
	if err := serve(context.Background(), os.Args[2:]); err != nil {
		var refused *leakcheck.RefusedError
		fmt.Fprintln(os.Stderr, err)
		if errors.As(err, &refused) {
			fmt.Fprintln(os.Stderr, refused.Fix())
		}
		os.Exit(1)
	}
	os.Exit(0)
}

func serve(ctx context.Context, args []string) error {
	repo, err := gitcmd.Find(ctx, ".")
	if err != nil {
		return err
	}
	switch strings.Join(args[:min(2, len(args))], " ") {
	case "filter":
		return serveFilter(ctx, repo)
	case "hook pre-commit":
		v, err := openVault(ctx, repo)
		if errors.Is(err, policy.ErrNone) {
			return nil
		}
		if err != nil {
			return err
		}
		report, err := leakcheck.PreCommit(ctx, repo, v)
		return tell(report, err, "commit")
	case "hook pre-push":
		report, err := leakcheck.PrePush(ctx, repo, os.Stdin, args[2])
		return tell(report, err, "push")
	}
	_, err = gitsetup.Refresh(ctx, repo)
	return err
}

func tell(report *leakcheck.Report, err error, action string) error {
	if err != nil {
		return err
	}
	for _, f := range report.Mended {
		fmt.Fprintln(os.Stderr, "mended", f)
	}
	for _, f := range report.Warned {
		fmt.Fprintln(os.Stderr, "warned", f)
	}
	return report.Err(action)
}

func serveFilter(ctx context.Context, repo *gitcmd.Repo) error {
	locked, err := gitsetup.Locked(ctx, repo)
	if err != nil {
		return err
	}
	f, err := gitfilter.New(gitfilter.Config{
		Repo: repo, Locked: locked, Identities: identities, Confirmed: trust.Store{Dir: os.Getenv(confirmedEnv)}, Notes: os.Stderr,
	})
	if err != nil {
		return err
	}
	return errors.Join(gitfilter.Serve(ctx, os.Stdin, os.Stdout, f), f.Close())
}

func identities() ([]age.Identity, error) {
	text := os.Getenv(identityEnv)
	if text == "" {
		return nil, nil
	}
	return age.ParseIdentities(strings.NewReader(text))
}

// openVault is what the hook opens: the index.
func openVault(ctx context.Context, repo *gitcmd.Repo) (*sealer.Vault, error) {
	files, err := repo.FS(ctx, "")
	if err != nil {
		return nil, err
	}
	return sealer.Open(sealer.Config{Files: files, Identities: identities, Confirmed: trust.Store{Dir: os.Getenv(confirmedEnv)}})
}

// clone is an unlocked clone with a remote "origin". Alice, whose it is, is in the group prod; the group dev has Bob too.
type clone struct {
	*testing.T
	dir        string
	alice, bob *age.X25519Identity
}

func newClone(t *testing.T) clone {
	t.Helper()
	needs.Program(t, "git", "git")
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c := clone{t, filepath.Join(base, "repo"), identity(t), identity(t)}
	for name, value := range map[string]string{
		"GIT_CONFIG_GLOBAL": filepath.Join(base, "gitconfig"), "GIT_CONFIG_NOSYSTEM": "1", "HOME": base, "GIT_EDITOR": "true",
		"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b",
		identityEnv: c.alice.String(), confirmedEnv: filepath.Join(base, "confirmed"),
	} {
		t.Setenv(name, value)
	}
	if err := os.Mkdir(c.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	c.git("init", "-q", "-b", "main")
	c.git("init", "-q", "--bare", "-b", "main", "../remote")
	c.git("remote", "add", "origin", "../remote")
	c.write("README", "clear\n")
	c.git("add", "-A")
	c.git("commit", "-q", "-m", "before")
	return c
}

// newSealed is a clone with a policy, groups, a first secret, all pushed.
func newSealed(t *testing.T) clone {
	t.Helper()
	c := newClone(t)
	c.govern()
	c.write("secrets/a", "alpha\n")
	c.git("add", "-A")
	c.git("commit", "-q", "-m", "secrets")
	c.git("push", "-q", "-u", "origin", "main")
	return c
}

// govern makes policy and groups, and lets git use the program.
func (c clone) govern() {
	c.Helper()
	c.policy("secrets/**=prod", "dev/**=dev")
	c.write(groups.PersonFile("alice"), c.alice.Recipient().String()+"\n")
	c.write(groups.PersonFile("bob"), c.bob.Recipient().String()+"\n")
	alice, bob := groups.Member{Kind: groups.Person, Name: "alice"}, groups.Member{Kind: groups.Person, Name: "bob"}
	c.change(c.set().Create(repositoryID, "prod", []groups.Member{alice}, groups.CreateOptions{}))
	c.change(c.set().Create(repositoryID, "dev", []groups.Member{alice, bob}, groups.CreateOptions{}))
	c.confirm()
	c.install()
}

func (c clone) install() {
	c.Helper()
	self, err := os.Executable()
	if err != nil {
		c.Fatal(err)
	}
	if err := gitsetup.Install(c.Context(), c.repo(), self); err != nil {
		c.Fatal(err)
	}
}

// policy writes a seal.yaml of "PATTERN=GROUP".
func (c clone) policy(patterns ...string) {
	c.Helper()
	text := "apiVersion: plural.sh/v1alpha1\nkind: Seal\nmetadata: {name: seal}\nspec:\n  repository: " + repositoryID + "\n  paths:\n"
	for _, p := range patterns {
		pattern, group, _ := strings.Cut(p, "=")
		text += fmt.Sprintf("  - pattern: %q\n    groups: [%s]\n", pattern, group)
	}
	c.write(policy.File, text)
}

func (c clone) set() *groups.Set {
	c.Helper()
	set, err := groups.Load(os.DirFS(c.dir))
	if err != nil {
		c.Fatal(err)
	}
	return set
}

func (c clone) change(changes groups.Changes, err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
	for name, content := range changes {
		if content == nil {
			err = os.Remove(filepath.Join(c.dir, name))
		} else {
			c.write(name, string(content))
		}
		if err != nil {
			c.Fatal(err)
		}
	}
}

// rotate gives a group its next identity.
func (c clone) rotate(group string) {
	c.Helper()
	changes, _, err := c.set().Rotate(repositoryID, c.set().Unlock(repositoryID, []age.Identity{c.alice}), []string{group}, nil, nil)
	c.change(changes, err)
	c.confirm()
}

// confirm is Alice's word for how things stand.
func (c clone) confirm() {
	c.Helper()
	p, err := policy.Load(os.DirFS(c.dir))
	if err == nil {
		err = trust.Store{Dir: os.Getenv(confirmedEnv)}.Confirm(repositoryID, c.set().Statement(p))
	}
	if err != nil {
		c.Fatal(err)
	}
}

func (c clone) repo() *gitcmd.Repo {
	c.Helper()
	r, err := gitcmd.Find(c.Context(), c.dir)
	if err != nil {
		c.Fatal(err)
	}
	return r
}

func (c clone) try(args ...string) (string, error) {
	c.Helper()
	return c.feed("", args...)
}

func (c clone) feed(input string, args ...string) (string, error) {
	c.Helper()
	cmd := exec.CommandContext(c.Context(), "git", append([]string{"-c", "protocol.file.allow=always"}, args...)...)
	cmd.Dir, cmd.Stdin = c.dir, strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (c clone) git(args ...string) string {
	c.Helper()
	out, err := c.try(args...)
	if err != nil {
		c.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return out
}

func (c clone) write(name, text string) {
	c.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		c.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.Fatal(err)
	}
}

func (c clone) read(name string) string {
	c.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, name))
	if err != nil {
		c.Fatal(err)
	}
	return string(text)
}

// smuggle puts content into the index past every filter.
func (c clone) smuggle(path, content string) {
	c.Helper()
	oid, err := c.feed(content, "hash-object", "-w", "--no-filters", "--stdin")
	if err != nil {
		c.Fatal(oid)
	}
	c.git("update-index", "--add", "--cacheinfo", "100644,"+oid+","+path)
}

// stageAt puts one object into the index at another path.
func (c clone) stageAt(path, oid string) {
	c.Helper()
	c.git("update-index", "--add", "--cacheinfo", "100644,"+oid+","+path)
}

// commit skips the hooks.
func (c clone) commit(message string) string {
	c.Helper()
	c.git("commit", "-q", "--no-verify", "--allow-empty", "-m", message)
	return c.git("rev-parse", "HEAD")
}

// rules are those of the index.
func (c clone) rules(withVault bool) leakcheck.Rules {
	c.Helper()
	v, err := openVault(c.Context(), c.repo())
	if err != nil {
		c.Fatal(err)
	}
	r := leakcheck.Rules{Policy: v.Policy(), Groups: v.Groups()}
	if withVault {
		r.Vault = v
	}
	return r
}

// sound fails when HEAD or the index hold anything that is wrong, or when git sees changes.
func (c clone) sound() {
	c.Helper()
	for name, look := range map[string]func() ([]leakcheck.Finding, error){
		"HEAD":      func() ([]leakcheck.Finding, error) { return c.rules(true).Commit(c.Context(), c.repo(), "HEAD") },
		"the index": func() ([]leakcheck.Finding, error) { return c.rules(true).Index(c.Context(), c.repo()) },
	} {
		if findings, err := look(); err != nil || len(findings) > 0 {
			c.Errorf("in %s: %v, %v", name, findings, err)
		}
	}
	if status := c.git("status", "--porcelain"); status != "" {
		c.Errorf("git sees changes:\n%s", status)
	}
}

func identity(t *testing.T) *age.X25519Identity {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// kinds are "KIND PATH" of findings.
func kinds(findings []leakcheck.Finding) []string {
	var all []string
	for _, f := range findings {
		all = append(all, string(f.Kind)+" "+f.Path)
	}
	return all
}
