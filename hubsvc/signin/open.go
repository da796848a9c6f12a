package signin

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/auth"
	"github.com/pluralsh/plural/internal/addrlimit"
	"github.com/pluralsh/plural/internal/principal"
)

const (
	// TicketLifetime is how long after it was made somebody may log in with a ticket.
	TicketLifetime = time.Minute
	// sealedTicket has a sealed ticket be good for nothing else.
	sealedTicket = "plural page ticket"
	// maxTicket bounds a request with a ticket, in bytes: it may hold a session.
	maxTicket = 8 << 10
	// openAnother is what to do about a ticket that is not good.
	openAnother = "in a terminal: plural hub open"
)

// ticket is whom a browser may log in as, once.
type ticket struct {
	// ID is random.
	ID         string             `json:"id"`
	Person     string             `json:"who"`
	Credential string             `json:"crd"`
	Session    *principal.Session `json:"ses,omitempty"`
	// Until is in seconds since 1970.
	Until int64 `json:"exp"`
}

// Ticket is a ticket for somebody who was found by what they sent, and when it is good no longer. No replica keeps it.
func (p *Pages) Ticket(ctx context.Context, who *principal.Person) (sealed string, expires time.Time, err error) {
	expires = p.Now().Add(TicketLifetime).Truncate(time.Second)
	sealed, err = auth.Seal(ctx, p.Keys, sealedTicket, &ticket{
		ID: rand.Text(), Person: who.Name, Credential: who.Credential, Session: who.Session, Until: expires.Unix(),
	})
	if err != nil {
		return "", time.Time{}, withoutTickets(err)
	}
	return sealed, expires, nil
}

func withoutTickets(err error) error {
	return &principal.Rejected{
		Message: "the hub cannot reach the keys of logins now", Fix: "try again in a minute; plural logs hub says why", Later: true, Err: err,
	}
}

// askToLogIn shows the page that takes a ticket. It is behind the #, which only a script can read.
func (p *Pages) askToLogIn(w http.ResponseWriter, r *http.Request) {
	p.show(w, http.StatusOK, view{Title: "Log in", Text: "One moment.", Open: ownPath(r.URL.Query().Get("return")), OpenScript: openScript})
}

// shown is what the page sends.
type shown struct {
	Ticket string `json:"ticket"`
	// As is whom somebody agreed to log in as. Empty asks who that would be.
	As string `json:"as"`
}

// told is what the page gets for it.
type told struct {
	Name string `json:"name"`
	// Shown is what an identity provider calls the person; Operator is the holder of the hub's own token.
	Shown    string `json:"shown,omitempty"`
	Operator bool   `json:"operator,omitempty"`
	// Now is who is logged in with this browser.
	Now string `json:"now,omitempty"`
}

// open logs a browser in that has a ticket, and whose user has agreed to be who the ticket is of: anybody can send somebody a link with a
// ticket of their own.
func (p *Pages) open(w http.ResponseWriter, r *http.Request) {
	if !p.limits.Allow(addrlimit.Sender(r)) {
		w.Header().Set("Retry-After", "5")
		refuse(w, http.StatusTooManyRequests, v1.Error{Message: "too many logins from this address", Fix: "wait a few seconds and try again"})
		return
	}
	asked, err := readShown(w, r)
	if err != nil {
		refuse(w, http.StatusBadRequest, v1.Error{Message: "read request: " + err.Error(), Fix: openAnother})
		return
	}
	t, who, err := p.holder(r.Context(), asked.Ticket)
	switch {
	case err != nil:
		refuseLogin(w, err)
		return
	case asked.As == "":
		answer := told{Name: who.Name, Shown: who.Shown, Operator: who.Operator}
		if now, err := p.Person(r); err == nil {
			answer.Now = now.Name
		}
		reply(w, http.StatusOK, answer)
		return
	case asked.As != who.Name:
		refuse(w, http.StatusConflict, v1.Error{Message: "the ticket is another person's", Fix: openAnother})
		return
	}
	session, who, err := p.Open(r.Context(), principal.Person{Name: t.Person, Credential: t.Credential, Session: t.Session})
	if err == nil {
		err = p.spend(r.Context(), t)
	}
	if err != nil {
		refuseLogin(w, err)
		return
	}
	if err := p.Record(r, &who); err != nil {
		refuse(w, http.StatusServiceUnavailable, v1.Error{
			Message: "this cannot be written down now, so nobody is let in", Fix: "see that the hub's disk has room, then " + openAnother,
		})
		return
	}
	beginSession(w, session, who.Expires)
	reply(w, http.StatusOK, told{Name: who.Name, Shown: who.Shown, Operator: who.Operator})
}

