package hubsvc

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/committer"
	"github.com/pluralsh/plural/test/support/fleetrepo"
)

// charted is a fleet of two clusters, on which a chart and a folder run.
func charted(t *testing.T) (*running, *fleetrepo.Origin) {
	t.Helper()
	o := fleetrepo.New(t)
	files := fleetrepo.TwoServices(nil)
	files["clusters/b.yaml"] = fleetrepo.Cluster("b", nil)
	files["services/shop.yaml"] = fleetrepo.Service("shop",
		"  # what people buy\n"+fleetrepo.Path("apps/shop")+"  parameters: {size: small, old: x}\n"+
			"  helm:\n    values: {image: {tag: \"1\"}, extra: true}\n")
	files["apps/shop/Chart.yaml"] = "apiVersion: v2\nname: shop\nversion: 1.0.0\n"
	files["apps/shop/values.yaml"] = "replicas: 1\nimage: {tag: x}\nextra: false\n"
	files["apps/shop/templates/cm.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shop}\n" +
		"data: {a: \"{{ .Values.image.tag }}{{ .Values.replicas }}{{ .Values.extra }}\"}\n"
	o.Push(files)
	opts := options(t, o)
	opts.Edits = new(committer.Edits)
	hub := start(t, opts)
	hub.ready()
	return hub, o
}

// ask sends an edit, with JSON or anything that becomes it.
func (r *running) ask(path string, body any) (int, v1.Edited, v1.Error) {
	r.t.Helper()
	text, raw := body.(string)
	if !raw {
		encoded, err := json.Marshal(body)
		if err != nil {
			r.t.Fatal(err)
		}
		text = string(encoded)
	}
	code, said := r.do(http.MethodPost, "/v1/"+path, r.token, []byte(text))
	var done v1.Edited
	var refused v1.Error
	into := any(&refused)
	if code == http.StatusOK {
		into = &done
	}
	if err := json.Unmarshal(said, into); err != nil {
		r.t.Fatalf("%s: %d %s", path, code, said)
	}
	return code, done, refused
}

func tipOf(o *fleetrepo.Origin) string { return o.Git(o.Bare, "rev-parse", "main") }

// What was shown is what is committed, with the same message, and nothing before.
func TestADryRunShowsTheCommitThatIsMadeAfterwards(t *testing.T) {
	hub, o := charted(t)
	for _, test := range []struct {
		path, body    string
		message, file string
		lines         []string
	}{
		{"services/web/suspend", `{}`, "Suspend web", "services/web.yaml", []string{"+  suspend: true"}},
		{"services/web/resume", `{}`, "Resume web", "services/web.yaml", []string{"-  suspend: true"}},
		{
			"services/shop/set",
			`{"parameters": {"size": "large", "old": null}, "valueTexts": {"list": "[a, 2]"},
				"values": {"image.tag": "1.10", "replicas": 3, "extra": null}}`,
			"Set old, size, extra, image.tag, list, replicas of shop", "services/shop.yaml",
			[]string{"-  parameters: {size: small, old: x}", "+  parameters: {size: large}", "list: [a, 2]", "replicas: 3", `tag: "1.10"`},
		},
	} {
		before := tipOf(o)
		code, shown, refused := hub.ask(test.path+"?dry-run=1", test.body)
		if code != http.StatusOK {
			t.Fatalf("%s: %d %+v", test.path, code, refused)
		}
		if shown.Commit != "" || !shown.DryRun || shown.Base != before || len(shown.Files) != 1 || tipOf(o) != before {
			t.Errorf("%s: %+v", test.path, shown)
		}
		diff := shown.Files[0].Diff
		if shown.Files[0].File != test.file || shown.Message != test.message {
			t.Errorf("%s: %q of %s", test.path, shown.Message, shown.Files[0].File)
		}
		for _, line := range test.lines {
			if !strings.Contains(diff, line) {
				t.Errorf("%s: no %q in\n%s", test.path, line, diff)
			}
		}
		if strings.Contains(diff, "-  # what people buy") {
			t.Errorf("a comment went:\n%s", diff)
		}
		code, done, refused := hub.ask(test.path, withBase(test.body, shown.Base))
		if code != http.StatusOK || done.Commit != tipOf(o) || done.Branch != "main" || done.Message != shown.Message {
			t.Fatalf("%s: %d %+v %+v", test.path, code, done, refused)
		}
		if got := o.Git(o.Bare, "log", "-1", "--format=%an %B", "main"); got != "operator "+shown.Message {
			t.Errorf("log: %s", got)
		}
		made := o.Git(o.Bare, "diff", "--no-color", before, "main")
		for line := range strings.Lines(diff) {
			if strings.ContainsAny(line[:1], "+-") && !strings.Contains(made+"\n", line) {
				t.Errorf("%s: %q was shown, and not made:\n%s", test.path, line, made)
			}
		}
		fleetrepo.Until(t, "it is served", func() bool { return hub.status().Commit.ID == done.Commit })
	}
	code, again, refused := hub.ask("services/shop/set?dry-run=1", `{"parameters": {"size": "large"}}`)
	if code != http.StatusOK || len(again.Files) > 0 || !again.DryRun || again.Base != tipOf(o) {
		t.Errorf("what is so already: %d %+v %+v", code, again, refused)
	}
}

func withBase(body, base string) string {
	rest := strings.TrimPrefix(body, "{")
	if rest == "}" {
		return `{"base": "` + base + `"}`
	}
	return `{"base": "` + base + `", ` + rest
}

func TestASettingThatTheHubWouldRefuseIsRefusedAtItsPlace(t *testing.T) {
	hub, o := charted(t)
	before := tipOf(o)
	deep := strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100)
	for name, test := range map[string]struct {
		service, body string
		code          int
		said          string
	}{
		"no service":          {"db", `{"ref": "main"}`, http.StatusNotFound, `no service "db"`},
		"nothing":             {"web", `{}`, http.StatusBadRequest, "nothing says what to change"},
		"no clusters":         {"web", `{"clusters": {}}`, http.StatusBadRequest, "clusters name none"},
		"a cluster unknown":   {"web", `{"clusters": {"names": ["zzz"]}}`, http.StatusUnprocessableEntity, "services/web.yaml:6: "},
		"a ref of nothing":    {"web", `{"ref": "v1"}`, http.StatusUnprocessableEntity, "services/web.yaml:"},
		"a path of nothing":   {"shop", `{"values": {"": 1}}`, http.StatusBadRequest, "no path"},
		"a path with a hole":  {"shop", `{"values": {"a..b": 1}}`, http.StatusBadRequest, "no path"},
		"a path of controls":  {"shop", `{"values": {"a\u0000": 1}}`, http.StatusBadRequest, "no path"},
		"a path of backslash": {"shop", `{"values": {"a\\": 1}}`, http.StatusBadRequest, "no path"},
		"too deep":            {"shop", `{"values": {"a": ` + deep + `}}`, http.StatusBadRequest, "deep"},
		"too large a number":  {"shop", `{"values": {"a": 1e999}}`, http.StatusBadRequest, "too large"},
		"twice":               {"shop", `{"values": {"a": 1}, "valueTexts": {"a": "1"}}`, http.StatusBadRequest, "twice"},
		"no YAML":             {"shop", `{"valueTexts": {"a": "[1"}}`, http.StatusBadRequest, "cannot read"},
		"a mapping's place":   {"shop", `{"values": {"image": 3}}`, http.StatusConflict, "cannot be changed by a program"},
		"two in one place": {
			"shop", `{"values": {"image": {"a": "b"}, "image.tag": "1"}}`, http.StatusConflict, "cannot be changed by a program",
		},
		"a name of nothing":   {"web", `{"parameters": {"": "1"}}`, http.StatusBadRequest, "no name"},
		"a number":            {"web", `{"parameters": {"a": 1}}`, http.StatusBadRequest, "read the request"},
		"an unknown field":    {"web", `{"params": {"a": "1"}}`, http.StatusBadRequest, "unknown field"},
		"a message of orders": {"web", `{"ref": "", "message": "x\n\nPlural-By: hub"}`, http.StatusBadRequest, "programs believe"},
		"a base of nothing": {
			"web", `{"parameters": {"a": "b"}, "base": "` + strings.Repeat("0", 40) + `"}`, http.StatusConflict, "changed meanwhile",
		},
	} {
		for _, query := range []string{"", "?dry-run=1"} {
			if query != "" && test.code != http.StatusUnprocessableEntity { // a hub bears so many refusals
				continue
			}
			code, done, refused := hub.ask("services/"+test.service+"/set"+query, test.body)
			if code != test.code || !strings.Contains(refused.Message, test.said) || refused.Fix == "" && code != http.StatusUnprocessableEntity {
				t.Errorf("%s%s: %d %+v %+v", name, query, code, refused, done)
			}
			placed := len(refused.Problems) > 0 && refused.Problems[0].File != "" && refused.Problems[0].Line > 0
			if code == http.StatusUnprocessableEntity && !placed {
				t.Errorf("%s%s: no place in %+v", name, query, refused)
			}
		}
	}
	if got := tipOf(o); got != before {
		t.Errorf("something was committed: %s", o.Git(o.Bare, "log", "-1", "--stat", "main"))
	}
	code, _ := hub.do(http.MethodPost, "/v1/services/web/set?dry-run=1", "nobody's", []byte(`{"ref": "v1"}`))
	if code != http.StatusUnauthorized {
		t.Errorf("nobody: %d", code)
	}
}

