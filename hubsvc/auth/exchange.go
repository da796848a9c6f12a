package auth

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/mail"
	"strings"
	"unicode"

	"github.com/pluralsh/plural/hubsvc/oidc"
	"github.com/pluralsh/plural/internal/principal"
	"github.com/pluralsh/plural/workspace/fleet"
)

const (
	// MaxSubjectToken bounds a token from elsewhere, in bytes: with 200 groups in it one has some 10 KB.
	MaxSubjectToken = 32 << 10
	// maxTokenGroups bounds how many groups are looked through, maxShown how much of a name is shown, in bytes.
	maxTokenGroups = 10_000
	maxShown       = 64
)

// refused is what somebody is told whose token lets nobody in.
func refused(fix, format string, of ...any) error {
	return &principal.Rejected{Message: fmt.Sprintf(format, of...), Fix: fix, Err: ErrUnauthenticated}
}

// Exchange lets in whoever has a token of a provider for its client, or one for this hub that a federation takes. It returns the
// session as it is carried, and who that is. The token has to say that it is for us: the hub's own say so of no provider, so that no
// session makes another.
func (p *People) Exchange(ctx context.Context, raw string) (session string, who principal.Person, err error) {
	issuer, ok := issuerOf(raw)
	if !ok {
		return "", who, refused("send the ID token of a login", "what was sent is no ID token")
	}
	d := p.directory()
	if err := d.notYet(); err != nil {
		return "", who, err
	}
	p.verifier.Keep(d.issuers())
	var made *principal.Session
	for _, from := range d.providers {
		if from.Issuer == issuer {
			made, err = p.fromProvider(ctx, d, &from, shownToken{raw: raw, audience: from.ClientID})
			break
		}
	}
	if made == nil { // one issuer may know people and programs
		federated, fault := p.fromFederations(ctx, d, issuer, raw)
		if federated != nil || err == nil || len(d.of(issuer)) > 0 { // a cluster may say that it has the issuer of a provider
			made, err = federated, fault
		}
	}
	switch {
	case err != nil:
		return "", who, err
	case made == nil:
		return "", who, refused("see kind Provider and kind Federation in access/",
			"no provider or federation of this fleet has the issuer of this token%s", p.unreported(d))
	}
	return p.admit(ctx, made)
}

// Admit is Exchange for somebody who logged in to the page: raw is a provider's ID token for the client of the page, and of the login
// that sent nonce.
func (p *People) Admit(ctx context.Context, name, raw, nonce string) (session string, who principal.Person, err error) {
	d := p.directory()
	if err := d.notYet(); err != nil {
		return "", who, err
	}
	from, ok := d.providers[name]
	if !ok {
		return "", who, withdrawn("the fleet has no provider %q any longer", name)
	}
	made, err := p.fromProvider(ctx, d, &from, shownToken{raw: raw, audience: from.PageClientID(), nonce: nonce})
	if err != nil {
		return "", who, err
	}
	return p.admit(ctx, made)
}

// admit signs a session, of whoever the fleet takes it for.
func (p *People) admit(ctx context.Context, made *principal.Session) (session string, who principal.Person, err error) {
	if who, err = p.bySession(made); err != nil {
		return "", principal.Person{}, err
	}
	if session, err = p.sessions.sign(ctx, made); err != nil {
		return "", principal.Person{}, err
	}
	return session, who, nil
}

