package committer

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/pluralsh/plural/internal/httpclient"
	"github.com/pluralsh/plural/workspace/gitsource"
)

// PullRequest asks for a branch to be merged.
type PullRequest struct{ Branch, Title, Body string }

// Opens says whether the hub can open pull requests: the repository's host has some that are known here, and there is a token.
func (c *Committer) Opens() bool { return c.host != nil && c.forgeToken() != "" }

func (c *Committer) forgeToken() string {
	if c.Edits == nil {
		return ""
	}
	return cmp.Or(c.Edits.Credentials.Bearer, c.Edits.Credentials.Password)
}

// Open opens a pull request, and gives its address. Empty: the branch is there without one, as the log says.
func (c *Committer) Open(ctx context.Context, p PullRequest) string {
	if !c.Opens() {
		c.Log.Info("a branch waits to be merged; no pull request is opened for it", "branch", p.Branch)
		return ""
	}
	address, err := c.host.open(ctx, c.forgeToken(), pull{Title: p.Title, Head: p.Branch, Base: c.Branch, Body: p.Body})
	if err != nil {
		c.Log.Warn("a branch waits to be merged, and no pull request could be opened for it", "branch", p.Branch, "error", err)
	}
	return address
}

// github is a repository on GitHub, by its API.
type github struct{ api, owner, name string }

var errNoGitHub = errors.New("the repository is not on GitHub")

// githubOf is the repository of a git URL, when it is on github.com.
func githubOf(repo string) (*github, error) {
	u, err := url.Parse(gitsource.Expand(repo))
	if err != nil || !strings.EqualFold(u.Hostname(), "github.com") {
		return nil, errNoGitHub
	}
	owner, name, ok := strings.Cut(strings.TrimSuffix(strings.Trim(u.Path, "/"), ".git"), "/")
	if !ok || owner == "" || name == "" || strings.Contains(name, "/") {
		return nil, errNoGitHub
	}
	return &github{"https://api.github.com", owner, name}, nil
}

// pull is what a pull request is made of.
type pull struct {
	Title string `json:"title"`
	Head  string `json:"head"`
	Base  string `json:"base"`
	Body  string `json:"body"`
}

// Bounds of one request to GitHub.
const (
	githubTime   = 20 * time.Second
	githubAnswer = 1 << 20
)

// open opens a pull request, and gives its address. The token goes to the API's own host, and into no error.
func (g *github) open(ctx context.Context, token string, p pull) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, githubTime)
	defer cancel()
	body, err := json.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("encode pull request: %w", err)
	}
	address := g.api + "/repos/" + url.PathEscape(g.owner) + "/" + url.PathEscape(g.name) + "/pulls"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return "", fmt.Errorf("open pull request: %w", err)
	}
	request.Header.Set("Accept", "application/vnd.github+json")
	request.Header.Set("Content-Type", "application/json")
	credentials := httpclient.Credentials{Bearer: token}
	client, err := httpclient.Client(httpclient.Options{For: request.URL, Credentials: credentials, MaxBytes: githubAnswer})
	if err != nil {
		return "", err
	}
	defer client.CloseIdleConnections()
	response, err := client.Do(request)
	if err != nil {
		return "", fmt.Errorf("open pull request: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return "", fmt.Errorf("open pull request: %w", err)
	}
	var said struct {
		URL     string `json:"html_url"`
		Message string `json:"message"`
	}
	if err := json.Unmarshal(answer, &said); err != nil && response.StatusCode == http.StatusCreated {
		return "", fmt.Errorf("open pull request: read the answer: %w", err)
	}
	if response.StatusCode != http.StatusCreated {
		return "", fmt.Errorf("open pull request: GitHub answered %s: %.200q: may the credential open pull requests?",
			response.Status, said.Message)
	}
	return said.URL, nil
}
