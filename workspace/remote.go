package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/plumbing/transport/http"
	gitssh "github.com/go-git/go-git/v5/plumbing/transport/ssh"
	"github.com/go-git/go-git/v5/storage/memory"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/seal"
	"github.com/pluralsh/plural/crypto/verify"
	"github.com/pluralsh/plural/internal/httpclient"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// Remote is an installation repo that is changed where it lies: there is no work tree here.
type Remote struct {
	// URL is the repository's, Branch the branch that is changed.
	URL, Branch string
	Credentials httpclient.Credentials
	// Dir is a folder in which clones may lie for as long as a commit takes.
	Dir string
	// Sign makes the armored signature of a commit; nil leaves commits unsigned.
	Sign func(payload []byte) ([]byte, error)
}

// Author is who wants a change.
type Author struct{ Name, Email string }

// remoteAttempts bounds how often Commit plans again because others pushed meanwhile.
const remoteAttempts = 5

// Tip is where a branch stands, with as much of its history as was asked for. It is good until the function that was given it
// returns.
type Tip struct {
	// ID is the commit's.
	ID string
	// Files are what it holds.
	Files fs.FS

	head *head
}

// Plan is what a commit changes.
type Plan struct {
	// Files are whole, by path; nil removes one.
	Files   map[string][]byte
	Message string
}

// Proposal says how a commit is made.
type Proposal struct {
	By Author
	// Depth is how many commits of the branch the plan sees, the tip included; zero means the tip alone.
	Depth int
	// To is the branch that the commit is pushed to, which must not be there yet. Empty: the one that it is made on.
	To string
	// Review is shown the tip and the branch as it would be, before that is pushed. Nothing is when it returns an error, which is then
	// that of Propose. It is asked for each commit that is made, and for none where the plan changes nothing. May be nil.
	Review func(tip, next *Tip) error
}

// Commit changes files at the tip of the branch, and returns the commit that is there then: the tip itself when the plan
// changes nothing. The plan is given the tip, and gives files by path, whole, nil for one that goes; it is asked again when
// somebody else was faster. A path that must be sealed is refused unless its content is: nobody here can seal it.
func (r *Remote) Commit(ctx context.Context, by Author, message string, plan func(tip fs.FS) (map[string][]byte, error)) (string, error) {
	return r.Propose(ctx, Proposal{By: by}, func(tip *Tip) (*Plan, error) {
		files, err := plan(tip.Files)
		return &Plan{files, message}, err
	})
}

// Propose is Commit for a plan that looks at the history, or that is not for the branch itself.
func (r *Remote) Propose(ctx context.Context, p Proposal, plan func(*Tip) (*Plan, error)) (string, error) {
	auth, err := r.auth()
	if err != nil {
		return "", err
	}
	var refused *refusal
	for range remoteAttempts {
		id, err := r.try(ctx, auth, p, plan)
		again := new(refusal)
		if !errors.As(err, &again) {
			return id, r.redacted(err)
		}
		if refused != nil && refused.tip == again.tip {
			break // nobody was faster: it is this commit that is not wanted
		}
		refused = again
	}
	return "", &PushError{Branch: cmp.Or(p.To, r.Branch), Cause: r.redacted(refused.err)}
}

// Look shows the tip with so many commits before it, and changes nothing.
func (r *Remote) Look(ctx context.Context, depth int, look func(*Tip) error) error {
	auth, err := r.auth()
	if err == nil {
		err = r.clone(ctx, auth, depth, look)
	}
	return r.redacted(err)
}

// Branches are the tips of the remote's branches that begin with a prefix, by name.
func (r *Remote) Branches(ctx context.Context, prefix string) (map[string]string, error) {
	auth, err := r.auth()
	if err != nil {
		return nil, err
	}
	remote := git.NewRemote(memory.NewStorage(), &config.RemoteConfig{Name: git.DefaultRemoteName, URLs: []string{r.URL}})
	refs, err := remote.ListContext(ctx, &git.ListOptions{Auth: auth, CABundle: r.Credentials.CA})
	if err != nil {
		return nil, r.redacted(fmt.Errorf("list branches: %w", err))
	}
	tips := map[string]string{}
	for _, ref := range refs {
		if name := ref.Name(); name.IsBranch() && strings.HasPrefix(name.Short(), prefix) {
			tips[name.Short()] = ref.Hash().String()
		}
	}
	return tips, nil
}

// Past is one commit of a branch's history.
type Past struct {
	ID, Message string
	// By is the commit's author, as it says.
	By Author
	// Time is when it was committed, as its committer says.
	Time time.Time
	// Parent is the first; empty where there is none.
	Parent string
	// Merge says that there are more.
	Merge bool
}

