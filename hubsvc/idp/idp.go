// Package idp owns the hub as an OpenID Connect provider for the applications that the fleet runs.
//
// It knows neither how people log in to the hub nor what they may do there. An application of the fleet sends people here, who come back
// with a code once they have logged in to the hub and the application allows them; with the code it gets an ID token. The code flow is
// all there is, with PKCE. No replica keeps anything but the codes that were used: a code and an access token hold sealed what they
// stand for, and whom they are of is looked up again each time.
package idp

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pluralsh/plural/hubsvc/auth"
	"github.com/pluralsh/plural/hubsvc/idtoken"
	"github.com/pluralsh/plural/hubsvc/signin"
	"github.com/pluralsh/plural/internal/addrlimit"
	"github.com/pluralsh/plural/internal/httpclient"
	"github.com/pluralsh/plural/internal/principal"
	"github.com/pluralsh/plural/workspace/fleet"
)

// Paths of the hub.
const (
	root          = fleet.IssuerPath
	discoveryPath = root + "/.well-known/openid-configuration"
	keysPath      = root + "/keys"
	authorizePath = root + "/authorize"
	// continuePath is authorizePath for a browser that the hub's own page has sent there, and so brings its cookie.
	continuePath = root + "/continue"
	tokenPath    = root + "/token"
	userinfoPath = root + "/userinfo"
	logoutPath   = root + "/logout"
)

const (
	// codeLifetime is how long an application may take to show a code, tokenLifetime how long its tokens are good.
	codeLifetime  = time.Minute
	tokenLifetime = 15 * time.Minute
	// Validity is how long after it was made something that is sealed here may be opened, on any replica.
	Validity = tokenLifetime + time.Minute
	// maxQuery and maxForm bound what an application sends, in bytes.
	maxQuery = 1200
	maxForm  = 16 << 10
	// One address may ask so often at once, and one more each of these: all people of an application come from its own.
	asksAtOnce = 200
	eachAsk    = time.Second / 50
)

// Options are what the provider needs. All must be set.
type Options struct {
	// URL is the hub's own, which may change with the workspace.
	URL func() string
	// SigningKeys sign ID tokens; nil: the hub is no provider.
	SigningKeys func() *idtoken.Keys
	// Application is one of the fleet's, by its client ID.
	Application func(name string) (*fleet.ApplicationSpec, bool)
	// Person is who sends a request, and Current what has become of somebody who was found before.
	Person  func(*http.Request) (principal.Person, error)
	Current func(principal.Person) (principal.Person, error)
	// Pages let people log in, and tell them why they cannot.
	Pages *signin.Pages
	// Record writes down who is let into an application, or is not, before they are.
	Record func(r *http.Request, who *principal.Person, application string, allowed bool) error
	// Keys seal codes and access tokens.
	Keys auth.Keys
	// Spend notes on all replicas that a code was used, by its ID, and says whether that is the first time. An error says that nobody can
	// tell.
	Spend   func(ctx context.Context, id string) (first bool, err error)
	Now     func() time.Time
	Log     *slog.Logger
	Metrics prometheus.Registerer
}

// Provider answers applications, and the people whom they send.
type Provider struct {
	Options
	limits *addrlimit.Limits
	logins *prometheus.CounterVec
}

// New makes a provider.
func New(o Options) *Provider {
	p := &Provider{o, addrlimit.New(asksAtOnce, eachAsk, o.Now), prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "plural_hub_application_logins_total", Help: "Logins to applications by way of the hub, by what came of them.",
	}, []string{"outcome"})}
	o.Metrics.MustRegister(p.logins)
	return p
}

// Routes adds the paths to mux.
func (p *Provider) Routes(mux *http.ServeMux) {
	mux.HandleFunc("GET "+discoveryPath, p.served(p.discovery))
	mux.HandleFunc("GET "+keysPath, p.served(p.publicKeys))
	mux.HandleFunc("GET "+authorizePath, p.served(p.authorize))
	mux.HandleFunc("GET "+continuePath, p.served(p.authorize))
	mux.HandleFunc("POST "+tokenPath, p.served(p.token))
	mux.HandleFunc("GET "+userinfoPath, p.served(p.userinfo))
	mux.HandleFunc("POST "+userinfoPath, p.served(p.userinfo))
	mux.HandleFunc("GET "+logoutPath, p.served(p.askToLogOut))
	mux.HandleFunc("POST "+logoutPath, p.served(p.askToLogOut))
	mux.HandleFunc("POST "+signin.ConfirmPath, p.served(p.logOut))
}

// asked is the provider as one request sees it.
type asked struct {
	issuer string
	keys   *idtoken.Keys
}

