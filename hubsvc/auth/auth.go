// Package auth owns the answer to "who is asking?".
//
// It knows no routes. An agent is the cluster whose key signed its token; a person is whoever holds the hub's token.
// What is asked for is not looked at here: the rooms behind decide what a cluster or a person may have.
package auth

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pluralsh/plural/api/token"
)

// ErrUnauthenticated says that a request carries no credential that is good here.
var ErrUnauthenticated = errors.New("not logged in")

// Agents tells clusters from their requests.
type Agents struct {
	// HubURL is what tokens must be meant for; it may change with the workspace.
	HubURL func() string
	// Key is the public key of a cluster's agent as the desired state has it now, or nil.
	Key func(cluster string) ed25519.PublicKey
	Now func() time.Time
}

// Cluster returns the cluster whose agent sent r.
func (a *Agents) Cluster(r *http.Request) (string, error) {
	raw, ok := bearer(r)
	if !ok {
		return "", ErrUnauthenticated
	}
	cluster, err := token.Verify(raw, a.HubURL(), a.Now(), a.Key)
	if err != nil {
		return "", ErrUnauthenticated
	}
	return cluster, nil
}

// People knows the token that opens the hub to people's tools; only its hash is kept in memory.
type People struct{ hash [sha256.Size]byte }

// NewPeople reads the token from the file, which is made with a fresh token, readable by its owner alone, when it is not there.
func NewPeople(file string) (*People, error) {
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		raw, err = writeToken(file)
	}
	if err != nil {
		return nil, fmt.Errorf("read hub token: %w", err)
	}
	secret := strings.TrimSpace(string(raw))
	if len(secret) < 20 {
		return nil, fmt.Errorf("hub token in %s is shorter than 20 characters: delete the file, and the hub makes a new one", file)
	}
	return &People{hash: sha256.Sum256([]byte(secret))}, nil
}

func writeToken(file string) ([]byte, error) {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	encoded := []byte(base64.RawURLEncoding.EncodeToString(secret) + "\n")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(file, encoded, 0o600); err != nil {
		return nil, err
	}
	return encoded, nil
}

// Check returns ErrUnauthenticated unless r carries the token.
func (p *People) Check(r *http.Request) error {
	raw, ok := bearer(r)
	sum := sha256.Sum256([]byte(raw))
	if !ok || subtle.ConstantTimeCompare(sum[:], p.hash[:]) != 1 {
		return ErrUnauthenticated
	}
	return nil
}

func bearer(r *http.Request) (string, bool) {
	scheme, raw, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	return raw, ok && strings.EqualFold(scheme, "Bearer") && len(raw) <= token.MaxBytes
}
