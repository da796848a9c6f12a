// Package signin owns logging in to the hub's page with a browser.
//
// It knows neither how a token is verified nor who may do what. The code flow of OpenID Connect ends at the hub, so that no token of a
// provider reaches the browser. What a login has to remember until it ends lies sealed in a cookie; so does the session, which the hub
// signs: no replica keeps anything.
package signin

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/auth"
	"github.com/pluralsh/plural/internal/addrlimit"
	"github.com/pluralsh/plural/internal/httpclient"
	"github.com/pluralsh/plural/internal/oidcflow"
	"github.com/pluralsh/plural/internal/principal"
	"github.com/pluralsh/plural/workspace/fleet"
)

const (
	// loginCookie is what a login remembers. It comes back from a provider's page, and so cannot be strict about where a request is from.
	loginCookie = "__Host-plural-login"
	// Lifetime is how long somebody may take at the provider's page.
	Lifetime = 10 * time.Minute
	// maxReturn bounds the path that a login leads to, in bytes, and maxAnswer a provider's answer.
	maxReturn = 1536
	maxAnswer = 8 << 10
	// One address may begin and end so many logins at once, and one more each of these: each asks the provider.
	loginsAtOnce = 100
	eachLogin    = time.Second / 5
)

// Paths of the hub.
const (
	// HomePath shows how to log in, or who is logged in.
	HomePath     = "/auth/"
	LoginPath    = "/auth/login"
	CallbackPath = "/auth/callback"
	LogoutPath   = "/auth/logout"
	// ConfirmPath is LogoutPath for people whom an application has sent.
	ConfirmPath = "/oidc/logout/confirm"
)

// Options are what signing in needs. All but NoLoopback must be set.
type Options struct {
	// URL is the hub's own, which providers know; it may change with the workspace.
	URL func() string
	// Providers are those with which people log in, by name.
	Providers func() map[string]fleet.ProviderSpec
	// Secret is that of a provider's confidential client; false: it cannot be opened.
	Secret func(provider string) (oidcflow.Secret, bool)
	// Admit is the session for a provider's ID token, of the login that sent nonce. Its error may be a *principal.Rejected.
	Admit func(ctx context.Context, provider, token, nonce string) (session string, who principal.Person, err error)
	// Person is who sends a request.
	Person func(*http.Request) (principal.Person, error)
	// Current is what has become of somebody who was found before, and Open a session for them. Errors may be a *principal.Rejected.
	Current func(principal.Person) (principal.Person, error)
	Open    func(ctx context.Context, before principal.Person) (session string, who principal.Person, err error)
	// Spend notes on all replicas that a ticket was used, by its ID, and says whether that is the first time. An error says that nobody can
	// tell.
	Spend func(ctx context.Context, id string) (first bool, err error)
	// Record writes down who is let in, before they are.
	Record func(r *http.Request, who *principal.Person) error
	// Keys seal what a login remembers.
	Keys auth.Keys
	// NoLoopback refuses providers on this machine.
	NoLoopback bool
	Now        func() time.Time
	Log        *slog.Logger
}

// Pages are the hub's for signing in.
type Pages struct {
	Options
	limits *addrlimit.Limits
	// page is parsed when it is shown first.
	page func() *template.Template
}

// New makes the pages.
func New(o Options) *Pages {
	return &Pages{
		o, addrlimit.New(loginsAtOnce, eachLogin, o.Now),
		sync.OnceValue(func() *template.Template { return template.Must(template.New("page").Parse(text)) }),
	}
}

// Routes adds the paths to mux.
func (p *Pages) Routes(mux *http.ServeMux) {
	mux.HandleFunc("GET "+HomePath+"{$}", p.Home)
	mux.HandleFunc("GET "+LoginPath, p.login)
	mux.HandleFunc("GET "+CallbackPath, p.callback)
	mux.HandleFunc("POST "+LogoutPath, p.logout)
	mux.HandleFunc("GET "+v1.OpenPath, p.askToLogIn)
	mux.HandleFunc("POST "+v1.OpenPath, p.open)
}

// remembered is what a login keeps until it ends.
type remembered struct {
	oidcflow.Attempt
	Provider string `json:"provider"`
	Return   string `json:"return"`
	Until    int64  `json:"until"`
}

