package idp

import (
	"context"
	"crypto/rand"
	"fmt"
	"html"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

const (
	scopeGroups    = "groups"
	claimGroups    = "groups"
	deviceLifetime = 5 * time.Minute
)

// Start runs zitadel's provider in this process, with the storage of its example. The pages are our own, since the example's keep
// devices waiting for five seconds. What it refuses it says to the process's log, too.
func Start(t testing.TB, o Options) *Provider {
	t.Helper()
	o = o.withDefaults()
	p := newProvider(t, o)
	clients := make(map[string]*storage.Client)
	for _, id := range o.Clients {
		clients[id] = storage.NativeClient(id, redirects()...)
	}
	kept := &store{
		Storage:  storage.NewStorageWithClients(people{&p.users}, clients),
		users:    &p.users,
		lifetime: o.IDTokenLifetime,
	}
	config := &op.Config{
		CodeMethodS256:        true,
		GrantTypeRefreshToken: true,
		SupportedScopes:       append([]string{scopeGroups}, op.DefaultSupportedScopes...),
		DeviceAuthorization: op.DeviceAuthorizationConfig{
			Lifetime: deviceLifetime, PollInterval: o.DeviceInterval, UserFormPath: "/device", UserCode: op.UserCodeBase20,
		},
	}
	_, _ = rand.Read(config.CryptoKey[:])
	provider, err := op.NewProvider(config, kept, op.StaticIssuer(p.Issuer), op.WithAllowInsecure())
	if err != nil {
		t.Fatalf("make a provider: %v", err)
	}
	p.serve(oneByOne(pages(p.Issuer, provider, kept)))
	return p
}

// oneByOne lets requests in one at a time, since the example's storage is not made for more.
func oneByOne(h http.Handler) http.Handler {
	var mu sync.Mutex
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		h.ServeHTTP(w, r)
	})
}

// signIn is a form by which a person signs in, for a browser's request or a device's code.
const signIn = `<!DOCTYPE html>
<title>Sign in</title>
<p role="alert">%s</p>
<form method="post">
<input type="hidden" name="id" value="%s">
<input name="username" autocomplete="username">
<input name="password" type="password" autocomplete="current-password">
<button type="submit">Sign in</button>
</form>
`

func show(w http.ResponseWriter, id string, err error) {
	alert := ""
	if err != nil {
		alert = err.Error()
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = fmt.Fprintf(w, signIn, html.EscapeString(alert), html.EscapeString(id))
}

// pages are the provider's own endpoints, and the forms for people.
func pages(issuer string, provider *op.Provider, kept *store) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", provider)
	mux.HandleFunc("GET /login", func(w http.ResponseWriter, r *http.Request) { show(w, r.FormValue("id"), nil) })
	mux.HandleFunc("POST /login", func(w http.ResponseWriter, r *http.Request) {
		id := r.PostFormValue("id")
		if err := kept.CheckUsernamePassword(r.PostFormValue("username"), r.PostFormValue("password"), id); err != nil {
			show(w, id, err)
			return
		}
		http.Redirect(w, r, op.AuthCallbackURL(provider)(op.ContextWithIssuer(r.Context(), issuer), id), http.StatusFound)
	})
	mux.HandleFunc("GET /device", func(w http.ResponseWriter, r *http.Request) { show(w, r.FormValue("user_code"), nil) })
	mux.HandleFunc("POST /device", func(w http.ResponseWriter, r *http.Request) {
		code := r.PostFormValue("id")
		err := kept.admit(r.Context(), code, r.PostFormValue("username"), r.PostFormValue("password"))
		if err != nil {
			show(w, code, err)
			return
		}
		_, _ = w.Write([]byte("The device is signed in."))
	})
	return mux
}

// people is who is known, as the example's storage asks for it.
type people struct{ users *directory }

func example(u User, known bool) *storage.User {
	if !known {
		return nil
	}
	return &storage.User{
		ID: u.Subject, Username: u.Name, Password: u.Password, FirstName: u.fullName(),
		Email: u.Email, EmailVerified: !u.EmailUnverified,
	}
}

// GetUserByID is the user with a subject, or nil.
func (p people) GetUserByID(subject string) *storage.User { return example(p.users.bySubject(subject)) }

// GetUserByUsername is the user who signs in by a name, or nil.
func (p people) GetUserByUsername(name string) *storage.User { return example(p.users.byName(name)) }

// ExampleClientID is a service that nobody has a key for.
func (p people) ExampleClientID() string { return storage.ServiceUserID }

