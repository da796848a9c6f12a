package sync

import (
	"testing"

	"github.com/pluralsh/plural/api"
)

func TestWhatADependantWaitsFor(t *testing.T) {
	newest := &api.Deployment{Service: "db", Key: "k2", Version: "1.15.0"}
	before := &api.Deployment{Service: "db", Key: "k1", Version: "1.13.2"}
	unnamed := &api.Deployment{Service: "db", Key: "k2"}
	gated := &api.Deployment{Service: "db", Key: "k2", Version: "1.15.0", Tests: []*api.Test{{Name: "smoke", Gate: true}}}
	open := &api.Deployment{Service: "db", Key: "k2", Version: "1.15.0", Tests: []*api.Test{{Name: "smoke"}}}
	found := func(phase api.Phase) *api.ServiceReport { return &api.ServiceReport{Key: "k2", Phase: phase} }
	db := func(d, applied *api.Deployment, phase api.Phase) *service {
		return &service{name: "db", desired: d, applied: applied, found: found(phase)}
	}
	for name, c := range map[string]struct {
		db   *service
		dep  *api.Dependency
		want string
	}{
		"healthy":                     {db(newest, newest, api.Phase_HEALTHY), &api.Dependency{}, ""},
		"under way":                   {db(newest, newest, api.Phase_PROGRESSING), &api.Dependency{}, "waits for db to be healthy"},
		"under way, applied suffices": {db(newest, newest, api.Phase_PROGRESSING), &api.Dependency{Condition: "applied"}, ""},
		"the one before, healthy":     {db(newest, before, api.Phase_HEALTHY), &api.Dependency{}, "waits for db to be healthy"},
		"the one before, applied":     {db(newest, before, api.Phase_HEALTHY), &api.Dependency{Condition: "applied"}, "waits for db to be applied"},
		"nothing yet":                 {&service{name: "db", desired: newest}, &api.Dependency{}, "waits for db to be healthy"},
		"not of this cluster":         {nil, &api.Dependency{}, "waits for db, which this cluster is not asked to run"},
		"asked for no more":           {db(nil, newest, api.Phase_REMOVING), &api.Dependency{}, "waits for db, which this cluster is not asked to run"},
		"in range":                    {db(newest, newest, api.Phase_HEALTHY), &api.Dependency{Version: ">=1.14 <2"}, ""},
		"out of range":                {db(newest, newest, api.Phase_HEALTHY), &api.Dependency{Version: ">=2"}, "waits for db in version >=2, and 1.15.0 runs"},
		"no version":                  {db(unnamed, unnamed, api.Phase_HEALTHY), &api.Dependency{Version: ">=1"}, "waits for db in version >=1, and the version of what runs is unknown"},
		"no range":                    {db(newest, newest, api.Phase_HEALTHY), &api.Dependency{Version: "newest"}, `waits for db in a version that is no range: "newest"`},
		"a test that gates is open":   {db(gated, gated, api.Phase_HEALTHY), &api.Dependency{}, "waits for the tests of db"},
		"a test is open":              {db(open, open, api.Phase_HEALTHY), &api.Dependency{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c.dep.Service = "db"
			if got := c.db.lacks(c.dep); got != c.want {
				t.Errorf("lacks = %q, want %q", got, c.want)
			}
		})
	}
}

// A dependency that falters does not turn around what has begun.
func TestWhatHasBegunWaitsForNobody(t *testing.T) {
	web := &service{name: "web", desired: &api.Deployment{Service: "web", Key: "k1", DependsOn: []string{"db"}}}
	state := &loopState{services: map[string]*service{"web": web, "db": {name: "db"}}}
	if state.blocker(web) == "" {
		t.Error("it does not wait")
	}
	if !web.begin() || web.begin() || state.blocker(web) != "" {
		t.Errorf("after it began it %s", state.blocker(web))
	}
	web.want(&api.Deployment{Service: "web", Key: "k2", Dependencies: []*api.Dependency{{Service: "db", Condition: "applied"}}})
	if got := state.blocker(web); got != "waits for db, which this cluster is not asked to run" {
		t.Errorf("a newer one %s", got)
	}
}

// What is deleted as an account has to be gone before the account is.
func TestWhatLeavesGoesBeforeWhatItDependsOn(t *testing.T) {
	leaving := func(name string, needs ...string) *service {
		svc := &service{name: name}
		svc.want(&api.Deployment{Service: name, Key: "k", DependsOn: needs})
		svc.want(nil)
		return svc
	}
	account, web, stays := leaving("account"), leaving("web", "account"), &service{name: "stays"}
	stays.want(&api.Deployment{Service: "stays", Key: "k", DependsOn: []string{"account"}})
	known := &service{name: "known", good: &api.Deployment{Service: "known", Key: "k", DependsOn: []string{"web"}}}
	chicken, egg := leaving("chicken", "egg"), leaving("egg", "chicken")
	state := &loopState{services: map[string]*service{
		"account": account, "web": web, "stays": stays, "known": known, "chicken": chicken, "egg": egg,
	}}
	for svc, want := range map[*service]string{
		account: "goes after web, which depends on it", web: "goes after known, which depends on it",
		known: "", chicken: "", egg: "",
	} {
		if got := state.blocker(svc); got != want {
			t.Errorf("%s %q, want %q", svc.name, got, want)
		}
	}
	delete(state.services, "known")
	delete(state.services, "web")
	if got := state.blocker(account); got != "" {
		t.Errorf("when its dependants are gone the account %s", got)
	}
}
