package workspace

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/plumbing/transport/http"

	"github.com/pluralsh/plural/internal/gitexec"
)

// admitted does something with a remote of a person's clone. Where the remote wants to know who asks, it is done once more with what
// the person's own git would say: what its configuration adds to requests, else what its credential helpers know, which hear what
// came of it.
func (h *head) admitted(ctx context.Context, remote string, do func(transport.AuthMethod) error) error {
	err := do(nil)
	if !errors.Is(err, transport.ErrAuthenticationRequired) {
		return err
	}
	address, known := h.address(remote)
	if !known {
		return err
	}
	work, failed := h.git.Worktree()
	if failed != nil {
		return err
	}
	dir := work.Filesystem.Root()
	if auth := configured(ctx, dir, address); auth != nil {
		return do(auth)
	}
	filled, asked := credential(ctx, dir, "fill", []byte("url="+address+"\n\n"))
	if asked != nil {
		return fmt.Errorf("%w: git's credential helpers have no answer for %s: %w", err, host(address), asked)
	}
	again := do(basic(filled))
	outcome := "approve"
	if errors.Is(again, transport.ErrAuthenticationRequired) {
		outcome = "reject"
	}
	_, _ = credential(ctx, dir, outcome, filled) // a helper that keeps nothing is asked again next time
	return again
}

// address is the URL of a remote that is spoken to by HTTP.
func (h *head) address(remote string) (string, bool) {
	r, err := h.git.Remote(remote)
	if err != nil || len(r.Config().URLs) == 0 {
		return "", false
	}
	address := r.Config().URLs[0]
	u, err := url.Parse(address)
	return address, err == nil && (u.Scheme == "https" || u.Scheme == "http") && !strings.ContainsAny(address, "\n\x00")
}

func host(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "the remote"
	}
	return u.Host
}

// configured is what git's configuration adds to requests for an address, to say who asks: a CI leaves it in the clone that it
// makes. Nil for nothing.
func configured(ctx context.Context, dir, address string) transport.AuthMethod {
	out, err := gitexec.Call{Dir: dir, Args: []string{"config", "--get-urlmatch", "http.extraheader", address}}.Run(ctx)
	if err != nil { // there is none
		return nil
	}
	name, value, _ := strings.Cut(strings.TrimSpace(string(out)), ":")
	scheme, token, _ := strings.Cut(strings.TrimSpace(value), " ")
	switch {
	case !strings.EqualFold(name, "authorization"):
		return nil
	case strings.EqualFold(scheme, "bearer"):
		return &http.TokenAuth{Token: token}
	}
	both, err := base64.StdEncoding.DecodeString(token)
	if err != nil {
		return nil
	}
	auth := &http.BasicAuth{}
	auth.Username, auth.Password, _ = strings.Cut(string(both), ":")
	return auth
}

// credential runs git credential in the clone's root, whichever of its folders somebody is in. What it asks and answers goes by
// pipes, so no other process of the machine sees it; nobody is asked at the terminal, which may be drawn on.
func credential(ctx context.Context, dir, verb string, input []byte) ([]byte, error) {
	out, err := gitexec.Call{
		Dir: dir, Args: []string{"credential", verb}, Env: []string{"GIT_TERMINAL_PROMPT=0"}, Input: bytes.NewReader(input),
	}.Run(ctx)
	var failed *gitexec.Error
	if errors.As(err, &failed) && failed.Stderr != "" {
		said, _, _ := strings.Cut(failed.Stderr, "\n")
		return nil, errors.New(said)
	}
	return out, err
}

// basic is what git's credential helpers answered, as HTTP says it.
func basic(filled []byte) *http.BasicAuth {
	auth := &http.BasicAuth{}
	for lines := bufio.NewScanner(bytes.NewReader(filled)); lines.Scan(); {
		switch name, value, _ := strings.Cut(lines.Text(), "="); name {
		case "username":
			auth.Username = value
		case "password":
			auth.Password = value
		}
	}
	return auth
}
