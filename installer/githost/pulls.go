package githost

import (
	"context"
	"net/http"
	"net/url"
	"strings"
)

// Of is the repository behind an address that git knows it by, when a host of GitHub's own has it: github.com, or a tenant's.
func Of(address string) (Repository, bool) {
	host, path, ok := strings.Cut(strings.TrimPrefix(address, "git@"), ":")
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		host, path, ok = u.Hostname(), u.Path, true
	}
	owner, name, two := strings.Cut(strings.TrimSuffix(strings.Trim(path, "/"), ".git"), "/")
	host = strings.ToLower(host)
	if !ok || !two || owner == "" || name == "" || strings.Contains(name, "/") || host != "github.com" && !strings.HasSuffix(host, ".ghe.com") {
		return Repository{}, false
	}
	return Repository{Host: host, Owner: owner, Name: name}, true
}

// Pull is a branch that somebody wants to have merged.
type Pull struct{ Title, Body, Branch, Base string }

// Open opens a pull request, and gives its address.
func (c *Client) Open(ctx context.Context, p Pull) (string, error) {
	wanted := map[string]any{"title": p.Title, "body": p.Body, "head": p.Branch, "base": p.Base}
	var made struct {
		URL string `json:"html_url"`
	}
	err := c.send(ctx, "open a pull request", http.MethodPost, c.repository.path("/pulls"), wanted, &made)
	return made.URL, err
}

// Compare is the page on which a person opens one by hand.
func (r Repository) Compare(p Pull) string {
	return "https://" + r.Host + "/" + url.PathEscape(r.Owner) + "/" + url.PathEscape(r.Name) + "/compare/" +
		url.PathEscape(p.Base) + "..." + strings.ReplaceAll(url.PathEscape(p.Branch), "%2F", "/") + "?expand=1"
}
