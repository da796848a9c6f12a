package signin

import (
	"encoding/json"
	"mime"
	"net/http"
	"net/url"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/auth"
)

// Guard refuses what a page of somebody else may have a browser ask, which sends its cookie along by itself: changes from another origin,
// and connections that outlast an answer. Requests with a token of their own pass.
func Guard(next http.Handler) http.Handler {
	origins := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := r.Cookie(auth.SessionCookie)
		logout := r.URL.Path == LogoutPath || r.URL.Path == ConfirmPath // which change the browser without its cookie, as logging in does
		if (err != nil || r.Header.Get("Authorization") != "") && !logout && r.URL.Path != v1.OpenPath {
			next.ServeHTTP(w, r)
			return
		}
		switch {
		case origins.Check(r) != nil, r.Header.Get("Upgrade") != "" && !sameOrigin(r):
			refuse(w, http.StatusForbidden, v1.Error{Message: "this request comes from another page than the hub's", Fix: "open the hub's own page"})
			return
		case changes(r) && !logout && !isJSON(r):
			refuse(w, http.StatusUnsupportedMediaType, v1.Error{Message: "what a browser has the hub do is sent as JSON", Fix: "send Content-Type: application/json"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

func changes(r *http.Request) bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodOptions
}

func isJSON(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && kind == "application/json"
}

// sameOrigin says whether the page that opens a connection is the hub's. A browser always names it.
func sameOrigin(r *http.Request) bool {
	origin, err := url.Parse(r.Header.Get("Origin"))
	return err == nil && origin.Host != "" && origin.Host == r.Host
}

func refuse(w http.ResponseWriter, status int, e v1.Error) { reply(w, status, e) }

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a browser that went away asks again
}
