package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"regexp"
	"strconv"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/api/v1/openapi"
	"github.com/pluralsh/plural/internal/principal"
)

// What an Edit does, as it stands in a path.
const (
	ActionSuspend = "suspend"
	ActionResume  = "resume"
	ActionAck     = "ack"
	ActionSet     = "set"
	ActionUndo    = "undo"
	ActionUpgrade = "upgrade"
	// ActionEndLogins is of a person's own, and stands in no path.
	ActionEndLogins = "end-logins"
)

// Edit is a change to the installation repo that a person asks for.
type Edit struct {
	// Action is one of those above, and Name what it is about: a service, for undo a commit's id or the beginning of one, for upgrade
	// an installation.
	Action, Name string
	// Token is what is agreed to, for ack.
	Token string
	// Set is what a service is to have.
	Set *v1.SetRequest
	// Version is the one to upgrade to; empty: the newest that needs nobody's agreement.
	Version string
	// Message is the commit's; empty: the editor's own.
	Message string
	// Base is the commit that a dry run was made on; empty: any. Confirm is what the dry run asked for.
	Base, Confirm string
	// DryRun commits nothing.
	DryRun bool
}

// editRoutes are the paths of edits.
func (a *API) editRoutes(mux *http.ServeMux) {
	post := func(path string, h handler) { mux.HandleFunc("POST "+path, a.allowed(VerbEdit, h)) }
	for _, action := range []string{ActionSuspend, ActionResume, ActionAck} {
		post("/v1/services/{name}/"+action, editing(a, func(r *http.Request, body v1.EditRequest) (Edit, error) {
			e := Edit{
				Action: action, Name: r.PathValue("name"), Token: body.Token, Message: body.Message, Base: body.Base, Confirm: body.Confirm,
			}
			return e, a.service(e.Name)
		}))
	}
	post("/v1/services/{name}/set", editing(a, func(r *http.Request, body v1.SetRequest) (Edit, error) {
		e := Edit{
			Action: ActionSet, Name: r.PathValue("name"), Set: &body, Message: body.Message, Base: body.Base, Confirm: body.Confirm,
		}
		return e, a.service(e.Name)
	}))
	post("/v1/history/{name}/undo", editing(a, func(r *http.Request, body v1.EditRequest) (Edit, error) {
		e := Edit{Action: ActionUndo, Name: r.PathValue("name"), Message: body.Message, Base: body.Base, Confirm: body.Confirm}
		switch {
		case !commitStart.MatchString(e.Name):
			return e, badRequest("it is no commit's id", "give its 40 characters, or the first 7 or more: GET /v1/history")
		case body.Token != "":
			return e, badRequest("undo agrees to no token", "leave token out")
		}
		return e, nil
	}))
	post("/v1/upgrades/{name}/upgrade", editing(a, func(r *http.Request, body v1.UpgradeRequest) (Edit, error) {
		e := Edit{
			Action: ActionUpgrade, Name: r.PathValue("name"), Version: body.Version, Message: body.Message, Base: body.Base, Confirm: body.Confirm,
		}
		if _, there := a.View.Upgrade(e.Name); !there {
			return e, noSuch("package", e.Name)
		}
		if e.Version != "" && !versionText.MatchString(e.Version) {
			return e, badRequest("it is no version", "write one in full, such as 1.4.2")
		}
		return e, nil
	}))
}

var (
	commitStart = regexp.MustCompile(`^[0-9a-f]{7,40}$`)
	commitWhole = regexp.MustCompile(`^[0-9a-f]{40}$`)
	versionText = regexp.MustCompile(`^[0-9A-Za-z.+-]{1,100}$`)
)

func (a *API) service(name string) error {
	if _, there := a.View.Targets(name); !there {
		return noSuch("service", name)
	}
	return nil
}

func noSuch(kind, name string) error {
	e := notThere(kind, name)
	return &Refused{Status: http.StatusNotFound, Message: e.Message, Fix: e.Fix}
}