// What no program reads as it stands in a file is not what somebody meant.
func TestASettingIsWarnedOfThatNothingReads(t *testing.T) {
	hub, _ := charted(t)
	code, shown, refused := hub.ask("services/shop/set?dry-run=1", `{"values": {"replcas": 2}}`)
	if code != http.StatusOK || len(shown.Warnings) != 1 || !strings.Contains(shown.Warnings[0], "did you mean") {
		t.Errorf("%d %+v %+v", code, shown, refused)
	}
}

func TestWhatTakesAServiceOffClustersIsConfirmedByItsName(t *testing.T) {
	hub, o := charted(t)
	before := tipOf(o)
	const onA = `{"clusters": {"names": ["a"]}`
	code, shown, refused := hub.ask("services/web/set?dry-run=1", onA+"}")
	if code != http.StatusOK || shown.Confirm != "web" || len(shown.Warnings) != 1 ||
		shown.Warnings[0] != "service web leaves b: what it has there is deleted" {
		t.Errorf("%d %+v %+v", code, shown, refused)
	}
	for _, confirm := range []string{"", `, "confirm": "shop"`} {
		code, _, refused := hub.ask("services/web/set", onA+confirm+"}")
		if code != http.StatusConflict || !strings.Contains(refused.Fix, `"confirm": "web"`) {
			t.Errorf("%s: %d %+v", confirm, code, refused)
		}
	}
	if tipOf(o) != before {
		t.Error("something was committed")
	}
	if code, done, refused := hub.ask("services/web/set", onA+`, "confirm": "web"}`); code != http.StatusOK || done.Commit == "" {
		t.Errorf("%d %+v", code, refused)
	}
	if got := o.Git(o.Bare, "show", "main:services/web.yaml"); !strings.Contains(got, "names: [a]") || strings.Contains(got, "matchLabels") {
		t.Errorf("%s", got)
	}
	o.Git(o.Work, "pull", "-q", "origin", "main")
	o.Push(map[string]string{"plural.yaml": fleetrepo.Workspace("  deletionBudget: 0\n")})
	hub.served(o)
	code, _, refused = hub.ask("services/shop/set", `{"clusters": {"names": ["b"]}, "confirm": "shop"}`)
	if code != http.StatusUnprocessableEntity || len(refused.Problems) != 1 || refused.Problems[0].Token == "" {
		t.Errorf("more than one commit may take away: %d %+v", code, refused)
	}
	code, shown, _ = hub.ask("services/web/set?dry-run=1", `{"clusters": {"matchLabels": {"env": "test"}}}`)
	if code != http.StatusOK || shown.Confirm != "" || len(shown.Warnings) > 0 {
		t.Errorf("to more clusters: %d %+v", code, shown)
	}
}

