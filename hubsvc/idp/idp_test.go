package idp_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/oauth2"

	"github.com/pluralsh/plural/hubsvc/auth"
	"github.com/pluralsh/plural/test/support/issuer"
	"github.com/pluralsh/plural/workspace/fleet"
)

func copyBounded(to io.Writer, from io.Reader) (int64, error) {
	return io.Copy(to, io.LimitReader(from, 1<<20))
}

func TestAnApplicationLearnsWhoHasLoggedIn(t *testing.T) {
	w := newWorld(t)
	for subject, want := range map[string]map[string]any{
		"00u1abc": {
			"sub": "ada", "preferred_username": "ada", "name": "shown-00u1abc", "email": "00u1abc@example.com", "email_verified": true,
			"groups": []any{"platform", "staff"}, "roles": []any{"Admin", "Editor"},
		},
		"00u2eve": {
			"sub": "corp:00u2eve", "preferred_username": "corp:00u2eve", "name": "shown-00u2eve", "email": "00u2eve@example.com", "email_verified": true,
			"groups": []any{"platform"}, "roles": []any{"Editor"},
		},
	} {
		tokens, id := w.login(t.Context(), w.browser(subject, "platform", "chess"))
		var said, info map[string]any
		if err := id.Claims(&said); err != nil {
			t.Fatal(err)
		}
		if said["nonce"] != "nonce-1" || said["azp"] != "grafana" || said["auth_time"] == nil || id.Expiry.After(w.now().Add(15*time.Minute)) {
			t.Errorf("%v", said)
		}
		for _, name := range []string{"iss", "aud", "azp", "exp", "iat", "auth_time", "nonce"} {
			delete(said, name)
		}
		if diff := cmp.Diff(want, said); diff != "" {
			t.Errorf("ID token of %s: %s", subject, diff)
		}
		found, _ := w.application()
		user, err := found.UserInfo(t.Context(), oauth2.StaticTokenSource(tokens))
		if err != nil {
			t.Fatal(err)
		}
		if err := user.Claims(&info); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, info); diff != "" {
			t.Errorf("userinfo of %s: %s", subject, diff)
		}
	}
	if want := []record{{"ada", "grafana", true}, {"corp:00u2eve", "grafana", true}}; len(w.records) != 2 || !slices.Contains(w.records, want[0]) ||
		!slices.Contains(w.records, want[1]) {
		t.Errorf("%+v", w.records)
	}
}

func TestWhoeverIsNotAllowedGetsNoCode(t *testing.T) {
	w := newWorld(t)
	_, config := w.application()
	status, _, body := w.get(w.browser("00u2eve", "chess"), config.AuthCodeURL("s", oauth2.S256ChallengeOption(oauth2.GenerateVerifier())))
	if status != http.StatusForbidden || !strings.Contains(body, "corp:00u2eve") {
		t.Errorf("%d %s", status, body)
	}
	if !slices.Equal(w.records, []record{{"corp:00u2eve", "grafana", false}}) {
		t.Errorf("%+v", w.records)
	}
	silent := config.AuthCodeURL("s", oauth2.S256ChallengeOption(oauth2.GenerateVerifier()), oauth2.SetAuthURLParam("prompt", "none"))
	if answer := w.answered(w.browser("00u2eve", "chess"), silent); answer.Get("error") != "access_denied" || answer.Has("code") {
		t.Errorf("an application that shows no page: %v", answer)
	}
}

// A browser brings a strict cookie only where the hub's own page has sent it.
func TestWhoeverIsNotLoggedInIsLedToTheProviderAndBack(t *testing.T) {
	w := newWorld(t)
	_, config := w.application()
	at := config.AuthCodeURL("s", oauth2.S256ChallengeOption(oauth2.GenerateVerifier()))
	nobody := w.browser("")
	status, _, body := w.get(nobody, at)
	if status != http.StatusOK || !strings.Contains(body, `content="0;url=/oidc/continue?`) {
		t.Fatalf("%d %s", status, body)
	}
	again := strings.Replace(at, "/oidc/authorize", "/oidc/continue", 1)
	status, location, _ := w.get(nobody, again)
	login, err := url.Parse(location)
	if err != nil || status != http.StatusSeeOther || login.Path != "/auth/login" || login.Query().Get("provider") != "corp" {
		t.Fatal(status, location, err)
	}
	back, err := url.Parse(login.Query().Get("return"))
	want, _ := url.Parse(again)
	if err != nil || back.Path != want.Path || !cmp.Equal(back.Query(), want.Query()) {
		t.Errorf("comes back to %s", back)
	}
	if answer := w.answered(nobody, again+"&prompt=none"); answer.Get("error") != "login_required" || answer.Get("state") != "s" {
		t.Errorf("%v", answer)
	}
	if answer := w.answered(w.browser("00u1abc"), again); answer.Get("code") == "" {
		t.Errorf("%v", answer)
	}
}

