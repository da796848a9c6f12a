package apiproxy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/adrg/xdg"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/internal/replace"
)

const (
	// margin is how long before its end a token is not shown any more: a request takes its time.
	margin = time.Minute
	// maxToken bounds a kept token's file, in bytes.
	maxToken = 64 << 10
	// forgotten is the age at which any kept token is useless, and its file goes.
	forgotten = 24 * time.Hour
)

// kept is a token on disk.
type kept struct {
	v1.KubeToken
	// Asker is the process that it was given to last, 0 for none.
	Asker int `json:"asker,omitempty"`
}

// Tokens are those for one cluster, one after the other. They are safe for concurrent use.
type Tokens struct {
	hub     *client.Client
	cluster string
	dir     string
	now     func() time.Time

	mu sync.Mutex
	// current is the token that was used last.
	current v1.KubeToken
}

// TokenDir is where tokens are kept.
func TokenDir() string { return filepath.Join(xdg.CacheHome, "plural", "tokens") }

// NewTokens asks hub for tokens for a cluster, and keeps them in the folder dir.
func NewTokens(hub *client.Client, cluster, dir string, now func() time.Time) *Tokens {
	return &Tokens{hub: hub, cluster: cluster, dir: dir, now: now}
}

// Token is one that is good for a while yet.
func (t *Tokens) Token(ctx context.Context) (v1.KubeToken, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.good(t.current) {
		return t.current, nil
	}
	if old, err := t.read(); err == nil && t.good(old.KubeToken) {
		t.current = old.KubeToken
		return t.current, nil
	}
	return t.fresh(ctx, 0)
}

// TokenFor is one for another process. A process that asks again, while what it was given is still good, was refused with that:
// it gets another.
func (t *Tokens) TokenFor(ctx context.Context, asker int) (v1.KubeToken, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old, err := t.read(); err == nil && t.good(old.KubeToken) && old.Asker != asker {
		old.Asker = asker
		_ = t.keep(old) // then that process is believed once more
		return old.KubeToken, nil
	}
	return t.fresh(ctx, asker)
}

// fresh asks the hub.
func (t *Tokens) fresh(ctx context.Context, asker int) (v1.KubeToken, error) {
	token, err := t.hub.KubeToken(ctx, t.cluster)
	if err != nil {
		return v1.KubeToken{}, err
	}
	t.current = *token
	_ = t.keep(kept{*token, asker}) // without a folder to keep it in, the next process asks again
	return *token, nil
}

// Forget says that the hub refused a token.
func (t *Tokens) Forget(refused v1.KubeToken) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current.Token == refused.Token {
		t.current = v1.KubeToken{}
	}
	if old, err := t.read(); err == nil && old.Token == refused.Token {
		_ = os.Remove(filepath.Join(t.dir, t.file()))
	}
}

func (t *Tokens) good(token v1.KubeToken) bool {
	return token.Token != "" && token.Expires.After(t.now().Add(margin))
}

// file names hub, person and cluster, and tells none of them.
func (t *Tokens) file() string {
	sum := sha256.Sum256([]byte(t.hub.Fingerprint() + "\x00" + t.cluster))
	return hex.EncodeToString(sum[:]) + ".json"
}

func (t *Tokens) read() (token kept, err error) {
	file, err := os.Open(filepath.Join(t.dir, t.file()))
	if err != nil {
		return token, err
	}
	defer file.Close()
	err = json.NewDecoder(io.LimitReader(file, maxToken)).Decode(&token)
	return token, err
}

func (t *Tokens) keep(token kept) error {
	text, err := json.Marshal(token)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(t.dir, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(t.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	t.sweep(root)
	return replace.File(root, t.file(), text, 0o600)
}

// sweep removes what was kept for nothing.
func (t *Tokens) sweep(root *os.Root) {
	files, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return
	}
	for _, file := range files {
		if info, err := file.Info(); err == nil && info.Mode().IsRegular() && t.now().Sub(info.ModTime()) > forgotten {
			_ = root.Remove(file.Name())
		}
	}
}