// login sends a browser to a provider.
func (p *Pages) login(w http.ResponseWriter, r *http.Request) {
	name, home := r.URL.Query().Get("provider"), p.URL()
	provider, known := p.Providers()[name]
	switch u, err := url.Parse(home); {
	case p.tooMany(w, r):
		return
	case !known:
		p.Say(w, http.StatusNotFound, "There is no such provider", "The fleet has no identity provider of this name. Choose one that it has.")
		return
	case err != nil || u.Host == "" || u.Scheme != "https" && !httpclient.Loopback(u.Hostname()):
		p.Say(w, http.StatusServiceUnavailable, "The hub has no https address",
			"Browsers keep a login for https alone: write the hub's https URL as spec.hub.url into plural.yaml.")
		return
	}
	flow, err := p.flow(r.Context(), name, &provider)
	if errors.Is(err, errNoSecret) {
		p.Say(w, http.StatusServiceUnavailable, "The hub cannot open the secret of its client",
			"Nobody can log in with this provider until the file that spec.page.secret names is sealed for the hub. The hub's log says more.")
		return
	}
	if err != nil {
		p.Log.Warn("an identity provider cannot be asked how to log in", "provider", name, "error", fmt.Sprintf("%.300s", err))
		p.Say(w, http.StatusBadGateway, "The identity provider does not answer",
			"Try again in a minute. The hub's log says why it cannot be asked.")
		return
	}
	attempt := oidcflow.Begin(strings.TrimSuffix(home, "/") + CallbackPath)
	attempt.Anew = r.URL.Query().Get("prompt") == "login"
	sealed, err := auth.Seal(r.Context(), p.Keys, sealedFor, &remembered{
		Attempt: *attempt, Provider: name, Return: ownPath(r.URL.Query().Get("return")), Until: p.Now().Add(Lifetime).Unix(),
	})
	if err != nil {
		p.Log.Warn("a login cannot begin", "error", err)
		p.Say(w, http.StatusServiceUnavailable, "The hub cannot begin a login now", "Try again in a minute. The hub's log says why.")
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: loginCookie, Value: sealed, Path: "/", MaxAge: int(Lifetime / time.Second), Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	http.Redirect(w, r, flow.URL(attempt), http.StatusFound) //nolint:gosec // the provider's, as its own discovery and access/ say
}

// tooMany answers whoever logs in too often.
func (p *Pages) tooMany(w http.ResponseWriter, r *http.Request) bool {
	if p.limits.Allow(addrlimit.Sender(r)) {
		return false
	}
	w.Header().Set("Retry-After", "5")
	p.Say(w, http.StatusTooManyRequests, "Too many logins from this address", "Wait a few seconds and try again.")
	return true
}

// errNoSecret means that the hub cannot say who it is at a provider.
var errNoSecret = errors.New("the secret of the page's client cannot be opened")

func (p *Pages) flow(ctx context.Context, name string, s *fleet.ProviderSpec) (*oidcflow.Client, error) {
	o := oidcflow.Options{Name: name, Issuer: s.Issuer, ClientID: s.PageClientID(), Scopes: s.Scopes, NoLoopback: p.NoLoopback}
	switch {
	case s.Page.Secret != "":
		secret, ok := p.Secret(name)
		if !ok {
			return nil, errNoSecret
		}
		o.Secret = secret
	case o.ClientID == s.ClientID:
		o.Secret = oidcflow.Secret(s.ClientSecret)
	}
	return oidcflow.Discover(ctx, o)
}

// callback takes a provider's answer, and begins the session.
func (p *Pages) callback(w http.ResponseWriter, r *http.Request) {
	if p.tooMany(w, r) {
		return
	}
	began, err := p.began(r)
	clearCookie(w, loginCookie, http.SameSiteLaxMode)
	if err != nil || len(r.URL.RawQuery) > maxAnswer || !began.Answers(r.URL.Query()) {
		p.Say(w, http.StatusBadRequest, "This login is not of this browser, or took too long", "Begin again.")
		return
	}
	provider, known := p.Providers()[began.Provider]
	if !known {
		p.Say(w, http.StatusNotFound, "There is no such provider any longer", "Choose one that the fleet has.")
		return
	}
	session, who, err := p.end(r, began, &provider)
	if err != nil {
		p.refuse(w, began.Provider, err)
		return
	}
	if err := p.Record(r, &who); err != nil {
		p.Say(w, http.StatusServiceUnavailable, "This cannot be written down now, so nobody is let in", "Try again in a minute.")
		return
	}
	beginSession(w, session, who.Expires)
	p.LeadTo(w, began.Return) // a redirect would still be a request from the provider's page, which brings no strict cookie
}

// end asks the provider who has logged in.
func (p *Pages) end(r *http.Request, began *remembered, provider *fleet.ProviderSpec) (string, principal.Person, error) {
	flow, err := p.flow(r.Context(), began.Provider, provider)
	if err != nil {
		return "", principal.Person{}, err
	}
	code, err := flow.Code(&began.Attempt, r.URL.Query())
	if err != nil {
		return "", principal.Person{}, err
	}
	tokens, err := flow.Exchange(r.Context(), &began.Attempt, code)
	if err != nil {
		return "", principal.Person{}, err
	}
	return p.Admit(r.Context(), began.Provider, tokens.ID, began.Nonce)
}

// refuse tells somebody why they are not let in. What a provider says is for the log alone.
func (p *Pages) refuse(w http.ResponseWriter, provider string, err error) {
	if rejected := new(principal.Rejected); errors.As(err, &rejected) {
		status, message, fix := principal.Answer(err)
		p.Say(w, status, message, fix)
		return
	}
	const most = 300 // libraries quote what the provider said as a whole
	p.Log.Warn("a login to the page has failed", "provider", provider, "error", fmt.Sprintf("%.*s", most, err))
	p.Say(w, http.StatusBadGateway, "You are not logged in",
		"The identity provider did not say who you are. Begin again; the hub's log says more.")
}

// logout ends what this browser has of the session.
func (p *Pages) logout(w http.ResponseWriter, _ *http.Request) {
	EndSession(w)
	p.LeadTo(w, HomePath)
}

// beginSession has a browser keep a session, for this host alone.
func beginSession(w http.ResponseWriter, session string, until time.Time) {
	http.SetCookie(w, &http.Cookie{
		Name: auth.SessionCookie, Value: session, Path: "/", Expires: until, Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
}

// EndSession has a browser forget the session.
func EndSession(w http.ResponseWriter) {
	clearCookie(w, auth.SessionCookie, http.SameSiteStrictMode)
}

// Begin has somebody log in, and leads them to a path of the hub then. Anew asks for them although their provider may know them by their
// browser.
func (p *Pages) Begin(w http.ResponseWriter, r *http.Request, path string, anew bool) {
	v := view{Title: "Log in", Text: "Choose who knows you.", Providers: slices.Sorted(maps.Keys(p.Providers())), Return: path}
	if anew {
		v.Prompt = "login"
	}
	switch len(v.Providers) {
	case 0:
		p.Say(w, http.StatusServiceUnavailable, "Nobody can log in here", "The fleet has no identity provider: add a Provider to access/.")
	case 1:
		to := url.Values{"provider": v.Providers, "return": {path}}
		if anew {
			to.Set("prompt", v.Prompt)
		}
		w.Header().Set("Cache-Control", "no-store")
		http.Redirect(w, r, LoginPath+"?"+to.Encode(), http.StatusSeeOther)
	default:
		p.show(w, http.StatusOK, v)
	}
}

func clearCookie(w http.ResponseWriter, name string, site http.SameSite) {
	http.SetCookie(w, &http.Cookie{Name: name, Path: "/", MaxAge: -1, Secure: true, HttpOnly: true, SameSite: site}) //nolint:gosec // site is Lax or Strict
}

// ownPath is a path of the hub's page, and no other place.
func ownPath(written string) string {
	u, err := url.Parse(written)
	if err != nil {
		return "/"
	}
	clean := path.Clean(u.Path) + "/" // as browsers read it
	if u.Scheme != "" || u.Host != "" || u.User != nil || len(written) > maxReturn || !strings.HasPrefix(written, "/") ||
		strings.HasPrefix(written, "//") || strings.ContainsAny(written, "\\\t\r\n") ||
		strings.HasPrefix(clean, HomePath) || strings.HasPrefix(clean, "/k8s/") {
		return "/"
	}
	return written
}

// sealedFor has a sealed login be good for nothing else.
const sealedFor = "plural login"

// began is the login that a browser ends here.
func (p *Pages) began(r *http.Request) (*remembered, error) {
	cookie, err := r.Cookie(loginCookie)
	if err != nil {
		return nil, err
	}
	login := new(remembered)
	if err := auth.Unseal(r.Context(), p.Keys, sealedFor, cookie.Value, login); err != nil {
		return nil, err
	}
	if p.Now().Unix() >= login.Until {
		return nil, errors.New("open a login: it took too long")
	}
	return login, nil
}