func TestAnApplicationMayWantAFreshLogin(t *testing.T) {
	w := newWorld(t)
	_, config := w.application()
	ada := w.browser("00u1abc")
	at := strings.Replace(config.AuthCodeURL("s", oauth2.S256ChallengeOption(oauth2.GenerateVerifier())), "/authorize", "/continue", 1)
	w.ahead.Store(int64(10 * time.Minute))
	for asks, fresh := range map[string]bool{"": false, "&max_age=3600": false, "&max_age=60": true, "&prompt=login": true, "&prompt=login&max_age=3600": true} {
		status, location, _ := w.get(ada, at+asks)
		login, err := url.Parse(location)
		if err != nil || status != http.StatusSeeOther || (login.Path == "/auth/login") != fresh {
			t.Errorf("%q leads to %s", asks, location)
			continue
		}
		if !fresh {
			continue
		}
		if login.Query().Get("prompt") != "login" {
			t.Errorf("%q: the provider is not asked to ask: %s", asks, location)
		}
		back := w.url + login.Query().Get("return")
		if _, location, _ := w.get(ada, back); !strings.HasPrefix(location, "/auth/login") {
			t.Errorf("%q: whoever comes back as they went is let in: %s", asks, location)
		}
		if answer := w.answered(w.browser("00u1abc"), back); answer.Get("code") == "" {
			t.Errorf("%q: whoever comes back logged in is not: %v", asks, answer)
		}
	}
}

// I15: an address is one of the application's, or nobody is sent there.
func TestNobodyIsSentElsewhere(t *testing.T) {
	w := newWorld(t)
	ada := w.browser("00u1abc", "platform")
	query := url.Values{"client_id": {"grafana"}, "response_type": {"code"}, "scope": {"openid"}, "code_challenge_method": {"S256"}, "code_challenge": {strings.Repeat("x", 43)}}
	for _, to := range []string{
		"", "https://evil.example.com/login/generic_oauth", redirect + "/", redirect + "/../x", redirect + "?a=b", redirect + "#x", redirect + "%2f", redirect + " ",
		"https://grafana.example.com/login/../login/generic_oauth", "https://grafana.example.com:443/login/generic_oauth", "HTTPS://grafana.example.com/login/generic_oauth",
		"https://GRAFANA.example.com/login/generic_oauth", "http://grafana.example.com/login/generic_oauth", "https://grafana.example.com@evil.example.com/login/generic_oauth",
		"https://grafana.example.com\\@evil.example.com/login/generic_oauth", "https://xn--grafan-7ta.example.com/login/generic_oauth", "//grafana.example.com/login/generic_oauth",
		"javascript:alert(1)", "data:text/html,x", "http://127.0.0.1/callback",
	} {
		query.Set("redirect_uri", to)
		status, location, body := w.get(ada, w.url+"/oidc/authorize?"+query.Encode())
		if status != http.StatusBadRequest || location != "" || to != "" && strings.Contains(body, to) && to != redirect {
			t.Errorf("%s: %d %s", to, status, location)
		}
	}
	query["redirect_uri"] = []string{redirect, "https://evil.example.com/"}
	if status, location, _ := w.get(ada, w.url+"/oidc/authorize?"+query.Encode()); status != http.StatusBadRequest || location != "" {
		t.Errorf("sent twice: %d %s", status, location)
	}
	query.Set("client_id", "cli")
	for to, good := range map[string]bool{
		"http://127.0.0.1:51234/callback": true, "http://127.0.0.1/callback": true, "http://localhost:51234/callback": false, "http://127.0.0.1:51234/other": false,
		"http://127.0.0.1:x/callback": false, "http://127.0.0.1:51234@evil.example.com/callback": false, "https://127.0.0.1:51234/callback": false,
	} {
		query.Set("redirect_uri", to)
		if status, _, _ := w.get(ada, w.url+"/oidc/authorize?"+query.Encode()); (status == http.StatusSeeOther) != good {
			t.Errorf("%s: %d", to, status)
		}
	}
}

