package change

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"strings"
	"unicode"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/installer/githost"
	"github.com/pluralsh/plural/workspace"
)

// propose pushes the change as a branch of its own, and has the host of the repository ask for it to be merged, where that can be
// done from here. The branch is there without it.
func (m *CommitOptions) propose(ctx context.Context, repo *workspace.Repo, files map[string][]byte, message string) (Outcome, error) {
	p, err := repo.Propose(ctx, m.On, message, files, func(commit string) string {
		return "plural/" + slug(message) + "-" + cmdutil.ShortCommit(commit)
	})
	if err != nil || p == nil {
		return Outcome{}, err
	}
	made := Outcome{Written: true, Branch: p.Branch}
	m.Factory.Say("pushed as branch %s, %s", p.Branch, cmdutil.ShortCommit(p.Commit))
	title, body, _ := strings.Cut(strings.TrimSpace(message), "\n")
	pull := githost.Pull{Title: title, Body: strings.TrimSpace(body), Branch: p.Branch, Base: p.Base}
	if made.PullRequest, err = m.open(ctx, p.Remote, pull); err != nil {
		return made, err
	}
	if made.PullRequest != "" {
		m.Factory.Say("opened %s", ui.Clean(made.PullRequest))
	}
	return made, nil
}

// open opens a pull request; where nothing can, it says how a person does it.
func (m *CommitOptions) open(ctx context.Context, remote string, pull githost.Pull) (string, error) {
	repository, ok := githost.Of(remote)
	if !ok {
		if page := comparison(remote, pull); page != "" {
			m.Factory.Say("ask for it to be merged: %s", page)
		} else {
			m.Factory.Say("have it merged into %s", ui.Clean(pull.Base))
		}
		return "", nil
	}
	host, err := githost.Connect(repository, m.GitHub)
	if err == nil {
		var address string
		if address, err = host.Open(ctx, pull); err == nil {
			return address, nil
		}
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	var refused *githost.Error
	if !errors.As(err, &refused) {
		return "", err
	}
	m.Factory.Say("no pull request is opened for it: %s", ui.Clean(refused.Cause))
	m.Factory.Say("open it by hand: %s", ui.Clean(repository.Compare(pull)))
	return "", nil
}

// comparison is the page of other hosts on which a person asks for a merge; empty for those that are not known.
func comparison(remote string, pull githost.Pull) string {
	host, path, ok := strings.Cut(strings.TrimPrefix(remote, "git@"), ":")
	if u, err := url.Parse(remote); err == nil && u.Host != "" {
		host, path, ok = u.Hostname(), u.Path, true
	}
	path = strings.TrimSuffix(strings.Trim(path, "/"), ".git")
	query := url.Values{}
	switch {
	case !ok || path == "":
		return ""
	case host == "bitbucket.org":
		query.Set("source", pull.Branch)
		query.Set("dest", pull.Base)
		return "https://" + host + "/" + path + "/pull-requests/new?" + query.Encode()
	case strings.HasPrefix(host, "gitlab."):
		query.Set("merge_request[source_branch]", pull.Branch)
		query.Set("merge_request[target_branch]", pull.Base)
		return "https://" + host + "/" + path + "/-/merge_requests/new?" + query.Encode()
	}
	return ""
}

// slug is the beginning of a message as a part of a branch's name.
func slug(message string) string {
	const most = 40
	title, _, _ := strings.Cut(strings.TrimSpace(message), "\n")
	words := strings.FieldsFunc(strings.ToLower(title), func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	var out string
	for _, word := range words {
		if len(out)+1+len(word) > most {
			break
		}
		out = strings.TrimPrefix(out+"-"+word, "-")
	}
	return cmp.Or(out, "change")
}
