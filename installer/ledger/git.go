package ledger

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/term"

	"github.com/pluralsh/plural/crypto/gitcmd"
	"github.com/pluralsh/plural/internal/httpclient"
)

// clone is a git repository of the person's: objects are made in it, and its work tree and index are never touched.
type clone struct {
	*gitcmd.Repo
	// remote is where the record lies, empty when there is no remote: then this clone is the only place.
	remote string
	// url is the remote's, nil when it is none: what it may hold of credentials is kept out of errors.
	url     *url.URL
	noInput bool
}

// openClone asks git what the repository at dir is, and where its current branch comes from.
func openClone(ctx context.Context, dir string) (*clone, error) {
	found, err := gitcmd.Find(ctx, dir)
	if err != nil {
		return nil, err
	}
	c := &clone{Repo: found}
	out, err := c.git(ctx, nil, nil, "remote")
	if err != nil {
		return nil, fmt.Errorf("list remotes: %w", err)
	}
	remotes := strings.Fields(string(out))
	for _, name := range []string{c.upstream(ctx), "origin"} {
		if slices.Contains(remotes, name) {
			c.remote = name
			break
		}
	}
	if c.remote == "" && len(remotes) > 0 {
		c.remote = remotes[0]
	}
	if c.remote != "" {
		if out, err := c.git(ctx, nil, nil, "remote", "get-url", c.remote); err == nil {
			c.url, _ = url.Parse(strings.TrimSpace(string(out))) // nil for host:path, which holds no password
		}
	}
	return c, nil
}

// upstream is the remote of the current branch, empty when it has none.
func (c *clone) upstream(ctx context.Context) string {
	branch, err := c.git(ctx, nil, nil, "symbolic-ref", "--quiet", "--short", "HEAD")
	if err != nil {
		return "" // a detached HEAD belongs to no branch
	}
	name, _, err := c.Config(ctx, "branch."+strings.TrimSpace(string(branch))+".remote")
	if err != nil {
		return ""
	}
	return name
}

// git runs the git program. The error is a *gitexec.Error with what git said, without credentials. An interrupt at the terminal
// reaches git too, and may be meant to let this run finish what it is at: git is then started again.
func (c *clone) git(ctx context.Context, env []string, input []byte, args ...string) ([]byte, error) {
	const interrupts = 3
	for attempt := 1; ; attempt++ {
		out, interrupted, err := c.once(ctx, env, input, args...)
		if !interrupted || ctx.Err() != nil || attempt == interrupts {
			return out, err
		}
	}
}

func (c *clone) once(ctx context.Context, env []string, input []byte, args ...string) (out []byte, interrupted bool, err error) {
	call := c.Call(args...)
	call.Env, call.Input = append(call.Env, env...), bytes.NewReader(input)
	if out, err = call.Run(ctx); err == nil {
		return out, false, nil
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		status, ok := exit.Sys().(syscall.WaitStatus)
		interrupted = ok && status.Signaled() && status.Signal() == syscall.SIGINT
	}
	return out, interrupted, httpclient.RedactError(err, c.url, httpclient.Credentials{})
}

// asking is the environment of a git that talks to the remote: where nobody can be asked, nobody is.
func (c *clone) asking(ctx context.Context) []string {
	if !c.noInput && term.IsTerminal(int(os.Stdin.Fd())) {
		return nil
	}
	env := []string{"GIT_TERMINAL_PROMPT=0", "SSH_ASKPASS_REQUIRE=force"}
	if os.Getenv("SSH_ASKPASS") == "" {
		env = append(env, "SSH_ASKPASS=false") // the program that says no
	}
	_, own, err := c.Config(ctx, "core.sshCommand")
	if err == nil && !own && os.Getenv("GIT_SSH_COMMAND") == "" && os.Getenv("GIT_SSH") == "" {
		env = append(env, "GIT_SSH_COMMAND=ssh -oBatchMode=yes")
	}
	return env
}

// tip is the commit that Ref names at the remote, or here when there is no remote; empty for none.
func (c *clone) tip(ctx context.Context) (string, error) {
	if c.remote == "" {
		return c.here(ctx)
	}
	out, err := c.git(ctx, c.asking(ctx), nil, "ls-remote", c.remote, Ref)
	if err != nil {
		return "", &RemoteError{Remote: c.remote, Err: err}
	}
	for line := range strings.Lines(string(out)) {
		if oid, name, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok && name == Ref {
			return oid, nil
		}
	}
	return "", nil
}

// here is the commit that Ref names in this clone, empty for none.
func (c *clone) here(ctx context.Context) (string, error) {
	out, err := c.git(ctx, nil, nil, "for-each-ref", "--format=%(objectname) %(refname)", Ref)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", Ref, err)
	}
	for line := range strings.Lines(string(out)) {
		if oid, name, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name == Ref {
			return oid, nil
		}
	}
	return "", nil
}

// fetch gets a commit that Ref names at the remote, unless it is here.
func (c *clone) fetch(ctx context.Context, oid string) error {
	if c.has(ctx, oid) {
		return c.follow(ctx, oid)
	}
	_, err := c.git(ctx, c.asking(ctx), nil, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance",
		"--recurse-submodules=no", "--refmap=", c.remote, Ref)
	if err != nil {
		return &RemoteError{Remote: c.remote, Err: err}
	}
	if !c.has(ctx, oid) {
		return errMoved
	}
	return c.follow(ctx, oid)
}

