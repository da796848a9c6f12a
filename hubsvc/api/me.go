package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/api/v1/openapi"
	"github.com/pluralsh/plural/internal/addrlimit"
	"github.com/pluralsh/plural/internal/principal"
	"github.com/pluralsh/plural/workspace/fleet"
)

// maxQuestion bounds the body of a small request, in bytes.
const maxQuestion = 4 << 10

// kubeTokenLifetime is how long a token for a cluster is good for.
const kubeTokenLifetime = 10 * time.Minute

// Me answers people's questions about themselves.
type Me struct {
	// Person is who asks, or an error.
	Person func(*http.Request) (principal.Person, error)
	// May is nil when the person may do the verb to the fleet.
	May func(p principal.Person, verb string) error
	// Verbs are all there are.
	Verbs []string
	// Sees says whether the person may know that the cluster is there.
	Sees func(p principal.Person, cluster string) bool
	// Issue makes a token for the API of one cluster.
	Issue func(ctx context.Context, p principal.Person, cluster string, ttl time.Duration) (token string, expires time.Time, err error)
	// Tokens are those of a user of the fleet; false: there is no such user.
	Tokens func(user string) ([]fleet.UserToken, bool)
	// EndLogins ends all logins of whoever asks, by a commit. A *Refused is answered as such.
	EndLogins func(ctx context.Context, by principal.Person) (*v1.Edited, error)
	Now       func() time.Time
	// Ticket makes a ticket with which a browser logs in to the page, once.
	Ticket func(ctx context.Context, p *principal.Person) (ticket string, expires time.Time, err error)

	ends *addrlimit.Limits
}

// Routes adds the paths to mux.
func (m *Me) Routes(mux *http.ServeMux) {
	m.ends = addrlimit.New(endsAtOnce, eachEnd, m.Now)
	mux.HandleFunc("GET /v1/me", m.known(m.who))
	mux.HandleFunc("GET /v1/me/tokens", m.known(m.tokens))
	mux.HandleFunc("POST /v1/me/logout-everywhere", m.known(m.logoutEverywhere))
	mux.HandleFunc("POST /v1/kube/token", m.known(m.kubeToken))
	mux.HandleFunc("POST "+v1.TicketPath, m.known(m.pageTicket))
}

// MeRoutes describe the paths of Me.
func MeRoutes() []openapi.Route {
	return []openapi.Route{
		{Method: http.MethodGet, Path: "/v1/me", Summary: "Who asks, and what they may do to the fleet", Response: v1.Me{}},
		{
			Method: http.MethodGet, Path: "/v1/me/tokens", Summary: "The tokens of whoever asks, as the installation repo has them",
			Response: v1.UserTokenList{},
		},
		{
			Method: http.MethodPost, Path: "/v1/me/logout-everywhere", Summary: "End all logins of whoever asks: a commit by the hub. Tokens go on",
			Response: v1.Edited{},
		},
		{
			Method: http.MethodPost, Path: "/v1/kube/token", Summary: "A token for the API of one cluster, good for some minutes",
			Body: v1.KubeTokenRequest{}, Response: v1.KubeToken{},
		},
		{
			Method: http.MethodPost, Path: v1.TicketPath, Summary: "A ticket that logs a browser in to the page, once, within a minute",
			Response: v1.PageTicket{},
		},
	}
}

// known turns away whoever is nobody.
func (m *Me) known(next func(http.ResponseWriter, *http.Request, principal.Person)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p, err := m.Person(r)
		if err != nil {
			refuseNobody(w, err)
			return
		}
		next(w, r, p)
	}
}

func (m *Me) who(w http.ResponseWriter, _ *http.Request, p principal.Person) {
	me := v1.Me{Name: p.Name, Groups: p.Groups, Operator: p.Operator, Verbs: []string{}}
	if me.Groups == nil {
		me.Groups = []string{}
	}
	for _, verb := range m.Verbs {
		if m.May(p, verb) == nil {
			me.Verbs = append(me.Verbs, verb)
		}
	}
	if !p.Expires.IsZero() {
		expires := p.Expires.UTC()
		me.Expires = &expires
	}
	if s := p.Session; s != nil {
		me.Login = &v1.Login{Through: s.Through(), Subject: s.Subject, Shown: s.Shown}
	}
	reply(w, http.StatusOK, me)
}

// kubeToken answers in the same words for a cluster that is not there and for one that the person may not see.
func (m *Me) kubeToken(w http.ResponseWriter, r *http.Request, p principal.Person) {
	asked, err := question(w, r)
	switch {
	case err != nil:
		refuse(w, http.StatusBadRequest, v1.Error{Message: "read request: " + err.Error(), Fix: `send {"cluster": "NAME"}`})
		return
	case !m.Sees(p, asked.Cluster):
		refuse(w, http.StatusNotFound, v1.Error{Message: "no cluster " + strconv.Quote(asked.Cluster), Fix: "plural cluster list"})
		return
	}
	token, expires, err := m.Issue(r.Context(), p, asked.Cluster, kubeTokenLifetime)
	if err != nil {
		refuseNobody(w, err)
		return
	}
	reply(w, http.StatusOK, v1.KubeToken{Token: token, Expires: expires.UTC()})
}

// pageTicket answers who shows a token or a login of the CLI's. A browser that is logged in gets none: its cookie stays where it is.
func (m *Me) pageTicket(w http.ResponseWriter, r *http.Request, p principal.Person) {
	switch {
	case r.Header.Get("Authorization") == "":
		refuse(w, http.StatusForbidden, v1.Error{
			Message: "this browser is logged in already", Fix: "for another one, in a terminal: plural hub open",
		})
		return
	case p.Session != nil && p.Session.Federation != "":
		refuse(w, http.StatusForbidden, v1.Error{Message: "a login of a program opens no page", Fix: "log in as a person: plural auth login"})
		return
	}
	ticket, expires, err := m.Ticket(r.Context(), &p)
	if err != nil {
		refuseNobody(w, err)
		return
	}
	reply(w, http.StatusOK, v1.PageTicket{Ticket: ticket, Path: v1.OpenPath, Expires: expires.UTC()})
}

// question reads a request's body, which is one JSON value and nothing else.
func question(w http.ResponseWriter, r *http.Request) (asked v1.KubeTokenRequest, err error) {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxQuestion))
	decoder.DisallowUnknownFields()
	if decoder.Decode(&asked) != nil {
		return asked, errors.New("it is not the JSON of a question for a token")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return asked, errors.New("more than one value")
	}
	if asked.Cluster == "" || len(asked.Cluster) > 63 {
		return asked, errors.New("cluster is missing, or too long")
	}
	return asked, nil
}
