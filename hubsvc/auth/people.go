package auth

import (
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

	"github.com/pluralsh/plural/api/token"
)

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
	if len(secret) < 20 || len(secret) > token.MaxBytes {
		return nil, fmt.Errorf("hub token in %s is not 20 to %d characters long: delete the file, and the hub makes a new one", file, token.MaxBytes)
	}
	return &People{hash: sha256.Sum256([]byte(secret))}, nil
}

// writeToken makes a token, and the file at once: temporary name, sync, link. Of several replicas that start together the
// first one's counts.
func writeToken(file string) (_ []byte, err error) {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, err
	}
	temp, err := os.CreateTemp(filepath.Dir(file), ".token-") // readable by its owner alone
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.Remove(temp.Name())) }()
	_, err = temp.WriteString(base64.RawURLEncoding.EncodeToString(secret) + "\n")
	if err := errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return nil, err
	}
	if err := os.Link(temp.Name(), file); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return os.ReadFile(file)
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
