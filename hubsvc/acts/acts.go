// Package acts owns the audit records of what people and clusters ask of the hub itself.
//
// It says what is worth a record and how often one person may cause one; the record is package audit's. What is asked of a cluster has
// records of its own.
package acts

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/audit"
	"github.com/pluralsh/plural/hubsvc/join"
	"github.com/pluralsh/plural/hubsvc/kubeapi"
	"github.com/pluralsh/plural/internal/addrlimit"
	"github.com/pluralsh/plural/internal/principal"
)

// denied is the decision about an act that nobody may have had, as the record of requests to clusters has it too.
const denied = "denied"

// The audit record has a line or two for each act and each request to a cluster. These bounds keep one person from pushing all other
// records out of it: each person has so many at once, room for one on each cluster of a large fleet, and one more each of these.
const (
	actsAtOnce = 20_000
	eachAct    = time.Second / 20
)

// Recorder writes acts down.
type Recorder struct {
	audit  *audit.Log
	person func(*http.Request) (principal.Person, error)
	limits *addrlimit.Limits
	log    *slog.Logger
}

// New makes a Recorder. who is who sends a request.
func New(log *audit.Log, who func(*http.Request) (principal.Person, error), logger *slog.Logger) *Recorder {
	return &Recorder{log, who, addrlimit.New(actsAtOnce, eachAct, time.Now), logger}
}

// Allow says whether a person may do one more thing that is written down, in the hub or in clusters.
func (a *Recorder) Allow(p principal.Person) bool { return a.limits.Allow(p.Key()) }

// maxSaid bounds what a record repeats of what a client says, in bytes as they are written.
const maxSaid = 512

// AuditPath is where the record itself is read.
const AuditPath = "/v1/audit"

// recorded says whether a request has a record: what has the hub do something, and who reads the record.
func recorded(r *http.Request) (verb string, ok bool) {
	switch {
	case r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/v1/"):
		return "post", true
	case r.Method == http.MethodGet && (r.URL.Path == AuditPath || strings.HasPrefix(r.URL.Path, AuditPath+"/")):
		return "get", true
	}
	return "", false
}

// HTTP writes down what people have the hub do by way of /v1, and who reads what was written down, before it is done and after. What
// is asked of a cluster has records of its own. Nothing is done that cannot be written down.
func (a *Recorder) HTTP(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		verb, ok := recorded(r)
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		who, err := a.person(r)
		if err != nil {
			next.ServeHTTP(w, r) // which turns them away
			return
		}
		if a.audit.RefusedTooOften(who.Key()) { // each act has a line before anybody knows whether it may be
			tooManyRefusals(w)
			return
		}
		if !a.Allow(who) {
			tooManyActs(w)
			return
		}
		act := audit.Record{AuditRecord: v1.AuditRecord{
			Time: time.Now(), ID: strings.ToLower(rand.Text()), Stage: audit.Start, Person: who.Name, Groups: who.Groups, Operator: who.Operator,
			Credential: who.Credential, Source: addrlimit.Sender(r), Forwarded: said(strings.Join(r.Header["X-Forwarded-For"], ", ")),
			UserAgent: said(r.UserAgent()), Verb: verb, Path: said(r.URL.Path), Decision: audit.Allowed,
		}, Must: true}
		if err := a.audit.Write(r.Context(), act); err != nil {
			a.log.Error("an act is refused that cannot be written down", "person", who.Name, "path", act.Path, "error", err)
			unwritten(w)
			return
		}
		answer := &noted{ResponseWriter: w, status: http.StatusOK}
		defer func() {
			act.Stage, act.Status, act.Duration = audit.End, answer.status, time.Since(act.Time)
			again := answer.status == http.StatusConflict || answer.status == http.StatusTooManyRequests
			if answer.status/100 == 4 && !again { // nothing happened, nor would if it were asked again
				act.Decision = denied
			}
			if err := a.audit.Write(context.WithoutCancel(r.Context()), act); err != nil {
				a.log.Error("the end of an act is not written down", "person", who.Name, "path", act.Path, "error", err)
			}
		}()
		next.ServeHTTP(answer, r)
	})
}

