// Package committer owns the hub's own commits to the installation repo, and the verification of all commits there.
//
// Every commit is made on the newest one, in a clone that goes afterwards, as one person asked for it or as the hub itself. What a
// commit is for is the business of those who ask.
package committer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sync/semaphore"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/api"
	"github.com/pluralsh/plural/internal/httpclient"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/gitsource"
	"github.com/pluralsh/plural/workspace/snapshot"
	"github.com/pluralsh/plural/workspace/unread"
	"github.com/pluralsh/plural/workspace/yamledit"
)

// Options are what a Committer works with.
type Options struct {
	// Repo is the address of the installation repo, and Branch the one that commits go to.
	Repo, Branch string
	// Edits let the hub commit; nil: it never writes to the installation repo.
	Edits *Edits
	// Keys are the public keys by which commits of people are believed; none: all are.
	Keys [][]byte
	// Dir is a folder for clones, which is emptied.
	Dir string
	// Waiting are the tokens of a service's deletions that wait for somebody's agreement.
	Waiting func(service string) map[string]bool
	// Judge says for what the hub would refuse a commit. Unread are those of a service's fields that nothing of it reads.
	Judge  func(ctx context.Context, next *snapshot.Snapshot) []v1.Problem
	Unread func(next *snapshot.Snapshot, service string) []unread.Name
	// Committed is called when there is a new commit.
	Committed func()
	Log       *slog.Logger
}

// Edits let the hub commit what people ask for by way of its API.
type Edits struct {
	// Credentials may push to the branch. They are no others than these: the hub reads with its own.
	Credentials httpclient.Credentials
	// SigningKey is a private SSH key with which the hub signs its commits. Beside Options.Keys it is what lets the hub commit.
	SigningKey []byte
}

// Committer commits to the installation repo, one change at a time.
type Committer struct {
	Options
	signatures signatures
	// cloning is held by whoever works on a clone.
	cloning *semaphore.Weighted
	// host has the repository's pull requests; nil where they are nowhere that is known here.
	host *github
}

// New makes a Committer. A key that cannot be read is an error.
func New(o Options) (*Committer, error) {
	var signingKey []byte
	if o.Edits != nil {
		signingKey = o.Edits.SigningKey
	}
	s, err := parseSignatures(o.Keys, signingKey)
	if err != nil {
		return nil, err
	}
	host, err := githubOf(o.Repo)
	if err != nil {
		host = nil
	}
	return &Committer{Options: o, signatures: s, cloning: semaphore.NewWeighted(1), host: host}, nil
}

// HistoryDepth is how many commits are looked at: an upgrade, and what the hub commits, is judged while it is young.
const HistoryDepth = 100

// Refusal says why the hub does not commit, if it does not, with what to do instead.
func (c *Committer) Refusal(fix string) error {
	switch {
	case c.Edits == nil:
		return &api.Refused{Status: http.StatusForbidden, Message: "this hub only reads the installation repo", Fix: fix}
	case len(c.Keys) > 0 && len(c.Edits.SigningKey) == 0: // its own commit would be refused, and with it all those behind it
		return &api.Refused{
			Status: http.StatusForbidden, Message: "this hub believes signed commits alone, and has no key to sign with", Fix: fix,
		}
	}
	return nil
}

// maxMessage bounds what people write into a commit, in bytes.
const maxMessage = 4 << 10

// trailer is a line by which the hub knows its own commits, or by which others say who stands for one.
var trailer = regexp.MustCompile(`(?i)^\s*(plural-[a-z-]*|signed-off-by|co-authored-by)\s*:`)

