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

func TestSomebodyWhoMayNotEditEndsTheirOwnLogins(t *testing.T) {
	token := fleet.NewToken()
	const path = "/v1/me/logout-everywhere"
	for _, edits := range []bool{true, false} {
		hub, o, _ := editing(t, func(opts *Options) {
			if !edits {
				opts.Edits = nil
			}
		})
		commit := o.Push(map[string]string{"access/ada.yaml": strings.Replace(tool("ada", token, "{fleet: [view]}"),
			"spec: {tokens: [{name: t, hash: \""+fleet.HashToken(token)+"\"}]}", "spec:\n  tokens:\n  - name: t\n    hash: "+fleet.HashToken(token), 1)})
		fleetrepo.Until(t, "ada is known", func() bool { return hub.status().Commit.ID == commit })
		answer, text := pageAsks(t, hub.url, http.MethodPost, v1.OpenPath, `{"ticket": "`+ticketOf(t, hub.url, token)+`", "as": "ada"}`)
		if answer.StatusCode != http.StatusOK {
			t.Fatal(answer.Status, text)
		}
		cookie := answer.Cookies()[0]
		if answer, text := pageAsks(t, hub.url, http.MethodGet, "/v1/me/tokens", "", cookie); answer.StatusCode != http.StatusOK ||
			!strings.Contains(text, `"name":"t"`) || !strings.Contains(text, `"current":true`) || strings.Contains(text, fleet.HashToken(token)) {
			t.Errorf("%s %s", answer.Status, text)
		}
		answer, text = pageAsks(t, hub.url, http.MethodPost, path, "{}", cookie)
		if !edits {
			if answer.StatusCode != http.StatusForbidden || !strings.Contains(text, "plural auth end ada") {
				t.Errorf("a hub that only reads: %s %s", answer.Status, text)
			}
			continue
		}
		if answer.StatusCode != http.StatusOK || !strings.Contains(text, `"commit":"`) {
			t.Fatalf("%s %s", answer.Status, text)
		}
		if got := o.Git(o.Bare, "log", "-1", "--format=%an %cn %s", "main"); got != "ada plural End logins of ada" {
			t.Errorf("log: %s", got)
		}
		fleetrepo.Until(t, "the login has ended", func() bool {
			answer, _ := pageAsks(t, hub.url, http.MethodGet, "/v1/summary", "", cookie)
			return answer.StatusCode == http.StatusUnauthorized
		})
		if code, said := hub.do(http.MethodGet, "/v1/me", token, nil); code != http.StatusOK {
			t.Errorf("a token ends with logins: %d %s", code, said)
		}
	}
}

// Its commit would be refused by itself, and with it all those behind it.
func TestAHubThatBelievesSignaturesCommitsNothingThatItsKeyDoesNotCover(t *testing.T) {
	token := fleet.NewToken()
	hub, o, _, _, _ := signingHub(t)
	commit := o.Push(map[string]string{"access/ada.yaml": tool("ada", token, "{fleet: [view]}")})
	fleetrepo.Until(t, "ada is known", func() bool { return hub.hinted().Commit.ID == commit })
	if code, said := hub.do(http.MethodPost, "/v1/me/logout-everywhere", token, nil); code != http.StatusForbidden || !strings.Contains(string(said), "plural auth end ada") {
		t.Errorf("%d %s", code, said)
	}
	if got := o.Git(o.Bare, "rev-parse", "main"); got != commit {
		t.Error("something was committed")
	}
}