// issuerOf is what a token says of who made it, which nobody has checked yet.
func issuerOf(raw string) (string, bool) {
	parts := strings.Split(raw, ".")
	if len(parts) != 3 || len(raw) > MaxSubjectToken {
		return "", false
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	var said struct {
		Issuer string `json:"iss"`
	}
	if err != nil || json.Unmarshal(text, &said) != nil {
		return "", false
	}
	return said.Issuer, said.Issuer != ""
}

// untold turns what came of a verification into words.
func untold(err error, of string) error {
	if away := new(oidc.Unavailable); errors.As(err, &away) {
		return &principal.Rejected{
			Message: "the hub cannot ask " + of + " for its keys now, and nobody new is let in meanwhile",
			Fix:     "try again in a minute; see that the hub reaches " + away.Issuer + ": plural logs hub says why it does not",
			Later:   true, Err: err,
		}
	}
	return refused("plural auth login again; if that does not help, compare issuer and client ID with those in access/", "the token of %s is not taken: %s", of, err)
}

// shownToken is an ID token, for whom it has to be, and what it has to repeat; empty for nothing.
type shownToken struct{ raw, audience, nonce string }

func (p *People) fromProvider(ctx context.Context, d *Directory, from *provider, t shownToken) (*principal.Session, error) {
	of := fmt.Sprintf("provider %q", from.name)
	token, err := p.verifier.Verify(ctx, t.raw, from.Issuer, t.audience)
	if err != nil {
		return nil, untold(err, of)
	}
	if said, _ := token.Claims["nonce"].(string); t.nonce != "" && subtle.ConstantTimeCompare([]byte(said), []byte(t.nonce)) != 1 {
		return nil, refused("log in again", "the token of %s is of another login", of)
	}
	for _, claim := range []string{"repository_id", "project_id", "pipeline_id", "job_id", "kubernetes.io"} {
		if _, job := token.Claims[claim]; job { // which names its own audience, where one issuer knows people and programs
			return nil, refused("make a Federation for it in access/", "the token of %s is a program's (%s)", of, claim)
		}
	}
	if !fleet.SubjectFits(token.Subject) {
		return nil, refused("have the provider give subjects of at most 255 visible ASCII characters", "the token of %s is about nobody who can be named", of)
	}
	groups, err := groupsOf(token.Claims, from.GroupsClaim(), of)
	if err != nil {
		return nil, err
	}
	s := p.newSession(token.Issued, from.Lifetime())
	s.Provider, s.Trust, s.Subject, s.Groups = from.name, from.trust, token.Subject, d.known(from.gives(groups))
	s.User = d.identities[fleet.Identity{Provider: from.name, Subject: token.Subject}]
	s.Shown, s.Email = shown(token.Claims[from.NameClaim()]), verifiedEmail(token.Claims)
	return s, nil
}

// maxEmail bounds an address, in bytes, as RFC 5321 does.
const maxEmail = 254

// verifiedEmail is an address that the provider says it has verified; empty for none.
func verifiedEmail(claims map[string]any) string {
	written, _ := claims["email"].(string)
	if verified, _ := claims["email_verified"].(bool); !verified || len(written) > maxEmail {
		return ""
	}
	if address, err := mail.ParseAddress(written); err != nil || address.Address != written {
		return ""
	}
	return written
}

// groupsOf reads a claim that lists groups. A provider that leaves groups out of a token because there are many is told from one
// that knows of none: somebody without their groups would be somebody else.
func groupsOf(claims map[string]any, claim, of string) ([]string, error) {
	switch listed := claims[claim].(type) {
	case nil:
		elsewhere, _ := claims["_claim_names"].(map[string]any)
		if _, left := elsewhere[claim]; left || claims["hasgroups"] != nil {
			return nil, refused("have the provider put into tokens only the groups that are assigned to this client, or app roles",
				"%s leaves the groups out of its token, because there are too many of them", of)
		}
		return nil, nil
	case string:
		return []string{listed}, nil
	case []any:
		if len(listed) > maxTokenGroups {
			return nil, refused("have the provider put fewer groups into tokens", "the token of %s has more than %d groups", of, maxTokenGroups)
		}
		var groups []string
		for _, group := range listed {
			if name, ok := group.(string); ok {
				groups = append(groups, name)
			}
		}
		return groups, nil
	}
	return nil, refused("name another claim in the provider's claims.groups", "claim %s of %s is no list of groups", claim, of)
}

// shown is a name that can stand on a screen and in a log.
func shown(claim any) string {
	name, _ := claim.(string)
	name = strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) || r == unicode.ReplacementChar {
			return -1
		}
		return r
	}, strings.ToValidUTF8(name, ""))
	if len(name) > maxShown {
		name = strings.ToValidUTF8(name[:maxShown], "")
	}
	return strings.TrimSpace(name)
}
