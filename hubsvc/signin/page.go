package signin

import (
	"bytes"
	"crypto/rand"
	"errors"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/pluralsh/plural/hubsvc/auth"
	"github.com/pluralsh/plural/internal/principal"
)

// view is what a page shows. The template escapes all of it.
type view struct {
	Nonce, Title, Text string
	// Next is the path that the page leads to by itself, Back where somebody begins again.
	Next, Back string
	// Providers are the names of those that somebody may choose from, Return is the path that a login leads to, and whoever is logged in
	// already, and Prompt what the provider is asked to do; empty for the page, and for what it does by itself.
	Providers      []string
	Return, Prompt string
	// Confirm are what the button sends back that logs out of an application, as pairs; none: there is no such button.
	Confirm [][2]string
	// Facts are about whoever is logged in, as pairs.
	Facts [][2]string
	// Open is the path that the script of the page leads to once somebody has logged in; empty: the page has no script.
	Open       string
	OpenScript template.JS
}

const text = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
{{- if .Next}}
<meta http-equiv="refresh" content="0;url={{.Next}}">
{{- end}}
<title>{{.Title}} - plural</title>
<style nonce="{{.Nonce}}">
body { font: 1rem/1.5 system-ui, sans-serif; margin: 15vh auto; max-width: 32rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; }
dt { font-weight: 600; }
dd { margin: 0 0 .5rem; overflow-wrap: anywhere; }
.action { display: inline-block; margin: .25rem .5rem .25rem 0; padding: .5rem 1rem; border: 1px solid; border-radius: .4rem; color: inherit;
  background: none; font: inherit; text-decoration: none; cursor: pointer; }
.action:disabled { opacity: .5; }
[hidden] { display: none; }
</style>
</head>
<body>
<main>
<h1 id="head">{{.Title}}</h1>
<p id="said" role="status">{{.Text}}</p>
{{- if .Open}}
<noscript><p>This page needs JavaScript. In a terminal: plural tui.</p></noscript>
<button class="action" id="login" hidden>Log in</button>
<a class="action" id="on" href="{{.Open}}" hidden>Go on</a>
<script nonce="{{.Nonce}}">{{.OpenScript}}</script>
{{- end}}
{{- range .Providers}}
<a class="action" href="/auth/login?provider={{.}}
{{- with $.Return}}&amp;return={{.}}{{end}}{{with $.Prompt}}&amp;prompt={{.}}{{end}}">Log in with {{.}}</a>
{{- end}}
{{- if .Facts}}
<dl>
{{- range .Facts}}
<dt>{{index . 0}}</dt><dd>{{index . 1}}</dd>
{{- end}}
</dl>
{{- with .Return}}
<a class="action" href="{{.}}">Go on</a>
{{- end}}
<form method="post" action="/auth/logout"><button class="action">Log out</button></form>
{{- else if .Confirm}}
<form method="post" action="/oidc/logout/confirm">
{{- range .Confirm}}
<input type="hidden" name="{{index . 0}}" value="{{index . 1}}">
{{- end}}
<button class="action">Log out</button></form>
{{- else if .Next}}
<a class="action" href="{{.Next}}">Go on</a>
{{- else if .Back}}
<a class="action" href="{{.Back}}">Back</a>
{{- end}}
</main>
</body>
</html>
`

// show answers with a page, which loads nothing, and runs nothing but the script for a ticket.
func (p *Pages) show(w http.ResponseWriter, status int, v view) {
	v.Nonce = rand.Text()
	var body bytes.Buffer
	if err := p.page().Execute(&body, v); err != nil {
		p.Log.Error("a page cannot be written", "error", err)
		http.Error(w, "the hub cannot write its page", http.StatusInternalServerError)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	policy := "default-src 'none'; style-src 'nonce-" + v.Nonce + "'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
	if v.Open != "" {
		policy += "; script-src 'nonce-" + v.Nonce + "'; connect-src 'self'; require-trusted-types-for 'script'; trusted-types 'none'"
		header.Set("Cross-Origin-Opener-Policy", "same-origin") // whoever opened the window holds it no longer
	}
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // a browser that went away has seen enough
}

// Say answers with a page of one sentence.
func (p *Pages) Say(w http.ResponseWriter, status int, title, text string) {
	p.show(w, status, view{Title: title, Text: text, Back: "/"})
}

// LeadTo answers with a page that leads on by itself. Unlike a redirect it makes the next request the hub's own, which brings a strict
// cookie.
func (p *Pages) LeadTo(w http.ResponseWriter, to string) {
	p.show(w, http.StatusOK, view{Title: "One moment", Text: "The page goes on by itself.", Next: to})
}

// AskToLogOut asks somebody whom an application has sent here to log out. What they send back is said as pairs.
func (p *Pages) AskToLogOut(w http.ResponseWriter, back [][2]string) {
	p.show(w, http.StatusOK, view{
		Title: "Log out", Text: "An application asks to end your login. Others go on for as long as they remember you.", Confirm: back,
	})
}

// Home is who is logged in, or how to log in.
func (p *Pages) Home(w http.ResponseWriter, r *http.Request) {
	who, err := p.Person(r)
	if rejected := new(principal.Rejected); errors.As(err, &rejected) && rejected.Later {
		p.Say(w, http.StatusServiceUnavailable, rejected.Message, rejected.Fix)
		return
	}
	if err != nil {
		if _, had := r.Cookie(auth.SessionCookie); had == nil {
			EndSession(w) // it has ended
		}
		v := view{
			Title: "Log in", Text: "This is the hub of a fleet of Kubernetes clusters. Whoever is logged in in a terminal: plural hub open.",
			Providers: slices.Sorted(maps.Keys(p.Providers())),
		}
		if len(v.Providers) == 0 {
			v.Text = "This is the hub of a fleet of Kubernetes clusters. It has no identity provider to log in with; in a terminal: plural hub open."
		}
		if to := ownPath(r.URL.Query().Get("return")); to != "/" {
			v.Return = to
		}
		p.show(w, http.StatusOK, v)
		return
	}
	facts := [][2]string{{"User", who.Name}}
	if s := who.Session; s != nil {
		facts = append(facts, [2]string{"Through", s.Through()})
		if s.Shown != "" {
			facts = append(facts, [2]string{"Shown as", s.Shown})
		}
	}
	if len(who.Groups) > 0 {
		facts = append(facts, [2]string{"Groups", strings.Join(who.Groups, ", ")})
	}
	if !who.Expires.IsZero() {
		facts = append(facts, [2]string{"Until", who.Expires.UTC().Format(time.DateTime) + " UTC"})
	}
	v := view{Title: "You are logged in", Text: "The console of the fleet is in the terminal: plural tui.", Facts: facts}
	if r.URL.Path == HomePath {
		v.Return = ownPath(r.URL.Query().Get("return"))
	}
	p.show(w, http.StatusOK, v)
}
