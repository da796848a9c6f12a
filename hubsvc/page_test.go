package hubsvc

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/natsd"
	"github.com/pluralsh/plural/test/support/fleetrepo"
	"github.com/pluralsh/plural/workspace/fleet"
)

// pageAsks has the page of a hub ask, by a browser with a cookie, if there is one.
func pageAsks(t *testing.T, hub, method, path, body string, cookies ...*http.Cookie) (answer *http.Response, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, hub+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	for _, c := range cookies {
		r.AddCookie(c)
	}
	return answered(t, r)
}

func answered(t *testing.T, r *http.Request) (answer *http.Response, text string) {
	t.Helper()
	r.Close = true
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(raw)
}

// ticketOf is a ticket of whoever has a token.
func ticketOf(t *testing.T, hub, token string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, hub+v1.TicketPath, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	answer, text := answered(t, r)
	var made v1.PageTicket
	if err := json.Unmarshal([]byte(text), &made); err != nil || answer.StatusCode != http.StatusOK || made.Path != v1.OpenPath {
		t.Fatalf("%s %s", answer.Status, text)
	}
	return made.Ticket
}

func TestALoginByTicketIsTheSameOnAllReplicasAndEndsWithItsToken(t *testing.T) {
	o := fleetrepo.New(t)
	token := fleet.NewToken()
	files := fleetrepo.TwoServices(nil)
	files["access/ada.yaml"] = tool("ada", token, "{fleet: [view]}")
	first := o.Push(files)
	nats, err := natsd.Start(t.Context(), natsd.Options{Dir: t.TempDir(), Name: "test", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nats.Close)
	opts := options(t, o)
	one := startReplica(t, nats, "hub-0", opts)
	more := options(t, o)
	more.TokenFile = opts.TokenFile
	two := startReplica(t, nats, "hub-1", more)
	fleetrepo.Until(t, "both serve", func() bool { return one.serves(first) && two.serves(first) })
	at := []string{"http://" + one.listeners.Main.Addr().String(), "http://" + two.listeners.Main.Addr().String()}
	operators, err := os.ReadFile(opts.TokenFile)
	if err != nil {
		t.Fatal(err)
	}
	cookies := map[string]*http.Cookie{}
	for name, raw := range map[string]string{"ada": token, "operator": strings.TrimSpace(string(operators))} {
		ticket := ticketOf(t, at[0], raw)
		shown := `{"ticket": "` + ticket + `", "as": "` + name + `"}`
		answer, text := pageAsks(t, at[1], http.MethodPost, v1.OpenPath, shown)
		if answer.StatusCode != http.StatusOK || len(answer.Cookies()) != 1 {
			t.Fatalf("%s: %s %s", name, answer.Status, text)
		}
		cookies[name] = answer.Cookies()[0]
		for i := range at {
			if answer, _ := pageAsks(t, at[i], http.MethodPost, v1.OpenPath, shown); answer.StatusCode != http.StatusUnauthorized || len(answer.Cookies()) > 0 {
				t.Errorf("%s: the ticket is good twice: %s", name, answer.Status)
			}
			var me v1.Me
			_, text := pageAsks(t, at[i], http.MethodGet, "/v1/me", "", cookies[name])
			if err := json.Unmarshal([]byte(text), &me); err != nil || me.Name != name || me.Operator != (name == "operator") ||
				me.Login == nil || me.Login.Through != "token" || me.Expires == nil {
				t.Errorf("%s is %+v, %v", name, me, err)
			}
		}
		if answer, _ := pageAsks(t, at[0], http.MethodPost, v1.TicketPath, "{}", cookies[name]); answer.StatusCode != http.StatusForbidden {
			t.Errorf("%s: a cookie makes a ticket: %s", name, answer.Status)
		}
	}
	if answer, _ := pageAsks(t, at[0], http.MethodGet, "/k8s/a/version", "", cookies["operator"]); answer.StatusCode != http.StatusUnauthorized {
		t.Error("a cluster's API takes the cookie:", answer.Status)
	}
	ended := func(name string) bool {
		for i := range at {
			answer, _ := pageAsks(t, at[i], http.MethodGet, "/v1/summary", "", cookies[name])
			if answer.StatusCode != http.StatusUnauthorized {
				return false
			}
		}
		return true
	}
	if ended("ada") || ended("operator") {
		t.Fatal("ended before")
	}
	o.Push(map[string]string{"access/ada.yaml": tool("ada", fleet.NewToken(), "{fleet: [view]}")})
	fleetrepo.Until(t, "ada's login has ended with her token", func() bool { return ended("ada") })
	if err := os.WriteFile(opts.TokenFile, []byte(fleet.NewToken()), 0o600); err != nil {
		t.Fatal(err)
	}
	fleetrepo.Until(t, "the operator's login has ended with the hub's token", func() bool { return ended("operator") })
}