// Somebody agreed to a change of what they saw.
func TestAnEditOfWhatWasChangedMeanwhileIsRefused(t *testing.T) {
	hub, o := charted(t)
	const body = `{"parameters": {"size": "large"}}`
	_, shown, _ := hub.ask("services/shop/set?dry-run=1", body)
	o.Push(map[string]string{"README.md": "elsewhere"})
	elsewhere := tipOf(o)
	changed := strings.Replace(o.Git(o.Work, "show", "HEAD:services/shop.yaml")+"\n", "size: small", "size: tiny", 1)
	o.Push(map[string]string{"services/shop.yaml": changed})
	if code, _, refused := hub.ask("services/shop/set", withBase(body, shown.Base)); code != http.StatusConflict ||
		refused.Message != `"services/shop.yaml" was changed meanwhile` || refused.Fix == "" {
		t.Errorf("%d %+v", code, refused)
	}
	o.Git(o.Work, "push", "-q", "-f", "origin", elsewhere+":main")
	if code, done, refused := hub.ask("services/shop/set", withBase(body, shown.Base)); code != http.StatusOK || done.Base != elsewhere {
		t.Errorf("where only others were: %d %+v %+v", code, done, refused)
	}
}

func TestACommitIsTakenBack(t *testing.T) {
	hub, o := charted(t)
	first := tipOf(o)
	changed := o.Push(map[string]string{
		"apps/web/cm.yaml": fleetrepo.ConfigMap("web", "2"), "apps/web/new.yaml": fleetrepo.ConfigMap("new", "1"),
	})
	other := o.Push(map[string]string{"apps/api/cm.yaml": fleetrepo.ConfigMap("api", "2")})
	hub.served(o)
	code, shown, refused := hub.ask("history/"+changed[:8]+"/undo?dry-run=1", "")
	if code != http.StatusOK || len(shown.Files) != 2 || shown.Base != other || shown.Confirm != "" || tipOf(o) != other {
		t.Fatalf("%d %+v %+v", code, shown, refused)
	}
	if got := shown.Files[1]; got.File != "apps/web/new.yaml" || !strings.Contains(got.Diff, "+++ /dev/null") {
		t.Errorf("%+v", got)
	}
	code, done, refused := hub.ask("history/"+changed+"/undo", `{"message": "Go back", "base": "`+other+`"}`)
	if code != http.StatusOK || done.Commit != tipOf(o) {
		t.Fatalf("%d %+v %+v", code, done, refused)
	}
	if got := o.Git(o.Bare, "log", "-1", "--format=%an %B", "main"); got != "operator Go back\n\nThis reverts commit "+changed+"." {
		t.Errorf("log: %s", got)
	}
	if got := o.Git(o.Bare, "diff", "--name-only", first, "main"); got != "apps/api/cm.yaml" {
		t.Errorf("what remains: %s", got)
	}
	fleetrepo.Until(t, "it is served", func() bool { return hub.status().Commit.ID == done.Commit })
	if code, again, refused := hub.ask("history/"+changed+"/undo", ""); code != http.StatusOK || again.Commit != "" {
		t.Errorf("a second time: %d %+v %+v", code, again, refused)
	}
	code, done, refused = hub.ask("history/"+done.Commit+"/undo", "") // which is to have it again
	if code != http.StatusOK || !strings.HasPrefix(done.Message, "Revert \"Go back\"\n") {
		t.Errorf("%d %+v %+v", code, done, refused)
	}
}