func (c *clone) has(ctx context.Context, oid string) bool {
	_, err := c.git(ctx, nil, nil, "cat-file", "-e", oid+"^{commit}")
	return err == nil
}

// follow lets this clone's Ref name what the remote's does. That keeps the objects, and makes the next fetch short; a run in
// another process that does the same at the same moment is as good.
func (c *clone) follow(ctx context.Context, oid string) error {
	if now, err := c.here(ctx); err != nil || now == oid {
		return err
	}
	_, err := c.git(ctx, nil, nil, "update-ref", Ref, oid)
	if now, again := c.here(ctx); again == nil && now != "" {
		return nil
	}
	return err
}

// errMoved says that Ref does not name any more what it did.
var errMoved = errors.New("the record has moved")

// publish makes Ref name next, if it still names old; empty stands for none. The error is errMoved when it does not, and a
// *RefusedError when it does and the remote does not want next.
func (c *clone) publish(ctx context.Context, old, next string) error {
	if c.remote == "" {
		expected := old
		if expected == "" {
			expected = strings.Repeat("0", len(next))
		}
		_, err := c.git(ctx, nil, nil, "update-ref", "-m", "plural", Ref, next, expected)
		return err
	}
	out, err := c.git(ctx, c.asking(ctx), nil, "push", "--porcelain", "--quiet", "--no-verify", "--no-follow-tags",
		"--recurse-submodules=no", "--force-with-lease="+Ref+":"+old, c.remote, next+":"+Ref)
	if err != nil {
		return because(out, err)
	}
	return c.follow(ctx, next)
}

// because is a push's error with what it says in its table: "!", the refs, and the reason.
func because(table []byte, err error) error {
	for line := range strings.Lines(string(table)) {
		if words := strings.Split(strings.TrimSpace(line), "\t"); len(words) == 3 && words[0] == "!" {
			return fmt.Errorf("%s: %w", words[2], err)
		}
	}
	return err
}

// file is one of a commit's files.
type file struct{ mode, oid string }

// files are all files of a commit, none for the empty one.
func (c *clone) files(ctx context.Context, commit string) (map[string]file, error) {
	files := map[string]file{}
	if commit == "" {
		return files, nil
	}
	entries, err := c.Tree(ctx, commit)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		files[e.Path] = file{e.Mode, e.Oid}
	}
	return files, nil
}

// read is a file of a commit.
func (c *clone) read(ctx context.Context, commit, path string) ([]byte, error) {
	blobs, err := c.Blobs(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = blobs.Close() }() // the answer has been read
	content, _, ok, err := blobs.Get(commit + ":" + path)
	if err == nil && !ok {
		err = fmt.Errorf("read %q: %w", path, fs.ErrNotExist)
	}
	return content, err
}

// store keeps content as an object.
func (c *clone) store(ctx context.Context, content []byte) (string, error) {
	out, err := c.git(ctx, nil, content, "hash-object", "-w", "--stdin")
	if err != nil {
		return "", fmt.Errorf("store an object: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// commit makes a commit of files on top of parent. It goes by an index of its own.
func (c *clone) commit(ctx context.Context, parent string, files map[string]file, message string) (_ string, err error) {
	index := filepath.Join(os.TempDir(), "plural-index-"+rand.Text())
	defer func() {
		if gone := os.Remove(index); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}()
	env := append([]string{"GIT_INDEX_FILE=" + index}, c.identity(ctx)...)
	var list bytes.Buffer
	for path, f := range files {
		fmt.Fprintf(&list, "%s %s\t%s\x00", f.mode, f.oid, path)
	}
	if _, err := c.git(ctx, env, list.Bytes(), "update-index", "-z", "--add", "--index-info"); err != nil {
		return "", fmt.Errorf("write tree: %w", err)
	}
	tree, err := c.git(ctx, env, nil, "write-tree")
	if err != nil {
		return "", fmt.Errorf("write tree: %w", err)
	}
	args := []string{"commit-tree", strings.TrimSpace(string(tree)), "-m", message}
	if parent != "" {
		args = append(args, "-p", parent)
	}
	out, err := c.git(ctx, env, nil, args...)
	if err != nil {
		return "", fmt.Errorf("write commit: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// person is who git says the person is, "plural <plural@localhost>" when it does not know.
func (c *clone) person(ctx context.Context) (name, email string) {
	out, err := c.git(ctx, nil, nil, "var", "GIT_COMMITTER_IDENT")
	if err == nil {
		name, rest, ok := strings.Cut(string(out), " <")
		email, _, closed := strings.Cut(rest, ">")
		if ok && closed && name != "" && email != "" {
			return name, email
		}
	}
	return "plural", "plural@localhost"
}

func (c *clone) identity(ctx context.Context) []string {
	name, email := c.person(ctx)
	return []string{
		"GIT_AUTHOR_NAME=" + name, "GIT_AUTHOR_EMAIL=" + email,
		"GIT_COMMITTER_NAME=" + name, "GIT_COMMITTER_EMAIL=" + email,
	}
}
