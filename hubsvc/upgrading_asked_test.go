package hubsvc

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/pluralsh/plural/test/support/fleetrepo"
)

func TestAnInstallationIsTakenToAVersionThatSomebodyAsksFor(t *testing.T) {
	all := packageFile("web", "1.0.0", "")
	maps.Copy(all, packageFile("cache", "1.0.0", ""))
	u := newUpgradable(t, "policy: manual", nil, all)
	next := packageFile("web", "1.1.0", "")
	maps.Copy(next, packageFile("web", "2.0.0", "  breaking: [{since: 2.0.0, note: \"everything is another\"}]\n"))
	u.catalog.Push(next)
	u.until("there is something newer", "web", "1.0.0 available")
	before := tipOf(u.fleet)
	code, shown, refused := u.hub.ask("upgrades/web/upgrade?dry-run=1", "")
	if code != http.StatusOK || shown.Version != "1.1.0" || !strings.HasPrefix(shown.Message, "Upgrade package web to 1.1.0\n") ||
		tipOf(u.fleet) != before {
		t.Fatalf("%d %+v %+v", code, shown, refused)
	}
	if len(shown.Warnings) != 1 || !strings.Contains(shown.Warnings[0], "2.0.0 is left out: ") ||
		!strings.Contains(shown.Warnings[0], "everything is another") {
		t.Errorf("%q", shown.Warnings)
	}
	var files []string
	for _, f := range shown.Files {
		files = append(files, f.File)
	}
	if got := strings.Join(files, " "); !strings.Contains(got, "packages/web/payload/app/cm.yaml") || !strings.Contains(got, "plural.lock") {
		t.Errorf("%s", got)
	}
	code, done, refused := u.hub.ask("upgrades/web/upgrade", `{"version": "1.1.0", "base": "`+shown.Base+`", "message": "Take 1.1"}`)
	if code != http.StatusOK || done.Commit != tipOf(u.fleet) || done.Version != "1.1.0" {
		t.Fatalf("%d %+v %+v", code, done, refused)
	}
	if got := u.fleet.Git(u.fleet.Bare, "log", "-1", "--format=%an %s", "main"); got != "operator Take 1.1" {
		t.Errorf("log: %s", got)
	}
	if code, again, refused := u.hub.ask("upgrades/web/upgrade", `{"version": "1.1.0"}`); code != http.StatusOK || again.Commit != "" {
		t.Errorf("a second time: %d %+v %+v", code, again, refused)
	}
	code, shown, refused = u.hub.ask("upgrades/web/upgrade?dry-run=1", `{"version": "2.0.0"}`) // which is to agree
	if code != http.StatusOK || len(shown.Warnings) != 1 || !strings.Contains(shown.Warnings[0], "web breaks since 2.0.0") {
		t.Errorf("%d %+v %+v", code, shown, refused)
	}
	agreed := false
	for _, f := range shown.Files {
		agreed = agreed || f.File == "packages/web/package.yaml" && strings.Contains(f.Diff, "approved")
	}
	if !agreed {
		t.Errorf("the agreement is not written down: %+v", shown.Files)
	}
}

func TestAnUpgradeThatCannotBeMadeIsRefused(t *testing.T) {
	u := newUpgradable(t, "policy: manual", nil, packageFile("web", "1.0.0", ""))
	next := packageFile("web", "1.1.0", "  dependencies: [{package: cache, version: \">=1\"}]\n")
	maps.Copy(next, packageFile("cache", "1.0.0", ""))
	maps.Copy(next, packageFile("web", "1.2.0", ""))
	u.catalog.Push(next)
	u.until("there is something newer", "web", "1.0.0 available")
	before := tipOf(u.fleet)
	mine := fleetrepo.ConfigMap("web", "mine")
	for name, test := range map[string]struct {
		path, body string
		code       int
		said       string
	}{
		"of nothing installed":  {"nothing", "", http.StatusNotFound, "no package"},
		"to no version":         {"web", `{"version": "newest"}`, http.StatusConflict, "is no version"},
		"to orders":             {"web", `{"version": "1; rm"}`, http.StatusBadRequest, "no version"},
		"to what there is not":  {"web", `{"version": "9.0.0"}`, http.StatusConflict, "9.0.0"},
		"that needs a new one":  {"web", `{"version": "1.1.0"}`, http.StatusConflict, "needs package cache, which is not installed"},
		"with an unknown field": {"web", `{"to": "1.1.0"}`, http.StatusBadRequest, "unknown field"},
	} {
		code, _, refused := u.hub.ask("upgrades/"+test.path+"/upgrade", test.body)
		if code != test.code || !strings.Contains(refused.Message, test.said) || refused.Fix == "" {
			t.Errorf("%s: %d %+v", name, code, refused)
		}
	}
	if got := tipOf(u.fleet); got != before {
		t.Error("something was committed")
	}
	u.fleet.Push(map[string]string{"packages/web/payload/app/cm.yaml": "# mine\n\n\n" + mine})
	if code, _, refused := u.hub.ask("upgrades/web/upgrade", `{"version": "1.2.0"}`); code != http.StatusConflict ||
		!strings.Contains(refused.Message, "packages/web/payload/app/cm.yaml") {
		t.Errorf("what was changed on both sides: %d %+v", code, refused)
	}
	if code, _, refused := u.hub.ask("upgrades/web/upgrade", `{"version": "1.2.0", "base": "`+before+`"}`); code != http.StatusConflict {
		t.Errorf("changed meanwhile: %d %+v", code, refused)
	}
}
