package hubsvc

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/api/v1/openapi"
	"github.com/pluralsh/plural/hubsvc/access"
	"github.com/pluralsh/plural/hubsvc/api"
	"github.com/pluralsh/plural/hubsvc/idp"
	"github.com/pluralsh/plural/hubsvc/idtoken"
	"github.com/pluralsh/plural/hubsvc/join"
	"github.com/pluralsh/plural/hubsvc/live"
	"github.com/pluralsh/plural/hubsvc/signin"
	"github.com/pluralsh/plural/internal/principal"
	"github.com/pluralsh/plural/workspace/fleet"
)

// apiRoutes describe all of /v1.
func apiRoutes() [][]openapi.Route {
	return [][]openapi.Route{api.APIRoutes(), api.MeRoutes(), api.LoginRoutes(), api.AuditRoutes(), live.APIRoutes(), join.APIRoutes()}
}

// apiOptions are what people's tools are served with.
func (h *hub) apiOptions(document []byte) api.Options {
	return api.Options{
		View: h.view, Sources: h.status.List, Hub: h.status.Hub, Look: h.sync, Document: document, Leaving: h.left,
		Sync: h.reaching.channels.Sync, Edit: h.edit, Connections: h.status.Connections, Now: time.Now,
		Views:   func() v1.ViewList { return h.planner.Plan().Views },
		History: h.history.List, Revision: h.history.Revision,
		Follow: func(since string, kinds []v1.ChangeKind, items []string, filters func(v1.ChangeKind) string) (api.Follower, error) {
			follower, err := h.view.Follow(since, kinds, filters)
			if err == nil && items != nil {
				follower.Only(items)
			}
			return follower, err
		},
		Allow: h.allow,
	}
}

// edit commits what somebody asks for.
func (h *hub) edit(ctx context.Context, by principal.Person, e api.Edit) (*v1.Edited, error) {
	if e.Action == api.ActionUpgrade {
		return h.upgrader.Ask(ctx, by, e)
	}
	return h.committer.Change(ctx, by, e)
}

// allow is who sends a request, unless they may not do the verb.
func (h *hub) allow(r *http.Request, verb string) (principal.Person, error) {
	who, err := h.people.Person(r)
	if err != nil {
		return principal.Person{}, err
	}
	err = h.planner.Access().Fleet(who, verb)
	if denied := new(access.Denied); errors.As(err, &denied) {
		return principal.Person{}, &api.Refused{
			Status: http.StatusForbidden, Message: "user " + strconv.Quote(denied.Person) + " may not " + denied.What, Fix: denied.Fix,
		}
	}
	return who, err
}

// auditAPI shows who did what to those who may see it.
func (h *hub) auditAPI() *api.Audit {
	of := h.reaching.audits
	return &api.Audit{Allow: h.allow, List: of.List, Chunk: of.Chunk, People: of.People, Now: time.Now}
}

// login lets people in who have a token from elsewhere.
func (h *hub) login() *api.Login {
	return &api.Login{
		Providers: func() map[string]fleet.ProviderSpec { return h.planner.Directory().Providers() },
		Exchange:  h.people.Exchange, Record: h.acts.Login, Now: time.Now,
	}
}

// signin lets people log in to the page.
func (h *hub) signin() *signin.Pages {
	return signin.New(signin.Options{
		URL: h.planner.AgentURL, Providers: h.login().Providers, Secret: h.planner.PageSecret, Admit: h.people.Admit,
		Person: h.people.Person, Current: h.people.Current, Open: h.people.Open, Spend: h.once.Spend,
		Record: h.acts.Login, Keys: h.loginKeys, NoLoopback: !h.AllowLoopback, Now: time.Now, Log: h.Log,
	})
}

// idp lets people log in to the applications that the fleet runs.
func (h *hub) idp(pages *signin.Pages) *idp.Provider {
	return idp.New(idp.Options{
		URL: h.planner.AgentURL, SigningKeys: func() *idtoken.Keys { return h.planner.Plan().SigningKeys },
		Application: func(name string) (*fleet.ApplicationSpec, bool) { return h.planner.Directory().Application(name) },
		Person:      h.people.Person, Current: h.people.Current, Pages: pages, Record: h.acts.Application, Keys: h.loginKeys,
		Spend: h.once.Spend, Now: time.Now, Log: h.Log, Metrics: h.registry,
	})
}

// me answers people's questions about themselves.
func (h *hub) me(pages *signin.Pages) *api.Me {
	return &api.Me{
		Person: h.people.Person, May: func(p principal.Person, verb string) error { return h.planner.Access().Fleet(p, verb) },
		Verbs: slices.Concat(fleet.FleetVerbs(), fleet.ToolVerbs()),
		Sees:  func(p principal.Person, cluster string) bool { return h.planner.Access().Sees(p, cluster) },
		Issue: h.people.Issue, Ticket: pages.Ticket, Now: time.Now,
		Tokens: func(user string) ([]fleet.UserToken, bool) { return h.planner.Directory().Tokens(user) },
		EndLogins: func(ctx context.Context, by principal.Person) (*v1.Edited, error) {
			return h.committer.EndLogins(ctx, by, time.Now())
		},
	}
}