func badRequest(message, fix string) error {
	return &Refused{Status: http.StatusBadRequest, Message: message, Fix: fix}
}

// editing commits the change that a request is about, or says with ?dry-run=1 what it would be.
func editing[T any](a *API, read func(*http.Request, T) (Edit, error)) handler {
	return func(w http.ResponseWriter, r *http.Request, by principal.Person) {
		dry, err := dryRun(r)
		if err != nil {
			refuseError(w, err)
			return
		}
		body, ok := bodyOf[T](w, r)
		if !ok {
			return
		}
		e, err := read(r, body)
		if err == nil && e.Base != "" && !commitWhole.MatchString(e.Base) {
			err = badRequest("base is no commit's id", "send the one that the dry run answered as base")
		}
		if err != nil {
			refuseError(w, err)
			return
		}
		e.DryRun = dry
		a.edit(r.Context(), w, by, e)
	}
}

func (a *API) edit(ctx context.Context, w http.ResponseWriter, by principal.Person, e Edit) {
	if a.Edit == nil {
		refuse(w, http.StatusForbidden, v1.Error{Message: "this hub only reads the installation repo", Fix: "in a clone of it: " + e.Command()})
		return
	}
	done, err := a.Edit(ctx, by, e)
	if refused := new(Refused); errors.As(err, &refused) {
		refuseError(w, err)
		return
	}
	if err != nil {
		refuse(w, http.StatusBadGateway, v1.Error{
			Message: "the change was not committed: " + err.Error(), Fix: "in a clone of it: " + e.Command(),
		})
		return
	}
	reply(w, http.StatusOK, done)
}

// Command does the same in a clone.
func (e *Edit) Command() string {
	switch e.Action {
	case ActionUndo:
		return "plural undo " + e.Name
	case ActionEndLogins:
		return "plural auth end " + e.Name
	case ActionUpgrade:
		command := "plural package upgrade " + e.Name
		if e.Version != "" {
			command += " --to " + e.Version
		}
		return command
	}
	return "plural service " + e.Action + " " + e.Name
}

// dryRun reads the query. What is written otherwise is refused: it would be a commit that nobody wanted yet.
func dryRun(r *http.Request) (bool, error) {
	values := r.URL.Query()
	for name := range values {
		if name != "dry-run" {
			return false, badRequest("unknown parameter "+strconv.Quote(name), "an edit takes ?dry-run=1")
		}
	}
	if !values.Has("dry-run") {
		return false, nil
	}
	dry, err := strconv.ParseBool(cmp.Or(values.Get("dry-run"), "true"))
	if err != nil || len(values["dry-run"]) > 1 {
		return false, badRequest("dry-run is neither true nor false", "?dry-run=1")
	}
	return dry, nil
}

// editDescriptions describe them.
func editDescriptions() []openapi.Route {
	query := []openapi.Param{{Name: "dry-run", Description: "Commit nothing, and answer with what would be committed.", Example: false}}
	post := func(path, summary string, body any) openapi.Route {
		return openapi.Route{Method: http.MethodPost, Path: path, Summary: summary, Body: body, Response: v1.Edited{}, Query: query}
	}
	return []openapi.Route{
		post("/v1/services/{name}/suspend", "Have agents leave a service alone: a commit by the hub", v1.EditRequest{}),
		post("/v1/services/{name}/resume", "Undo suspend", v1.EditRequest{}),
		post("/v1/services/{name}/ack", "Agree to deletions that wait for a person: a commit by the hub", v1.EditRequest{}),
		post("/v1/services/{name}/set", "Change parameters, Helm values, ref or clusters of a service: a commit by the hub", v1.SetRequest{}),
		post("/v1/history/{name}/undo", "Take a commit back: a commit by the hub", v1.EditRequest{}),
		post("/v1/upgrades/{name}/upgrade", "Take an installation to a version: a commit by the hub", v1.UpgradeRequest{}),
	}
}
