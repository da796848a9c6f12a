package idp

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/pluralsh/plural/hubsvc/signin"
)

// askToLogOut asks whoever an application sends to log out (OpenID Connect RP-Initiated Logout 1.0). Nobody is logged out unasked: any page
// could send them.
func (p *Provider) askToLogOut(w http.ResponseWriter, r *http.Request, by asked) {
	said, ok := p.said(w, r)
	if !ok {
		return
	}
	back := [][2]string{{"confirm", "yes"}}
	if p.afterLogout(said, by) != "" {
		for _, name := range []string{"client_id", "id_token_hint", "post_logout_redirect_uri", "state"} {
			if value := one(said, name); value != "" {
				back = append(back, [2]string{name, value})
			}
		}
	}
	p.Pages.AskToLogOut(w, back)
}

// said are the parameters of a request, in its query or its form.
func (p *Provider) said(w http.ResponseWriter, r *http.Request) (url.Values, bool) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil || len(r.URL.RawQuery) > maxForm {
		p.Pages.Say(w, http.StatusBadRequest, "The application asks nothing that can be understood", "Tell whoever runs it.")
		return nil, false
	}
	if r.Method == http.MethodPost {
		return r.PostForm, true
	}
	return r.Form, true
}

// afterLogout is where somebody is sent after they logged out: an address of the application that sent them, or none.
func (p *Provider) afterLogout(said url.Values, by asked) string {
	name, hint, to := one(said, "client_id"), one(said, "id_token_hint"), one(said, "post_logout_redirect_uri")
	if hint != "" {
		_, application, err := by.keys.Subject(hint, by.issuer)
		if err != nil || name != "" && name != application {
			return ""
		}
		name = application
	}
	a, known := p.Application(name)
	if !known || !slices.Contains(a.LogoutURIs, to) {
		return ""
	}
	if state := one(said, "state"); state != "" && strings.Contains(to, "?") {
		return to + "&state=" + url.QueryEscape(state)
	} else if state != "" {
		return to + "?state=" + url.QueryEscape(state)
	}
	return to
}

// logOut ends the session of whoever pressed the button.
func (p *Provider) logOut(w http.ResponseWriter, r *http.Request, by asked) {
	said, ok := p.said(w, r)
	if !ok {
		return
	}
	signin.EndSession(w)
	p.Pages.LeadTo(w, cmp.Or(p.afterLogout(said, by), signin.HomePath))
}