// served answers where the hub is a provider, whoever does not ask too often.
func (p *Provider) served(answer func(http.ResponseWriter, *http.Request, asked)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		by := asked{strings.TrimSuffix(p.URL(), "/") + root, p.SigningKeys()}
		u, err := url.Parse(by.issuer)
		switch {
		case by.keys == nil:
			p.Pages.Say(w, http.StatusNotFound, "This hub is no identity provider",
				"To make it one: plural application rotate-keys, in a clone of the installation repo. "+
					"If it was one, its log says why its keys are not read.")
		case err != nil || u.Host == "" || u.Scheme != "https" && !httpclient.Loopback(u.Hostname()):
			p.Pages.Say(w, http.StatusServiceUnavailable, "The hub has no https address",
				"Applications believe https alone: write the hub's https URL as spec.hub.url into plural.yaml.")
		case !p.limits.Allow(addrlimit.Sender(r)):
			w.Header().Set("Retry-After", "5")
			p.Pages.Say(w, http.StatusTooManyRequests, "Too many logins from this address", "Wait a few seconds and try again.")
		default:
			answer(w, r, by)
		}
	}
}

// discovery says how the provider is talked to (OpenID Connect Discovery 1.0, section 3).
func (p *Provider) discovery(w http.ResponseWriter, _ *http.Request, by asked) {
	hub := strings.TrimSuffix(by.issuer, root)
	w.Header().Set("Cache-Control", "public, max-age=300")
	reply(w, http.StatusOK, map[string]any{
		"issuer":                                by.issuer,
		"authorization_endpoint":                hub + authorizePath,
		"token_endpoint":                        hub + tokenPath,
		"userinfo_endpoint":                     hub + userinfoPath,
		"jwks_uri":                              hub + keysPath,
		"end_session_endpoint":                  hub + logoutPath,
		"scopes_supported":                      []string{"openid", "profile", "email", "groups"},
		"response_types_supported":              []string{"code"},
		"response_modes_supported":              []string{"query"},
		"grant_types_supported":                 []string{"authorization_code"},
		"subject_types_supported":               []string{"public"},
		"id_token_signing_alg_values_supported": []string{string(idtoken.Algorithm)},
		"token_endpoint_auth_methods_supported": []string{"client_secret_basic", "client_secret_post", "none"},
		"code_challenge_methods_supported":      []string{"S256"},
		"prompt_values_supported":               []string{"none", "login"},
		"claims_supported": []string{
			"iss", "sub", "aud", "exp", "iat", "auth_time", "nonce", "azp",
			"preferred_username", "name", "email", "email_verified", "groups", "roles",
		},
		"request_parameter_supported": false, "request_uri_parameter_supported": false, "claims_parameter_supported": false,
		"authorization_response_iss_parameter_supported": true,
	})
}

// publicKeys are what ID tokens are verified with.
func (p *Provider) publicKeys(w http.ResponseWriter, _ *http.Request, by asked) {
	set, err := by.keys.Set()
	if err != nil {
		p.Log.Error("signing keys cannot be shown", "error", err)
		http.Error(w, "the hub cannot show its keys", http.StatusInternalServerError)
		return
	}
	// kube-apiserver asks for no key that it does not know while what it has read is good for another 30 seconds; and a key that was
	// seen has to go.
	w.Header().Set("Cache-Control", "public, max-age=30")
	w.Header().Set("Content-Type", "application/jwk-set+json")
	_, _ = w.Write(set) // whoever went away asks again
}

// claims are what an application is told about somebody. Its scopes do not matter: it is one of the fleet's own.
func claims(who *principal.Person, a *fleet.ApplicationSpec) map[string]any {
	shown := who.Shown
	if shown == "" {
		shown = who.Name
	}
	// Applications take preferred_username for somebody's account, so it is not what somebody calls themselves at a provider.
	all := map[string]any{"sub": who.Name, "preferred_username": who.Name, "name": shown}
	if len(who.Groups) > 0 {
		all["groups"] = who.Groups
	}
	if s := who.Session; s != nil && s.Email != "" {
		all["email"], all["email_verified"] = s.Email, true // of others the hub keeps none
	}
	if roles := a.RolesOf(who.Name, who.Groups); len(roles) > 0 {
		all["roles"] = roles
	}
	return all
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // whoever went away asks again
}

// Purposes of what is sealed here.
const (
	sealedCode   = "code of a login"
	sealedAccess = "access token of an application"
)

// grant is what a code or an access token stands for.
type grant struct {
	// ID is random.
	ID          string             `json:"id"`
	Application string             `json:"app"`
	Person      string             `json:"who"`
	Session     *principal.Session `json:"ses"`
	// Until is in seconds since 1970.
	Until int64 `json:"exp"`

	// Redirect, Challenge and Nonce are of the request that a code answers.
	Redirect  string `json:"uri,omitempty"`
	Challenge string `json:"pkce,omitempty"`
	Nonce     string `json:"non,omitempty"`
}

// person is whom a grant is of now, if the application still allows them.
func (p *Provider) person(g *grant) (principal.Person, *fleet.ApplicationSpec, bool) {
	if g.Session == nil || p.Now().Unix() >= g.Until {
		return principal.Person{}, nil, false
	}
	a, ok := p.Application(g.Application)
	if !ok {
		return principal.Person{}, nil, false
	}
	who, err := p.Current(principal.Person{Name: g.Person, Session: g.Session})
	return who, a, err == nil && a.Allows(who.Name, who.Groups)
}

func (p *Provider) opened(ctx context.Context, purpose, sealed string) (*grant, error) {
	g := new(grant)
	return g, auth.Unseal(ctx, p.Keys, purpose, sealed, g)
}
