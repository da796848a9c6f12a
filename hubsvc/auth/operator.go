package auth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/pluralsh/plural/api/token"
	"github.com/pluralsh/plural/internal/principal"
	"github.com/pluralsh/plural/workspace/fleet"
)

const (
	// hubCredential begins the principal.Person.Credential of the hub's own token. Some of its hash follows, so that what began with
	// one token ends when there is another.
	hubCredential = "hub:"
	// lookAfter is how old what is known of the token's file may be.
	lookAfter = time.Second
	// remindEvery lies between two warnings about the same token.
	remindEvery = 24 * time.Hour
)

// renewFix is how there comes to be another token.
const renewFix = "make another with plural up, or with plural hub token FILE where the hub runs; the hub takes it up by itself"

// hubToken is the hub's own, without its text.
type hubToken struct {
	hash       [sha256.Size]byte
	credential string
	// expires is zero for a token that does not say.
	expires time.Time
}

// person is whoever shows the token.
func (t *hubToken) person(now time.Time) (principal.Person, error) {
	if !t.expires.IsZero() && !now.Before(t.expires) {
		return principal.Person{}, &principal.Rejected{
			Message: "the hub's own token has expired, on " + t.expires.UTC().Format(time.DateOnly), Fix: renewFix, Err: ErrUnauthenticated,
		}
	}
	return principal.Person{Name: operator, Operator: true, Credential: t.credential, Expires: t.expires}, nil
}

// warning is what somebody should do about the token; empty: nothing.
func (t *hubToken) warning(now time.Time) string {
	day := t.expires.UTC().Format(time.DateOnly)
	switch {
	case t.expires.IsZero():
		return "the hub's own token never expires: it is of an earlier release, or made by hand"
	case !now.Before(t.expires):
		return "the hub's own token has expired, on " + day
	case !now.Before(t.expires.Add(-fleet.OperatorRenewal)):
		return "the hub's own token expires on " + day
	}
	return ""
}

// tokenFile follows the file of the hub's own token.
type tokenFile struct {
	path     string
	now      func() time.Time
	replaced func()
	log      *slog.Logger

	mu sync.Mutex // guards what follows
	// token is what the file had when it was good last, looked when that was, and fault why it is not now.
	token  hubToken
	looked time.Time
	fault  string
}

// openToken reads the file, which is made when it is not there.
func openToken(o *Options) (*tokenFile, error) {
	f := &tokenFile{path: o.File, now: o.Now, replaced: o.Replaced, log: o.Log, looked: o.Now()}
	if f.replaced == nil {
		f.replaced = func() {}
	}
	var err error
	if f.token, err = readToken(f.path); errors.Is(err, fs.ErrNotExist) {
		if err = makeToken(f.path, f.now()); err == nil {
			f.token, err = readToken(f.path)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read hub token: %w", err)
	}
	return f, nil
}

// current is the token as the file has it now. A file that cannot be read, or is half written, changes nothing.
func (f *tokenFile) current() hubToken {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	if age := now.Sub(f.looked); age >= 0 && age < lookAfter { // a clock that was set back makes it negative
		return f.token
	}
	f.looked = now
	read, err := readToken(f.path)
	if err != nil {
		if fault := err.Error(); fault != f.fault {
			f.fault = fault
			f.log.Warn("the file of the hub's token cannot be used; the former token stays", "error", err)
		}
		return f.token
	}
	if read.hash != f.token.hash {
		f.log.Info("the hub's own token was replaced", "expires", read.expires)
		f.replaced()
	}
	f.token, f.fault = read, ""
	return f.token
}

// unusable is what is wrong with the file; empty: nothing.
func (f *tokenFile) unusable() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fault
}

func readToken(file string) (hubToken, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return hubToken{}, err
	}
	secret := strings.TrimSpace(string(raw))
	if len(secret) < 20 || len(secret) > token.MaxBytes {
		return hubToken{}, fmt.Errorf("hub token in %s is not 20 to %d characters long: write another with plural hub token %[1]s",
			file, token.MaxBytes)
	}
	t := hubToken{hash: sha256.Sum256([]byte(secret))}
	t.credential = hubCredential + hex.EncodeToString(t.hash[:4])
	t.expires, _ = fleet.OperatorExpiry(secret)
	return t, nil
}

// makeToken makes a token, and the file at once: temporary name, sync, link. Of several replicas that start together the first
// one's counts.
func makeToken(file string, now time.Time) (err error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(file), ".token-") // readable by its owner alone
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(temp.Name())) }()
	_, err = temp.WriteString(fleet.NewOperatorToken(now.Add(fleet.OperatorLifetime)) + "\n")
	if err := errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return err
	}
	if err := os.Link(temp.Name(), file); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// Run follows the file of the hub's own token, and warns of one that should be renewed, until ctx ends.
func (p *People) Run(ctx context.Context) error {
	ticker := time.NewTicker(time.Minute)
	defer ticker.Stop()
	var said string
	var at time.Time
	for {
		warning, now := p.TokenWarning(), p.now()
		if warning != "" && (warning != said || now.Sub(at) >= remindEvery) {
			p.log.Warn("the hub's own token is to be renewed", "why", warning, "fix", renewFix)
			at = now
		}
		said = warning
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// TokenWarning is what somebody should do about the hub's own token; empty: nothing.
func (p *People) TokenWarning() string {
	t := p.hubs.current()
	if fault := p.hubs.unusable(); fault != "" {
		return "the file of the hub's own token cannot be used, and the former token stays: " + fault
	}
	return t.warning(p.now())
}

// TokenExpiry is when the hub's own token expires; zero: it does not say.
func (p *People) TokenExpiry() time.Time { return p.hubs.current().expires }
