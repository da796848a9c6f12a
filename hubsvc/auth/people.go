package auth

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/pluralsh/plural/hubsvc/oidc"
	"github.com/pluralsh/plural/internal/principal"
	"github.com/pluralsh/plural/workspace/fleet"
)

// operator is the name of whoever holds the hub's token; no user of the fleet has it.
const operator = fleet.ReservedUser

// People tells people from their requests. It knows the hub's own token, by its hash alone, and the fleet's users'. It is safe
// for concurrent use.
type People struct {
	hubs      *tokenFile
	log       *slog.Logger
	directory func() *Directory
	url       func() string
	verifier  *oidc.Verifier
	accounts  func(cluster string) (ServiceAccounts, bool)
	now       func() time.Time
	kube      kubeTokens
	sessions  sessions
}

// Options are what People need. All must be set.
type Options struct {
	// File holds the hub's own token. It may change at any time.
	File string
	// Directory is who the fleet knows as the desired state has it now: who is taken out of it is refused from then on.
	Directory func() *Directory
	// URL is the hub's own, which tokens of federations have to be made for; it may change with the workspace.
	URL func() string
	// Verifier verifies tokens from elsewhere.
	Verifier *oidc.Verifier
	// ServiceAccounts is what the agent of a cluster, which is the fleet's now, says of the tokens of its service accounts; false:
	// nothing.
	ServiceAccounts func(cluster string) (ServiceAccounts, bool)
	// Keys sign the tokens for single clusters, SessionKeys sessions.
	Keys, SessionKeys Keys
	Now               func() time.Time
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
	return &People{
		hubs: hubs, log: o.Log, directory: o.Directory, url: o.URL, verifier: o.Verifier, accounts: o.ServiceAccounts, now: o.Now,
		kube: newKubeTokens(o.Keys, o.Now), sessions: newSessions(o.SessionKeys, o.Now),
	}, nil
}

// Person is who sent r, by the hub's own token, a user's or a session of Exchange; ErrUnauthenticated for everybody else.
func (p *People) Person(r *http.Request) (principal.Person, error) {
	raw, ok := bearer(r, maxBearer)
	if !ok {
		return p.byCookie(r)
	}
	// Hashes are compared, so that neither the time it takes nor a length says anything of the token.
	hubs, sum := p.hubs.current(), sha256.Sum256([]byte(raw))
	if subtle.ConstantTimeCompare(sum[:], hubs.hash[:]) == 1 {
		return hubs.person(p.now())
	}
	who, err := p.byCredential(fleet.HashToken(raw))
	if err == nil || strings.Count(raw, ".") != 2 {
		return who, err
	}
	// It looks like a session; a user's token may, too, and one that is neither is told as what people have for longest.
	session, wrong := p.sessions.verify(r.Context(), raw)
	switch rejected := new(principal.Rejected); {
	case wrong == nil:
		return p.bySession(session)
	case errors.As(wrong, &rejected):
		return who, rejected
	}
	return who, err
}

// byCookie is who logged in to the page with the browser that sent r. What a browser sends by itself is not taken for the API of a
// cluster, where others decide what a page shows: see KubePerson.
func (p *People) byCookie(r *http.Request) (principal.Person, error) {
	cookie, err := r.Cookie(SessionCookie)
	if err != nil || r.Header.Get("Authorization") != "" || len(cookie.Value) > MaxSessionBytes {
		return principal.Person{}, ErrUnauthenticated
	}
	session, err := p.sessions.verify(r.Context(), cookie.Value)
	if rejected := new(principal.Rejected); errors.As(err, &rejected) {
		return principal.Person{}, rejected
	}
	if err != nil {
		return principal.Person{}, ErrUnauthenticated
	}
	return p.bySession(session)
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
	d := p.directory()
	if err := d.notYet(); err != nil {
		return principal.Person{}, err
	}
	found, ok := d.tokens[credential]
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
	return p.still(before.Credential, before.Session, before.Name)
}

// still finds whose a credential is now, if that is who it was.
func (p *People) still(credential string, session *principal.Session, name string) (now principal.Person, err error) {
	if session != nil {
		now, err = p.bySession(session)
	} else {
		now, err = p.byCredential(credential)
	}
	if err == nil && now.Name != name {
		err = ErrUnauthenticated
	}
	if err != nil {
		return principal.Person{}, err
	}
	return now, nil
}