func TestACommitIsNotTakenBackAgainstLaterOnesOrAgainstRights(t *testing.T) {
	hub, o := charted(t)
	changed := o.Push(map[string]string{"apps/web/cm.yaml": fleetrepo.ConfigMap("web", "2")})
	later := o.Push(map[string]string{"apps/web/cm.yaml": fleetrepo.ConfigMap("web", "3")})
	rights := o.Push(map[string]string{"access/ada.yaml": fleetrepo.Header + "kind: User\nmetadata: {name: ada}\nspec: {}\n"})
	key, _ := agent(t, "b")
	keys := o.Push(map[string]string{"clusters/b.yaml": fleetrepo.Cluster("b", key)})
	other, _ := agent(t, "b")
	agents := o.Push(map[string]string{"clusters/b.yaml": fleetrepo.Cluster("b", other)})
	service := o.Push(map[string]string{"services/more.yaml": fleetrepo.Service("more", fleetrepo.Path("apps/web"))})
	folder := o.Push(map[string]string{"apps/late/cm.yaml": fleetrepo.ConfigMap("late", "1")})
	o.Push(map[string]string{"services/late.yaml": fleetrepo.Service("late", fleetrepo.Path("apps/late"))})
	hub.served(o)
	before := tipOf(o)
	for name, test := range map[string]struct {
		commit, body string
		code         int
		said         string
	}{
		"of another change since":        {changed, "", http.StatusConflict, "later commits stand in the way"},
		"of rights":                      {rights, "", http.StatusForbidden, "who can open or do what: access/ada.yaml"},
		"of an agent":                    {agents, "", http.StatusForbidden, "which agents act for clusters: b"},
		"of no commit":                   {strings.Repeat("0", 40), "", http.StatusNotFound, "no commit"},
		"that takes a service away":      {service, "", http.StatusConflict, "service more leaves all its clusters, a, b"},
		"that is confirmed by something": {service, `{"confirm": "more"}`, http.StatusConflict, "not confirmed"},
		"that a later one stands on":     {folder, "", http.StatusUnprocessableEntity, `services/late.yaml:5: path "apps/late" does not exist`},
		"that an older one is needed of": {keys, "", http.StatusConflict, "later commits"},
	} {
		code, _, refused := hub.ask("history/"+test.commit+"/undo", test.body)
		if code != test.code || !strings.Contains(refused.Message, test.said) || refused.Fix == "" {
			t.Errorf("%s: %d %+v", name, code, refused)
		}
		if test.commit != changed {
			continue
		}
		if p := refused.Problems; len(p) != 2 || p[1].Since == nil || p[1].Since.ID != later {
			t.Errorf("%+v", p)
		}
	}
	if got := tipOf(o); got != before {
		t.Errorf("something was committed: %s", o.Git(o.Bare, "log", "-1", "--stat", "main"))
	}
	code, done, refused := hub.ask("history/"+service+"/undo", `{"confirm": "`+service[:7]+`"}`)
	if code != http.StatusOK || done.Commit == "" {
		t.Errorf("%d %+v", code, refused)
	}
}

