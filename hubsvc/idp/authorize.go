package idp

import (
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pluralsh/plural/hubsvc/auth"
	"github.com/pluralsh/plural/internal/principal"
	"github.com/pluralsh/plural/workspace/fleet"
)

// The errors of RFC 6749 and OpenID Connect Core 1.0 that an application is told.
const (
	invalidRequest  = "invalid_request"
	invalidClient   = "invalid_client"
	invalidGrant    = "invalid_grant"
	unavailable     = "temporarily_unavailable"
	loginRequired   = "login_required"
	accessDenied    = "access_denied"
	unsupportedKind = "unsupported_response_type"
)

// question is what an application asks about somebody whom it sends here.
type question struct {
	client, redirect, state string
	nonce, challenge        string
	application             *fleet.ApplicationSpec
	// silent wants no page to be shown; anew wants somebody who has logged in at since or later.
	silent, anew bool
	since        time.Time
}

// authorize sends somebody back to the application that they come from, with a code.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request, by asked) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	query, err := url.ParseQuery(r.URL.RawQuery)
	switch {
	case err != nil:
		p.Pages.Say(w, http.StatusBadRequest, "The application asks nothing that can be understood", "Tell whoever runs it.")
		return
	case max(len(r.URL.RawQuery), len(query.Encode())) > maxQuery: // all of it comes back from the login
		p.Pages.Say(w, http.StatusRequestURITooLong, "The application asks too much",
			"What it sends with you is longer than "+strconv.Itoa(maxQuery)+" bytes.")
		return
	}
	q, ok := p.whoAsks(w, query)
	if !ok {
		return
	}
	if wrong, why := q.read(query, p.Now()); wrong != "" {
		q.answer(w, r, by, url.Values{"error": {wrong}, "error_description": {why}})
		return
	}
	who, err := p.Person(r)
	rejected := new(principal.Rejected)
	known := err == nil && who.Session != nil && who.Session.Provider != ""
	switch {
	case errors.As(err, &rejected) && rejected.Later:
		q.answer(w, r, by, url.Values{"error": {unavailable}, "error_description": {rejected.Message}})
	case known && !time.Unix(who.Session.Began, 0).Before(q.since):
		p.decide(w, r, by, q, &who)
	case r.URL.Path == authorizePath && !known: // a browser brings the cookie only where the hub's own page has sent it
		p.Pages.LeadTo(w, continuePath+"?"+r.URL.RawQuery)
	case q.silent:
		q.answer(w, r, by, url.Values{"error": {loginRequired}, "error_description": {"nobody is logged in to the hub with this browser"}})
	default:
		p.Pages.Begin(w, r, continuePath+"?"+q.again(query, p.Now()), q.anew)
	}
}

// whoAsks finds the application that sent somebody, and an address to answer to. Without both, nobody is sent anywhere.
func (p *Provider) whoAsks(w http.ResponseWriter, query url.Values) (*question, bool) {
	q := &question{client: one(query, "client_id"), redirect: one(query, "redirect_uri"), state: one(query, "state")}
	var known bool
	if q.application, known = p.Application(q.client); !known {
		p.logins.WithLabelValues("unknown").Inc()
		p.Pages.Say(w, http.StatusBadRequest, "The fleet has no such application",
			"No Application in access/ has the client ID with which you were sent here.")
		return nil, false
	}
	if !q.application.MatchesRedirect(q.redirect) {
		p.logins.WithLabelValues("unknown").Inc()
		p.Pages.Say(w, http.StatusBadRequest, "The application wants to be answered elsewhere",
			"The redirect_uri with which you were sent here is none of application "+q.client+" in access/. "+
				"Addresses are compared as they are written.")
		return nil, false
	}
	return q, true
}

// one is a parameter that was sent once; empty for one that was sent several times, too.
func one(values url.Values, name string) string {
	if list := values[name]; len(list) == 1 {
		return list[0]
	}
	return ""
}

// challengeLength is that of a SHA-256 in base64url.
const challengeLength = 43