// Past are the commits of the branch, the tip first, along first parents and as far as was asked for. It ends before what is no
// commit, which anybody who may push can put below their own, as it does where the history is cut.
func (t *Tip) Past() ([]Past, error) {
	var list []Past
	for c := t.head.commit; ; {
		past := Past{ID: c.Hash.String(), Message: c.Message, By: Author{c.Author.Name, c.Author.Email}, Time: c.Committer.When}
		if len(c.ParentHashes) > 0 {
			past.Parent, past.Merge = c.ParentHashes[0].String(), len(c.ParentHashes) > 1
		}
		list = append(list, past)
		if past.Parent == "" {
			return list, nil
		}
		next, err := t.head.git.CommitObject(c.ParentHashes[0])
		if errors.Is(err, plumbing.ErrObjectNotFound) || errors.Is(err, object.ErrMalformedCommit) {
			return list, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read commit %s: %w", past.Parent, err)
		}
		c = next
	}
}

// Signed is a commit of the history as it was signed.
func (t *Tip) Signed(id string) (verify.Object, error) { return signed(t.head.git.Storer, id) }

// signed is a commit as it was signed.
func signed(objects storer.EncodedObjectStorer, id string) (verify.Object, error) {
	raw, err := objects.EncodedObject(plumbing.CommitObject, plumbing.NewHash(id))
	if err != nil {
		return verify.Object{}, fmt.Errorf("read commit %s: %w", id, err)
	}
	in, err := raw.Reader()
	if err != nil {
		return verify.Object{}, fmt.Errorf("read commit %s: %w", id, err)
	}
	body, err := io.ReadAll(io.LimitReader(in, snapshot.MaxCommit+1))
	if err := errors.Join(err, in.Close()); err != nil {
		return verify.Object{}, fmt.Errorf("read commit %s: %w", id, err)
	}
	if len(body) > snapshot.MaxCommit {
		return verify.Object{}, fmt.Errorf("commit %s is larger than %d bytes", id, snapshot.MaxCommit)
	}
	return verify.Split("commit", body)
}

// At is what a commit of the history holds.
func (t *Tip) At(id string) (fs.FS, error) {
	s, err := snapshot.Of(t.head.git.Storer, snapshot.Hash(id))
	if err != nil {
		return nil, err
	}
	return s.FS(), nil
}

// redacted is an error without what the remote is shown, or has in its address.
func (r *Remote) redacted(err error) error {
	u, _ := url.Parse(r.URL) // nil when it is no URL, such as host:path
	return httpclient.RedactError(err, u, r.Credentials)
}

// ErrBranchExists means that a proposal's branch is taken.
var ErrBranchExists = errors.New("it is there already")

// PushError says that the remote does not take a commit which is made on what it has.
type PushError struct {
	Branch string
	Cause  error
}

// Error begins with what was tried.
func (e *PushError) Error() string { return fmt.Sprintf("push to branch %q: %v", e.Branch, e.Cause) }

// Unwrap is the cause.
func (e *PushError) Unwrap() error { return e.Cause }

// Declined says that the remote was reached, and takes no push to that branch, such as one that is protected.
func (e *PushError) Declined() bool {
	said := e.Cause.Error() // the transport makes texts of what the server says
	return slices.ContainsFunc([]string{"hook declined", "protected branch", "rule violations"}, func(words string) bool {
		return strings.Contains(said, words)
	})
}

// refusal is what the remote says against a commit on top of a tip.
type refusal struct {
	tip string
	err error
}

func (r *refusal) Error() string { return r.err.Error() }

