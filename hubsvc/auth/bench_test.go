package auth_test

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/pluralsh/plural/hubsvc/auth"
)

// BenchmarkLogin exchanges ID tokens with 20 groups for sessions, while the issuer's keys are known, and asks who sends a request.
func BenchmarkLogin(b *testing.B) {
	w := newSSO(b)
	names := make([]string, 20)
	for i := range names {
		names[i] = fmt.Sprintf("team-%02d", i)
	}
	w.f.RoleBindings[0].Spec.Groups = names
	w.serve()
	raw := w.idToken("00u1abc", map[string]any{
		"groups": names, "preferred_username": "ada-l", "email": "ada.lovelace@example.com", "email_verified": true,
	})
	session, _, err := w.Exchange(b.Context(), raw)
	if err != nil {
		b.Fatal(err)
	}
	const exchanges = 2000
	for b.Loop() {
		took := make([]time.Duration, exchanges)
		for i := range took {
			began := time.Now()
			if _, _, err := w.Exchange(b.Context(), raw); err != nil {
				b.Fatal(err)
			}
			took[i] = time.Since(began)
		}
		slices.Sort(took)
		figure("login_exchange_p99_ms", "ms", took[exchanges*99/100].Seconds()*1000)
		request := w.asks(session)
		began := time.Now()
		for range exchanges {
			if _, err := w.Person(request); err != nil {
				b.Fatal(err)
			}
		}
		figure("session_check_us", "us", time.Since(began).Seconds()*1e6/exchanges)
	}
	cookie := http.Cookie{Name: auth.SessionCookie, Value: session, Path: "/", Expires: w.now, Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode}
	figure("session_cookie_bytes", "bytes", float64(len(cookie.String())))
}

// figure prints one as make bench has them.
func figure(name, unit string, value float64) {
	fmt.Fprintf(os.Stdout, "bench %s %.4g %s\n", name, value, unit)
}
