package tokenissuer

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/test/support/kubetest"
)

// following is a Follower, and what it has given.
func following(t *testing.T, kube *rest.Config) (f *Follower, given *[]*api.TokenIssuer) {
	t.Helper()
	given = new([]*api.TokenIssuer)
	f, err := New(kube, func(i *api.TokenIssuer) { *given = append(*given, i) }, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return f, given
}

func TestAnAPIServerSaysWithWhatItsTokensAreVerified(t *testing.T) {
	f, given := following(t, kubetest.Start(t).RESTConfig)
	for range 3 {
		if err := f.look(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(*given) != 1 {
		t.Fatalf("given %d times", len(*given))
	}
	if i := (*given)[0]; !strings.HasPrefix(i.GetIssuer(), "https://") || !strings.Contains(string(i.GetKeys()), `"kid"`) {
		t.Errorf("%s: %s", i.GetIssuer(), i.GetKeys())
	}
}

func TestWhatAnAPIServerSaysIsGivenWhenItChanges(t *testing.T) {
	about, keys, status := `{"issuer":"https://kubernetes.default.svc"}`, `{"keys":[1]}`, http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		if r.URL.Path == "/openid/v1/jwks" {
			fmt.Fprint(w, keys)
		} else {
			fmt.Fprint(w, about)
		}
	}))
	defer server.Close()
	f, given := following(t, &rest.Config{Host: server.URL})
	for _, step := range []struct {
		what        string
		about, keys string
		status      int
		fails       bool
		want        string // the newest keys that were given, or "none"
		times       int
	}{
		{"at first", about, `{"keys":[1]}`, 200, false, `{"keys":[1]}`, 1},
		{"again", about, `{"keys":[1]}`, 200, false, `{"keys":[1]}`, 1},
		{"with a new key", about, `{"keys":[1,2]}`, 200, false, `{"keys":[1,2]}`, 2},
		{"while it does not answer", about, "away", 503, true, `{"keys":[1,2]}`, 2},
		{"with more than fits", about, `{"keys":["` + strings.Repeat("x", api.MaxIssuerBytes) + `"]}`, 200, true, `{"keys":[1,2]}`, 2},
		{"with no JSON", about, `<html>`, 200, true, `{"keys":[1,2]}`, 2},
		{"without an issuer", `{}`, `{"keys":[3]}`, 200, true, `{"keys":[1,2]}`, 2},
		{"with an endless issuer", `{"issuer":"` + strings.Repeat("x", 600) + `"}`, `{"keys":[3]}`, 200, true, `{"keys":[1,2]}`, 2},
		{"to nobody like the agent", about, "no", 403, true, "none", 3},
		{"still not", about, "no", 403, true, "none", 3},
		{"again to the agent", about, `{"keys":[2]}`, 200, false, `{"keys":[2]}`, 4},
	} {
		about, keys, status = step.about, step.keys, step.status
		if err := f.look(t.Context()); (err != nil) != step.fails {
			t.Fatalf("%s: %v", step.what, err)
		}
		got := "none"
		if last := (*given)[len(*given)-1]; last != nil {
			got = string(last.GetKeys())
		}
		if len(*given) != step.times || got != step.want {
			t.Errorf("%s: %s after %d times", step.what, got, len(*given))
		}
	}
}
