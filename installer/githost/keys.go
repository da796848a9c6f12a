package githost

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

// Key is an SSH key. Whatever prints it prints its public half only.
type Key struct {
	// Private is PEM, as ssh reads it. Public is a line of authorized_keys, without a comment.
	Private []byte
	Public  string
}

// String is the public half.
func (k Key) String() string { return k.Public }

// GoString is the public half.
func (k Key) GoString() string { return k.Public }

// NewKey makes an Ed25519 key. The comment stands in its private half, so that whoever finds it knows what it is for.
func NewKey(comment string) (*Key, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(private, comment)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	authorized, err := ssh.NewPublicKey(public)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return &Key{Private: pem.EncodeToMemory(block), Public: strings.TrimSpace(string(ssh.MarshalAuthorizedKey(authorized)))}, nil
}

// DeployKey lets a key read the repository, and nothing else. A key that can write already is an error.
func (c *Client) DeployKey(ctx context.Context, title, public string) (added bool, err error) {
	const doing = "add the deploy key"
	known, _, _, rest, err := ssh.ParseAuthorizedKey([]byte(public))
	if err != nil || len(rest) > 0 {
		return false, c.fault(doing, "what is given is no public key", "give one line, as in authorized_keys")
	}
	bare := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(known)))
	type deployKey struct {
		Key      string `json:"key"`
		Title    string `json:"title"`
		ReadOnly bool   `json:"read_only"`
	}
	keys, err := listed[deployKey](ctx, c, "list the deploy keys", c.repository.path("/keys"))
	if err != nil {
		return false, err
	}
	at := slices.IndexFunc(keys, func(k deployKey) bool { return sameKey(k.Key, bare) })
	switch {
	case at >= 0 && !keys[at].ReadOnly:
		return false, c.fault(doing, fmt.Sprintf("it is there as %q, and may write", keys[at].Title),
			"delete it at https://"+c.repository.String()+"/settings/keys, and run this again")
	case at >= 0:
		return false, nil
	}
	err = c.send(ctx, doing, http.MethodPost, c.repository.path("/keys"), deployKey{bare, title, true}, nil)
	if taken(err) {
		e := c.fault(doing, "the key is in use elsewhere: GitHub takes one for one repository only", "make another key")
		e.Status, e.Err = status(err), err
		return false, e
	}
	return err == nil, err
}

func sameKey(a, b string) bool {
	x, y := strings.Fields(a), strings.Fields(b)
	return len(x) >= 2 && len(y) >= 2 && x[0] == y[0] && x[1] == y[1]
}

// KnownHosts are the host's own keys, in the form of known_hosts, as its API tells them over TLS; empty when it does not.
func (c *Client) KnownHosts(ctx context.Context) ([]byte, error) {
	var meta struct {
		Keys []string `json:"ssh_keys"`
	}
	err := c.get(ctx, "ask for the host's keys", "meta", &meta)
	if absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var lines []byte
	for _, line := range meta.Keys {
		if key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line)); err == nil {
			lines = append(lines, c.repository.Host+" "+string(ssh.MarshalAuthorizedKey(key))...)
		}
	}
	return lines, nil
}

// Hook is a webhook that tells of pushes.
type Hook struct {
	URL, Secret string
	// Renew gives a hook that is there the secret: GitHub does not tell whether it has another one.
	Renew bool
}

// Webhook lets the repository tell a hub of pushes. Of a hook that is there, with the same URL, only what is not as it should be
// is changed.
func (c *Client) Webhook(ctx context.Context, h Hook) (changed bool, err error) {
	if h.Secret == "" {
		return false, c.fault("add the webhook", "it has no secret: a hub takes no hint that is not signed", "give it one")
	}
	type config struct {
		URL         string `json:"url"`
		ContentType string `json:"content_type"`
		Secret      string `json:"secret,omitempty"`
		InsecureSSL string `json:"insecure_ssl"`
	}
	type hook struct {
		ID     int64    `json:"id,omitempty"`
		Name   string   `json:"name"`
		Active bool     `json:"active"`
		Events []string `json:"events"`
		Config config   `json:"config"`
	}
	hooks, err := listed[hook](ctx, c, "list the webhooks", c.repository.path("/hooks"))
	if err != nil {
		return false, err
	}
	wanted := hook{Name: "web", Active: true, Events: []string{"push"}, Config: config{h.URL, "json", h.Secret, "0"}}
	at := slices.IndexFunc(hooks, func(k hook) bool { return k.Config.URL == h.URL })
	if at < 0 {
		err = c.send(ctx, "add the webhook", http.MethodPost, c.repository.path("/hooks"), wanted, nil)
		return err == nil, err
	}
	found := hooks[at]
	right := found.Active && found.Config.ContentType == "json" && found.Config.InsecureSSL == "0" &&
		slices.Contains(found.Events, "push")
	if right && !h.Renew {
		return false, nil
	}
	err = c.send(ctx, "change the webhook", http.MethodPatch, c.repository.path(fmt.Sprintf("/hooks/%d", found.ID)), wanted, nil)
	return err == nil, err
}
