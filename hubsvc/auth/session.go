package auth

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/pluralsh/plural/internal/principal"
	"github.com/pluralsh/plural/workspace/fleet"
)

const (
	// sessionAudience tells sessions from tokens for clusters.
	sessionAudience = "session"
	// sessionCredential begins the principal.Person.Credential of a session; its ID follows.
	sessionCredential = "session:"
	// maxSession is the longest that a session is good for, whatever the fleet says, and pageSession one that Open makes.
	maxSession  = 24 * time.Hour
	pageSession = 12 * time.Hour
	// SessionCookie is the session of a browser. Its prefix has browsers take it from this host alone, and with TLS.
	SessionCookie = "__Host-plural"
	// MaxSessionBytes bounds a session as people carry it.
	MaxSessionBytes = 3500
)

// SessionValidity is how long after it was made a session may still be taken, on any replica.
const SessionValidity = maxSession + kubeLeeway

// sessionClaims say that the hub has let somebody in.
type sessionClaims struct {
	jwt.RegisteredClaims
	Session principal.Session `json:"ses"`
}

// sessions signs and verifies sessions.
type sessions struct {
	keys   Keys
	parser *jwt.Parser
}

func newSessions(keys Keys, now func() time.Time) sessions {
	return sessions{keys: keys, parser: jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithIssuer(kubeIssuer), jwt.WithAudience(sessionAudience), jwt.WithIssuedAt(),
		jwt.WithExpirationRequired(), jwt.WithTimeFunc(now), jwt.WithLeeway(kubeLeeway), jwt.WithStrictDecoding(),
	)}
}

// sign is a session as somebody carries it.
func (s *sessions) sign(ctx context.Context, session *principal.Session) (string, error) {
	id, key, err := s.keys.Current(ctx)
	if err != nil {
		return "", withoutKeys("sessions", err)
	}
	unsigned := jwt.NewWithClaims(jwt.SigningMethodHS256, sessionClaims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: kubeIssuer, Audience: jwt.ClaimStrings{sessionAudience},
			IssuedAt: jwt.NewNumericDate(time.Unix(session.Issued, 0)), ExpiresAt: jwt.NewNumericDate(time.Unix(session.Expires, 0)),
		},
		Session: *session,
	})
	unsigned.Header["kid"] = id
	signed, err := unsigned.SignedString(key)
	switch {
	case err != nil:
		return "", fmt.Errorf("sign a session: %w", err)
	case len(signed) > MaxSessionBytes:
		return "", &principal.Rejected{
			Message: fmt.Sprintf("the login does not fit: of its groups %d are named in access/, which makes it %d bytes, more than %d",
				len(session.Groups), len(signed), MaxSessionBytes),
			Fix: "bind roles to fewer, larger groups",
		}
	}
	return signed, nil
}

// verify is the session of a token, which says of itself nothing that is believed before its signature was checked.
func (s *sessions) verify(ctx context.Context, raw string) (*principal.Session, error) {
	claims := &sessionClaims{}
	_, err := s.parser.ParseWithClaims(raw, claims, signedBy(ctx, s.keys, "sessions"))
	session := &claims.Session
	switch {
	case errors.Is(err, jwt.ErrTokenExpired): // its signature was good
		return nil, ended(session)
	case err != nil:
		return nil, err
	case len(claims.Audience) != 1 || session.ID == "" || session.Expires-session.Issued > int64(maxSession/time.Second):
		return nil, errors.New("no session that this hub makes")
	}
	return session, nil
}

// ended is what somebody is told whose session is over.
func ended(s *principal.Session) error {
	fix := "plural auth login"
	if s.Federation != "" {
		fix = "plural auth login, in the job that needs it: a session of a program lasts some minutes"
	}
	return &principal.Rejected{
		Message: "this login ended at " + time.Unix(s.Expires, 0).UTC().Format(time.RFC3339), Fix: fix, Err: ErrUnauthenticated,
	}
}

// withdrawn is what somebody is told whose session the fleet has taken back.
func withdrawn(format string, of ...any) error {
	return &principal.Rejected{Message: fmt.Sprintf(format, of...), Fix: "plural auth login", Err: ErrUnauthenticated}
}