// Exchange writes the exchange of a join token down as something that a cluster had the hub do.
func (a *Recorder) Exchange(ctx context.Context, e join.Exchange, end bool) error {
	record := audit.Record{AuditRecord: v1.AuditRecord{
		Time: e.Beginning, ID: e.ID, Stage: audit.Start, Person: "cluster/" + e.Cluster, Credential: "join", Cluster: e.Cluster,
		Source: addrlimit.Sender(e.Request), Forwarded: said(strings.Join(e.Request.Header["X-Forwarded-For"], ", ")),
		UserAgent: said(e.Request.UserAgent()), Verb: "post", Path: e.Request.URL.Path, Decision: audit.Allowed,
	}, Must: true}
	if end {
		record.Stage, record.Status, record.Cause, record.Duration = audit.End, e.Status, e.Cause, time.Since(e.Beginning)
	}
	if !e.Allowed {
		record.Decision = denied
	}
	return a.audit.Write(ctx, record)
}

// Login writes down that somebody was let in with a token from elsewhere, before they are.
func (a *Recorder) Login(r *http.Request, who *principal.Person) error {
	return a.login(r, who, v1.AuditRecord{Decision: audit.Allowed, Status: http.StatusOK})
}

// Application writes down that somebody is let into an application, or is not, before they are.
func (a *Recorder) Application(r *http.Request, who *principal.Person, name string, allowed bool) error {
	if !a.Allow(*who) {
		return errors.New(kubeapi.OverPace)
	}
	record := v1.AuditRecord{Resource: "applications", Name: name, Decision: audit.Allowed, Status: http.StatusOK}
	if !allowed {
		record.Decision, record.Status = denied, http.StatusForbidden
	}
	return a.login(r, who, record)
}

func (a *Recorder) login(r *http.Request, who *principal.Person, record v1.AuditRecord) error {
	record.Time, record.ID, record.Stage = time.Now(), strings.ToLower(rand.Text()), audit.End
	record.Person, record.Groups, record.Operator, record.Credential = who.Name, who.Groups, who.Operator, who.Credential
	record.Source, record.Forwarded = addrlimit.Sender(r), said(strings.Join(r.Header["X-Forwarded-For"], ", "))
	record.UserAgent, record.Verb, record.Path = said(r.UserAgent()), "login", said(r.URL.Path)
	switch s := who.Session; {
	case s != nil && s.Token != "":
		record.Cause = said(s.Through() + " " + s.Token) // as the records of requests with it have it
	case s != nil:
		record.Cause = said(s.Through() + " says " + s.Subject)
	}
	if err := a.audit.Write(r.Context(), audit.Record{AuditRecord: record, Must: true}); err != nil {
		a.log.Error("a login is refused that cannot be written down", "person", who.Name, "error", err)
		return err
	}
	return nil
}

func tooManyRefusals(w http.ResponseWriter) {
	tooMany(w, "10", v1.Error{Message: "too much of what you asked for was refused", Fix: "wait ten seconds before you ask again"})
}

func tooManyActs(w http.ResponseWriter) {
	tooMany(w, "1", v1.Error{Message: kubeapi.OverPace, Fix: "wait a second before you ask again"})
}

func tooMany(w http.ResponseWriter, seconds string, e v1.Error) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Retry-After", seconds)
	w.WriteHeader(http.StatusTooManyRequests)
	_ = json.NewEncoder(w).Encode(e) // a reader that went away asks again
}

func unwritten(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusServiceUnavailable)
	_ = json.NewEncoder(w).Encode(v1.Error{ // a reader that went away asks again
		Message: "this cannot be written down now, so it is not done", Fix: "see that the hub's disk is writable and has room",
	})
}

func said(text string) string { return kubeapi.Clip(text, maxSaid) }

// noted is an answer whose status is remembered.
type noted struct {
	http.ResponseWriter
	status int
}

func (n *noted) WriteHeader(status int) {
	n.status = status
	n.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (n *noted) Unwrap() http.ResponseWriter { return n.ResponseWriter }