// read takes the rest of the question. What is wrong with it is an error of the protocol, and its reason.
func (q *question) read(query url.Values, now time.Time) (wrong, why string) {
	for name, list := range query {
		if len(list) > 1 {
			return invalidRequest, "a parameter was sent twice: " + strconv.QuoteToASCII(name[:min(len(name), 40)])
		}
	}
	q.nonce, q.challenge = one(query, "nonce"), one(query, "code_challenge")
	prompts := strings.Fields(one(query, "prompt"))
	q.silent, q.anew = slices.Contains(prompts, "none"), slices.Contains(prompts, "login")
	switch {
	case query.Has("request"):
		return "request_not_supported", "send parameters as such"
	case query.Has("request_uri"):
		return "request_uri_not_supported", "send parameters as such"
	case one(query, "response_type") != "code":
		return unsupportedKind, "the response_type is code"
	case query.Has("response_mode") && one(query, "response_mode") != "query":
		return invalidRequest, "the response_mode is query"
	case !slices.Contains(strings.Fields(one(query, "scope")), "openid"):
		return "invalid_scope", "the scope has to have openid in it"
	case q.silent && len(prompts) > 1:
		return invalidRequest, "prompt none stands alone"
	case q.challenge == "" && !q.application.WithoutPKCE:
		return invalidRequest, "code_challenge is missing: have the application use PKCE"
	case q.challenge == "" && q.nonce == "":
		return invalidRequest, "an application without PKCE has to send a nonce"
	case q.challenge != "" && (one(query, "code_challenge_method") != "S256" || len(q.challenge) != challengeLength):
		return invalidRequest, "the code_challenge_method is S256"
	}
	return q.readAge(query, now)
}

// readAge takes how old a login may be: max_age seconds, or not older than this question.
func (q *question) readAge(query url.Values, now time.Time) (wrong, why string) {
	if q.anew {
		q.since = now
	}
	if age := one(query, "max_age"); age != "" {
		seconds, err := strconv.ParseInt(age, 10, 32)
		if err != nil || seconds < 0 {
			return invalidRequest, "max_age is a number of seconds"
		}
		if oldest := now.Add(-time.Duration(seconds) * time.Second); oldest.After(q.since) { // prompt=login may want a newer one
			q.since = oldest
		}
		q.anew = true
	}
	if since := one(query, askedAt); since != "" { // by this very hub, before the login
		seconds, err := strconv.ParseInt(since, 10, 64)
		if err != nil || time.Unix(seconds, 0).After(now) {
			return invalidRequest, askedAt + " is the hub's own"
		}
		q.since = time.Unix(seconds, 0)
	}
	return "", ""
}

// askedAt is the parameter by which the hub tells, after a login, when the question was asked that has led to it.
const askedAt = "plural_asked"

// again is the query with which somebody comes back who has to log in first.
func (q *question) again(query url.Values, now time.Time) string {
	if q.anew && !query.Has(askedAt) {
		const skew = 30 * time.Second // the provider's clock says when it was
		query.Set(askedAt, strconv.FormatInt(now.Add(-skew).Unix(), 10))
	}
	return query.Encode()
}

// answer sends somebody back to the application.
func (q *question) answer(w http.ResponseWriter, r *http.Request, by asked, values url.Values) {
	if q.state != "" {
		values.Set("state", q.state)
	}
	values.Set("iss", by.issuer) // RFC 9207
	to := q.redirect
	if strings.Contains(to, "?") {
		to += "&" + values.Encode()
	} else {
		to += "?" + values.Encode()
	}
	http.Redirect(w, r, to, http.StatusSeeOther) //nolint:gosec // one of the application's own, as access/ has it
}

// decide gives the application a code for somebody whom it allows.
func (p *Provider) decide(w http.ResponseWriter, r *http.Request, by asked, q *question, who *principal.Person) {
	allowed := q.application.Allows(who.Name, who.Groups)
	if err := p.Record(r, who, q.client, allowed); err != nil {
		q.answer(w, r, by, url.Values{"error": {unavailable}, "error_description": {"the login cannot be written down now"}})
		return
	}
	if !allowed {
		p.logins.WithLabelValues("denied").Inc()
		if q.silent { // which shows nobody a page
			why := "the application does not allow whoever is logged in"
			q.answer(w, r, by, url.Values{"error": {accessDenied}, "error_description": {why}})
			return
		}
		p.Pages.Say(w, http.StatusForbidden, "You may not log in to "+q.client,
			"You are "+who.Name+". Application "+q.client+" in access/ allows neither you nor a group of yours.")
		return
	}
	code, err := auth.Seal(r.Context(), p.Keys, sealedCode, &grant{
		ID: rand.Text(), Application: q.client, Person: who.Name, Session: who.Session, Until: p.Now().Add(codeLifetime).Unix(),
		Redirect: q.redirect, Challenge: q.challenge, Nonce: q.nonce,
	})
	if err != nil {
		p.Log.Warn("a login to an application cannot be sealed", "application", q.client, "error", err)
		q.answer(w, r, by, url.Values{"error": {unavailable}, "error_description": {"the hub cannot reach its keys now"}})
		return
	}
	p.logins.WithLabelValues("code").Inc()
	q.answer(w, r, by, url.Values{"code": {code}})
}
