// Package oidc owns logging in with an OpenID Connect provider from a terminal.
//
// It knows neither the hub nor where tokens are kept. The browser ends at a port of this machine (RFC 8252), or the person pastes the
// URL that a browser elsewhere ended at.
package oidc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/pluralsh/plural/internal/oidcflow"
)

// CallbackPath is that of the redirect URI, whose host is 127.0.0.1 with any port.
const CallbackPath = "/callback"

// Ways are how a person gets to the provider's page and back.
type Ways struct {
	// Open shows a URL to the person: in a browser, or as text.
	Open func(ctx context.Context, address string) error
	// Pasted waits for the URL that a browser on another machine ended at; nil: nobody can paste.
	Pasted func(ctx context.Context) (string, error)
}

// came is what one of the ways brought.
type came struct {
	code string
	err  error
}

// waiting is an attempt that waits for its answer.
type waiting struct {
	*oidcflow.Client
	*oidcflow.Attempt
}

// Login logs in by code. It ends with the first answer to it, whichever way that comes, or with ctx.
func Login(ctx context.Context, c *oidcflow.Client, ways Ways) (*oidcflow.Tokens, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("wait for the browser: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	a := &waiting{c, oidcflow.Begin("http://" + listener.Addr().String() + CallbackPath)}
	answers := make(chan came, 1)
	server := &http.Server{
		Handler: a.callback(listener.Addr().String(), answers), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 10 * time.Second, MaxHeaderBytes: 32 << 10,
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener) // it ends with the login
	}()
	defer func() {
		ended, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second) // the browser may still read its page
		defer cancel()
		_ = server.Shutdown(ended)
		<-served
	}()
	if err := ways.Open(ctx, c.URL(a.Attempt)); err != nil {
		return nil, err
	}
	if ways.Pasted != nil {
		go a.paste(ctx, ways.Pasted, answers)
	}
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the login: %w", context.Cause(ctx))
	case got := <-answers:
		if got.err != nil {
			return nil, got.err
		}
		tokens, err := c.Exchange(ctx, a.Attempt, got.code)
		if err == nil {
			err = c.Check(ctx, tokens, a.Nonce)
		}
		return tokens, err
	}
}

// paste takes the URL that a person pastes.
func (a *waiting) paste(ctx context.Context, pasted func(context.Context) (string, error), answers chan<- came) {
	text, err := pasted(ctx)
	var code string
	if err == nil {
		u, wrong := url.Parse(strings.TrimSpace(text))
		if wrong != nil || u.Path != CallbackPath {
			err = fmt.Errorf("that is not the URL that the browser ended at: it begins with %s", a.Redirect)
		} else {
			code, err = a.Code(a.Attempt, u.Query())
		}
	}
	select {
	case answers <- came{code, err}:
	case <-ctx.Done():
	}
}

// callback answers the browser. Other programs of this machine may ask, too, and pages that a browser shows may make it ask: what is
// not the answer to this attempt changes nothing.
func (a *waiting) callback(host string, answers chan<- came) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+CallbackPath, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
		w.Header().Set("Referrer-Policy", "no-referrer")
		w.Header().Set("Cache-Control", "no-store")
		if r.Host != host { // a name that somebody else has made lead here
			w.WriteHeader(http.StatusMisdirectedRequest)
			return
		}
		code, err := a.Code(a.Attempt, r.URL.Query())
		if errors.Is(err, oidcflow.ErrElsewhere) {
			page(w, http.StatusBadRequest, "This is not the login that your terminal waits for", "Begin again there: plural auth login")
			return
		}
		select {
		case answers <- came{code, err}:
		default: // there was one before
			page(w, http.StatusConflict, "This login is over", "Begin again in your terminal: plural auth login")
			return
		}
		if err != nil {
			page(w, http.StatusOK, "You are not logged in", "Your terminal says why.")
			return
		}
		page(w, http.StatusOK, "Go back to your terminal", "plural goes on there. You can close this page.")
	})
	return mux
}

// page is all that a browser shows. Nothing of a request is in it.
func page(w http.ResponseWriter, status int, title, text string) {
	w.WriteHeader(status)
	_, _ = io.WriteString(w, `<!doctype html><html lang="en"><meta charset="utf-8"><title>plural</title><style>body{font:16px system-ui;margin:20vh auto;max-width:30em}`+
		`</style><h1>`+title+`</h1><p>`+text+`</p></html>`) // a browser that went away has seen enough
}