// A hub that serves the last good commit is mended by taking back what broke it.
func TestWhatBrokeTheFleetIsTakenBack(t *testing.T) {
	hub, o := charted(t)
	good := tipOf(o)
	bad := o.Push(map[string]string{"services/web.yaml": "kind: Nonsense\n"})
	fleetrepo.Until(t, "the commit is refused", func() bool { return len(hub.status().Refused) > 0 })
	if code, _, refused := hub.ask("services/shop/set", `{"parameters": {"size": "large"}}`); code != http.StatusUnprocessableEntity ||
		len(refused.Problems) == 0 || refused.Problems[0].File != "services/web.yaml" {
		t.Errorf("on top of it: %d %+v", code, refused)
	}
	code, done, refused := hub.ask("history/"+bad+"/undo", "")
	if code != http.StatusOK || o.Git(o.Bare, "rev-parse", "main^{tree}") != o.Git(o.Bare, "rev-parse", good+"^{tree}") {
		t.Fatalf("%d %+v", code, refused)
	}
	fleetrepo.Until(t, "it is served", func() bool { return hub.status().Commit.ID == done.Commit && len(hub.status().Refused) == 0 })
}

// A hub with a key that covers little is believed for nothing else.
func TestAHubThatWantsSignaturesMakesNoOtherEdits(t *testing.T) {
	hub, o, _, _, _ := signingHub(t)
	before := tipOf(o)
	for _, path := range []string{"services/web/set?dry-run=1", "services/web/set", "history/" + before + "/undo"} {
		body := ""
		if strings.HasPrefix(path, "services") {
			body = `{"parameters": {"a": "b"}}`
		}
		code, _, refused := hub.ask(path, body)
		if code != http.StatusForbidden || !strings.Contains(refused.Message, "a person signs") || refused.Fix == "" {
			t.Errorf("%s: %d %+v", path, code, refused)
		}
	}
	if code, shown, refused := hub.ask("services/web/suspend?dry-run=1", ""); code != http.StatusOK || len(shown.Files) != 1 {
		t.Errorf("%d %+v %+v", code, shown, refused)
	}
	if tipOf(o) != before {
		t.Error("something was committed")
	}
}