// plainMessage is the message of a commit, as somebody wrote it. Whoever shows it later need not be careful.
func plainMessage(text string) (string, error) {
	odd := func(r rune) bool {
		return r != '\n' && r != '\t' && !unicode.IsPrint(r) || r == utf8.RuneError // marks that turn the direction of text are not printed
	}
	text = strings.TrimSpace(text)
	if text == "" || len(text) > maxMessage || strings.ContainsFunc(text, odd) {
		return "", &api.Refused{
			Status: http.StatusBadRequest, Message: "the message is no plain text", Fix: fmt.Sprintf("write at most %d bytes, without control characters", maxMessage),
		}
	}
	for line := range strings.Lines(text) {
		if trailer.MatchString(line) {
			return "", &api.Refused{
				Status:  http.StatusBadRequest,
				Message: fmt.Sprintf("the message has the line %q, which programs believe", strings.TrimSpace(line)),
				Fix:     "leave out lines that begin with Plural-...:, Signed-off-by: and Co-authored-by:",
			}
		}
	}
	return text, nil
}

// editTime bounds one commit, with the time that it waits for others.
const editTime = 90 * time.Second

// Author is who a commit is made for. In git brackets end a name and an address: those of a provider's subject are written otherwise.
func Author(name string) workspace.Author {
	name = strings.NewReplacer("%", "%25", "<", "%3C", ">", "%3E").Replace(name)
	return workspace.Author{Name: name, Email: strings.ReplaceAll(name, "/", "-") + "@plural"}
}

// Commit makes a commit in the installation repo, and has the hub look at it. It returns the tip when the plan changes nothing.
func (c *Committer) Commit(ctx context.Context, p workspace.Proposal, plan func(*workspace.Tip) (*workspace.Plan, error)) (commit string, err error) {
	believes := c.signatures.people != nil
	if believes {
		p.Depth = max(p.Depth, HistoryDepth)
	}
	err = c.Clone(ctx, func(ctx context.Context, remote *workspace.Remote) error {
		commit, err = remote.Propose(ctx, p, func(tip *workspace.Tip) (*workspace.Plan, error) {
			if believes {
				if err := c.signatures.tip(ctx, tip); err != nil {
					c.Log.Warn("the hub does not commit on what it does not believe", "commit", tip.ID, "error", err)
					return nil, unbelieved(err)
				}
			}
			return plan(tip)
		})
		return err
	})
	if err == nil {
		c.Committed()
	}
	return commit, err
}

// unbelieved is what people are told of a tip that the hub does not commit on. What could not be judged now is no verdict on it.
func unbelieved(err error) error {
	if errors.Is(err, gitsource.ErrUndecided) {
		return err
	}
	return &yamledit.Error{
		Message: "the newest commit of the installation repo is signed by nobody whom the hub believes",
		Fix:     "sign it, or take it back: plural status",
	}
}

// Clone works on the installation repo where it lies. There is one at a time: each needs a clone, and a hub that was killed has
// left its own behind.
func (c *Committer) Clone(ctx context.Context, work func(context.Context, *workspace.Remote) error) error {
	ctx, cancel := context.WithTimeout(ctx, editTime)
	defer cancel()
	if err := c.cloning.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("wait for other changes: %w", err)
	}
	defer c.cloning.Release(1)
	if err := errors.Join(os.RemoveAll(c.Dir), os.MkdirAll(c.Dir, 0o700)); err != nil {
		return fmt.Errorf("make room for a clone: %w", err)
	}
	return work(ctx, c.remote())
}

// Look shows the branch as it is now, and changes nothing. The context that it gives ends with the time that it has.
func (c *Committer) Look(ctx context.Context, depth int, look func(context.Context, *workspace.Tip) error) error {
	return c.Clone(ctx, func(ctx context.Context, remote *workspace.Remote) error {
		return remote.Look(ctx, depth, func(tip *workspace.Tip) error { return look(ctx, tip) })
	})
}

// remote is the installation repo, with the credentials for writing to it and no others.
func (c *Committer) remote() *workspace.Remote {
	address := gitsource.Expand(c.Repo)
	if u, err := url.Parse(address); err == nil && u.User != nil && u.Scheme != "ssh" {
		u.User = nil
		address = u.String()
	}
	remote := &workspace.Remote{URL: address, Branch: c.Branch, Credentials: c.Edits.Credentials, Dir: c.Dir}
	if c.signatures.own != nil {
		remote.Sign = c.signatures.own.Git
	}
	return remote
}
