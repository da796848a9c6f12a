package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/plumbing/transport/http"
	gitssh "github.com/go-git/go-git/v5/plumbing/transport/ssh"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/workspace/outbound"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// Remote is an installation repo that is changed where it lies: there is no work tree here.
type Remote struct {
	// URL is the repository's, Branch the branch that is changed.
	URL, Branch string
	Credentials outbound.Credentials
	// Dir is a folder in which clones may lie for as long as a commit takes.
	Dir string
}

// Author is who wants a change.
type Author struct{ Name, Email string }

// remoteAttempts bounds how often Commit plans again because others pushed meanwhile.
const remoteAttempts = 5

// Commit changes files at the tip of the branch, and returns the commit that is there then: the tip itself when the plan
// changes nothing. The plan is given the tip, and gives files by path, whole; it is asked again when somebody else was
// faster. A path that must be sealed is refused: nobody here can seal it.
func (r *Remote) Commit(ctx context.Context, by Author, message string, plan func(tip fs.FS) (map[string][]byte, error)) (string, error) {
	auth, err := r.auth()
	if err != nil {
		return "", err
	}
	var refused *refusal
	for range remoteAttempts {
		id, err := r.try(ctx, auth, by, message, plan)
		again := new(refusal)
		if !errors.As(err, &again) {
			return id, r.redacted(err)
		}
		if refused != nil && refused.tip == again.tip {
			break // nobody was faster: it is this commit that is not wanted
		}
		refused = again
	}
	return "", &PushError{Branch: r.Branch, Cause: r.redacted(refused.err)}
}

// redacted is an error without what the remote is shown, or has in its address.
func (r *Remote) redacted(err error) error {
	u, _ := url.Parse(r.URL) // nil when it is no URL, such as host:path
	return outbound.RedactError(err, u, r.Credentials)
}

// PushError says that the remote does not take a commit which is made on what it has.
type PushError struct {
	Branch string
	Cause  error
}

// Error begins with what was tried.
func (e *PushError) Error() string { return fmt.Sprintf("push to branch %q: %v", e.Branch, e.Cause) }

// Unwrap is the cause.
func (e *PushError) Unwrap() error { return e.Cause }

// refusal is what the remote says against a commit on top of a tip.
type refusal struct {
	tip string
	err error
}

func (r *refusal) Error() string { return r.err.Error() }

// try makes the commit on the tip of this moment. The error is a refusal when the remote does not take it.
func (r *Remote) try(
	ctx context.Context, auth transport.AuthMethod, by Author, message string, plan func(fs.FS) (map[string][]byte, error),
) (id string, err error) {
	dir, err := os.MkdirTemp(r.Dir, "commit-")
	if err != nil {
		return "", fmt.Errorf("make room for a clone: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	branch := plumbing.NewBranchReferenceName(r.Branch)
	g, err := git.PlainCloneContext(ctx, dir, true, &git.CloneOptions{
		URL: r.URL, Auth: auth, ReferenceName: branch, SingleBranch: true, Depth: 1, Tags: git.NoTags, CABundle: r.Credentials.CA,
	})
	if err != nil {
		return "", fmt.Errorf("fetch branch %q: %w", r.Branch, err)
	}
	h, err := readHead(g)
	if err != nil {
		return "", err
	}
	tip, err := snapshot.Of(g.Storer, snapshot.Hash(h.id()))
	if err != nil {
		return "", err
	}
	files, err := plan(tip.FS())
	if err != nil {
		return "", err
	}
	next, err := h.with(tip.FS(), files, by, message)
	if err != nil || next == h.commit.Hash {
		return h.id(), err
	}
	spec := config.RefSpec(next.String() + ":" + branch.String())
	if err := g.PushContext(ctx, &git.PushOptions{Auth: auth, RefSpecs: []config.RefSpec{spec}, CABundle: r.Credentials.CA}); err != nil {
		return "", &refusal{h.id(), err}
	}
	return next.String(), nil
}

// with is a commit on top of the head that has the files; the head itself when it has them already.
func (h *head) with(tip fs.FS, files map[string][]byte, by Author, message string) (plumbing.Hash, error) {
	entries := make(map[string]entry, len(files))
	for path, content := range files {
		if err := inClear(tip, path); err != nil {
			return plumbing.ZeroHash, err
		}
		had, ok, err := find(h.tree, path)
		if err != nil {
			return plumbing.ZeroHash, err
		}
		if !ok {
			had.mode = filemode.Regular
		}
		if had.hash, err = writeBlob(h.git.Storer, content); err != nil {
			return plumbing.ZeroHash, fmt.Errorf("write %q: %w", path, err)
		}
		entries[path] = had
	}
	tree, err := writeTree(h.git.Storer, h.tree, entries)
	if err != nil {
		return plumbing.ZeroHash, fmt.Errorf("write tree: %w", err)
	}
	if tree == h.tree.Hash {
		return h.commit.Hash, nil
	}
	now := time.Now()
	return storeCommit(h.git, &object.Commit{
		Author:    object.Signature{Name: by.Name, Email: by.Email, When: now},
		Committer: object.Signature{Name: "plural", Email: "plural@localhost", When: now},
		Message:   message, TreeHash: tree, ParentHashes: []plumbing.Hash{h.commit.Hash},
	})
}

// inClear refuses a path that git must not hold in clear.
func inClear(tip fs.FS, path string) error {
	p, err := policy.Load(tip)
	if errors.Is(err, policy.ErrNone) {
		return nil
	}
	if err != nil {
		return err
	}
	_, must, err := p.Match(path)
	if err == nil && must {
		err = refuse("change it in a clone", "%q must be sealed", path)
	}
	return err
}

// auth is how the remote is convinced.
func (r *Remote) auth() (transport.AuthMethod, error) {
	c := r.Credentials
	if endpoint, err := transport.NewEndpoint(r.URL); err == nil && endpoint.Protocol == "ssh" {
		return r.sshAuth(endpoint)
	}
	u, err := url.Parse(r.URL)
	if err != nil {
		return nil, fmt.Errorf("remote of the installation repo: %w", err)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, nil
	case c.Bearer != "":
		return &http.TokenAuth{Token: c.Bearer}, nil
	case c.Username != "":
		return &http.BasicAuth{Username: c.Username, Password: c.Password}, nil
	}
	return nil, nil
}

// sshAuth needs a private key and the host's keys: a host that is not known beforehand is never trusted.
func (r *Remote) sshAuth(endpoint *transport.Endpoint) (transport.AuthMethod, error) {
	user := endpoint.User
	if user == "" {
		user = "git"
	}
	keys, err := gitssh.NewPublicKeys(user, r.Credentials.SSHKey, r.Credentials.Password)
	if err != nil {
		return nil, fmt.Errorf("credential identity is no private SSH key that can be used: %w", err)
	}
	keys.HostKeyCallback, err = r.hostKeys()
	return keys, err
}

// hostKeys reads the known hosts from a file, the only way in which they are taken.
func (r *Remote) hostKeys() (check ssh.HostKeyCallback, err error) {
	file, err := os.CreateTemp(r.Dir, "known-hosts-")
	if err != nil {
		return nil, fmt.Errorf("make room for known_hosts: %w", err)
	}
	defer func() { err = errors.Join(err, os.Remove(file.Name())) }()
	_, err = file.WriteString(strings.TrimSpace(string(r.Credentials.KnownHosts)) + "\n")
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("write known_hosts: %w", err)
	}
	if check, err = knownhosts.New(file.Name()); err != nil {
		return nil, fmt.Errorf("credential known_hosts: %w", err)
	}
	return check, nil
}