// holder is whom a ticket is of, if what they showed for it is good still.
func (p *Pages) holder(ctx context.Context, sealed string) (*ticket, principal.Person, error) {
	t := new(ticket)
	err := auth.Unseal(ctx, p.Keys, sealedTicket, sealed, t)
	switch {
	case errors.Is(err, auth.ErrNotSealed):
		return nil, principal.Person{}, &principal.Rejected{Message: "this is no ticket of this hub's", Fix: openAnother}
	case err != nil:
		p.Log.Warn("a ticket cannot be read", "error", err)
		return nil, principal.Person{}, withoutTickets(err)
	case p.Now().Unix() >= t.Until:
		return nil, principal.Person{}, &principal.Rejected{
			Message: fmt.Sprintf("this took longer than the %d seconds that a ticket is good for", TicketLifetime/time.Second), Fix: openAnother,
		}
	}
	who, err := p.Current(principal.Person{Name: t.Person, Credential: t.Credential, Session: t.Session})
	return t, who, err
}

// spend has a ticket count once.
func (p *Pages) spend(ctx context.Context, t *ticket) error {
	first, err := p.Spend(ctx, t.ID)
	switch {
	case err != nil:
		p.Log.Warn("nobody can tell whether a ticket was used", "error", err)
		return &principal.Rejected{
			Message: "the hub cannot tell now whether this ticket was used", Fix: "try again in a minute, " + openAnother, Later: true,
		}
	case !first:
		return &principal.Rejected{
			Message: "this ticket was used before", Fix: openAnother + "; if it was not you who used it, see who did: plural audit",
		}
	}
	return nil
}

// refuseLogin says why somebody is not let in.
func refuseLogin(w http.ResponseWriter, err error) {
	status, message, fix := principal.Answer(err)
	refuse(w, status, v1.Error{Message: message, Fix: fix})
}

// readShown reads a request's body, which is one JSON value and nothing else.
func readShown(w http.ResponseWriter, r *http.Request) (asked shown, err error) {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxTicket))
	decoder.DisallowUnknownFields()
	if decoder.Decode(&asked) != nil { // the error may quote a ticket
		return asked, errors.New("it is not the JSON of a ticket")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return asked, errors.New("more than one value")
	}
	return asked, nil
}

// openScript shows whom the ticket is of, and logs in when somebody presses the button. What it writes is text and never markup. A button
// that has just come into view does not count: somebody may have been made to click where it was going to be.
const openScript = `
const [head, said, button, on] = ["head", "said", "login", "on"].map((id) => document.getElementById(id));
const ticket = location.hash.slice(1);
history.replaceState(null, "", location.pathname + location.search);
addEventListener("hashchange", () => location.reload());
const upper = (text) => text.charAt(0).toUpperCase() + text.slice(1);
const say = (title, text) => { head.textContent = title; said.textContent = text; };
const end = (title, text) => { say(title, text); button.hidden = true; on.hidden = false; };
const arm = () => { button.disabled = true; setTimeout(() => { button.disabled = false; }, 600); };
const ask = async (as) => {
  const answer = await fetch("/auth/open", {
    method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify({ticket, as}), cache: "no-store", redirect: "error",
  });
  const body = await answer.json();
  if (!answer.ok) throw new Error(upper(body.message) + "." + (body.fix ? " " + upper(body.fix) + "." : ""));
  return body;
};
const away = "The hub does not answer. Try again: plural hub open.";
const failed = (e) => end("You are not logged in", e instanceof TypeError ? away : e.message);
const begin = async () => {
  const who = await ask("");
  const name = who.shown ? who.name + " (" + who.shown + ")" : who.name;
  const may = who.operator ? " The hub's operator may do everything." : "";
  const now = who.now && who.now !== who.name ? " This browser is logged in as " + who.now + " now, which ends." : "";
  say("Log in as " + name + "?", "Go on only if you asked for this, by plural hub open." + may + now);
  button.textContent = "Log in as " + name;
  button.hidden = false;
  arm();
  addEventListener("focus", arm);
  button.onclick = () => {
    button.hidden = true;
    ask(who.name).then(async () => {
      if ((await fetch("/v1/me", {cache: "no-store"})).status === 401)
        throw new Error("This browser keeps no login of this address. Use another browser, or an https address.");
      location.replace(on.href);
    }).catch(failed);
  };
};
if (!isSecureContext)
  end("The hub has no https address", "Browsers keep a login for https alone: write the hub's https URL as spec.hub.url into plural.yaml.");
else if (!ticket)
  end("There is nothing to log in with", "This address was opened before, or without a ticket. In a terminal: plural hub open.");
else
  begin().catch(failed);
`
