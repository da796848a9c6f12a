package auth

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/pluralsh/plural/internal/principal"
	"github.com/pluralsh/plural/workspace/fleet"
)

// operator is the name of whoever holds the hub's token; no user of the fleet has it.
const operator = fleet.ReservedUser

// People tells people from their requests. It knows the hub's own token, by its hash alone, and the fleet's users'. It is safe
// for concurrent use.
type People struct {
	hubs  *tokenFile
	log   *slog.Logger
	users func(hash string) (principal.Person, bool)
	now   func() time.Time
	kube  kubeTokens
}

// Options are what People need. All must be set.
type Options struct {
	// File holds the hub's own token. It may change at any time.
	File string
	// Users finds the user of a token by fleet.HashToken of it, as the desired state has it now: a token that it stops finding
	// is refused from then on.
	Users func(hash string) (principal.Person, bool)
	// Keys sign the tokens for single clusters.
	Keys Keys
	Now  func() time.Time
	// Replaced is called after the hub's own token has been replaced by another one; nil is not.
	Replaced func()
	Log      *slog.Logger
}

// NewPeople reads the hub's token from the file, which is made with a fresh token, readable by its owner alone, when it is not
// there.
func NewPeople(o Options) (*People, error) {
	hubs, err := openToken(&o)
	if err != nil {
		return nil, err
	}
	return &People{hubs: hubs, log: o.Log, users: o.Users, now: o.Now, kube: newKubeTokens(o.Keys, o.Now)}, nil
}

// Person is who sent r, by the hub's own token or a user's; ErrUnauthenticated for everybody else.
func (p *People) Person(r *http.Request) (principal.Person, error) {
	raw, ok := bearer(r)
	if !ok {
		return principal.Person{}, ErrUnauthenticated
	}
	// Hashes are compared, so that neither the time it takes nor a length says anything of the token.
	hubs, sum := p.hubs.current(), sha256.Sum256([]byte(raw))
	if subtle.ConstantTimeCompare(sum[:], hubs.hash[:]) == 1 {
		return hubs.person(p.now())
	}
	return p.byCredential(fleet.HashToken(raw))
}

// unknownFix is what to do about a token that is nobody's here.
const unknownFix = "see that it is this hub's and was not deleted (plural auth token list), then plural auth login with one that is good; " +
	"where PLURAL_TOKEN or PLURAL_TOKEN_FILE is set, that one counts and is to be replaced"

// byCredential finds whose a credential is now. A hash is looked up as it is: how long that takes says nothing of a token.
func (p *People) byCredential(credential string) (principal.Person, error) {
	if strings.HasPrefix(credential, hubCredential) {
		if hubs := p.hubs.current(); hubs.credential == credential {
			return hubs.person(p.now())
		}
		return principal.Person{}, ErrUnauthenticated // of a token that was replaced
	}
	found, ok := p.users(credential)
	switch {
	case !ok:
		return principal.Person{}, &principal.Rejected{Message: "this hub knows no such token as was sent", Fix: unknownFix, Err: ErrUnauthenticated}
	case !found.Expires.IsZero() && !p.now().Before(found.Expires): // whoever holds it may know that it was one
		return principal.Person{}, &principal.Rejected{
			Message: fmt.Sprintf("the token of user %q expired on %s", found.Name, found.Expires.UTC().Format(time.DateOnly)),
			Fix:     "plural auth token create " + found.Name + ", by somebody who may push; then plural auth login", Err: ErrUnauthenticated,
		}
	}
	found.Credential = credential
	return found, nil
}

// Current is what has become of somebody who was found before: the same with today's groups, or ErrUnauthenticated when the
// credential is good no longer.
func (p *People) Current(before principal.Person) (principal.Person, error) {
	return p.still(before.Credential, before.Name)
}

// still finds whose a credential is now, if that is who it was.
func (p *People) still(credential, name string) (principal.Person, error) {
	now, err := p.byCredential(credential)
	if err == nil && now.Name != name {
		err = ErrUnauthenticated
	}
	if err != nil {
		return principal.Person{}, err
	}
	return now, nil
}

// Users finds the users of a fleet by the hashes of their tokens.
func Users(f *fleet.Fleet) map[string]principal.Person {
	users := map[string]principal.Person{}
	for i := range f.Users {
		u := &f.Users[i]
		groups := slices.Sorted(slices.Values(u.Spec.Groups))
		for j := range u.Spec.Tokens {
			t := &u.Spec.Tokens[j]
			users[t.Hash] = principal.Person{
				Name: u.Metadata.Name, Groups: slices.Compact(slices.Clone(groups)), Credential: t.Hash, Expires: t.Until(),
			}
		}
	}
	return users
}