func TestABranchThatTakesNoPushesIsSaidToBeSo(t *testing.T) {
	hub, o := charted(t)
	hook := filepath.Join(o.Bare, "hooks", "update")
	if err := os.WriteFile(hook, []byte("#!/bin/sh\n[ $1 != refs/heads/main ]\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	code, _, refused := hub.ask("services/web/set", `{"parameters": {"a": "b"}}`)
	if code != http.StatusBadGateway || !strings.Contains(refused.Message, "hook declined") ||
		!strings.Contains(refused.Fix, "plural service set web --pr") {
		t.Errorf("%d %+v", code, refused)
	}
}

// What is sealed comes back as it was, for those who read it now, and is shown to nobody.
func TestASealedFileComesBackForItsReadersAlone(t *testing.T) {
	s, o := fleetrepo.NewSafe(t), fleetrepo.New(t)
	o.Push(s.Fleet(nil))
	changed := o.Push(map[string]string{"secrets/db.yaml": s.Seal("secrets/db.yaml", "password: other\n")})
	opts := options(t, o)
	opts.Edits = new(committer.Edits)
	hub := start(t, opts)
	hub.ready()
	code, shown, refused := hub.ask("history/"+changed+"/undo?dry-run=1", "")
	if code != http.StatusOK || len(shown.Files) != 1 || shown.Files[0].Diff != "" || shown.Files[0].Hidden != "it is sealed" ||
		len(shown.Warnings) != 1 {
		t.Errorf("%d %+v %+v", code, shown, refused)
	}
	s.Rotate()
	files := map[string]string{
		"secrets/db.yaml":         s.Seal("secrets/db.yaml", "password: third\n"),
		"apps/web/db.secret.yaml": s.Seal("apps/web/db.secret.yaml", "stringData: {}\n"),
	}
	for name, text := range s.Files {
		files[name] = text
	}
	rotated := o.Push(files)
	hub.served(o)
	for _, commit := range []string{changed, rotated} {
		if code, _, refused := hub.ask("history/"+commit+"/undo", ""); code == http.StatusOK || refused.Fix == "" {
			t.Errorf("%d %+v", code, refused)
		}
	}
	if got := tipOf(o); got != rotated {
		t.Error("something was committed")
	}
}
