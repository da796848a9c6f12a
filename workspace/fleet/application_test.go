package fleet_test

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/pluralsh/plural/workspace/fleet"
)

const application = "apiVersion: plural.sh/v1alpha1\nkind: Application\nmetadata: {name: wiki}\nspec: {redirectURIs: [https://wiki.example.com/], allow: {}}\n"

func TestAnApplicationNeedsKeysThatAreThere(t *testing.T) {
	for name, test := range map[string]struct{ hub, file, want string }{
		"no keys":            {"{url: https://hub.example.com}", "", "application \"wiki\", and the hub has no keys to sign logins with"},
		"a file that is not": {"{signingKeys: secrets/hub/oidc.yaml}", "", "secrets/hub/oidc.yaml"},
		"a file elsewhere":   {"{signingKeys: ../oidc.yaml}", "", "leaves the repository"},
		"keys":               {"{signingKeys: secrets/hub/oidc.yaml}", "secrets/hub/oidc.yaml", ""},
	} {
		fsys := fstest.MapFS{
			"plural.yaml":      {Data: []byte("apiVersion: plural.sh/v1alpha1\nkind: Workspace\nmetadata: {name: x}\nspec: {hub: " + test.hub + "}\n")},
			"access/wiki.yaml": {Data: []byte(application)},
		}
		if test.file != "" {
			fsys[test.file] = &fstest.MapFile{Data: []byte("{}")}
		}
		_, err := fleet.Load(fsys)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnApplicationAllowsItsMembersAlone(t *testing.T) {
	a := fleet.ApplicationSpec{
		Allow: fleet.Members{Users: []string{"ada"}, Groups: []string{"platform"}},
		Roles: map[string]fleet.Members{"Viewer": {Groups: []string{"platform", "staff"}}, "Admin": {Users: []string{"ada"}}},
	}
	for _, test := range []struct {
		user    string
		groups  []string
		allowed bool
		roles   []string
	}{
		{"ada", nil, true, []string{"Admin"}},
		{"ada", []string{"staff"}, true, []string{"Admin", "Viewer"}},
		{"corp:eve", []string{"chess", "platform"}, true, []string{"Viewer"}},
		{"corp:eve", []string{"staff"}, false, []string{"Viewer"}},
		{"platform", []string{"ada"}, false, nil}, // a group that is called like a user, and the other way round
		{"corp:ada", nil, false, nil},
		{"", []string{""}, false, nil},
	} {
		if got := a.Allows(test.user, test.groups); got != test.allowed {
			t.Errorf("%s of %v: %v", test.user, test.groups, got)
		}
		if got := a.RolesOf(test.user, test.groups); !slices.Equal(got, test.roles) {
			t.Errorf("%s of %v is %v", test.user, test.groups, got)
		}
	}
	if new(fleet.ApplicationSpec).Allows("ada", []string{"platform"}) {
		t.Error("an application that names nobody allows somebody")
	}
}

// I15.
func TestAddressesDifferByThePortOfThePersonsOwnMachineAlone(t *testing.T) {
	for allowed, uris := range map[string]map[string]bool{
		"http://127.0.0.1/callback": {
			"http://127.0.0.1/callback": true, "http://127.0.0.1:1/callback": true, "http://127.0.0.1:65535/callback": true, "http://127.0.0.1:/callback": false,
			"http://127.0.0.1:123456/callback": false, "http://127.0.0.1:8000/callback/": false, "http://127.0.0.1:8000/callback?a=b": false, "http://127.0.0.2:8000/callback": false,
			"http://127.0.0.1:8000@evil.example.com/callback": false, "http://127.0.0.1:+1/callback": false, "http://127.0.0.1:8000": false,
		},
		"http://[::1]/":                  {"http://[::1]:8000/": true, "http://::1:8000/": false, "http://127.0.0.1:8000/": false},
		"http://localhost/":              {"http://localhost/": true, "http://localhost:8000/": false}, // which others may answer for
		"http://127.0.0.1:8000/callback": {"http://127.0.0.1:8000/callback": true, "http://127.0.0.1:8001/callback": false},
		"https://127.0.0.1/callback":     {"https://127.0.0.1:8000/callback": false},
		"https://wiki.example.com/":      {"https://wiki.example.com/": true, "https://wiki.example.com:443/": false, "https://wiki.example.com/x": false, "https://wiki.example.com": false, "": false},
	} {
		a := fleet.ApplicationSpec{RedirectURIs: []string{allowed}}
		for uri, want := range uris {
			if got := a.MatchesRedirect(uri); got != want {
				t.Errorf("%s where %s is allowed: %v", uri, allowed, got)
			}
		}
	}
}
