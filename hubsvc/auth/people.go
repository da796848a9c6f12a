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
	"slices"
	"strings"
	"time"

	"github.com/pluralsh/plural/api/token"
	"github.com/pluralsh/plural/internal/person"
	"github.com/pluralsh/plural/workspace/fleet"
)

// hubCredential is the person.Person.Credential of the hub's own token.
const hubCredential = "hub"

// operator is the name of whoever holds the hub's token; no user of the fleet has it.
const operator = fleet.ReservedUser

// People tells people from their requests. It knows the hub's own token, by its hash alone, and the fleet's users'. It is safe
// for concurrent use.
type People struct {
	hash  [sha256.Size]byte
	users func(hash string) (person.Person, bool)
	now   func() time.Time
	kube  kubeTokens
}

// Options are what People need. All must be set.
type Options struct {
	// File holds the hub's own token.
	File string
	// Users finds the user of a token by fleet.HashToken of it, as the desired state has it now: a token that it stops finding
	// is refused from then on.
	Users func(hash string) (person.Person, bool)
	// Keys sign the tokens for single clusters.
	Keys Keys
	Now  func() time.Time
}

// NewPeople reads the hub's token from the file, which is made with a fresh token, readable by its owner alone, when it is not
// there.
func NewPeople(o Options) (*People, error) {
	file := o.File
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
	return &People{hash: sha256.Sum256([]byte(secret)), users: o.Users, now: o.Now, kube: newKubeTokens(o.Keys, o.Now)}, nil
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

// Person is who sent r, by the hub's own token or a user's; ErrUnauthenticated for everybody else.
func (p *People) Person(r *http.Request) (person.Person, error) {
	raw, ok := bearer(r)
	if !ok {
		return person.Person{}, ErrUnauthenticated
	}
	if p.isHubs(raw) {
		return p.byCredential(hubCredential)
	}
	return p.byCredential(fleet.HashToken(raw))
}

// isHubs compares hashes, so that neither the time it takes nor a length says anything of the token.
func (p *People) isHubs(raw string) bool {
	sum := sha256.Sum256([]byte(raw))
	return subtle.ConstantTimeCompare(sum[:], p.hash[:]) == 1
}

// byCredential finds whose a credential is now. A hash is looked up as it is: how long that takes says nothing of a token.
func (p *People) byCredential(credential string) (person.Person, error) {
	if credential == hubCredential {
		return person.Person{Name: operator, Operator: true, Credential: hubCredential}, nil
	}
	found, ok := p.users(credential)
	if !ok || !found.Expires.IsZero() && !p.now().Before(found.Expires) {
		return person.Person{}, ErrUnauthenticated
	}
	found.Credential = credential
	return found, nil
}

// Current is what has become of somebody who was found before: the same with today's groups, or ErrUnauthenticated when the
// credential is good no longer.
func (p *People) Current(before person.Person) (person.Person, error) {
	now, err := p.byCredential(before.Credential)
	if err != nil || now.Name != before.Name {
		return person.Person{}, ErrUnauthenticated
	}
	return now, nil
}

// Users finds the users of a fleet by the hashes of their tokens.
func Users(f *fleet.Fleet) map[string]person.Person {
	users := map[string]person.Person{}
	for i := range f.Users {
		u := &f.Users[i]
		groups := slices.Sorted(slices.Values(u.Spec.Groups))
		for j := range u.Spec.Tokens {
			t := &u.Spec.Tokens[j]
			users[t.Hash] = person.Person{
				Name: u.Metadata.Name, Groups: slices.Compact(slices.Clone(groups)), Credential: t.Hash, Expires: t.Until(),
			}
		}
	}
	return users
}
