package cryptocmd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"time"

	"github.com/cli/go-gh/v2/pkg/api"
	"github.com/cli/go-gh/v2/pkg/auth"

	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/crypto/keys"
)

// githubTimeout is how long the answer about a user's keys may take.
const githubTimeout = 30 * time.Second

// anonymous is a token for go-gh, which makes no client without one. It never leaves the process.
const anonymous = "anonymous"

// github asks the GitHub that gh uses (GH_HOST decides which) for people's public keys.
type github struct {
	transport http.RoundTripper
}

// keys are the public SSH keys of a user that can be sealed for. Keys are public: gh's token goes along to its own host
// only, and where gh has none nothing does.
func (g github) keys(ctx context.Context, user string) ([]string, error) {
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]{0,38}$`).MatchString(user) {
		return nil, fmt.Errorf("%q cannot be a GitHub user", user)
	}
	client, err := g.client()
	if err != nil {
		return nil, fmt.Errorf("ask GitHub for the keys of %q: %w", user, err)
	}
	var list []struct {
		Key string `json:"key"`
	}
	if err := client.DoWithContext(ctx, http.MethodGet, "users/"+url.PathEscape(user)+"/keys?per_page=100", nil, &list); err != nil {
		return nil, githubFault(user, err)
	}
	var usable []string
	for _, entry := range list {
		if _, err := keys.ParseRecipient(entry.Key); err == nil {
			usable = append(usable, entry.Key)
		}
	}
	if len(usable) == 0 {
		return nil, &ui.Err{
			Msg:   fmt.Sprintf("GitHub knows no key of %q that can be sealed for", user),
			Cause: fmt.Sprintf("%s there, and none is ssh-ed25519, or ssh-rsa of at least 2048 bits", count(len(list), "key is", "keys are")),
			Fix:   "let them run plural crypto init, and give their public key", Doc: ui.DocWhoseKey,
		}
	}
	return usable, nil
}

func (g github) client() (*api.RESTClient, error) {
	host, _ := auth.DefaultHost()
	token, _ := auth.TokenForHost(host)
	transport := g.transport
	if transport == nil {
		transport = http.DefaultTransport
	}
	if token == "" {
		token, transport = anonymous, unauthorized{transport}
	}
	return api.NewRESTClient(api.ClientOptions{
		Host: host, AuthToken: token, Transport: transport, Timeout: githubTimeout, LogIgnoreEnv: true,
		// A user who was renamed is another user: whoever takes the old name must not be given what was meant for them.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	})
}

func githubFault(user string, err error) error {
	var answer *api.HTTPError
	if !errors.As(err, &answer) {
		return fmt.Errorf("ask GitHub for the keys of %q: %w", user, err)
	}
	told := &ui.Err{
		Msg: fmt.Sprintf("ask GitHub for the keys of %q", user), Cause: fmt.Sprintf("it answered %d", answer.StatusCode),
		Fix: "try again later, or give the public key itself", Doc: ui.DocWhoseKey, Err: err,
	}
	switch answer.StatusCode {
	case http.StatusNotFound:
		told.Cause, told.Fix = "there is no such user", "look up the name, or give the public key itself"
	case http.StatusMovedPermanently, http.StatusTemporaryRedirect:
		told.Cause, told.Fix = "the user has another name now", "look up who that is, and give the new name"
	case http.StatusForbidden, http.StatusTooManyRequests, http.StatusUnauthorized:
		told.Fix = "gh auth login"
	}
	return told
}

// unauthorized sends requests without credentials.
type unauthorized struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (u unauthorized) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Del("Authorization")
	return u.next.RoundTrip(r)
}
