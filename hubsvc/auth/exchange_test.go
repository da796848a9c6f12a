package auth_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pluralsh/plural/hubsvc/auth"
	"github.com/pluralsh/plural/internal/principal"
	"github.com/pluralsh/plural/test/support/issuer"
	"github.com/pluralsh/plural/workspace/fleet"
)

// sso is a fleet with a provider named corp, to which ada has an account, and a role for the group platform.
type sso struct {
	*door
	*issuer.Issuer
	f fleet.Fleet
}

func newSSO(t testing.TB) *sso {
	t.Helper()
	w := &sso{door: newDoor(t), Issuer: issuer.Start(t)}
	w.f = fleet.Fleet{
		Users: []fleet.User{
			{Metadata: fleet.Metadata{Name: "ada"}, Spec: fleet.UserSpec{
				Groups: []string{"staff"}, Identities: []fleet.Identity{{Provider: "corp", Subject: "00u1abc"}},
			}},
			{Metadata: fleet.Metadata{Name: "ci-deploy"}, Spec: fleet.UserSpec{Groups: []string{"deployers"}}},
		},
		RoleBindings: []fleet.RoleBinding{{Spec: fleet.RoleBindingSpec{Role: "developer", Groups: []string{"platform", "staff"}}}},
		Providers:    []fleet.Provider{{Metadata: fleet.Metadata{Name: "corp"}, Spec: fleet.ProviderSpec{Issuer: w.URL, ClientID: "plural"}}},
	}
	w.serve()
	return w
}

// serve has the hub serve the fleet as it is now.
func (w *sso) serve() { w.known = auth.NewDirectory(&w.f) }

func (w *sso) provider() *fleet.ProviderSpec { return &w.f.Providers[0].Spec }

// idToken is the provider's about somebody.
func (w *sso) idToken(subject string, more map[string]any) string {
	return w.Token(w.Claims(subject, "plural", w.now, more))
}

// login is the session of somebody, who has to be let in.
func (w *sso) login(subject string, more map[string]any) (string, principal.Person) {
	w.door.Helper()
	session, who, err := w.Exchange(w.door.Context(), w.idToken(subject, more))
	if err != nil {
		w.door.Fatal(err)
	}
	return session, who
}

// refusal is what whoever shows a token for a session is told, who must not be let in.
func (w *sso) refusal(token string) (message, fix string) {
	w.door.Helper()
	session, who, err := w.Exchange(w.door.Context(), token)
	rejected := new(principal.Rejected)
	if !errors.As(err, &rejected) || session != "" || who.Name != "" {
		w.door.Fatalf("%q, %+v, %v", session, who, err)
	}
	return rejected.Message, rejected.Fix
}

func groups(names ...string) map[string]any { return map[string]any{"groups": names} }