// bySession finds whom a session names now: what the fleet says today of its provider and of its user counts.
func (p *People) bySession(s *principal.Session) (principal.Person, error) {
	who := principal.Person{
		Shown: s.Shown, Credential: sessionCredential + s.ID, Expires: time.Unix(s.Expires, 0), Session: s,
	}
	if !p.now().Before(who.Expires) {
		return principal.Person{}, ended(s)
	}
	d := p.directory()
	if s.Token != "" {
		return p.byTokens(d, s, who)
	}
	if err := d.notYet(); err != nil {
		return principal.Person{}, err
	}
	if s.Federation != "" {
		m, ok := d.federations[s.Federation]
		if !ok || m.trust != s.Trust {
			return principal.Person{}, withdrawn("federation %q is not what it was when this login began", s.Federation)
		}
		u, ok := d.users[m.User]
		if !ok || before(s, u.sessionsAfter) {
			return principal.Person{}, withdrawn("the logins of user %q have been ended", m.User)
		}
		who.Name, who.Groups = m.User, u.groups
		return who, nil
	}
	from, ok := d.providers[s.Provider]
	switch {
	case !ok || from.trust != s.Trust:
		return principal.Person{}, withdrawn("provider %q is not what it was when this login began", s.Provider)
	case before(s, from.sessionsAfter):
		return principal.Person{}, withdrawn("the logins of provider %q have been ended", s.Provider)
	}
	who.Groups = d.known(s.Groups)
	name := d.identities[fleet.Identity{Provider: s.Provider, Subject: s.Subject}]
	if name != s.User { // whose logins may have been ended since
		return principal.Person{}, withdrawn("this account is another user's than when this login began")
	}
	if name == "" {
		who.Name = s.Provider + ":" + s.Subject
		return who, nil
	}
	u := d.users[name]
	if before(s, u.sessionsAfter) {
		return principal.Person{}, withdrawn("the logins of user %q have been ended", name)
	}
	who.Name, who.Groups = name, sorted(append(who.Groups, u.groups...))
	return who, nil
}

// byTokens finds who has a session that Open made of a token, which has to be good still and the same user's.
func (p *People) byTokens(d *Directory, s *principal.Session, who principal.Person) (principal.Person, error) {
	of, err := p.byCredential(s.Token)
	rejected := new(principal.Rejected)
	switch {
	case errors.As(err, &rejected) && rejected.Later:
		return principal.Person{}, err
	case err != nil || of.Name != s.User:
		return principal.Person{}, &principal.Rejected{
			Message: "the token with which this login began is not good any longer", Fix: "plural hub open, with one that is",
			Err: ErrUnauthenticated,
		}
	case !of.Operator && before(s, d.users[of.Name].sessionsAfter):
		return principal.Person{}, withdrawn("the logins of user %q have been ended", of.Name)
	}
	who.Name, who.Groups, who.Operator = of.Name, of.Groups, of.Operator
	if !of.Expires.IsZero() && of.Expires.Before(who.Expires) {
		who.Expires = of.Expires
	}
	return who, nil
}

// Open is a session of the page's for somebody who was found before, if what they showed then is good still: no longer than that is, and
// as anything else that began with it, it ends when the fleet takes that back.
func (p *People) Open(ctx context.Context, before principal.Person) (session string, who principal.Person, err error) {
	who, err = p.Current(before)
	if err != nil {
		return "", principal.Person{}, err
	}
	made := p.newSession(p.now(), pageSession)
	if !who.Expires.IsZero() {
		made.Expires = min(made.Expires, who.Expires.Unix())
	}
	if from := who.Session; from != nil {
		of := *from
		of.ID, of.Issued, of.Expires = made.ID, made.Issued, made.Expires
		made = &of
	} else {
		made.Token, made.User = who.Credential, who.Name
	}
	return p.admit(ctx, made)
}

// before says whether a session, or the token that it was made of, is older than a time. Whole seconds are compared.
func before(s *principal.Session, t time.Time) bool { return min(s.Began, s.Issued) < t.Unix() }

// newSession is one that begins now, of a token that was made at a time.
func (p *People) newSession(made time.Time, lifetime time.Duration) *principal.Session {
	now := p.now()
	return &principal.Session{ID: rand.Text()[:16], Began: made.Unix(), Issued: now.Unix(), Expires: now.Add(min(lifetime, maxSession)).Unix()}
}
