// Package githost owns what an installation repo needs of GitHub: keys, webhooks, pull requests.
//
// It refuses to know other git servers, of which nothing is needed: whatever git can push to, and a hub can fetch from, holds a
// fleet. It keeps nothing; private keys and secrets are its callers'.
//
// A Repository names its host: github.com, a tenant's on ghe.com, or a server that gh is logged in to. Connect takes the token
// that gh has for that very host, and no other host is ever shown it. Each verb first looks at what is there, makes what is
// missing, and can be called again.
package githost

import (
	"context"
	"net/http"
	"net/url"
	"strings"
)

// Repository is one on a GitHub.
type Repository struct{ Host, Owner, Name string }

// String is HOST/OWNER/NAME.
func (r Repository) String() string { return r.Host + "/" + r.Owner + "/" + r.Name }

// SSH is the address by which git reaches it with a key.
func (r Repository) SSH() string { return "git@" + r.Host + ":" + r.Owner + "/" + r.Name + ".git" }

// HTTPS is the address by which git reaches it with a token.
func (r Repository) HTTPS() string {
	return "https://" + r.Host + "/" + r.Owner + "/" + r.Name + ".git"
}

// path is the repository's in the REST API, with a rest.
func (r Repository) path(rest string) string {
	return "repos/" + url.PathEscape(r.Owner) + "/" + url.PathEscape(r.Name) + rest
}

// New says how a repository is made that is not there yet.
type New struct {
	Public      bool
	Description string
}

// Create makes the repository, unless it is there. One that is there must be one that the person administers, as keys and hooks
// need it.
func (c *Client) Create(ctx context.Context, n New) (created bool, err error) {
	const doing = "create the repository"
	exists, err := c.exists(ctx)
	if err != nil || exists {
		return false, err
	}
	var me struct {
		Login string `json:"login"`
	}
	if err := c.get(ctx, doing, "user", &me); err != nil {
		return false, err
	}
	path := "user/repos"
	if !strings.EqualFold(me.Login, c.repository.Owner) {
		path = "orgs/" + url.PathEscape(c.repository.Owner) + "/repos"
	}
	wanted := map[string]any{"name": c.repository.Name, "private": !n.Public, "description": n.Description}
	err = c.send(ctx, doing, http.MethodPost, path, wanted, nil)
	if taken(err) { // by somebody else a moment ago, or it is one that the token does not show
		if exists, again := c.exists(ctx); again != nil || exists {
			return false, again
		}
	}
	return err == nil, err
}

// exists says whether the repository is there. The error is an *Error when the person does not administer it.
func (c *Client) exists(ctx context.Context) (bool, error) {
	const doing = "look up the repository"
	var found struct {
		FullName    string `json:"full_name"`
		Archived    bool   `json:"archived"`
		Permissions struct {
			Admin bool `json:"admin"`
		} `json:"permissions"`
	}
	err := c.get(ctx, doing, c.repository.path(""), &found)
	switch {
	case absent(err):
		return false, nil
	case err != nil:
		return false, err
	case found.Archived:
		return true, c.fault(doing, "it is archived: nobody can push to it", "unarchive it in its settings, or take another one")
	case !found.Permissions.Admin:
		return true, c.fault(doing, "your token does not administer it, which deploy keys and webhooks need",
			"ask an owner for the role Admin, or for a token of somebody who has it")
	}
	return true, nil
}

// listed is all items of a list in the REST API.
func listed[T any](ctx context.Context, c *Client, doing, path string) ([]T, error) {
	const most, page = 2000, 100
	var all []T
	for number := 1; len(all) < most; number++ {
		var some []T
		if err := c.get(ctx, doing, paged(path, page, number), &some); err != nil {
			return nil, err
		}
		all = append(all, some...)
		if len(some) < page {
			break
		}
	}
	return all, nil
}