func TestWhoeverAProviderKnowsIsLetInAsTheUserWhoseAccountItIs(t *testing.T) {
	w := newSSO(t)
	session, who := w.login("00u1abc", map[string]any{"groups": []string{"platform", "chess"}, "preferred_username": "ada-l"})
	if who.Name != "ada" || !slices.Equal(who.Groups, []string{"platform", "staff"}) || who.Operator || who.Shown != "ada-l" ||
		!who.Expires.Equal(w.now.Add(12*time.Hour)) {
		t.Errorf("%+v", who)
	}
	for name, replica := range map[string]*auth.People{"this replica": w.People, "another replica": w.replica()} {
		got, err := replica.Person(w.asks(session))
		if err != nil || got.Name != who.Name || !slices.Equal(got.Groups, who.Groups) || got.Credential != who.Credential {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	session, who = w.login("00u2eve", groups("platform", "chess"))
	if who.Name != "corp:00u2eve" || !slices.Equal(who.Groups, []string{"platform"}) {
		t.Errorf("somebody without a user: %+v", who)
	}
	kube, expires, err := w.Issue(t.Context(), who, "edge-1", time.Hour)
	if err != nil || expires.After(w.now.Add(auth.KubeLifetime)) {
		t.Fatal(expires, err)
	}
	if got, err := w.replica().KubePerson(w.asks(kube), "edge-1"); err != nil || got.Name != who.Name || !slices.Equal(got.Groups, who.Groups) {
		t.Errorf("with a token for a cluster: %+v, %v", got, err)
	}
	for _, raw := range []string{kube, session} {
		if _, err := w.KubePerson(w.asks(raw), "edge-2"); (err == nil) != (raw == session) {
			t.Errorf("another cluster: %v", err)
		}
	}
}

// I7: what is open asks who somebody is now, again and again.
func TestASessionEndsWithWhatTheFleetSaysOfIt(t *testing.T) {
	at := func(d time.Duration) func(*sso) string {
		return func(w *sso) string { return w.now.Add(d).UTC().Format(time.RFC3339) }
	}
	now, before := at(time.Second), at(-time.Second)
	for name, test := range map[string]struct {
		change func(*sso)
		want   bool
	}{
		"nothing":                            {func(*sso) {}, true},
		"its provider is removed":            {func(w *sso) { w.f.Providers = nil }, false},
		"its provider is another":            {func(w *sso) { w.provider().Issuer = "https://other" }, false},
		"its provider has another client":    {func(w *sso) { w.provider().ClientID = "other" }, false},
		"its provider shows another claim":   {func(w *sso) { w.provider().Claims.Name = "nickname" }, true},
		"all of the provider's are ended":    {func(w *sso) { w.provider().SessionsAfter = now(w) }, false},
		"all of the provider's before it":    {func(w *sso) { w.provider().SessionsAfter = before(w) }, true},
		"the user's are ended":               {func(w *sso) { w.f.Users[0].Spec.SessionsAfter = now(w) }, false},
		"another user's are ended":           {func(w *sso) { w.f.Users[1].Spec.SessionsAfter = now(w) }, true},
		"the account is nobody's any longer": {func(w *sso) { w.f.Users[0].Spec.Identities = nil }, false},
		"the account is another's now": {func(w *sso) {
			w.f.Users[1].Spec.Identities, w.f.Users[0].Spec.Identities = w.f.Users[0].Spec.Identities, nil
		}, false},
		"just before it ends": {func(w *sso) { w.now = w.now.Add(12*time.Hour - time.Second) }, true},
		"it ends":             {func(w *sso) { w.now = w.now.Add(12 * time.Hour) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSSO(t)
			session, who := w.login("00u1abc", nil)
			kube, _, err := w.Issue(t.Context(), who, "edge-1", time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			test.change(w)
			w.serve()
			if _, err := w.Current(who); (err == nil) != test.want {
				t.Errorf("what is open: %v", err)
			}
			again, err := w.Person(w.asks(session))
			if name := again.Name; (err == nil && name == "ada") != test.want {
				t.Errorf("the session: %+v, %v", again, err)
			}
			if _, err := w.KubePerson(w.asks(kube), "edge-1"); err == nil && !test.want {
				t.Error("a token for a cluster goes on")
			}
		})
	}
}

func TestAGroupThatNoRoleIsBoundToAnyLongerIsGoneFromOpenSessions(t *testing.T) {
	w := newSSO(t)
	_, who := w.login("00u2eve", groups("platform"))
	w.f.RoleBindings[0].Spec.Groups = []string{"staff"}
	w.serve()
	if now, err := w.Current(who); err != nil || len(now.Groups) != 0 {
		t.Errorf("%+v, %v", now, err)
	}
}

// I4, I5, I6.
func TestNobodyIsTakenForAnotherByWhatAProviderCallsThem(t *testing.T) {
	w := newSSO(t)
	second := issuer.Start(t)
	w.f.Providers = append(w.f.Providers, fleet.Provider{Metadata: fleet.Metadata{Name: "partner"}, Spec: fleet.ProviderSpec{Issuer: second.URL, ClientID: "plural"}})
	w.serve()
	for name, test := range map[string]struct {
		subject string
		more    map[string]any
		want    string
	}{
		"an e-mail address of ada's":   {"00u9mal", map[string]any{"email": "ada@example.com", "email_verified": true}, "corp:00u9mal"},
		"a name like ada's":            {"00u9mal", map[string]any{"preferred_username": "ada", "name": "ada"}, "corp:00u9mal"},
		"the operator's name":          {"operator", map[string]any{"preferred_username": "operator"}, "corp:operator"},
		"a name of ours":               {"plural:ada", nil, "corp:plural:ada"},
		"a name of Kubernetes'":        {"system:masters", groups("system:masters", "operators", "plural:operators"), "corp:system:masters"},
		"a name of another provider's": {"partner:00u1abc", nil, "corp:partner:00u1abc"},
	} {
		_, who := w.login(test.subject, test.more)
		if who.Name != test.want || who.Operator || len(who.Groups) != 0 || who.Key() != test.want {
			t.Errorf("%s: %+v", name, who)
		}
	}
	_, who, err := w.Exchange(t.Context(), second.Token(second.Claims("00u1abc", "plural", w.now, nil)))
	if err != nil || who.Name != "partner:00u1abc" {
		t.Errorf("ada's subject at another provider is %+v, %v", who, err)
	}
	for name, subject := range map[string]string{
		"none": "", "a control character": "a\x00b", "two lines": "a\nb", "other letters": "аda", "64 KB": strings.Repeat("a", 256), "a space": "a b",
	} {
		if message, fix := w.refusal(w.idToken(subject, nil)); !strings.Contains(message, "nobody who can be named") || fix == "" {
			t.Errorf("%s: %q, %q", name, message, fix)
		}
	}
	_, who = w.login("00u2", map[string]any{"preferred_username": "\x1b[31mEve\r\n\u202e" + strings.Repeat("ä", 1000)})
	if strings.ContainsAny(who.Shown, "\x1b\r\n\u202e") || len(who.Shown) > 64 || !strings.HasPrefix(who.Shown, "[31mEve") {
		t.Errorf("shown as %q", who.Shown)
	}
}

func TestGroupsOfATokenAreReadInEachFormOrRefused(t *testing.T) {
	w := newSSO(t)
	for name, test := range map[string]struct {
		more map[string]any
		want []string
	}{
		"none":          {nil, nil},
		"a list":        {groups("platform", "staff", "platform"), []string{"platform", "staff"}},
		"one":           {map[string]any{"groups": "platform"}, []string{"platform"}},
		"some no names": {map[string]any{"groups": []any{1, nil, "platform", map[string]any{}}}, []string{"platform"}},
		"other letters": {groups("Platform", "platform ", "platform\x00"), nil},
	} {
		if _, who := w.login("00u2", test.more); !slices.Equal(who.Groups, test.want) {
			t.Errorf("%s: %v", name, who.Groups)
		}
	}
	for name, more := range map[string]map[string]any{
		"left out, as Entra does":  {"_claim_names": map[string]any{"groups": "src1"}, "_claim_sources": map[string]any{"src1": map[string]any{"endpoint": "https://graph"}}},
		"left out, as it was once": {"hasgroups": true},
		"no list":                  {"groups": map[string]any{"a": "b"}},
	} {
		if message, fix := w.refusal(w.idToken("00u2", more)); !strings.Contains(message, "groups") || fix == "" {
			t.Errorf("%s: %q, %q", name, message, fix)
		}
	}
	w.provider().Claims.Groups = "roles"
	w.serve()
	if _, who := w.login("00u2", map[string]any{"roles": []string{"platform"}, "groups": []string{"staff"}}); !slices.Equal(who.Groups, []string{"platform"}) {
		t.Errorf("of another claim: %v", who.Groups)
	}
}

func TestASessionThatDoesNotFitIsRefusedWithAReason(t *testing.T) {
	w := newSSO(t)
	var many []string
	for i := range 200 {
		many = append(many, fmt.Sprintf("department-%03d-of-the-company", i))
	}
	w.f.RoleBindings[0].Spec.Groups = many
	w.serve()
	session, _ := w.login("00u2", groups(many[:20]...))
	if len(session) > 1024+400 {
		t.Errorf("a session with 20 groups of 26 letters has %d bytes", len(session))
	}
	if message, fix := w.refusal(w.idToken("00u2", groups(many...))); !strings.Contains(message, "200") || fix == "" {
		t.Errorf("%q, %q", message, fix)
	}
}

// I12.
func TestWhatTheHubMadeItselfIsExchangedForNothing(t *testing.T) {
	w := newSSO(t)
	session, who := w.login("00u1abc", nil)
	kube, _, err := w.Issue(t.Context(), who, "edge-1", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for name, raw := range map[string]string{"a session": session, "a token for a cluster": kube, "the hub's own token": w.hubs, "a user's": fleet.NewToken()} {
		if message, _ := w.refusal(raw); message == "" {
			t.Errorf("%s is taken", name)
		}
	}
	if _, err := w.Person(w.asks(w.idToken("00u1abc", nil))); err == nil {
		t.Error("an ID token is taken as a session")
	}
	if _, err := w.Person(w.asks(kube)); err == nil {
		t.Error("a token for a cluster is taken as a session")
	}
}

// federated is a fleet that takes tokens of CI jobs of a repository's main branch.
func federated(t *testing.T, claims map[string]string) *sso {
	t.Helper()
	w := newSSO(t)
	w.f.Providers = nil
	w.f.Federations = []fleet.Federation{{Metadata: fleet.Metadata{Name: "deploy-main"}, Spec: fleet.FederationSpec{User: "ci-deploy", Issuer: w.URL, Claims: claims}}}
	w.serve()
	return w
}

// job is the token of a job at GitHub, as its documentation has them.
func (w *sso) job(more map[string]any) string {
	claims := map[string]any{
		"jti": "example-id", "ref": "refs/heads/main", "sha": "example-sha", "repository": "acme/app", "repository_owner": "acme", "actor_id": "12",
		"repository_visibility": "private", "repository_id": "74", "repository_owner_id": "65", "run_id": "example-run-id", "run_number": "10", "run_attempt": "2",
		"runner_environment": "github-hosted", "actor": "ada", "workflow": "deploy", "head_ref": "", "base_ref": "", "event_name": "push", "ref_type": "branch",
		"job_workflow_ref": "acme/app/.github/workflows/deploy.yml@refs/heads/main",
	}
	for name, value := range more {
		claims[name] = value
	}
	return w.Token(w.Claims("repo:acme/app:ref:refs/heads/main", hubURL, w.now, claims))
}

// I13.
func TestAFederationTakesTheJobsThatItMeansAndNoOthers(t *testing.T) {
	w := federated(t, map[string]string{"repository_id": "74", "repository_owner_id": "65", "ref": "refs/heads/main"})
	session, who, err := w.Exchange(t.Context(), w.job(nil))
	if err != nil || who.Name != "ci-deploy" || !slices.Equal(who.Groups, []string{"deployers"}) || !who.Expires.Equal(w.now.Add(15*time.Minute)) {
		t.Fatalf("%+v, %v", who, err)
	}
	if got, err := w.replica().Person(w.asks(session)); err != nil || got.Name != "ci-deploy" {
		t.Errorf("at another replica: %+v, %v", got, err)
	}
	for name, more := range map[string]map[string]any{
		"another owner who took over the name": {"repository_id": "75", "repository_owner_id": "66"},
		"a repository whose name begins so":    {"repository": "acme/app-evil", "repository_id": "76"},
		"another branch":                       {"ref": "refs/heads/maintenance"},
		"a tag of that name":                   {"ref": "refs/tags/main"},
		"a pull request of a fork":             {"event_name": "pull_request", "ref": "refs/heads/main"},
		"a pull request with rights":           {"event_name": "pull_request_target"},
		"an environment in the place of a ref": {"ref": nil, "environment": "production"},
		"a number that is no text":             {"repository_id": 74},
		"a list with it":                       {"repository_id": []string{"74"}},
		"it in other letters":                  {"repository_id": "74 "},
		"for another hub":                      {"aud": "https://other.example.com"},
		"for this hub and others":              {"aud": []string{hubURL, "https://other.example.com"}},
		"for this hub and others, made for it": {"aud": []string{hubURL, "https://other.example.com"}, "azp": hubURL},
		"about nobody":                         {"sub": ""},
	} {
		message, fix := w.refusal(w.job(more))
		if message == "" || fix == "" || strings.Contains(message, "74") {
			t.Errorf("%s: %q, fix %q", name, message, fix)
		}
	}
	for _, change := range []struct {
		what string
		do   func()
	}{
		{"it wants another ref", func() { w.f.Federations[0].Spec.Claims["ref"] = "refs/heads/release" }},
		{"it is removed", func() { w.f.Federations = nil }},
	} {
		change.do()
		w.serve()
		if _, err := w.Current(who); err == nil {
			t.Errorf("%s: what is open goes on", change.what)
		}
		if _, err := w.Person(w.asks(session)); err == nil {
			t.Errorf("%s: the session goes on", change.what)
		}
	}
}

func TestAPullRequestIsTakenWhereTheFederationSaysSo(t *testing.T) {
	w := federated(t, map[string]string{"repository_id": "74", "ref": "refs/pull/7/merge", "event_name": "pull_request"})
	if _, who, err := w.Exchange(t.Context(), w.job(map[string]any{"event_name": "pull_request", "ref": "refs/pull/7/merge"})); err != nil || who.Name != "ci-deploy" {
		t.Errorf("%+v, %v", who, err)
	}
}

func TestAnIssuerThatIsAwayKeepsNobodyOutWhoIsIn(t *testing.T) {
	w := newSSO(t)
	w.Answers(func(rw http.ResponseWriter) bool { rw.WriteHeader(http.StatusBadGateway); return true })
	_, _, err := w.Exchange(t.Context(), w.idToken("00u1abc", nil))
	if status, message, fix := principal.Answer(err); status != http.StatusServiceUnavailable || !strings.Contains(message, `provider "corp"`) || fix == "" {
		t.Errorf("%d %q %q", status, message, fix)
	}
	w.Answers(nil)
	w.now = w.now.Add(2 * time.Second)
	session, _ := w.login("00u1abc", nil)
	asked := w.Requests.Load()
	w.Answers(func(rw http.ResponseWriter) bool { rw.WriteHeader(http.StatusBadGateway); return true })
	for range 100 {
		if _, err := w.Person(w.asks(session)); err != nil {
			t.Fatal(err)
		}
	}
	if n := w.Requests.Load() - asked; n != 0 {
		t.Errorf("%d requests to the provider for 100 of the API", n)
	}
}

func TestAnUnknownIssuerIsNotAsked(t *testing.T) {
	w := newSSO(t)
	stranger := issuer.Start(t)
	message, _ := w.refusal(stranger.Token(stranger.Claims("00u1abc", "plural", w.now, nil)))
	if !strings.Contains(message, "no provider or federation") || stranger.Requests.Load() != 0 {
		t.Errorf("%q, after %d requests", message, stranger.Requests.Load())
	}
}

// I16, as far as it is the hub's.
func TestNoPartOfATokenIsLogged(t *testing.T) {
	w := newSSO(t)
	raw := w.idToken("00u1abc", groups("platform"))
	session, _, err := w.Exchange(t.Context(), raw)
	if err != nil {
		t.Fatal(err)
	}
	broken := raw[:len(raw)-10] + "AAAAAAAAAA"
	w.refusal(broken)
	for _, secret := range []string{raw, session, broken} {
		for _, part := range strings.Split(secret, ".")[1:] {
			if w.log.have(part) > 0 {
				t.Errorf("the log has %.20s", part)
			}
		}
	}
}

// I4: an address is told on where the provider has verified it, and identifies nobody.
func TestAnAddressIsKeptWhereTheProviderHasVerifiedIt(t *testing.T) {
	for name, test := range map[string]struct {
		claims map[string]any
		want   string
	}{
		"verified":              {map[string]any{"email": "ada@example.com", "email_verified": true}, "ada@example.com"},
		"not verified":          {map[string]any{"email": "ada@example.com", "email_verified": false}, ""},
		"nothing says so":       {map[string]any{"email": "ada@example.com"}, ""},
		"verified by a word":    {map[string]any{"email": "ada@example.com", "email_verified": "true"}, ""},
		"no address":            {map[string]any{"email": "ada", "email_verified": true}, ""},
		"a name before it":      {map[string]any{"email": "Ada <ada@example.com>", "email_verified": true}, ""},
		"two":                   {map[string]any{"email": "ada@example.com, eve@example.com", "email_verified": true}, ""},
		"a line break":          {map[string]any{"email": "ada@example.com\r\nBcc: eve@example.com", "email_verified": true}, ""},
		"too long":              {map[string]any{"email": strings.Repeat("a", 250) + "@example.com", "email_verified": true}, ""},
		"no text":               {map[string]any{"email": []string{"ada@example.com"}, "email_verified": true}, ""},
		"none, and no claim":    {nil, ""},
		"the address of a user": {map[string]any{"email": "ada", "email_verified": true}, ""},
	} {
		_, who := newSSO(t).login("00u2eve", test.claims)
		if who.Name != "corp:00u2eve" || who.Session.Email != test.want {
			t.Errorf("%s: %s has %q", name, who.Name, who.Session.Email)
		}
	}
}