func TestQuestionsThatAreNoneAreAnsweredToTheApplication(t *testing.T) {
	w := newWorld(t)
	ada := w.browser("00u1abc", "platform")
	good := url.Values{
		"client_id": {"grafana"}, "redirect_uri": {redirect}, "response_type": {"code"}, "scope": {"openid"}, "state": {"s"},
		"code_challenge_method": {"S256"}, "code_challenge": {strings.Repeat("x", 43)},
	}
	for name, test := range map[string]struct{ set, to, want string }{
		"implicit flow":           {"response_type", "id_token", "unsupported_response_type"},
		"hybrid flow":             {"response_type", "code id_token", "unsupported_response_type"},
		"no OpenID":               {"scope", "profile", "invalid_scope"},
		"without PKCE":            {"code_challenge", "", "invalid_request"},
		"PKCE in clear":           {"code_challenge_method", "plain", "invalid_request"},
		"a challenge too short":   {"code_challenge", "x", "invalid_request"},
		"an answer in a fragment": {"response_mode", "fragment", "invalid_request"},
		"a request object":        {"request", "e30.e30.", "request_not_supported"},
		"a request by its URL":    {"request_uri", "https://evil.example.com", "request_uri_not_supported"},
		"an age that is none":     {"max_age", "-1", "invalid_request"},
		"none and login":          {"prompt", "none login", "invalid_request"},
	} {
		query := url.Values{}
		for name, values := range good {
			query[name] = values
		}
		query.Set(test.set, test.to)
		if answer := w.answered(ada, w.url+"/oidc/authorize?"+query.Encode()); answer.Get("error") != test.want || answer.Get("state") != "s" || answer.Has("code") {
			t.Errorf("%s: %v", name, answer)
		}
	}
	if answer := w.answered(ada, w.url+"/oidc/authorize?"+good.Encode()+"&nonce=a&nonce=b"); answer.Get("error") != "invalid_request" {
		t.Errorf("a parameter twice: %v", answer)
	}
	for query, want := range map[string]string{
		"": "invalid_request", "&nonce=n": "",
	} {
		answer := w.answered(ada, w.url+"/oidc/authorize?client_id=old&redirect_uri=https%3A%2F%2Fold.example.com%2F&response_type=code&scope=openid"+query)
		if answer.Get("error") != want || answer.Has("code") != (want == "") {
			t.Errorf("an application without PKCE, with %q: %v", query, answer)
		}
	}
}

func TestAQuestionThatNoCookieCouldRememberIsRefused(t *testing.T) {
	w := newWorld(t)
	at := w.url + "/oidc/authorize?client_id=grafana&redirect_uri=" + url.QueryEscape(redirect) + "&state="
	for length, want := range map[int]int{100: http.StatusSeeOther, 1200: http.StatusRequestURITooLong} {
		if status, _, body := w.get(w.browser("00u1abc"), at+strings.Repeat("a", length)); status != want {
			t.Errorf("a state of %d bytes: %d %s", length, status, body)
		}
	}
}