// store is the example's storage, with groups, and with devices that may refresh.
type store struct {
	*storage.Storage
	users    *directory
	lifetime time.Duration
}

// GetClientByClientID is a client whose ID tokens say all that its scopes ask for.
func (s *store) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	c, err := s.Storage.GetClientByClientID(ctx, id)
	if err != nil {
		return nil, err
	}
	return client{Client: c, lifetime: s.lifetime}, nil
}

// SetUserinfoFromRequest gives an ID token its claims.
func (s *store) SetUserinfoFromRequest(ctx context.Context, info *oidc.UserInfo, token op.IDTokenRequest, scopes []string) error {
	if err := s.Storage.SetUserinfoFromRequest(ctx, info, token, scopes); err != nil {
		return err
	}
	s.complete(info, token.GetSubject())
	return nil
}

// SetUserinfoFromToken gives the answer of the userinfo endpoint its claims.
func (s *store) SetUserinfoFromToken(ctx context.Context, info *oidc.UserInfo, token, subject, origin string) error {
	if err := s.Storage.SetUserinfoFromToken(ctx, info, token, subject, origin); err != nil {
		return err
	}
	s.complete(info, subject)
	return nil
}

// complete adds what the example does not know.
func (s *store) complete(info *oidc.UserInfo, subject string) {
	u, _ := s.users.bySubject(subject)
	if info.Name != "" {
		info.Name, info.GivenName, info.FamilyName, info.Locale = u.fullName(), "", "", nil
	}
	if info.Email != "" && u.EmailUnverified {
		info.AppendClaims("email_verified", false) // which zitadel would leave out
	}
	if u.Groups != nil {
		info.AppendClaims(claimGroups, u.Groups)
	}
	for name, value := range u.Claims {
		info.AppendClaims(name, value)
	}
}

// TokenRequestByRefreshToken is what a refresh token may ask for, as long as the user is known.
func (s *store) TokenRequestByRefreshToken(ctx context.Context, token string) (op.RefreshTokenRequest, error) {
	request, err := s.Storage.TokenRequestByRefreshToken(ctx, token)
	if err != nil {
		return nil, err
	}
	if _, known := s.users.bySubject(request.GetSubject()); !known {
		return nil, errRefused
	}
	return request, nil
}

// CreateAccessToken makes an access token, for a device too.
func (s *store) CreateAccessToken(ctx context.Context, request op.TokenRequest) (string, time.Time, error) {
	return s.Storage.CreateAccessToken(ctx, fromDevice(request))
}

// CreateAccessAndRefreshTokens makes both tokens, for a device too.
func (s *store) CreateAccessAndRefreshTokens(
	ctx context.Context, request op.TokenRequest, current string,
) (access, refresh string, expires time.Time, err error) {
	return s.Storage.CreateAccessAndRefreshTokens(ctx, fromDevice(request), current)
}

// fromDevice makes a device's request one of which the example knows the client, so that the client can refresh.
func fromDevice(request op.TokenRequest) op.TokenRequest {
	device, ok := request.(*op.DeviceAuthorizationState)
	if !ok {
		return request
	}
	return &storage.AuthRequest{ApplicationID: device.ClientID, UserID: device.Subject, Scopes: device.Scopes}
}

// admit signs a device in. The example would take the name for the subject.
func (s *store) admit(ctx context.Context, code, name, password string) error {
	u, known := s.users.byName(name)
	if !known || u.Password != password {
		return errRefused
	}
	return s.CompleteDeviceAuthorization(ctx, code, u.Subject)
}

// client is a native client that may do all that the command line does.
type client struct {
	op.Client
	lifetime time.Duration
}

// IDTokenLifetime is how long ID tokens hold.
func (c client) IDTokenLifetime() time.Duration { return c.lifetime }

// IDTokenUserinfoClaimsAssertion says that ID tokens carry what the scopes profile and email ask for.
func (c client) IDTokenUserinfoClaimsAssertion() bool { return true }

// IsScopeAllowed says which scopes there are besides the standard's.
func (c client) IsScopeAllowed(scope string) bool { return scope == scopeGroups }

// LoginURL is the page where people sign in for a request.
func (c client) LoginURL(id string) string { return "/login?id=" + id }

// GrantTypes are the ways to get a token.
func (c client) GrantTypes() []oidc.GrantType {
	return []oidc.GrantType{oidc.GrantTypeCode, oidc.GrantTypeRefreshToken, oidc.GrantTypeDeviceCode}
}
