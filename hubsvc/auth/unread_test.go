package auth_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/pluralsh/plural/hubsvc/auth"
	"github.com/pluralsh/plural/internal/principal"
	"github.com/pluralsh/plural/workspace/fleet"
)

// A hub that starts has read nothing for a moment. Whoever asks it then is somebody still, and goes on a moment later.
func TestNobodyIsTurnedAwayBeforeTheFleetWasRead(t *testing.T) {
	const token = "plural_user_ada"
	known := &fleet.Fleet{Users: []fleet.User{{
		TypeMeta: fleet.TypeMeta{Kind: "User"}, Metadata: fleet.Metadata{Name: "ada"}, Spec: fleet.UserSpec{Tokens: []fleet.UserToken{{Name: "laptop", Hash: fleet.HashToken(token)}}},
	}}}
	now := auth.NewDirectory(known)
	options := alone(t, filepath.Join(t.TempDir(), "token"))
	options.Directory = func() *auth.Directory { return now }
	people, err := auth.NewPeople(options)
	if err != nil {
		t.Fatal(err)
	}
	ada, err := people.Person(request(t, "Bearer "+token))
	if err != nil {
		t.Fatal(err)
	}
	session, _, err := people.Open(t.Context(), ada)
	if err != nil {
		t.Fatal(err)
	}
	now = auth.Unread()
	for what, shown := range map[string]string{"a token": token, "a login that began with it": session} {
		_, err := people.Person(request(t, "Bearer "+shown))
		if rejected := new(principal.Rejected); !errors.As(err, &rejected) || !rejected.Later {
			t.Errorf("%s: %v", what, err)
		}
	}
	now = nobody()
	for what, shown := range map[string]string{"a token": token, "a login that began with it": session} {
		_, err := people.Person(request(t, "Bearer "+shown))
		if rejected := new(principal.Rejected); !errors.As(err, &rejected) || rejected.Later {
			t.Errorf("%s of nobody: %v", what, err)
		}
	}
}