// try makes the commit on the tip of this moment. The error is a refusal when the remote does not take it.
func (r *Remote) try(ctx context.Context, auth transport.AuthMethod, p Proposal, plan func(*Tip) (*Plan, error)) (id string, err error) {
	err = r.clone(ctx, auth, p.Depth, func(tip *Tip) error {
		planned, err := plan(tip)
		if err != nil {
			return err
		}
		next, err := tip.head.with(tip.Files, planned, p.By, r.Sign)
		if id = next.String(); err != nil || next == tip.head.commit.Hash {
			return err
		}
		if err := tip.reviewed(next, p.Review); err != nil {
			return err
		}
		if p.To != "" {
			return r.pushNew(ctx, auth, tip, next, p.To)
		}
		spec := config.RefSpec(id + ":" + plumbing.NewBranchReferenceName(r.Branch).String())
		push := &git.PushOptions{Auth: auth, RefSpecs: []config.RefSpec{spec}, CABundle: r.Credentials.CA}
		if err := tip.head.git.PushContext(ctx, push); err != nil {
			return &refusal{tip.ID, err}
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return id, nil
}

// pushNew pushes a commit as a branch that is not there: one that the commit comes out of would be moved on by a plain push. It
// is git push --force-with-lease=BRANCH: with nothing expected, for which go-git wants a ref that it pushes, and one that says
// what is expected at the remote.
func (r *Remote) pushNew(ctx context.Context, auth transport.AuthMethod, tip *Tip, commit plumbing.Hash, name string) error {
	const proposed = "refs/plural/proposed"
	expected := plumbing.NewRemoteReferenceName(git.DefaultRemoteName, proposed)
	for _, ref := range []*plumbing.Reference{
		plumbing.NewHashReference(proposed, commit), plumbing.NewHashReference(expected, plumbing.ZeroHash),
	} {
		if err := tip.head.git.Storer.SetReference(ref); err != nil {
			return fmt.Errorf("write %q: %w", ref.Name(), err)
		}
	}
	spec := config.RefSpec(proposed + ":" + plumbing.NewBranchReferenceName(name).String())
	refused := tip.head.git.PushContext(ctx, &git.PushOptions{
		Auth: auth, RefSpecs: []config.RefSpec{spec}, CABundle: r.Credentials.CA, ForceWithLease: new(git.ForceWithLease),
	})
	if refused == nil {
		return nil
	}
	if tips, err := r.Branches(ctx, name); err == nil && tips[name] != "" {
		return &PushError{Branch: name, Cause: fmt.Errorf("%w, at %.12s, and is left as it is", ErrBranchExists, tips[name])}
	}
	return &refusal{tip.ID, refused}
}

// clone shows the tip of this moment in a clone that lasts as long as the look.
func (r *Remote) clone(ctx context.Context, auth transport.AuthMethod, depth int, look func(*Tip) error) (err error) {
	dir, err := os.MkdirTemp(r.Dir, "commit-")
	if err != nil {
		return fmt.Errorf("make room for a clone: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	g, err := git.PlainCloneContext(ctx, dir, true, &git.CloneOptions{
		URL: r.URL, Auth: auth, ReferenceName: plumbing.NewBranchReferenceName(r.Branch), SingleBranch: true, Depth: max(depth, 1),
		Tags: git.NoTags, CABundle: r.Credentials.CA,
	})
	if err != nil {
		return fmt.Errorf("fetch branch %q: %w", r.Branch, err)
	}
	h, err := readHead(g)
	if err != nil {
		return err
	}
	tip, err := snapshot.Of(g.Storer, snapshot.Hash(h.id()))
	if err != nil {
		return err
	}
	return look(&Tip{ID: h.id(), Files: tip.FS(), head: h})
}

// with is a commit on top of the head that has the files; the head itself when it has them already.
func (h *head) with(tip fs.FS, p *Plan, by Author, sign func([]byte) ([]byte, error)) (plumbing.Hash, error) {
	entries := make(map[string]entry, len(p.Files))
	for path, content := range p.Files {
		if content == nil {
			entries[path] = entry{}
			continue
		}
		if err := inClear(tip, path, content); err != nil {
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
	c := &object.Commit{
		Author:    object.Signature{Name: by.Name, Email: by.Email, When: now},
		Committer: object.Signature{Name: "plural", Email: "plural@localhost", When: now},
		Message:   strings.TrimSuffix(p.Message, "\n") + "\n", TreeHash: tree, ParentHashes: []plumbing.Hash{h.commit.Hash},
	}
	if sign != nil {
		if err := signCommit(c, sign); err != nil {
			return plumbing.ZeroHash, err
		}
	}
	return storeCommit(h.git, c)
}

// signCommit puts the signature of all else into a commit.
func signCommit(c *object.Commit, sign func([]byte) ([]byte, error)) error {
	object := new(plumbing.MemoryObject)
	if err := c.EncodeWithoutSignature(object); err != nil {
		return fmt.Errorf("encode commit: %w", err)
	}
	payload, err := object.Reader()
	if err != nil {
		return fmt.Errorf("encode commit: %w", err)
	}
	raw, err := io.ReadAll(payload)
	if err != nil {
		return fmt.Errorf("encode commit: %w", err)
	}
	signature, err := sign(raw)
	if err != nil {
		return fmt.Errorf("sign commit: %w", err)
	}
	c.PGPSignature = string(signature)
	return nil
}

// inClear refuses what git must not hold in clear.
func inClear(tip fs.FS, path string, content []byte) error {
	if seal.IsSealed(content) {
		return nil
	}
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
