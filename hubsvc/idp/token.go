package idp

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/pluralsh/plural/hubsvc/auth"
	"github.com/pluralsh/plural/workspace/fleet"
)

// refusal is what an application is told that gets no token (RFC 6749, section 5.2).
type refusal struct {
	status    int
	code, why string
}

func (r *refusal) Error() string { return r.code + ": " + r.why }

// token gives an ID token for a code.
func (p *Provider) token(w http.ResponseWriter, r *http.Request, by asked) {
	w.Header().Set("Cache-Control", "no-store")
	answer, err := p.exchange(w, r, by)
	refused := new(refusal)
	switch {
	case err == nil:
		p.logins.WithLabelValues("done").Inc()
		reply(w, http.StatusOK, answer)
		return
	case !errors.As(err, &refused):
		p.Log.Warn("an application gets no token", "error", err)
		refused = &refusal{http.StatusServiceUnavailable, unavailable, "the hub cannot tell now whether the code is good; its log says why"}
	}
	p.logins.WithLabelValues("refused").Inc()
	if refused.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Basic realm="plural"`)
	}
	reply(w, refused.status, map[string]string{"error": refused.code, "error_description": refused.why})
}

// exchange is the answer to a code that is shown by the application which it was given to, for the first time.
func (p *Provider) exchange(w http.ResponseWriter, r *http.Request, by asked) (map[string]any, error) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		return nil, &refusal{http.StatusBadRequest, invalidRequest, "send a form of at most 16 KiB"}
	}
	form := r.PostForm
	client, application, err := p.client(r, form)
	if err != nil {
		return nil, err
	}
	if one(form, "grant_type") != "authorization_code" {
		return nil, &refusal{http.StatusBadRequest, "unsupported_grant_type", "the grant_type is authorization_code"}
	}
	g, err := p.opened(r.Context(), sealedCode, one(form, "code"))
	switch {
	case err != nil && !errors.Is(err, auth.ErrNotSealed):
		return nil, err
	case err != nil || g.Application != client:
		return nil, &refusal{http.StatusBadRequest, invalidGrant, "the code is none that was given to this application"}
	case p.Now().Unix() >= g.Until:
		return nil, &refusal{http.StatusBadRequest, invalidGrant, "the code has expired"}
	case one(form, "redirect_uri") != g.Redirect:
		return nil, &refusal{http.StatusBadRequest, invalidGrant, "the redirect_uri is not that of the login"}
	case !verifies(one(form, "code_verifier"), g.Challenge):
		return nil, &refusal{http.StatusBadRequest, invalidGrant, "the code_verifier is not that of the login"}
	}
	if err := p.spend(r.Context(), g.ID); err != nil {
		return nil, err
	}
	return p.tokens(r.Context(), by, g, application)
}

// tokens are those for a code that was good.
func (p *Provider) tokens(ctx context.Context, by asked, g *grant, application *fleet.ApplicationSpec) (map[string]any, error) {
	who, _, ok := p.person(g)
	if !ok {
		return nil, &refusal{http.StatusBadRequest, invalidGrant, "the login has ended, or the application does not allow it any longer"}
	}
	now := p.Now()
	lifetime := min(tokenLifetime, who.Expires.Sub(now)).Truncate(time.Second)
	said := claims(&who, application)
	said["iss"], said["aud"], said["azp"] = by.issuer, g.Application, g.Application
	said["iat"], said["exp"], said["auth_time"] = now.Unix(), now.Add(lifetime).Unix(), who.Session.Began
	if g.Nonce != "" {
		said["nonce"] = g.Nonce
	}
	signed, err := by.keys.Sign(said, now)
	if err != nil {
		return nil, err
	}
	access, err := auth.Seal(ctx, p.Keys, sealedAccess, &grant{
		ID: rand.Text(), Application: g.Application, Person: g.Person, Session: g.Session, Until: now.Add(lifetime).Unix(),
	})
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"access_token": access, "token_type": "Bearer", "expires_in": int(lifetime / time.Second), "id_token": signed,
		"scope": "openid profile email groups",
	}, nil
}

// client is the application that asks, as it proves: by its secret in a header or in the form, where it has one.
func (p *Provider) client(r *http.Request, form url.Values) (string, *fleet.ApplicationSpec, error) {
	name, secret := one(form, "client_id"), one(form, "client_secret")
	if user, password, basic := r.BasicAuth(); basic {
		if form.Has("client_secret") {
			return "", nil, &refusal{http.StatusBadRequest, invalidRequest, "send the client secret once"}
		}
		var err, wrong error
		user, err = url.QueryUnescape(user) // as RFC 6749, section 2.3.1, has it
		password, wrong = url.QueryUnescape(password)
		if err != nil || wrong != nil || name != "" && name != user {
			return "", nil, &refusal{http.StatusUnauthorized, invalidClient, "the client cannot be told from the Authorization header"}
		}
		name, secret = user, password
	}
	// The same is answered to all, so that nobody finds out which applications there are.
	refused := &refusal{http.StatusUnauthorized, invalidClient, "no application has this client_id and this client secret"}
	a, known := p.Application(name)
	if !known || len(r.Header.Values("Authorization")) > 1 {
		return "", nil, refused
	}
	if a.SecretHash == "" {
		if secret != "" {
			return "", nil, refused
		}
		return name, a, nil
	}
	if secret == "" || subtle.ConstantTimeCompare([]byte(fleet.HashToken(secret)), []byte(a.SecretHash)) != 1 {
		return "", nil, refused
	}
	return name, a, nil
}

// verifies says whether a PKCE verifier is the one of a challenge. Where the login had none, there must be none.
func verifies(verifier, challenge string) bool {
	if challenge == "" || verifier == "" {
		return challenge == verifier
	}
	sum := sha256.Sum256([]byte(verifier))
	return subtle.ConstantTimeCompare([]byte(base64.RawURLEncoding.EncodeToString(sum[:])), []byte(challenge)) == 1
}

// spend has a code count once. Whoever comes second is refused, and so is everybody while nobody can tell.
func (p *Provider) spend(ctx context.Context, id string) error {
	first, err := p.Spend(ctx, id)
	if err == nil && !first {
		return &refusal{http.StatusBadRequest, invalidGrant, "the code was used before"}
	}
	return err
}

// userinfo says of whom an access token is, as the fleet has it now.
func (p *Provider) userinfo(w http.ResponseWriter, r *http.Request, _ asked) {
	w.Header().Set("Cache-Control", "no-store")
	scheme, raw, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || len(raw) > maxForm {
		w.Header().Set("WWW-Authenticate", `Bearer realm="plural"`)
		reply(w, http.StatusUnauthorized, map[string]string{"error": "invalid_token", "error_description": "send the access token as a header"})
		return
	}
	g, err := p.opened(r.Context(), sealedAccess, raw)
	if err != nil && !errors.Is(err, auth.ErrNotSealed) {
		p.Log.Warn("an access token cannot be read", "error", err)
		reply(w, http.StatusServiceUnavailable, map[string]string{"error": unavailable, "error_description": "the hub cannot reach its keys now"})
		return
	}
	if err == nil {
		if who, application, ok := p.person(g); ok {
			reply(w, http.StatusOK, claims(&who, application))
			return
		}
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="plural", error="invalid_token"`)
	reply(w, http.StatusUnauthorized, map[string]string{
		"error": "invalid_token", "error_description": "the access token is not good, or not any longer",
	})
}