// Programs are let into the hub, and no further: an application would take one for a person.
func TestAProgramLogsInToNoApplication(t *testing.T) {
	w := newWorld(t)
	ci := issuer.Start(t)
	f := w.f
	f.Users = append(slices.Clone(f.Users), fleet.User{Metadata: fleet.Metadata{Name: "ci"}, Spec: fleet.UserSpec{Groups: []string{"platform"}}})
	f.Federations = []fleet.Federation{{Metadata: fleet.Metadata{Name: "jobs"}, Spec: fleet.FederationSpec{
		User: "ci", Issuer: ci.URL, Claims: map[string]string{"sub": "job"},
	}}}
	w.serve(f)
	session, _, err := w.people.Exchange(t.Context(), ci.Token(ci.Claims("job", w.url, w.now(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	_, config := w.application()
	at := config.AuthCodeURL("s", oauth2.S256ChallengeOption(oauth2.GenerateVerifier()), oauth2.SetAuthURLParam("prompt", "none"))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.URL.Path = "/oidc/continue"
	r.AddCookie(&http.Cookie{Name: auth.SessionCookie, Value: session})
	if _, location, body := w.do(w.browser(""), r); !strings.Contains(location, "error=login_required") {
		t.Errorf("%s %s", location, body)
	}
}

// code is one for an application, and the form with which it asks for tokens.
func (w *world) code(browser *http.Client) (form url.Values) {
	w.Helper()
	_, config := w.application()
	verifier := oauth2.GenerateVerifier()
	answer := w.answered(browser, config.AuthCodeURL("s", oauth2.S256ChallengeOption(verifier)))
	return url.Values{
		"grant_type": {"authorization_code"}, "code": {answer.Get("code")}, "redirect_uri": {redirect}, "code_verifier": {verifier},
		"client_id": {"grafana"}, "client_secret": {secret},
	}
}

// I14: a code is for whoever it was given to, once.
func TestACodeIsGoodForWhoeverItWasGivenToOnce(t *testing.T) {
	w := newWorld(t)
	ada := w.browser("00u1abc", "platform")
	for name, test := range map[string]struct {
		change func(url.Values)
		want   string
	}{
		"as it should be":                 {func(url.Values) {}, ""},
		"without its verifier":            {func(f url.Values) { f.Del("code_verifier") }, "invalid_grant"},
		"with another verifier":           {func(f url.Values) { f.Set("code_verifier", oauth2.GenerateVerifier()) }, "invalid_grant"},
		"with another redirect URI":       {func(f url.Values) { f.Set("redirect_uri", "https://evil.example.com/") }, "invalid_grant"},
		"without redirect URI":            {func(f url.Values) { f.Del("redirect_uri") }, "invalid_grant"},
		"of another application":          {func(f url.Values) { f.Set("client_id", "old") }, "invalid_grant"},
		"of a public application":         {func(f url.Values) { f.Set("client_id", "cli"); f.Del("client_secret") }, "invalid_grant"},
		"of an application that is none":  {func(f url.Values) { f.Set("client_id", "gone") }, "invalid_client"},
		"without the secret":              {func(f url.Values) { f.Del("client_secret") }, "invalid_client"},
		"with another secret":             {func(f url.Values) { f.Set("client_secret", "x") }, "invalid_client"},
		"with the secret's hash":          {func(f url.Values) { f.Set("client_secret", fleet.HashToken(secret)) }, "invalid_client"},
		"with a secret that is not asked": {func(f url.Values) { f.Set("client_id", "cli") }, "invalid_client"},
		"of another kind":                 {func(f url.Values) { f.Set("grant_type", "refresh_token") }, "unsupported_grant_type"},
		"by a password":                   {func(f url.Values) { f.Set("grant_type", "password") }, "unsupported_grant_type"},
		"changed": {func(f url.Values) {
			code := []byte(f.Get("code"))
			code[len(code)/2] ^= 1
			f.Set("code", string(code))
		}, "invalid_grant"},
		"twice": {func(f url.Values) { f.Add("code", f.Get("code")) }, "invalid_grant"},
	} {
		form := w.code(ada)
		test.change(form)
		status, body := w.post("/oidc/token", form)
		var answer struct {
			Error string
			Token string `json:"id_token"`
		}
		if err := json.Unmarshal([]byte(body), &answer); err != nil || answer.Error != test.want || (answer.Token != "") != (test.want == "") {
			t.Errorf("%s: %d %s", name, status, body)
		}
		if (status == http.StatusUnauthorized) != (test.want == "invalid_client") {
			t.Errorf("%s: %d", name, status)
		}
	}
	form := w.code(ada)
	code := form.Get("code")
	if status, body := w.post("/oidc/token", form); status != http.StatusOK {
		t.Fatal(status, body)
	}
	for _, again := range []string{code, code[:len(code)/2] + "\n" + code[len(code)/2:], code + "\r\n", code + "="} {
		form.Set("code", again)
		if status, body := w.post("/oidc/token", form); status != http.StatusBadRequest || !strings.Contains(body, "invalid_grant") {
			t.Errorf("the code that was used, written as %q: %d %s", again[len(again)-4:], status, body)
		}
	}
	form = w.code(ada)
	w.ahead.Store(int64(61 * time.Second))
	if _, body := w.post("/oidc/token", form); !strings.Contains(body, "expired") {
		t.Errorf("a minute later: %s", body)
	}
}

// I14, at two replicas at once.
func TestACodeThatIsShownToTwoReplicasAtOnceIsGoodAtOne(t *testing.T) {
	w := newWorld(t)
	form := w.code(w.browser("00u1abc", "platform"))
	var good, used sync.Map
	var asking sync.WaitGroup
	for n := range 8 {
		asking.Go(func() {
			status, body := w.post("/oidc/token", form)
			switch {
			case status == http.StatusOK:
				good.Store(n, body)
			case strings.Contains(body, "the code was used before"):
				used.Store(n, body)
			default:
				t.Errorf("%d %s", status, body)
			}
		})
	}
	asking.Wait()
	count := func(m *sync.Map) (n int) {
		m.Range(func(any, any) bool { n++; return true })
		return n
	}
	if count(&good) != 1 || count(&used) != 7 {
		t.Errorf("%d got tokens, %d did not", count(&good), count(&used))
	}
}

func TestNoCodeIsTakenWhileNobodyCanTellWhetherItWasUsed(t *testing.T) {
	w := newWorld(t)
	form := w.code(w.browser("00u1abc", "platform"))
	w.nats.Close()
	status, body := w.post("/oidc/token", form)
	if status != http.StatusServiceUnavailable || !strings.Contains(body, "temporarily_unavailable") {
		t.Errorf("%d %s", status, body)
	}
}

func TestTokensAreGoodNoLongerThanTheLoginAndWhatTheFleetSaysOfIt(t *testing.T) {
	for name, change := range map[string]func(f *fleet.Fleet){
		"":                            func(*fleet.Fleet) {},
		"her logins are ended":        func(f *fleet.Fleet) { f.Users[0].Spec.SessionsAfter = time.Now().Add(time.Minute).Format(time.RFC3339) },
		"the provider is removed":     func(f *fleet.Fleet) { f.Providers = nil },
		"she is allowed no longer":    func(f *fleet.Fleet) { f.Applications[0].Spec.Allow = fleet.Members{Users: []string{"eve"}} },
		"the application is removed":  func(f *fleet.Fleet) { f.Applications = nil },
		"the account is nobody's now": func(f *fleet.Fleet) { f.Users[0].Spec.Identities = nil },
	} {
		w := newWorld(t)
		ada := w.browser("00u1abc", "platform")
		tokens, _ := w.login(t.Context(), ada)
		form := w.code(ada)
		f := w.f
		f.Users, f.Applications = slices.Clone(f.Users), slices.Clone(f.Applications)
		change(&f)
		w.serve(f)
		code, body := w.post("/oidc/token", form)
		info, _ := w.post("/oidc/userinfo", nil, "Authorization", "Bearer "+tokens.AccessToken)
		if good := name == ""; (code == http.StatusOK) != good || (info == http.StatusOK) != good {
			t.Errorf("when %s: a code %d %s, an access token %d", name, code, body, info)
		}
	}
}

func TestWhatIsNoAccessTokenTellsNothing(t *testing.T) {
	w := newWorld(t)
	ada := w.browser("00u1abc", "platform")
	tokens, _ := w.login(t.Context(), ada)
	id, _ := tokens.Extra("id_token").(string)
	at, _ := url.Parse(w.url)
	for name, raw := range map[string]string{
		"nothing": "", "an ID token": id, "a code": w.code(ada).Get("code"), "the session": ada.Jar.Cookies(at)[0].Value, "a changed one": tokens.AccessToken + "x",
	} {
		if status, body := w.post("/oidc/userinfo", nil, "Authorization", "Bearer "+raw); status != http.StatusUnauthorized || strings.Contains(body, "ada") {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	for name, raw := range map[string]string{"an ID token": id, "an access token": tokens.AccessToken} { // which are for the application alone
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/me", nil)
		r.Header.Set("Authorization", "Bearer "+raw)
		if who, err := w.people.Person(r); err == nil {
			t.Errorf("the hub takes %s for %s", name, who.Name)
		}
		if _, who, err := w.people.Exchange(t.Context(), raw); err == nil {
			t.Errorf("the hub exchanges %s for a session of %s", name, who.Name)
		}
	}
	w.ahead.Store(int64(15*time.Minute + time.Second))
	if status, _ := w.post("/oidc/userinfo", nil, "Authorization", "Bearer "+tokens.AccessToken); status != http.StatusUnauthorized {
		t.Errorf("a quarter of an hour later: %d", status)
	}
}

func TestWhoeverLogsOutOfAnApplicationIsAskedAndLedBack(t *testing.T) {
	w := newWorld(t)
	tokens, _ := w.login(t.Context(), w.browser("00u1abc", "platform"))
	id, _ := tokens.Extra("id_token").(string)
	w.ahead.Store(int64(time.Hour)) // an ID token that has expired tells the application still
	home := "https://grafana.example.com/"
	for name, test := range map[string]struct {
		said url.Values
		want string
	}{
		"by an ID token":         {url.Values{"id_token_hint": {id}, "post_logout_redirect_uri": {home}, "state": {"a&b"}}, home + "?state=a%26b"},
		"by the client ID":       {url.Values{"client_id": {"grafana"}, "post_logout_redirect_uri": {home}}, home},
		"of another application": {url.Values{"client_id": {"old"}, "id_token_hint": {id}, "post_logout_redirect_uri": {home}}, "/auth/"},
		"with a forged token":    {url.Values{"id_token_hint": {id[:len(id)-4] + "AAAA"}, "post_logout_redirect_uri": {home}}, "/auth/"},
		"to elsewhere":           {url.Values{"client_id": {"grafana"}, "post_logout_redirect_uri": {"https://evil.example.com/"}}, "/auth/"},
		"to a redirect URI":      {url.Values{"client_id": {"grafana"}, "post_logout_redirect_uri": {redirect}}, "/auth/"},
		"with nothing":           {url.Values{}, "/auth/"},
	} {
		status, _, body := w.get(w.browser(""), w.url+"/oidc/logout?"+test.said.Encode())
		if status != http.StatusOK || !strings.Contains(body, `action="/oidc/logout/confirm"`) || strings.Contains(body, "evil") {
			t.Errorf("%s: %d %s", name, status, body)
		}
		test.said.Set("confirm", "yes")
		if _, body := w.post("/oidc/logout/confirm", test.said); !strings.Contains(body, `content="0;url=`+strings.ReplaceAll(test.want, "&", "&amp;")+`"`) {
			t.Errorf("%s leads on with %s", name, body)
		}
		if status, _ := w.post("/oidc/logout/confirm", test.said, "Sec-Fetch-Site", "cross-site"); status != http.StatusForbidden {
			t.Errorf("%s: another page presses the button: %d", name, status)
		}
	}
}

// I16: what opens something is in no log.
func TestNoSecretIsInTheLog(t *testing.T) {
	w := newWorld(t)
	ada := w.browser("00u1abc", "platform")
	form := w.code(ada)
	w.post("/oidc/token", form)
	w.post("/oidc/token", form)
	tokens, _ := w.login(t.Context(), ada)
	w.nats.Close()
	form.Set("code", form.Get("code")+"x") // one that nobody has used
	w.post("/oidc/token", form)
	id, _ := tokens.Extra("id_token").(string)
	for name, value := range map[string]string{
		"secret": secret, "code": form.Get("code"), "verifier": form.Get("code_verifier"), "access token": tokens.AccessToken, "ID token": id,
	} {
		if strings.Contains(w.logged.String(), value) {
			t.Errorf("the log has the %s", name)
		}
	}
}

func TestWithoutKeysTheHubIsNoProvider(t *testing.T) {
	w := newWorld(t)
	w.keys = nil
	for _, path := range []string{"/.well-known/openid-configuration", "/keys", "/authorize?client_id=grafana", "/userinfo", "/logout"} {
		if status, _, body := w.get(w.browser("00u1abc"), w.url+"/oidc"+path); status != http.StatusNotFound || !strings.Contains(body, "plural application rotate-keys") {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
}
