package api

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/internal/principal"
)

const (
	// shownHash is how much of a hash is shown, in characters.
	shownHash = 8
	// One person may end their logins so often at once, and one more each of these: each is a commit.
	endsAtOnce = 3
	eachEnd    = 10 * time.Minute
)

// tokens are those of whoever asks.
func (m *Me) tokens(w http.ResponseWriter, _ *http.Request, p principal.Person) {
	out := v1.UserTokenList{Items: []v1.UserToken{}}
	shown := p.Credential
	if p.Session != nil {
		shown = p.Session.Token
	}
	all, _ := m.Tokens(p.Name)
	if p.Operator { // whom no user can be
		all = nil
	}
	for i := range all {
		t := &all[i]
		one := v1.UserToken{Name: t.Name, ID: t.Hash[max(0, len(t.Hash)-shownHash):], Current: t.Hash == shown}
		if until := t.Until(); !until.IsZero() {
			until = until.UTC()
			one.Expires, one.Expired = &until, !m.Now().Before(until)
		}
		out.Items = append(out.Items, one)
	}
	reply(w, http.StatusOK, out)
}

// logoutEverywhere ends all logins of whoever asks, who needs no right for it. The login with which they ask ends, too.
func (m *Me) logoutEverywhere(w http.ResponseWriter, r *http.Request, p principal.Person) {
	if _, ok := bodyOf[struct{}](w, r); !ok {
		return
	}
	_, known := m.Tokens(p.Name)
	switch {
	case p.Operator:
		refuse(w, http.StatusConflict, v1.Error{
			Message: "logins with the hub's own token end when that is replaced", Fix: "plural up, or plural hub token FILE where the hub runs",
		})
		return
	case p.Session != nil && p.Session.Federation != "":
		refuse(w, http.StatusForbidden, v1.Error{
			Message: "a program ends no logins", Fix: "plural auth end " + p.Name + ", by somebody who may push",
		})
		return
	case !known:
		fix := "make the account an identity of a User in access/; or end those of everybody: plural auth end provider/NAME"
		refuse(w, http.StatusConflict, v1.Error{Message: strconv.Quote(p.Name) + " is no user of the fleet", Fix: fix})
		return
	case !m.ends.Allow(p.Key()):
		w.Header().Set("Retry-After", "600")
		refuse(w, http.StatusTooManyRequests, v1.Error{
			Message: "logins of " + strconv.Quote(p.Name) + " were ended just now", Fix: "wait some minutes",
		})
		return
	}
	edited, err := m.EndLogins(r.Context(), p)
	if refused := new(Refused); errors.As(err, &refused) {
		refuseError(w, err)
		return
	}
	if err != nil {
		refuse(w, http.StatusBadGateway, v1.Error{
			Message: "the change was not committed: " + err.Error(), Fix: "plural auth end " + p.Name + ", by somebody who may push",
		})
		return
	}
	reply(w, http.StatusOK, edited)
}
