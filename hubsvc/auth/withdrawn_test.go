package auth_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
)

func TestASessionThatWasEndedStaysSoWhenItsUserIsRemoved(t *testing.T) {
	w := newSSO(t)
	session, _ := w.login("00u1abc", groups("platform"))
	w.f.Users[0].Spec.SessionsAfter = w.now.Add(time.Second).UTC().Format(time.RFC3339)
	w.serve()
	if _, err := w.Person(w.asks(session)); err == nil {
		t.Fatal("not ended")
	}
	w.f.Users = w.f.Users[1:]
	w.serve()
	if who, err := w.Person(w.asks(session)); err == nil {
		t.Errorf("an ended session is %q in %v after its user was removed", who.Name, who.Groups)
	}
}

func TestASessionThatWasEndedIsNoOtherUsersWhoGetsTheAccount(t *testing.T) {
	w := newSSO(t)
	session, _ := w.login("00u1abc", nil)
	w.f.Users[0].Spec.SessionsAfter = w.now.Add(time.Second).UTC().Format(time.RFC3339)
	w.f.Users[1].Spec.Identities, w.f.Users[0].Spec.Identities = w.f.Users[0].Spec.Identities, nil
	w.serve()
	if who, err := w.Person(w.asks(session)); err == nil {
		t.Errorf("ada's ended session is %q in %v", who.Name, who.Groups)
	}
}

func TestATokenOfBeforeTheEndOfLoginsMakesNoSessionAfterIt(t *testing.T) {
	w := newSSO(t)
	old := w.idToken("00u1abc", nil)
	w.now = w.now.Add(2 * time.Second)
	w.f.Users[0].Spec.SessionsAfter = w.now.UTC().Format(time.RFC3339)
	w.serve()
	w.now = w.now.Add(time.Second)
	if _, who, err := w.Exchange(t.Context(), old); err == nil {
		t.Errorf("a token of before the end lets %q in until %s", who.Name, who.Expires)
	}
}

func TestASessionThatIsMadeIsTakenHoweverManyGroupsItHas(t *testing.T) {
	w := newSSO(t)
	for _, n := range []int{30, 40, 50, 60} {
		var many []string
		for i := range n {
			many = append(many, fmt.Sprintf("department-%03d-of-the-company", i))
		}
		w.f.RoleBindings[0].Spec.Groups = many
		w.serve()
		session, who, err := w.Exchange(t.Context(), w.idToken("00u2", groups(many...)))
		if err != nil {
			t.Logf("%d groups: %v", n, err)
			continue
		}
		if _, err := w.Person(w.asks(session)); err != nil {
			t.Errorf("%d groups, %d bytes: session refused: %v", n, len(session), err)
		}
		kube, _, err := w.Issue(t.Context(), who, "edge-1", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.KubePerson(w.asks(kube), "edge-1"); err != nil {
			t.Errorf("%d groups, kube token %d bytes (session %d): refused: %v", n, len(kube), len(session), err)
		}
	}
}

// A job at gitlab.com names its own audience, and gitlab.com knows people, too.
func TestAJobOfAProvidersIssuerIsNoPerson(t *testing.T) {
	w := newSSO(t)
	job := w.Token(w.Claims("project_path:mallory/app:ref_type:branch:ref:main", "plural", w.now, map[string]any{
		"project_id": "22", "project_path": "mallory/app", "pipeline_id": "1212", "job_id": "1212", "pipeline_source": "push", "user_id": "42",
		"user_login": "ada", "ref_protected": "false", "groups": []string{"platform"},
	}))
	if _, who, err := w.Exchange(t.Context(), job); err == nil {
		t.Errorf("a job is %q in %v until %s", who.Name, who.Groups, who.Expires)
	}
}

func TestATokenThatTellsOfALogoutLetsNobodyIn(t *testing.T) {
	w := newSSO(t)
	raw := w.idToken("00u1abc", map[string]any{"jti": "x", "events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}}})
	if _, who, err := w.Exchange(t.Context(), raw); err == nil {
		t.Errorf("a logout token lets %q in", who.Name)
	}
}

func TestGroupsOfAClaimThatIsNotReadAnyLongerAreGone(t *testing.T) {
	w := newSSO(t)
	session, _ := w.login("00u2eve", groups("platform"))
	w.provider().Claims.Groups = "https://corp/roles"
	w.serve()
	if who, err := w.Person(w.asks(session)); err == nil && len(who.Groups) > 0 {
		t.Errorf("groups of a claim that is not believed any longer: %v", who.Groups)
	}
}

func TestAProviderGivesTheGroupsThatTheFleetLetsItGive(t *testing.T) {
	w := newSSO(t)
	w.provider().Groups = []string{"staff"}
	w.serve()
	if _, who := w.login("00u2eve", groups("platform", "staff")); strings.Join(who.Groups, " ") != "staff" {
		t.Errorf("%v", who.Groups)
	}
}

func TestATokenOfAnotherKindLetsNobodyIn(t *testing.T) {
	w := newSSO(t)
	for _, kind := range []string{"at+jwt", "logout+jwt", "JWT", ""} {
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: w.Key()}, (&jose.SignerOptions{}).WithType(jose.ContentType(kind)))
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(w.Claims("00u1abc", "plural", w.now, nil))
		if err != nil {
			t.Fatal(err)
		}
		signed, err := signer.Sign(text)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := signed.CompactSerialize()
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := w.Exchange(t.Context(), raw); (err == nil) != (kind == "JWT" || kind == "") {
			t.Errorf("typ %q: %v", kind, err)
		}
	}
}
