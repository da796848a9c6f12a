package api

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/api/v1/openapi"
	"github.com/pluralsh/plural/internal/addrlimit"
	"github.com/pluralsh/plural/internal/principal"
	"github.com/pluralsh/plural/workspace/fleet"
)

const (
	// maxExchange bounds the body of an exchange, in bytes: a token, as a form writes it.
	maxExchange = 48 << 10
	// One address may try so many exchanges at once, and one more each of these: people of one office share theirs.
	exchangesAtOnce = 100
	eachExchange    = time.Second / 10
)

// Login lets people and programs in that have a token from elsewhere.
type Login struct {
	// Providers are those with which people log in, by name.
	Providers func() map[string]fleet.ProviderSpec
	// Exchange is the session of whoever has a token, and who that is. Its error may be a *principal.Rejected.
	Exchange func(ctx context.Context, token string) (session string, who principal.Person, err error)
	// Record writes down who is let in, before they are.
	Record func(r *http.Request, who *principal.Person) error
	Now    func() time.Time

	limits    *addrlimit.Limits
	exchanges *prometheus.CounterVec
}

// Routes adds the paths to mux.
func (l *Login) Routes(mux *http.ServeMux, metrics prometheus.Registerer) {
	l.limits = addrlimit.New(exchangesAtOnce, eachExchange, l.Now)
	l.exchanges = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "plural_hub_logins_total", Help: "Tokens from elsewhere that were shown for a session, by what came of them.",
	}, []string{"outcome"})
	if metrics != nil {
		metrics.MustRegister(l.exchanges)
	}
	mux.HandleFunc("GET /v1/auth/providers", l.list)
	mux.HandleFunc("POST "+v1.ExchangePath, l.exchange)
}

// LoginRoutes describe the paths of Login.
func LoginRoutes() []openapi.Route {
	return []openapi.Route{
		{
			Method: http.MethodGet, Path: "/v1/auth/providers", Summary: "The OpenID Connect providers with which people log in",
			Response: v1.LoginProviderList{}, Open: true,
		},
		{
			Method: http.MethodPost, Path: v1.ExchangePath, Summary: "Exchange a token of a provider or a federation for a session (RFC 8693)",
			Body: v1.ExchangeRequest{}, Form: true, Response: v1.ExchangeAnswer{}, Open: true,
		},
	}
}

func (l *Login) list(w http.ResponseWriter, _ *http.Request) {
	providers := l.Providers()
	all := v1.LoginProviderList{Items: []v1.LoginProvider{}}
	for _, name := range slices.Sorted(maps.Keys(providers)) {
		p := providers[name]
		all.Items = append(all.Items, v1.LoginProvider{
			Name: name, Issuer: p.Issuer, ClientID: p.ClientID, ClientSecret: p.ClientSecret, Scopes: p.Scopes, Device: p.Device,
		})
	}
	reply(w, http.StatusOK, all)
}

func (l *Login) exchange(w http.ResponseWriter, r *http.Request) {
	if !l.limits.Allow(addrlimit.Sender(r)) {
		l.exchanges.WithLabelValues("limited").Inc()
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusTooManyRequests, v1.Error{Message: "too many logins from this address", Fix: "wait a few seconds"})
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxExchange)
	token, err := subjectToken(r)
	if err != nil {
		l.exchanges.WithLabelValues("malformed").Inc()
		refuse(w, http.StatusBadRequest, v1.Error{
			Message: "read request: " + err.Error(),
			Fix:     "send a form with grant_type=" + v1.GrantTokenExchange + ", subject_token and subject_token_type=" + v1.TokenTypeIDToken,
		})
		return
	}
	session, who, err := l.Exchange(r.Context(), token)
	if err != nil {
		l.exchanges.WithLabelValues("refused").Inc()
		refuseNobody(w, err)
		return
	}
	if err := l.Record(r, &who); err != nil {
		l.exchanges.WithLabelValues("failed").Inc()
		refuse(w, http.StatusServiceUnavailable, v1.Error{
			Message: "this cannot be written down now, so nobody is let in", Fix: "see that the hub's disk is writable and has room",
		})
		return
	}
	l.exchanges.WithLabelValues("done").Inc()
	reply(w, http.StatusOK, v1.ExchangeAnswer{
		AccessToken: session, IssuedTokenType: v1.TokenTypeAccessToken, TokenType: "Bearer", ExpiresIn: int64(who.Expires.Sub(l.Now()) / time.Second),
	})
}

// subjectToken is the token of a request as RFC 8693 has it. What is in the URL does not count: proxies write URLs down.
func subjectToken(r *http.Request) (string, error) {
	if err := r.ParseForm(); err != nil {
		return "", errors.New("its body is not a form, or too long")
	}
	only := func(name string) string {
		if values := r.PostForm[name]; len(values) == 1 {
			return values[0]
		}
		return ""
	}
	switch kind := only("subject_token_type"); {
	case only("grant_type") != v1.GrantTokenExchange:
		return "", errors.New("its grant_type is not that of a token exchange")
	case kind != v1.TokenTypeIDToken && kind != v1.TokenTypeJWT:
		return "", errors.New("its subject_token_type is not that of an ID token or a JWT")
	case only("subject_token") == "":
		return "", errors.New("it has no subject_token, or more than one")
	}
	return only("subject_token"), nil
}
